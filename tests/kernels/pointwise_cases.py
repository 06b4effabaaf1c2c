# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of elementwise kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import pointwise
from kernels.case import Case, blocks, case, gelu_erf, gelu_tanh
from kernels.draw import Draw


@case("odd", n=150)
@case("block", n=128)
@case("one", n=1)
def scale(draw: Draw, n: int) -> Case:
    return Case(
        pointwise.scale,
        (blocks(n, 64),),
        dict(
            x_ptr=draw.normal(n),
            w_ptr=draw.normal(n),
            y_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x, w: x.exp() * w,
        precise=True,
    )


@case("padded", rows=4, cols=37, stride=45)
def swiglu(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    return Case(
        pointwise.swiglu,
        (rows,),
        dict(
            a_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            b_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            c_ptr=draw.output(rows, cols, stride=(stride, 1)),
            stride=stride,
            n_cols=cols,
        ),
        dict(BLOCK=64),
        ("c_ptr",),
        lambda a, b: F.silu(a) * b,
    )


def _geglu(kernel: Any, draw: Draw, n: int, gelu: Callable[[Tensor], Tensor]) -> Case:
    return Case(
        kernel,
        (blocks(n, 64),),
        dict(
            a_ptr=draw.normal(n),
            b_ptr=draw.normal(n),
            c_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=64),
        ("c_ptr",),
        lambda a, b: gelu(a) * b,
    )


@case("odd", n=99)
def geglu_tanh(draw: Draw, n: int) -> Case:
    return _geglu(pointwise.geglu_tanh, draw, n, gelu_tanh)


@case("odd", n=99)
def geglu_erf(draw: Draw, n: int) -> Case:
    return _geglu(pointwise.geglu_erf, draw, n, gelu_erf)


@case("odd", rows=5, cols=27)
@case("column", rows=5, cols=1)
def bias_gelu(draw: Draw, rows: int, cols: int) -> Case:
    n = rows * cols
    return Case(
        pointwise.bias_gelu,
        (blocks(n, 64),),
        dict(
            x_ptr=draw.normal(rows, cols),
            bias_ptr=draw.normal(cols),
            y_ptr=draw.output(rows, cols),
            n=n,
            n_cols=cols,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x, bias: gelu_erf(x + bias),
    )


@case("padded", rows=5, cols=37, stride=38)
def dyt(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    return Case(
        pointwise.dyt,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            alpha_ptr=draw.uniform(1, low=0.5),
            w_ptr=draw.normal(cols),
            b_ptr=draw.normal(cols),
            y_ptr=draw.output(rows, cols, stride=(stride, 1)),
            stride=stride,
            n_cols=cols,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x, alpha, w, b: (alpha * x).tanh() * w + b,
    )


@case("padded", rows=4, pairs=11, stride=25)
@case("full", rows=4, pairs=16, stride=32)
def rope_pairs(draw: Draw, rows: int, pairs: int, stride: int) -> Case:
    def reference(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = x[:, 0::2], x[:, 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(1)

    return Case(
        pointwise.rope_pairs,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, 2 * pairs, stride=(stride, 1)),
            cos_ptr=draw.normal(rows, pairs),
            sin_ptr=draw.normal(rows, pairs),
            y_ptr=draw.output(rows, 2 * pairs, stride=(stride, 1)),
            stride=stride,
            n_pairs=pairs,
        ),
        dict(PAIRS=16),
        ("y_ptr",),
        reference,
    )


@case("odd", rows=5, half=21, stride=42)
@case("full", rows=3, half=32, stride=64)
def rope_halves(draw: Draw, rows: int, half: int, stride: int) -> Case:
    angle = draw.normal(half)
    return Case(
        pointwise.rope_halves,
        (rows,),
        dict(
            q_ptr=draw.normal(rows, 2 * half, stride=(stride, 1)),
            cos_ptr=angle.cos().to(torch.bfloat16).double(),
            sin_ptr=angle.sin().to(torch.bfloat16).double(),
            stride=stride,
            half=half,
        ),
        dict(BLOCK=32),
        ("q_ptr",),
        lambda q, cos, sin: torch.cat(
            [
                q[:, :half] * cos - q[:, half:] * sin,
                q[:, half:] * cos + q[:, :half] * sin,
            ],
            -1,
        ),
        in_place=("q_ptr",),
        fixed=("cos_ptr", "sin_ptr"),
    )


@case("odd", n=150)
def extremes(draw: Draw, n: int) -> Case:
    low, high = -0.7, 0.8

    def reference(a: Tensor, b: Tensor) -> Tensor:
        narrow = torch.minimum(torch.maximum(a, b), a * b + 1)
        return torch.where(a > b, a.clamp(low, high) * b, narrow) + (a - b).abs()

    return Case(
        pointwise.extremes,
        (blocks(n, 64),),
        dict(
            a_ptr=draw.normal(n),
            b_ptr=draw.normal(n),
            y_ptr=draw.output(n),
            n=n,
            low=low,
            high=high,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        reference,
        precise=True,
    )
