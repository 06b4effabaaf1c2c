"""Makes the table: ``python -m benchmarks.coverage [WORD ...]``.

With words only the workloads whose name has one of them are run, and nothing is
written.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

from benchmarks.coverage import pool, table, workloads
from benchmarks.coverage.census import census
from benchmarks.coverage.machine import stand_in
from benchmarks.coverage.verdict import CRASH, NO_GRADIENT, WRONG, Finding, findings

RESULTS = Path(__file__).parents[1] / "results"

JUDGE = pool.Judge(
    lambda name: findings(workloads.WORKLOADS[name]),
    lambda name, reason: Finding("", CRASH, reason, "", name),
)


def say(name: str, seconds: float, found: list[Finding]) -> None:
    print(f"{name}  {seconds:.1f} s", flush=True)
    for finding in found:
        if finding.verdict == NO_GRADIENT:
            continue
        kernel = finding.kernel.rpartition(".")[2] or "(no kernel)"
        print(f"    {finding.verdict:8}{kernel}  {finding.reason}")
        if finding.peer:
            print(f"            own backward: {finding.peer}")


def main(words: list[str]) -> int:
    present = [
        name
        for name, package in workloads.PEERS.items()
        if importlib.util.find_spec(package) is not None
    ]
    missing = workloads.PEERS.keys() - present
    if missing and not words:
        print(f"install undertow[peers]: {', '.join(sorted(missing))} missing")
        return 1
    with stand_in():
        workloads.load(present)
        known = {
            name: census(package, workloads.SKIPPED) - workloads.WITHOUT
            for name, package in workloads.PEERS.items()
            if name in present and not words
        }
    names = [n for n in workloads.WORKLOADS if not words or any(w in n for w in words)]
    found = pool.run(names, JUDGE, os.cpu_count() or 1, say)
    rows: list[table.Row] = []
    for name in present:
        own = [f for f in found if f.workload.startswith(f"{name}/")]
        rows += table.rows(workloads.PEERS[name], own, known.get(name, ()))
    for line in table.summary(rows):
        print(*line, sep="  ")
    if not words:
        table.write(RESULTS, rows, versions())
    return int(any(row.verdict in (WRONG, CRASH) for row in rows))


def versions() -> str:
    names = ("torch", "triton", *workloads.DISTRIBUTIONS)
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
