"""Every op that a version of Triton can write has one verdict, and a page says it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import triton

from undertow.frontend import lift_text
from undertow.frontend.context import Lifter, Row
from undertow.frontend.lift import ROWS
from undertow.frontend.refusals import DROPPED, REFUSED
from undertow.frontend.table import DIALECTS, KEPT, LIFTED
from undertow.frontend.ttir import MOp
from undertow.rules import RULES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "verdicts.md"
KNOWN = {
    path.stem: set(path.read_text().split())
    for path in sorted((ROOT / "tests" / "fixtures" / "opcodes").iterdir())
}
VERDICTS = [*LIFTED, *KEPT, *DROPPED, *REFUSED]


def printed(tool: str) -> str:
    """What a tool prints, under the Triton of this process."""
    path = (str(Path(triton.__file__).parents[1]), str(ROOT / "src"))
    run = [sys.executable, "-c", f"import sys; sys.path[:0] = {list(path)!r}\n"
           f"import runpy; runpy.run_path({str(ROOT / 'tools' / tool)!r}, "
           "run_name='__main__')"]  # fmt: skip
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


def test_an_op_has_one_verdict() -> None:
    assert len(VERDICTS) == len(set(VERDICTS))


@pytest.mark.parametrize("version", KNOWN)
def test_every_op_of_a_version_has_a_verdict(version: str) -> None:
    assert KNOWN[version] - set(VERDICTS) == set()


def test_every_op_of_the_installed_version_has_a_verdict() -> None:
    found = set(printed("opcodes.py").split())
    assert {"tt.load", "arith.addf", "math.exp", "scf.for", "cf.br"} <= found
    assert found - set(VERDICTS) == set()
    assert found == KNOWN.get(triton.__version__, found)


def test_no_verdict_is_on_an_op_that_no_version_has() -> None:
    ours = {name for name in VERDICTS if name.split(".")[0] in DIALECTS}
    assert ours - set.union(*KNOWN.values()) == set()


def test_what_is_lifted_has_a_rule_and_a_row() -> None:
    assert set(LIFTED.values()) <= set(RULES)
    control = {name for name in LIFTED if name.startswith(("scf.", "cf."))}
    assert set(ROWS) == (set(LIFTED) - control) | {"tt.addptr", "tt.extern_elementwise"}


def test_a_row_gives_the_opcode_that_the_table_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: dict[str, set[str]] = {}

    def recorded(name: str, row: Row) -> Row:
        def record(lifter: Lifter, op: MOp) -> None:
            ops = lifter.builder.block.ops
            before = len(ops)
            row(lifter, op)
            made.setdefault(name, set()).update(o.opcode for o in ops[before:])

        return record

    for name, row in list(ROWS.items()):
        monkeypatch.setitem(ROWS, name, recorded(name, row))
    for path in (ROOT / "tests" / "fixtures" / "ttir").glob("*/*.ttir"):
        lift_text(path.read_text())
    assert len(made) > 70
    aside = {"tt.addptr", "tt.extern_elementwise"}
    wrong = {n for n in made.keys() - aside if LIFTED[n] not in made[n]}
    assert wrong == set()


def test_the_page_says_them_all(request: pytest.FixtureRequest) -> None:
    text = printed("verdicts.py")
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "--update-golden rewrites docs/reference"
    lines = text.splitlines()
    for name in VERDICTS:
        (line,) = (line for line in lines if line.startswith(f"| `{name}` |"))
        refusal = REFUSED.get(name)
        if refusal is not None:
            assert "| refused |" in line
            assert refusal.why in line
            assert refusal.hint in line
