"""The pages on the command line are true."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from undertow.cli.main import app

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "command-line.md").read_text()
REFERENCE = (DOCS / "reference" / "command-line.md").read_text()


def test_the_transcripts_of_the_guide(
    undertow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert kernel
    (tmp_path / "norms.py").write_text(kernel[1])
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```console\n\$ undertow (.*?)\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 4
    for words, shown in blocks:
        assert undertow(*shlex.split(words)).output == shown, words


def test_the_reference_lists_every_option() -> None:
    group = typer.main.get_command(app)
    commands: dict[str, typer.main.TyperCommand] = getattr(group, "commands")  # noqa: B009
    assert commands.keys() == {"derive", "explain", "check", "demo"}
    options = {
        option
        for command in commands.values()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("-")
    }
    assert {o for o in options if f"`{o}" not in REFERENCE} == set()
