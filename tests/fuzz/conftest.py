"""Writes down what `make fuzz` did: tests/fuzz/fuzz.log.

Each module has a section, which is of the last time that it ran.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings

LOG = Path(__file__).parent / "fuzz.log"
EXAMPLES = {"test_programs.py": 10_000}
"""How many there are where it is not the profile's number."""


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.getoption("hypothesis_profile") != "fuzz":
        return
    packages = ", ".join(f"{p} {version(p)}" for p in ("hypothesis", "torch"))
    seed = config.getoption("hypothesis_seed")
    runs: dict[str, list[str]] = {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            module, _, name = report.nodeid.split("/")[-1].partition("::")
            line = f"{outcome} {name} in {report.duration:.0f} s"
            runs.setdefault(module, []).append(line)
    sections = dict(s.split("\n", 1) for s in LOG.read_text().strip().split("\n\n"))
    for module, lines in runs.items():
        head = f"python {platform.python_version()}, {packages}, seed {seed}"
        examples = (
            f"{EXAMPLES.get(module, settings.default.max_examples)} examples of each"
        )
        sections[module] = "\n".join([head, examples, *sorted(lines)])
    text = "\n\n".join(f"{name}\n{body}" for name, body in sorted(sections.items()))
    LOG.write_text(text + "\n")
