"""The golden files as a whole, and the fixture that guards them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("command", ["check", "format --check"])
def test_golden_files_are_clean(command: str) -> None:
    golden = HERE / "golden"
    assert any(golden.rglob("*.py")), "there are no golden files"
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command.split(), str(golden)],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A small project under the same conftest, with two golden tests."""
    tests = tmp_path / "tests"
    (tests / "golden").mkdir(parents=True)
    shutil.copy(HERE / "conftest.py", tests)
    (tests / "golden" / "a.py").write_text("x = 1\n")
    (tests / "golden" / "b.py").write_text("y = 2\n")
    (tests / "test_it.py").write_text(
        'def test_a(golden):\n    golden("a", "x = 1\\n")\n\n\n'
        'def test_b(golden):\n    golden("b", "y = 2\\n")\n'
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\nmarkers =\n    gpu: needs a CUDA device\n"
    )
    return tmp_path


def run(suite: Path, *args: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args],
        cwd=suite,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_stale_text_fails_with_a_diff_and_is_rewritten_on_request(suite: Path) -> None:
    path = suite / "tests" / "golden" / "a.py"
    path.write_text("x = 0\n")
    code, out = run(suite)
    assert code == 1
    assert "tests/golden/a.py is stale: pytest --update-golden rewrites it" in out
    assert "-x = 0\n+x = 1\n" in out
    assert run(suite, "--update-golden")[0] == 0
    assert path.read_text() == "x = 1\n"


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_orphan_fails_a_full_green_run(suite: Path, workers: str) -> None:
    orphan = suite / "tests" / "golden" / "old" / "c.py"
    orphan.parent.mkdir()
    orphan.write_text("z = 3\n")
    code, out = run(suite, "-n", workers)
    assert code == 1
    assert "tests/golden/old/c.py belongs to no test" in out
    assert "a.py belongs" not in out


@pytest.mark.parametrize(
    "partial",
    ["-k=test_a", "tests/test_it.py::test_a", "--deselect=tests/test_it.py::test_b"],
)
def test_a_partial_run_condemns_no_golden_file(suite: Path, partial: str) -> None:
    assert run(suite, partial)[0] == 0


def test_a_skipped_test_may_own_a_golden_file(suite: Path) -> None:
    tests = suite / "tests" / "test_it.py"
    skip = "import pytest\n\n\n@pytest.mark.skip(reason='no')\n"
    tests.write_text(skip + tests.read_text())
    assert run(suite)[0] == 0


def test_update_deletes_an_orphan(suite: Path) -> None:
    orphan = suite / "tests" / "golden" / "c.py"
    orphan.write_text("z = 3\n")
    code, out = run(suite, "--update-golden", "-n", "2")
    assert code == 0, out
    assert "tests/golden/c.py belonged to no test: deleted" in out
    assert not orphan.exists()
