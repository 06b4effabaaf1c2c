"""The command itself: help, version, start-up, terminals."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import undertow as package

COMMANDS = ("derive", "explain", "check", "demo")


def test_version(undertow) -> None:
    assert undertow("--version").stdout == f"undertow {package.__version__}\n"


def test_help_names_every_command(undertow) -> None:
    text = undertow("--help").stdout
    assert all(command in text for command in COMMANDS)
    assert "file.py::kernel" in text
    assert undertow().stdout.strip() == text.strip()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_an_example(undertow, command: str) -> None:
    result = undertow(command, "--help")
    assert result.exit_code == 0
    assert re.search(rf"undertow {command} .*\w", result.stdout.split("Options")[0])


def test_help_imports_neither_torch_nor_triton() -> None:
    script = (
        "import sys\nfrom undertow.cli.main import app\n"
        "app(['derive', '--help'], standalone_mode=False)\n"
        "assert not {'torch', 'triton', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A folder with a small kernel in k.py."""
    (tmp_path / "k.py").write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def k(x_ptr, y_ptr):\n"
        "    tl.store(y_ptr, tl.exp(tl.load(x_ptr)))\n"
    )
    return tmp_path


def test_deriving_imports_no_torch(kernel: Path) -> None:
    script = (
        "import sys\nfrom undertow.cli.main import app\n"
        "app(['derive', 'k.py'], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules"
    )
    environment = os.environ | {"UNDERTOW_CACHE_DIR": str(kernel / "cache")}
    subprocess.run(
        [sys.executable, "-c", script],
        check=True, capture_output=True, cwd=kernel, env=environment,
    )  # fmt: skip


def test_usage_errors_exit_with_two(undertow) -> None:
    result = undertow("derive")
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr
    assert undertow("derive", "f.py::k", "--dtype", "f32").exit_code == 2
    assert undertow("derife").exit_code == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_output_that_cannot_be_written(kernel: Path) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "undertow", "derive", "k.py"],
            stdout=full, stderr=subprocess.PIPE, cwd=kernel, text=True,
        )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr.startswith("error: standard output cannot be written")
    assert "Traceback" not in result.stderr


def on_terminal(folder: Path, *words: str) -> str:
    """What `python -m undertow` writes to a terminal."""
    controller, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "undertow", *words],
        stdout=terminal, stderr=terminal, env=environment, cwd=folder,
    )  # fmt: skip
    os.close(terminal)
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    process.wait()
    os.close(controller)
    return b"".join(parts).decode()


def test_colours_on_a_terminal(kernel: Path) -> None:
    shown = on_terminal(kernel, "derive", "k.py")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\x1b[" in shown
    assert "def k_bwd(" in plain
    assert "\x1b[1;31merror" in on_terminal(kernel, "derive", "k.py::kk")
