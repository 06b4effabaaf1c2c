"""Kernels that the tests launch, and what they compute in PyTorch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from undertow import differentiable


@differentiable
@triton.jit
def scale(x_ptr, w_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    w = tl.load(w_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, x * w + tl.exp(x), mask=mask)


@differentiable
@triton.jit
def rows(x_ptr, w_ptr, y_ptr, x_row, x_col, y_row, y_col, n_cols, BLOCK: tl.constexpr):
    """y = sin(x) · w, row by row, with every stride given."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row + cols * x_col, mask=mask).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * y_row + cols * y_col, tl.sin(x) * w, mask=mask)


@differentiable
@triton.jit
def rms_norm(x_ptr, w_ptr, y_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(y_ptr + row * stride + cols, x * rstd * w, mask=mask)


@differentiable
@triton.jit
def softmax(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * stride + cols, e / tl.sum(e, axis=0), mask=mask)


@differentiable
@triton.jit
def rope(q_ptr, cos_ptr, sin_ptr, stride, half, BLOCK: tl.constexpr):
    """Rotates in place."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < half
    a = tl.load(q_ptr + row * stride + cols, mask=mask)
    b = tl.load(q_ptr + row * stride + half + cols, mask=mask)
    c = tl.load(cos_ptr + cols, mask=mask)
    s = tl.load(sin_ptr + cols, mask=mask)
    tl.store(q_ptr + row * stride + cols, a * c - b * s, mask=mask)
    tl.store(q_ptr + row * stride + half + cols, b * c + a * s, mask=mask)


@differentiable
@triton.jit
def parts(x_ptr, a_ptr, b_ptr, seen_ptr, n, BLOCK: tl.constexpr):
    """Two outputs, and integers that have no derivative."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(a_ptr + offs, 2 * x, mask=mask)
    tl.store(b_ptr + offs, x * x, mask=mask)
    tl.store(seen_ptr + offs, (x > 0).to(tl.int32), mask=mask)


@differentiable
@triton.jit
def fill(x_ptr, y_ptr, begin, end, BLOCK: tl.constexpr):
    """y[begin:end] = 3 x[begin:end]; the rest stays."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (offs >= begin) & (offs < end)
    tl.store(y_ptr + offs, 3 * tl.load(x_ptr + offs, mask=mask), mask=mask)


@differentiable
@triton.jit
def options(
    x_ptr, w_ptr, y_ptr, n, factor, doubled, SHIFT: tl.constexpr = 0.0,
    BLOCK: tl.constexpr = 32,
):  # fmt: skip
    """y = x · w · factor + SHIFT, twice that if `doubled`; no w is 1."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    y = tl.load(x_ptr + offs, mask=mask) * factor
    if w_ptr is not None:
        y *= tl.load(w_ptr + offs, mask=mask)
    if doubled:
        y *= 2
    tl.store(y_ptr + offs, y + SHIFT, mask=mask)


@differentiable
@triton.jit
def gather(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    index = tl.load(index_ptr + offs, mask=mask, other=0)
    x = tl.load(x_ptr + index, mask=mask)
    tl.store(y_ptr + offs, x * x, mask=mask)


@differentiable
@triton.jit
def assembly(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """A copy, which has no derivative as it stands."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    y = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=False, pack=1
    )
    tl.store(y_ptr + offs, y, mask=offs < n)


def launch_scale(x: Tensor, w: Tensor, y: Tensor, block: int = 32) -> Tensor:
    n = y.numel()
    scale[(triton.cdiv(n, block),)](x, w, y, n, BLOCK=block)
    return y


def launch_rows(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
    n_rows, n_cols = x.shape
    block = triton.next_power_of_2(n_cols)
    strides = (*x.stride(), *y.stride())
    rows[(n_rows,)](x, w, y, *strides, n_cols, BLOCK=block)
    return y


def rms_reference(x: Tensor, w: Tensor, eps: float = 1e-5) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w
