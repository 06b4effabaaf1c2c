# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of kernels that reduce and scan by functions of their own."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels import combines
from kernels.case import Case, case
from kernels.draw import Draw


@case("padded", cols=11)
@case("full", cols=16)
def welford_norm(draw: Draw, cols: int) -> Case:
    return Case(
        combines.welford_norm,
        (1,),
        dict(x_ptr=draw.normal(4, cols), y_ptr=draw.output(4, cols), n_cols=cols),
        dict(ROWS=4, BLOCK=16),
        ("y_ptr",),
        lambda x: F.layer_norm(x, (cols,), eps=1e-5),
    )


@case("padded", n=13)
def value_of_largest(draw: Draw, n: int) -> Case:
    return Case(
        combines.value_of_largest,
        (1,),
        dict(x_ptr=draw.normal(n), v_ptr=draw.normal(n), y_ptr=draw.output(1), n=n),
        dict(BLOCK=16),
        ("y_ptr",),
        lambda x, v: x.max(dim=0, keepdim=True).values * v[x.argmax()] ** 2,
    )


@case("padded", n=13)
def product_of_all(draw: Draw, n: int) -> Case:
    return Case(
        combines.product_of_all,
        (1,),
        dict(x_ptr=draw.normal(n), y_ptr=draw.output(1), n=n),
        dict(BLOCK=16),
        ("y_ptr",),
        lambda x: x.prod(dim=0, keepdim=True),
    )


def _reversed(function, x: torch.Tensor, dim: int, reverse: bool) -> torch.Tensor:
    return function(x.flip(dim), dim).flip(dim) if reverse else function(x, dim)


@case("padded", cols=11, reverse=False, zeros=0)
@case("zeros", cols=13, reverse=False, zeros=2)
@case("reversed", cols=16, reverse=True, zeros=1)
def prefix_products(draw: Draw, cols: int, reverse: bool, zeros: int) -> Case:
    x = draw.normal(4, cols)
    x[:, 3 : 3 + zeros] = 0.0
    return Case(
        combines.prefix_products,
        (1,),
        dict(x_ptr=x, y_ptr=draw.output(4, cols), n_cols=cols),
        dict(REVERSE=reverse, ROWS=4, BLOCK=16),
        ("y_ptr",),
        lambda x: _reversed(torch.cumprod, x, 1, reverse).exp(),
    )


@case("padded", steps=11, reverse=False)
@case("full", steps=16, reverse=False)
@case("reversed", steps=13, reverse=True)
def linear_recurrence(draw: Draw, steps: int, reverse: bool) -> Case:
    def reference(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        order = range(steps - 1, -1, -1) if reverse else range(steps)
        h, states = torch.zeros_like(x[0]), {}
        for t in order:
            states[t] = h = a[t] * h + x[t]
        return torch.stack([states[t] for t in range(steps)])

    return Case(
        combines.linear_recurrence,
        (1,),
        dict(
            a_ptr=draw.normal(steps, 4),
            x_ptr=draw.normal(steps, 4),
            h_ptr=draw.output(steps, 4),
            n_steps=steps,
        ),
        dict(REVERSE=reverse, CHANNELS=4, BLOCK=16),
        ("h_ptr",),
        reference,
    )


@case("padded", cols=11, reverse=False)
@case("reversed", cols=16, reverse=True)
def prefix_log_sums(draw: Draw, cols: int, reverse: bool) -> Case:
    return Case(
        combines.prefix_log_sums,
        (1,),
        dict(x_ptr=draw.normal(4, cols), y_ptr=draw.output(4, cols), n_cols=cols),
        dict(REVERSE=reverse, ROWS=4, BLOCK=16),
        ("y_ptr",),
        lambda x: _reversed(torch.logcumsumexp, x, 1, reverse),
    )
