"""Runs the command line in this process, in the folder of the example kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

Run = Callable[..., Result]


@pytest.fixture
def undertow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`undertow("derive", "file.py::kernel")` gives exit_code, stdout and stderr."""
    from undertow.cli.main import app

    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setenv("UNDERTOW_CACHE_DIR", str(tmp_path / "cache"))

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, words, catch_exceptions=False)

    return run
