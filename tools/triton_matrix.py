"""Runs the capture tests against each version of Triton (`make triton-matrix`).

Each version is installed without dependencies into `build/triton-matrix/<version>` and
put first on the path of a process of its own: the environment keeps the one it has.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

VERSIONS = ("3.6.0", "3.7.1", "3.8.0", "3.9.0")
ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "triton-matrix"


def install(version: str) -> Path:
    """The folder that holds Triton `version`, installed there on the first call."""
    folder = TARGET / version
    if not (folder / "triton" / "__init__.py").exists():
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
                *("--target", str(folder), f"triton=={version}"),
            ],
            check=True,
        )
    return folder


def run(version: str) -> tuple[bool, str]:
    """Whether the capture tests pass under `version`, and pytest's summary."""
    path = os.pathsep.join((str(install(version)), str(ROOT / "src")))
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "tests/frontend"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "UNDERTOW_EXPECT_TRITON": version},
        capture_output=True,
        text=True,
    )
    if result.returncode:
        print(result.stdout, result.stderr, file=sys.stderr)
    lines = [
        line for line in result.stdout.splitlines() if re.search(r" in [\d.]+s", line)
    ]
    return result.returncode == 0, lines[-1].strip("= ") if lines else "no summary"


def main() -> int:
    """Prints a table; 1 if a version fails."""
    print(f"{'triton':<8} {'':<6} {'seconds':>7}  tests")
    failed = False
    for version in VERSIONS:
        start = time.perf_counter()
        passed, summary = run(version)
        failed |= not passed
        verdict = "pass" if passed else "FAIL"
        seconds = time.perf_counter() - start
        print(f"{version:<8} {verdict:<6} {seconds:>7.1f}  {summary}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
