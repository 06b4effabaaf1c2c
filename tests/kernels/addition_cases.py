# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of kernels that add to what they were given."""

from __future__ import annotations

import torch

from kernels import additions
from kernels.case import Case, blocks, case
from kernels.draw import Draw


@case("padded", rows=7, cols=13, stride=16)
@case("full", rows=8, cols=16, stride=16)
def column_sums(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    return Case(
        additions.column_sums,
        (blocks(rows, 4), blocks(cols, 8)),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            y_ptr=draw.zeros(cols),
            rows=rows,
            cols=cols,
            stride=stride,
        ),
        dict(ROWS=4, COLS=8),
        ("y_ptr",),
        lambda x: x.exp().sum(0),
    )


@case("onto", rows=7, cols=13)
def column_sums_onto(draw: Draw, rows: int, cols: int) -> Case:
    """The old value of y has a gradient too."""
    return Case(
        additions.column_sums,
        (blocks(rows, 4), blocks(cols, 8)),
        dict(
            x_ptr=draw.normal(rows, cols),
            y_ptr=draw.normal(cols),
            rows=rows,
            cols=cols,
            stride=cols,
        ),
        dict(ROWS=4, COLS=8),
        ("y_ptr",),
        lambda x, y: y + x.exp().sum(0),
        in_place=("y_ptr",),
    )


@case("odd", m=19, n=21, k=70)
def split_k(draw: Draw, m: int, n: int, k: int) -> Case:
    return Case(
        additions.split_k,
        (blocks(m, 16), blocks(n, 16), 2),
        dict(
            a_ptr=draw.normal(m, k),
            b_ptr=draw.normal(k, n) / 8,
            c_ptr=draw.zeros(m, n),
            m=m,
            n=n,
            k=k,
        ),
        dict(BLOCK_M=16, BLOCK_N=16, BLOCK_K=16, SPLIT=2),
        ("c_ptr",),
        lambda a, b: a @ b,
    )


@case("outliers", n=21, bins=4)
def weighted_histogram(draw: Draw, n: int, bins: int) -> Case:
    def reference(x: torch.Tensor, bin: torch.Tensor, **_: torch.Tensor):
        hits = bin == torch.arange(bins)[:, None]
        return (hits * x.square()).sum(1)

    return Case(
        additions.weighted_histogram,
        (blocks(n, 8),),
        dict(
            x_ptr=draw.normal(n),
            bin_ptr=draw.integers(n, high=bins + 2).int() - 1,
            sum_ptr=draw.zeros(bins),
            count_ptr=torch.zeros(bins, dtype=torch.int32),
            n=n,
            bins=bins,
        ),
        dict(BLOCK=8),
        ("sum_ptr",),
        reference,
    )


@case("repeated", length=5, dim=11)
def bags(draw: Draw, length: int, dim: int) -> Case:
    def reference(
        table: torch.Tensor, index: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        factor = torch.where(weight > 0, weight.exp(), 0.0)
        blank = torch.zeros(4, dim, dtype=table.dtype)
        return blank.index_add(0, index.long(), table * factor[:, None])

    return Case(
        additions.bags,
        (3,),
        dict(
            table_ptr=draw.normal(3 * length, dim),
            index_ptr=draw.integers(3 * length, high=4).int(),
            weight_ptr=draw.normal(3 * length) / 2,
            y_ptr=draw.zeros(4, dim),
            length=length,
            dim=dim,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )


@case("padded", n=29)
def mean_loss(draw: Draw, n: int) -> Case:
    return Case(
        additions.mean_loss,
        (blocks(n, 8),),
        dict(
            x_ptr=draw.normal(n),
            target_ptr=draw.normal(n),
            loss_ptr=draw.zeros(1),
            n=n,
        ),
        dict(BLOCK=8),
        ("loss_ptr",),
        lambda x, target: (x - target).square().mean()[None],
    )
