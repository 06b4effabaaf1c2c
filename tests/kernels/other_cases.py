# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of kernels with addresses or branches of interest."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels import control, indexing
from kernels.case import Case, blocks, case
from kernels.draw import Draw


@case("repeated", tokens=9, rows=4, dim=27)
def embedding(draw: Draw, tokens: int, rows: int, dim: int) -> Case:
    return Case(
        indexing.embedding,
        (tokens,),
        dict(
            weight_ptr=draw.normal(rows, dim),
            index_ptr=draw.integers(tokens, high=rows),
            out_ptr=draw.output(tokens, dim),
            dim=dim,
        ),
        dict(BLOCK=32),
        ("out_ptr",),
        lambda weight, index: weight[index],
    )


@case("contiguous", rows=13, cols=21, x_stride=(21, 1), y_stride=(13, 1))
@case("strided", rows=13, cols=21, x_stride=(1, 15), y_stride=(30, 2))
def transposed_scale(
    draw: Draw,
    rows: int,
    cols: int,
    x_stride: tuple[int, int],
    y_stride: tuple[int, int],
) -> Case:
    return Case(
        indexing.transposed_scale,
        (blocks(rows, 8), blocks(cols, 16)),
        dict(
            x_ptr=draw.normal(rows, cols, stride=x_stride),
            y_ptr=draw.output(cols, rows, stride=y_stride),
            rows=rows,
            cols=cols,
            x_stride_row=x_stride[0],
            x_stride_col=x_stride[1],
            y_stride_row=y_stride[0],
            y_stride_col=y_stride[1],
            factor=1.75,
        ),
        dict(TILE_R=8, TILE_C=16),
        ("y_ptr",),
        lambda x: 1.75 * x.T,
    )


@case("padded", rows=7, cols=11, x_stride=(12, 1), y_stride=(1, 9))
@case("strided", rows=5, cols=13, x_stride=(2, 11), y_stride=(13, 1))
def strided_square(
    draw: Draw,
    rows: int,
    cols: int,
    x_stride: tuple[int, int],
    y_stride: tuple[int, int],
) -> Case:
    return Case(
        indexing.strided_square,
        (blocks(rows * cols, 32),),
        dict(
            x_ptr=draw.normal(rows, cols, stride=x_stride),
            y_ptr=draw.output(rows, cols, stride=y_stride),
            n=rows * cols,
            n_cols=cols,
            x_stride_0=x_stride[0],
            x_stride_1=x_stride[1],
            y_stride_0=y_stride[0],
            y_stride_1=y_stride[1],
        ),
        dict(BLOCK=32),
        ("y_ptr",),
        lambda x: x.square(),
    )


@case("contiguous", batch=2, heads=3, size=37, stride=(111, 37, 1))
@case("permuted", batch=2, heads=3, size=20, stride=(1, 2, 6))
def grid_scale(
    draw: Draw, batch: int, heads: int, size: int, stride: tuple[int, int, int]
) -> Case:
    return Case(
        indexing.grid_scale,
        (blocks(size, 16), heads, batch),
        dict(
            x_ptr=draw.normal(batch, heads, size, stride=stride),
            s_ptr=draw.normal(batch, heads),
            y_ptr=draw.output(batch, heads, size, stride=stride),
            stride_b=stride[0],
            stride_h=stride[1],
            stride_m=stride[2],
            heads=heads,
            size=size,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        lambda x, s: x * s[..., None],
    )


@case("odd", rows=5, cols=27)
def row_maximum(draw: Draw, rows: int, cols: int) -> Case:
    def reference(x: Tensor, w: Tensor) -> Tensor:
        return x.amax(-1) * w[x.argmax(-1)]

    x = torch.stack(
        [torch.randperm(cols, generator=draw.generator) for _ in range(rows)]
    )
    return Case(
        indexing.row_maximum,
        (rows,),
        dict(
            x_ptr=(x.double() - cols / 2) / 8,
            w_ptr=draw.normal(cols),
            y_ptr=draw.output(rows),
            n_cols=cols,
        ),
        dict(BLOCK=32),
        ("y_ptr",),
        reference,
    )


@case("ragged", rows=6, cols=13, stride=20)
def early_return(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    lengths = draw.integers(rows, high=cols + 1).to(torch.int32)
    lengths[2] = 0

    def reference(x: Tensor, lengths: Tensor) -> Tensor:
        inside = torch.arange(cols) < lengths[:, None]
        mean = torch.where(inside, x, 0.0).sum(-1) / lengths.clamp(min=1)
        return torch.where(inside, x * mean[:, None], torch.nan)

    return Case(
        control.early_return,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            lengths_ptr=lengths,
            y_ptr=draw.output(rows, cols, stride=(stride, 1)),
            stride=stride,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )


@case("squared", n=100, squared=9)
@case("sine", n=100, squared=0)
@case("both", n=100, squared=2)
def runtime_branch(draw: Draw, n: int, squared: int) -> Case:
    return Case(
        control.runtime_branch,
        (blocks(n, 32),),
        dict(
            x_ptr=draw.normal(n),
            y_ptr=draw.output(n),
            n=n,
            squared=squared,
        ),
        dict(BLOCK=32),
        ("y_ptr",),
        lambda x: torch.where(torch.arange(n) // 32 < squared, x.square(), x.sin() + x),
        precise=True,
    )


@case("biased", rows=5, cols=27, biased=True)
@case("plain", rows=5, cols=27, biased=False)
def affine(draw: Draw, rows: int, cols: int, biased: bool) -> Case:
    return Case(
        control.affine,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols),
            w_ptr=draw.normal(cols),
            b_ptr=draw.normal(cols) if biased else None,
            y_ptr=draw.output(rows, cols),
            n_cols=cols,
        ),
        dict(BLOCK=32, HAS_BIAS=biased),
        ("y_ptr",),
        lambda x, w, b=0.0: x * w + b,
    )


@case("odd", n=77)
def unit_vectors(draw: Draw, n: int) -> Case:
    def reference(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        radius = torch.hypot(a, b)
        return a / radius * radius.log(), b / radius

    return Case(
        control.unit_vectors,
        (blocks(n, 32),),
        dict(
            a_ptr=draw.normal(n),
            b_ptr=draw.normal(n),
            u_ptr=draw.output(n),
            v_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=32),
        ("u_ptr", "v_ptr"),
        reference,
        precise=True,
    )


@case("odd", rows=5, cols=7)
def row_product(draw: Draw, rows: int, cols: int) -> Case:
    return Case(
        control.row_product,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols),
            y_ptr=draw.output(rows),
            n_cols=cols,
        ),
        dict(BLOCK=8),
        ("y_ptr",),
        lambda x: x.prod(-1),
        precise=True,
    )


@case("odd", n=50)
def kept_square(draw: Draw, n: int) -> Case:
    return Case(
        control.kept_square,
        (blocks(n, 32),),
        dict(
            x_ptr=draw.normal(n),
            keep_ptr=draw.integers(n, high=2) != 0,
            y_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=32),
        ("y_ptr",),
        lambda x, keep: torch.where(keep, x.square(), 0.0),
    )
