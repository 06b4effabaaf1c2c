"""Writes down what `make fuzz` did: tests/fuzz/fuzz.log."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

LOG = Path(__file__).parent / "fuzz.log"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.getoption("hypothesis_profile") != "fuzz":
        return
    packages = ", ".join(f"{p} {version(p)}" for p in ("hypothesis", "torch"))
    lines = [
        f"python {platform.python_version()}, {packages}",
        f"seed {config.getoption('hypothesis_seed')}, "
        f"{settings.default.max_examples} examples of each",
    ]
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            name = report.nodeid.split("/")[-1]
            lines.append(f"{outcome} {name} in {report.duration:.0f} s")
    LOG.write_text("\n".join([*lines[:2], *sorted(lines[2:])]) + "\n")
