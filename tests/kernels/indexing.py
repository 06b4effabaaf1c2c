"""Kernels whose difficulty is in their addresses."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def embedding(weight_ptr, index_ptr, out_ptr, dim, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < dim
    index = tl.load(index_ptr + token)
    vector = tl.load(weight_ptr + index * dim + cols, mask=mask)
    tl.store(out_ptr + token * dim + cols, vector, mask=mask)


@triton.jit
def transposed_scale(
    x_ptr,
    y_ptr,
    rows,
    cols,
    x_stride_row,
    x_stride_col,
    y_stride_row,
    y_stride_col,
    factor,
    TILE_R: tl.constexpr,
    TILE_C: tl.constexpr,
):
    """y = factor xᵀ, a tile a program."""
    r = tl.program_id(0) * TILE_R + tl.arange(0, TILE_R)
    c = tl.program_id(1) * TILE_C + tl.arange(0, TILE_C)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(
        x_ptr + r[:, None] * x_stride_row + c[None, :] * x_stride_col, mask=inside
    )
    y = tl.trans(x * factor)
    y_ptrs = y_ptr + c[:, None] * y_stride_row + r[None, :] * y_stride_col
    tl.store(y_ptrs, y, mask=(c[:, None] < cols) & (r[None, :] < rows))


@triton.jit
def strided_square(
    x_ptr,
    y_ptr,
    n,
    n_cols,
    x_stride_0,
    x_stride_1,
    y_stride_0,
    y_stride_1,
    BLOCK: tl.constexpr,
):
    """y = x², row and column decoded from the element's number."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    i, j = offs // n_cols, offs % n_cols
    x = tl.load(x_ptr + i * x_stride_0 + j * x_stride_1, mask=mask)
    tl.store(y_ptr + i * y_stride_0 + j * y_stride_1, x * x, mask=mask)


@triton.jit
def grid_scale(
    x_ptr,
    s_ptr,
    y_ptr,
    stride_b,
    stride_h,
    stride_m,
    heads,
    size,
    BLOCK: tl.constexpr,
):
    """y[b, h, m] = s[b, h] x[b, h, m] on a grid of three axes."""
    block, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    m = block * BLOCK + tl.arange(0, BLOCK)
    offset = batch * stride_b + head * stride_h + m * stride_m
    x = tl.load(x_ptr + offset, mask=m < size, other=0.0)
    s = tl.load(s_ptr + batch * heads + head)
    tl.store(y_ptr + offset, x * s, mask=m < size)


@triton.jit
def row_maximum(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    """y = max(x) w[argmax(x)], row by row."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"))
    best, where = tl.max(x, axis=0, return_indices=True)
    tl.store(y_ptr + row, best * tl.load(w_ptr + where))
