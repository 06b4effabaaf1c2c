# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of kernels whose loops turn as often as data decide."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels import whiles
from kernels.case import Case, case
from kernels.draw import Draw


@case("several", turns=(3, 0, 5, 1))
@case("none", turns=(0, 0))
def relax(draw: Draw, turns: tuple[int, ...]) -> Case:
    n = 13

    def reference(x: Tensor, w: Tensor, budget: Tensor) -> Tensor:
        rows: list[Tensor] = []
        for y, count in zip(x, turns, strict=True):
            for _ in range(count):
                y = (y * w).sin() + 0.5 * y
            rows.append(y)
        return torch.stack(rows) + 0 * w

    return Case(
        whiles.relax,
        (len(turns),),
        dict(
            x_ptr=draw.normal(len(turns), n),
            w_ptr=draw.normal(n),
            budget_ptr=torch.tensor(turns, dtype=torch.float64),
            y_ptr=draw.output(len(turns), n),
            n=n,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
        fixed=("budget_ptr",),
    )


@case("several", lengths=(3, 0, 6, 1))
@case("none", lengths=(0,))
def ragged(draw: Draw, lengths: tuple[int, ...]) -> Case:
    dim, total = 11, sum(lengths)
    starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]

    def reference(x: Tensor, start: Tensor) -> Tensor:
        rows: list[Tensor] = []
        for begin, count in zip(starts, lengths, strict=False):
            h = torch.zeros(dim, dtype=x.dtype)
            for at in x[begin : begin + count]:
                h = (h + at).sin() * 0.75 + at * h
            rows.append(h)
        return torch.stack(rows) + 0 * x.sum()

    return Case(
        whiles.ragged,
        (len(lengths),),
        dict(
            x_ptr=draw.normal(max(1, total), dim),
            start_ptr=torch.tensor(starts, dtype=torch.int32),
            y_ptr=draw.output(len(lengths), dim),
            D=dim,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )


@case("even", n=5, step=2)
@case("odd", n=7, step=3)
@case("none", n=-1, step=2)
def counting(draw: Draw, n: int, step: int) -> Case:
    turns = len(range(0, n + 1, step))

    def reference(x: Tensor) -> Tensor:
        acc = torch.ones(16, dtype=x.dtype)
        for row in x[:turns]:
            acc = acc * row
        return acc + turns * step + 0 * x.sum()

    return Case(
        whiles.counting,
        (1,),
        dict(
            x_ptr=draw.normal(max(1, turns), 16),
            y_ptr=draw.output(16),
            n=n,
            step=step,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )


@case("several", turns=((0, 5, 1, 9), (2, 0, 3, 0)))
def nested_while(draw: Draw, turns: tuple[tuple[int, ...], ...]) -> Case:
    rows, given = len(turns[0]), turns

    def reference(x: Tensor, turns: Tensor) -> Tensor:
        found: list[Tensor] = []
        for program, counts in zip(x, given, strict=True):
            h = torch.full((16,), 0.5, dtype=x.dtype)
            for at, left in zip(program, counts, strict=True):
                if left <= 1:
                    h = h * at
                    continue
                while left > 0:
                    h = (h * at).sin() + 0.25 * h
                    left //= 2
            found.append(h)
        return torch.stack(found)

    return Case(
        whiles.nested_while,
        (len(turns),),
        dict(
            x_ptr=draw.normal(len(turns), rows, 16),
            turns_ptr=torch.tensor(turns, dtype=torch.int32),
            y_ptr=draw.output(len(turns), 16),
            rows=rows,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )
