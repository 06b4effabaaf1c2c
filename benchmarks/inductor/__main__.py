"""Makes the table: ``python -m benchmarks.inductor [--into DIR] [WORD ...]``.

With words only the functions whose name has one of them are judged, and nothing is
written.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import torch
import triton
from torch._inductor.utils import fresh_cache

from benchmarks.coverage import pool
from benchmarks.coverage.verdict import CRASH, RIGHT, WRONG
from benchmarks.inductor import table
from benchmarks.inductor.functions import FUNCTIONS
from benchmarks.inductor.verdict import Row, judged, row

RESULTS = Path(__file__).parents[1] / "results"

_NAME = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"  # noqa: E501


def say(name: str, seconds: float, found: list[Row]) -> None:
    for one in found:
        word = f"{one.verdict:10}" if one.verdict != RIGHT else " " * 10
        print(f"{seconds:5.1f} s  {word}{name}  {one.reason}".rstrip(), flush=True)


def gpu() -> str:
    """The name of the GPU; asked in another process, since none can be forked after."""
    asked = subprocess.run(
        [sys.executable, "-c", _NAME], capture_output=True, text=True
    )
    return asked.stdout.strip()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inductor")
    parser.add_argument("--into", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("words", nargs="*", metavar="WORD")
    given = parser.parse_args(arguments)
    words = given.words
    names = [n for n in FUNCTIONS if not words or any(w in n for w in words)]
    if not names:
        parser.error("no function has such a name")
    on = gpu()
    device = "cuda" if on else "cpu"
    judge = pool.Judge(
        lambda name: iter([judged(name, device)]),
        lambda name, reason: row(name, CRASH, reason),
    )
    with fresh_cache():
        rows = pool.run(names, judge, os.cpu_count() or 1, say)
    for line in (table.HEAD, *table.summary(rows)):
        print(*line, sep="  ")
    if not words:
        versions = f"torch {torch.__version__}, triton {triton.__version__}"
        where = f"one {on}" if on else "the CPU, in the evaluator"
        table.write(given.into, rows, f"{where}, with {versions}")
    return int(any(r.verdict in (WRONG, CRASH) for r in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
