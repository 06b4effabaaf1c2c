# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of kernels whose calls Triton leaves in the TTIR."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels import calls
from kernels.case import Case, case
from kernels.draw import Draw


def gain(s: Tensor, least: Tensor | float) -> Tensor:
    large = torch.where(s * s > 2.0, (s * s).sqrt() + 1.0, s * s * 3.0)
    return torch.where(s < least, 0.5 * least, large)


@case("rows", rows=12, cols=5, programs=5)
def gained_rows(draw: Draw, rows: int, cols: int, programs: int) -> Case:
    return Case(
        calls.gained_rows,
        (programs,),
        dict(
            x_ptr=draw.normal(rows, cols),
            s_ptr=draw.normal(rows),
            y_ptr=draw.output(rows, cols),
            rows=rows,
            n_cols=cols,
        ),
        dict(BLOCK=8),
        ("y_ptr",),
        lambda x, s: torch.where(s > 0, gain(s, 0.5), 1.0)[:, None] * x,
        precise=True,
    )


@case("scalars", n=20)
def apart(draw: Draw, n: int) -> Case:
    def reference(x: Tensor) -> Tensor:
        a, b = x * x, x.sin()
        return torch.where(a > b, a * b, gain(a, b))

    args = dict(x_ptr=draw.normal(n), y_ptr=draw.output(n))
    return Case(calls.apart, (n,), args, {}, ("y_ptr",), reference, precise=True)
