# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of kernels whose helpers have derivatives of their own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import overrides
from kernels.case import Case, blocks, case
from kernels.draw import Draw


@case("padded", rows=5, cols=37, stride=45)
def softplus_rows(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    return Case(
        overrides.softplus_rows,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            w_ptr=draw.normal(1),
            y_ptr=draw.output(rows, cols, stride=(stride, 1)),
            stride=stride,
            n_cols=cols,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x, w: F.softplus(x * w),
    )


class _Rounded(torch.autograd.Function):
    """Rounds; clips the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.floor(x + 0.5)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0].clamp(-0.5, 0.5)


@case("odd", n=150)
def quantised(draw: Draw, n: int) -> Case:
    return Case(
        overrides.quantised,
        (blocks(n, 64),),
        dict(
            x_ptr=draw.normal(n),
            s_ptr=draw.uniform(1, low=0.3, high=0.4),
            y_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x, s: _Rounded.apply(x / s) * s,
        precise=True,
    )


@case("padded", rows=4, cols=21, stride=30)
def mixed(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    def reference(x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        s = s[:, None]
        y, z = x * 2 * s**4 + s * s, x.relu()
        return y * z * 0.5 + 1.5, z

    return Case(
        overrides.mixed,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            s_ptr=draw.normal(rows),
            y_ptr=draw.output(rows, cols, stride=(stride, 1)),
            z_ptr=draw.output(rows, cols, stride=(stride, 1)),
            stride=stride,
            n_cols=cols,
            power=3,
        ),
        dict(BLOCK=32),
        ("y_ptr", "z_ptr"),
        reference,
        precise=True,
    )


@case("odd", n=21, steps=5)
def gated_recurrence(draw: Draw, n: int, steps: int) -> Case:
    def reference(x: Tensor, h: Tensor) -> Tensor:
        states: list[Tensor] = []
        for t in range(steps):
            h = h + x[t] if t % 2 else F.softplus(h * x[t])
            states.append(h)
        return torch.stack(states)

    return Case(
        overrides.gated_recurrence,
        (1,),
        dict(
            x_ptr=draw.normal(steps, n),
            h_ptr=draw.normal(n),
            y_ptr=draw.output(steps, n),
            n=n,
            steps=steps,
        ),
        dict(BLOCK=32),
        ("y_ptr",),
        reference,
        precise=True,
    )


@case("odd", n=150)
def detached(draw: Draw, n: int) -> Case:
    return Case(
        overrides.detached,
        (blocks(n, 64),),
        dict(x_ptr=draw.normal(n), y_ptr=draw.output(n), n=n),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x: x * x.sigmoid().detach() + x.detach() ** 2,
    )
