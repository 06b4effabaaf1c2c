"""The table: one row for each kernel, and how many there are of each verdict."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.coverage.verdict import (
    AGREES,
    NO_GRADIENT,
    REFUSED,
    RIGHT,
    VERDICTS,
    Finding,
)

MISSING = "not run"
"""The verdict on a kernel that no workload launches."""


@dataclass(frozen=True)
class Row:
    """One kernel.

    Attributes:
        library: the package that it is part of.
        kernel: module and name, without the package.
        verdict: the worst of its launches'.
        reason: the first line of the error, or what is wrong.
        own: how the gradients of whole calls compare with the library's backward.
        launches: how many different ones were judged.
        calls: the workloads that make them.
    """

    library: str
    kernel: str
    verdict: str
    reason: str
    own: str
    launches: int
    calls: str


def rows(library: str, found: Iterable[Finding], census: Iterable[str]) -> list[Row]:
    """A row for each kernel that was judged, and for each that should have been."""
    by_kernel: dict[str, list[Finding]] = {name: [] for name in census}
    for finding in found:
        by_kernel.setdefault(finding.kernel, []).append(finding)
    by_kernel.pop("", None)
    for name, own in list(by_kernel.items()):
        by_kernel[name] = [f for f in own if f.verdict != NO_GRADIENT]
        if own and not by_kernel[name]:
            del by_kernel[name]
    return [_row(library, name, by_kernel[name]) for name in sorted(by_kernel)]


def _row(library: str, kernel: str, found: Sequence[Finding]) -> Row:
    name = kernel.removeprefix(f"{library}.")
    if not found:
        return Row(library, name, MISSING, "", "", 0, "")
    worst = max(found, key=lambda f: VERDICTS.index(f.verdict))
    own = [f.peer for f in found if f.peer]
    differing = [peer for peer in own if peer != AGREES]
    calls = dict.fromkeys(f.workload.partition("/")[2] for f in found)
    return Row(
        library,
        name,
        worst.verdict,
        worst.reason,
        (differing or own or [""])[0],
        len(found),
        " ".join(calls),
    )


# -- files --


def write(folder: Path, table: Sequence[Row], versions: str) -> None:
    """Writes `coverage.csv` and `coverage.md`."""
    folder.mkdir(exist_ok=True)
    write_csv(folder / "coverage.csv", table)
    (folder / "coverage.md").write_text("\n".join(page(table, versions)) + "\n")


def write_csv(path: Path, rows: Sequence[Any]) -> None:
    """Writes data classes of one kind, with their fields as the head."""
    names = [f.name for f in fields(rows[0])]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([getattr(row, n) for n in names] for row in rows)


def read(path: Path) -> list[Row]:
    """The rows of a `coverage.csv`."""
    with path.open(newline="") as file:
        given = list(csv.DictReader(file))
    return [Row(**{**row, "launches": int(row["launches"])}) for row in given]  # pyright: ignore


def summary(table: Sequence[Row]) -> list[list[str]]:
    """For each library, and for all, how many kernels have each verdict."""
    libraries = list(dict.fromkeys(row.library for row in table))
    lines: list[list[str]] = []
    for library in [*libraries, "all"]:
        own = [row for row in table if library in (row.library, "all")]
        counts = Counter(row.verdict for row in own)
        share = f"{100 * counts[RIGHT] / max(1, len(own)):.0f} %"
        several = [str(counts[v]) for v in (*VERDICTS, MISSING)]
        lines.append([library, str(len(own)), *several, share])
    return lines


def refusals(what: str, refused: Iterable[str]) -> list[str]:
    """A table of how often each reason occurs, without the names in them."""
    counts = Counter(re.sub(r"`(?!tl\.)[^`]*`", "`…`", reason) for reason in refused)
    cells = [[str(n), reason] for reason, n in counts.most_common()]
    return markdown([what, "reason"], cells)


_ABOUT = """\
# Kernels of other libraries

Written by `make bench-coverage`: every forward kernel with a hand-written backward
beside it. *Right*: the derived gradient agrees with its float64 run and with
differences of the forward in float64. *Own backward*: how the gradients of the whole
call compare with those of the library's backward. All on the CPU, in the evaluator,
with
"""


def page(table: Sequence[Row], versions: str) -> list[str]:
    """The lines of `coverage.md`."""
    lines = [
        *_ABOUT.splitlines(),
        f"{versions}.",
        "",
        *markdown(["library", "kernels", *VERDICTS, MISSING, RIGHT], summary(table)),
        "",
        "## Why kernels are refused",
        "",
        *refusals("kernels", (r.reason for r in table if r.verdict == REFUSED)),
    ]
    for library in dict.fromkeys(row.library for row in table):
        cells = [
            [f"`{row.kernel}`", row.verdict, row.own, row.reason]
            for row in table
            if row.library == library
        ]
        head = ["kernel", "verdict", "own backward", "reason"]
        lines += ["", f"## {library}", "", *markdown(head, cells)]
    return lines


def markdown(head: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    rule = ["---"] * len(head)
    return [
        f"| {' | '.join(cell.replace('|', '/') for cell in line)} |".replace("  ", " ")
        for line in (head, rule, *cells)
    ]
