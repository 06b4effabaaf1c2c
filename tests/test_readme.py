"""README.md is true: every fenced block is run or compared.

* ```` ```python ```` blocks run in order as one module, on CPU tensors. With
  `file=norms.py` after the language the block is also written to that file, where the
  commands find it.
* ```` ```python golden=name ```` is not run: it is what the command before it prints,
  and kept as `tests/golden/name.py`.
* ```` ```console ```` runs each `$ undertow …` line and compares what it prints with
  the lines below it. A command with nothing below it, last in its block, prints the
  golden block that follows. `$ make x` names a target of the Makefile; `$ pip install
  undertow` and `$ git clone …` are taken as they are. Nothing else may stand there.
* No other language is allowed, so nothing goes untested.

The one number outside of blocks is compared with `benchmarks/results`.
"""

from __future__ import annotations

import csv
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    options: dict[str, str]
    text: str
    line: int
    """The README's line on which `text` starts."""


@dataclass(frozen=True)
class Command:
    words: list[str]
    printed: str
    line: int


def blocks(text: str) -> list[Block]:
    found = list[Block]()
    for match in FENCE.finditer(text):
        language, *options = match[1].split() or [""]
        line = text.count("\n", 0, match.start(2)) + 1
        pairs = dict(option.split("=", 1) for option in options)
        found.append(Block(language, pairs, match[2], line))
    assert text.count("\n```") == 2 * len(found), "a fence is open or indented"
    return found


def commands(found: list[Block]) -> Iterator[Command]:
    for block, after in pairwise([*found, Block("", {}, "", 0)]):
        if block.language != "console":
            continue
        parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
        assert not parts[0], f"README.md:{block.line}: a console block starts with `$`"
        line = block.line
        if "golden" in after.options:
            parts[-1] = parts[-1] or after.text
        for typed, printed in zip(parts[1::2], parts[2::2], strict=True):
            yield Command(shlex.split(typed, comments=True), printed, line)
            line += 1 + printed.count("\n")


def module_text(found: list[Block]) -> str:
    """The Python blocks, each on the lines on which it stands in the README."""
    lines = list[str]()
    for block in found:
        if block.language == "python" and "golden" not in block.options:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def undertow(words: list[str], cwd: Path) -> str:
    """What `undertow …` prints, as in a terminal 88 columns wide without colours."""
    environment = os.environ | {
        "COLUMNS": "88",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "UNDERTOW_CACHE_DIR": str(cwd / ".cache"),
    }
    program = str(Path(sys.executable).with_name("undertow"))
    done = subprocess.run(
        [program, *words],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return tidy(done.stdout)


def write_files(directory: Path) -> None:
    """Writes the blocks that name a file to it."""
    for block in BLOCKS:
        if "file" in block.options:
            (directory / block.options["file"]).write_text(block.text)


def tidy(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.strip("\n").splitlines())


BLOCKS = blocks(README.read_text())


def test_every_block_is_of_a_tested_kind() -> None:
    for block in BLOCKS:
        assert block.language in {"python", "console"}, f"README.md:{block.line}"
        assert set(block.options) <= {"file", "golden"}, f"README.md:{block.line}"


def test_the_first_screen_is_short() -> None:
    lead = README.read_text().split("```")[0]
    prose = [
        part for part in lead.split("\n") if not part.startswith(("#", "[![", "<"))
    ]
    assert len(" ".join(prose).split()) <= 60


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", FENCE.sub("", README.read_text())):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_overhead_is_what_was_measured() -> None:
    said = re.search(r"takes ([0-9.]+) times as long", README.read_text())
    with (ROOT / "benchmarks/results/overhead.csv").open(newline="") as lines:
        took = {row["what"]: row["microseconds"] for row in csv.DictReader(lines)}
    ours = float(took["forward + backward: differentiable"])
    bare = float(took["forward + backward: bare Function"])
    assert said is not None
    assert said[1] == f"{ours / bare:.2f}"


def test_python_blocks_run(tmp_path: Path) -> None:
    text = module_text(BLOCKS)
    if text.strip():
        path = tmp_path / "readme.py"
        path.write_text(text)
        runpy.run_path(str(path))


def test_golden_blocks_are_what_the_command_before_prints(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    shown = {block.text: block for block in BLOCKS if "golden" in block.options}
    write_files(tmp_path)
    for command in commands(BLOCKS):
        block = shown.pop(command.printed, None)
        if block is not None:
            text = undertow(command.words[1:], tmp_path)
            golden(block.options["golden"], text)
            assert block.text == text, f"README.md:{block.line}"
    assert not shown, "a golden block stands behind no command"


@pytest.mark.parametrize(
    "command", [pytest.param(c, id=shlex.join(c.words)) for c in commands(BLOCKS)]
)
def test_commands_print_what_is_shown(command: Command, tmp_path: Path) -> None:
    where = f"README.md:{command.line}"
    match command.words:
        case ["undertow", *words]:
            write_files(tmp_path)
            assert undertow(words, tmp_path) == tidy(command.printed), where
        case ["make", target]:
            assert not command.printed, f"{where}: make's output is not compared"
            makefile = (ROOT / "Makefile").read_text()
            assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), where
        case ["pip", "install", "undertow"] | ["git", "clone", *_] | ["cd", "undertow"]:
            assert not command.printed, f"{where}: its output is not compared"
        case _:
            pytest.fail(f"{where}: `{shlex.join(command.words)}` is not tested")
