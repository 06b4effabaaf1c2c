"""The table: one row for each function, and how many there are of each verdict."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.coverage.table import markdown, refusals, write_csv
from benchmarks.coverage.verdict import REFUSED, RIGHT, VERDICTS
from benchmarks.inductor.verdict import NO_KERNEL, Row


def write(folder: Path, rows: Sequence[Row], made: str) -> None:
    """Writes `inductor.csv` and `inductor.md`.

    Args:
        folder: where to.
        rows: the functions.
        made: device and versions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "inductor.csv", rows)
    (folder / "inductor.md").write_text("\n".join(page(rows, made)) + "\n")


def read(path: Path) -> list[Row]:
    """The rows of an `inductor.csv`."""
    with path.open(newline="") as file:
        given = list(csv.DictReader(file))
    return [Row(**{**row, "kernels": int(row["kernels"])}) for row in given]  # pyright: ignore


def summary(rows: Sequence[Row]) -> list[list[str]]:
    """For each group, and for all, how many functions have each verdict."""
    lines: list[list[str]] = []
    for group in [*dict.fromkeys(row.group for row in rows), "all"]:
        own = [row for row in rows if group in (row.group, "all")]
        counts = Counter(row.verdict for row in own)
        lowered = [row for row in own if row.verdict != NO_KERNEL]
        kernels = sum(row.kernels for row in own)
        several = [str(counts[v]) for v in (*VERDICTS, NO_KERNEL)]
        share = f"{100 * counts[RIGHT] / max(1, len(lowered)):.0f} %"
        lines.append([group, str(len(own)), str(kernels), *several, share])
    return lines


HEAD = ["group", "functions", "launches", *VERDICTS, NO_KERNEL, RIGHT]

_ABOUT = """\
# Functions compiled by torch.compile

Written by `make bench-inductor`: Inductor lowers the forward of each function to Triton
kernels, and those are differentiated as they are. *Right*: outputs and gradients agree
with autograd of the same function in float64, away from ties. *No kernel*: Inductor
calls other libraries, so there is nothing to differentiate; such a function does not
count in the percentages. Made on
"""


def page(rows: Sequence[Row], made: str) -> list[str]:
    """The lines of `inductor.md`."""
    others = [
        [f"{row.group}/{row.function}", row.verdict, row.reason]
        for row in rows
        if row.verdict != RIGHT
    ]
    lines = [
        *_ABOUT.splitlines(),
        f"{made}.",
        "",
        *markdown(HEAD, summary(rows)),
        "",
        "## Why functions are refused",
        "",
        *refusals("functions", (r.reason for r in rows if r.verdict == REFUSED)),
        "",
        "## Functions that are not right",
        "",
        *markdown(["function", "verdict", "reason"], others),
    ]
    for group in dict.fromkeys(row.group for row in rows):
        right = [r for r in rows if r.group == group and r.verdict == RIGHT]
        names = ", ".join(f"`{r.function}`" for r in right)
        lines += ["", f"## Right: {group}", "", names]
    return lines
