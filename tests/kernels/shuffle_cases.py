# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of kernels that move elements between lanes, or add up along them."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels import shuffles
from kernels.case import Case, case
from kernels.draw import Draw


@case("padded", cols=11, stride=13)
@case("full", cols=16, stride=16)
def palindrome(draw: Draw, cols: int, stride: int) -> Case:
    def reference(x: torch.Tensor) -> torch.Tensor:
        padded = F.pad(x, (0, 16 - cols))
        return (padded * padded.exp().flip(1))[:, :cols]

    return Case(
        shuffles.palindrome,
        (1,),
        dict(
            x_ptr=draw.normal(4, cols, stride=(stride, 1)),
            y_ptr=draw.output(4, cols, stride=(stride, 1)),
            n_cols=cols,
            stride=stride,
        ),
        dict(ROWS=4, BLOCK=16),
        ("y_ptr",),
        reference,
    )


@case("padded", cols=11)
@case("full", cols=16)
def ranked(draw: Draw, cols: int) -> Case:
    return Case(
        shuffles.ranked,
        (3,),
        dict(
            x_ptr=draw.distinct(3, cols),
            w_ptr=draw.normal(cols),
            y_ptr=draw.output(3, cols),
            n_cols=cols,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        lambda x, w: w * x.sort(descending=True).values ** 2,
    )


@case("padded", cols=13)
def best_few(draw: Draw, cols: int) -> Case:
    return Case(
        shuffles.best_few,
        (3,),
        dict(x_ptr=draw.distinct(3, cols), y_ptr=draw.output(3, 4), n_cols=cols),
        dict(K=4, BLOCK=16),
        ("y_ptr",),
        lambda x: x.topk(4).values.exp(),
    )


@case("repeated", n=13)
def permuted(draw: Draw, n: int) -> Case:
    return Case(
        shuffles.permuted,
        (1,),
        dict(
            x_ptr=draw.normal(n),
            index_ptr=draw.integers(n, high=n).int(),
            y_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        lambda x, index: x[index.long()] ** 2 * x.exp(),
    )


@case("padded", cols=11, reverse=False)
@case("reversed", cols=13, reverse=True)
def prefix_sums(draw: Draw, cols: int, reverse: bool) -> Case:
    def reference(x: torch.Tensor) -> torch.Tensor:
        squares = x.square()
        if reverse:
            return squares.flip(1).cumsum(1).flip(1).exp()
        return squares.cumsum(1).exp()

    return Case(
        shuffles.prefix_sums,
        (1,),
        dict(x_ptr=draw.normal(4, cols) * 0.3, y_ptr=draw.output(4, cols), n_cols=cols),
        dict(REVERSE=reverse, ROWS=4, BLOCK=16),
        ("y_ptr",),
        reference,
    )


@case("padded", n=13)
def decay(draw: Draw, n: int) -> Case:
    return Case(
        shuffles.decay,
        (1,),
        dict(
            x_ptr=draw.normal(n) * 0.5,
            w_ptr=draw.normal(1),
            y_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        lambda x, w: x * (-(w * x * x).cumsum(0)).exp(),
    )
