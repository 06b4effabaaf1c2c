# ruff: noqa: C408 - arguments read like those of a launch
"""Launches in which a maximum may not be held constant, or only the right one may."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels import maxima
from kernels.case import Case, case
from kernels.draw import Draw


def relative(x: Tensor) -> Tensor:
    """`exp(x)` over the last dimension's largest."""
    return (x - x.amax(-1, keepdim=True)).exp()


@case("square", block=16)
def columns_of_rows(draw: Draw, block: int) -> Case:
    def reference(x: Tensor) -> Tensor:
        e = relative(x)
        return e.sum(0) / e.sum()

    return Case(
        maxima.columns_of_rows,
        (1,),
        dict(x_ptr=draw.normal(block, block), y_ptr=draw.output(block)),
        dict(BLOCK=block),
        ("y_ptr",),
        reference,
        precise=True,
    )


@case("square", block=16)
def contracted_over_rows(draw: Draw, block: int) -> Case:
    def reference(x: Tensor, v: Tensor) -> Tensor:
        e = relative(x)
        return e.T @ v / e.sum(0)[:, None]

    return Case(
        maxima.contracted_over_rows,
        (1,),
        dict(
            x_ptr=draw.normal(block, block),
            v_ptr=draw.normal(block, block),
            y_ptr=draw.output(block, block),
        ),
        dict(BLOCK=block),
        ("y_ptr",),
        reference,
        precise=True,
    )


@case("three_turns", length=24)
def unscaled_turns(draw: Draw, length: int) -> Case:
    def reference(x: Tensor, v: Tensor) -> Tensor:
        e = relative(x.view(-1, 8))
        return ((e * v.view(-1, 8)).sum() / e.sum())[None]

    return Case(
        maxima.unscaled_turns,
        (1,),
        dict(
            x_ptr=draw.normal(length),
            v_ptr=draw.normal(length),
            y_ptr=draw.output(1),
            N=length,
        ),
        dict(BLOCK=8),
        ("y_ptr",),
        reference,
        precise=True,
    )


@case("five_turns", turns=5)
def ratio_of_turns(draw: Draw, turns: int) -> Case:
    def reference(x: Tensor) -> Tensor:
        e = relative(x)
        return (e[:-1] / e[1:]).sum(0)

    return Case(
        maxima.ratio_of_turns,
        (1,),
        dict(x_ptr=draw.normal(turns, 8), y_ptr=draw.output(8), T=turns),
        dict(BLOCK=8),
        ("y_ptr",),
        reference,
        precise=True,
    )


@case("far_apart", turns=5, apart=60)
@case("near", turns=5, apart=0)
def sum_of_logcumsumexp(draw: Draw, turns: int, apart: int) -> Case:
    return Case(
        maxima.sum_of_logcumsumexp,
        (1,),
        dict(
            x_ptr=draw.normal(turns, 8) + apart * torch.arange(turns)[:, None],
            y_ptr=draw.output(8),
            T=turns,
        ),
        dict(BLOCK=8),
        ("y_ptr",),
        lambda x: x.logcumsumexp(0).sum(0),
        precise=True,
    )


@case("all", length=24)
def masked_scores(draw: Draw, length: int) -> Case:
    return Case(
        maxima.masked_scores,
        (1,),
        dict(
            x_ptr=draw.normal(length),
            v_ptr=draw.normal(length),
            y_ptr=draw.output(1),
            N=length,
        ),
        dict(BLOCK=8),
        ("y_ptr",),
        lambda x, v: (v.sum() / (1 + length) + 0 * x.sum())[None],
        precise=True,
    )
