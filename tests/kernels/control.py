"""Branches, early returns, helper functions, reductions by a function of one's own."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def early_return(x_ptr, lengths_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    """Rows of length 0 are left alone."""
    row = tl.program_id(0)
    length = tl.load(lengths_ptr + row)
    if length == 0:
        return
    cols = tl.arange(0, BLOCK)
    mask = cols < length
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / length
    tl.store(y_ptr + row * stride + cols, x * mean, mask=mask)


@triton.jit
def runtime_branch(x_ptr, y_ptr, n, squared, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    if squared > pid:
        y = x * x
    else:
        y = tl.sin(x) + x
    tl.store(y_ptr + offs, y, mask=mask)


@triton.jit
def affine(
    x_ptr,
    w_ptr,
    b_ptr,
    y_ptr,
    n_cols,
    BLOCK: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    """x w (+ b): the pointer is None where there is no bias."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask)
    y = x * tl.load(w_ptr + cols, mask=mask)
    if HAS_BIAS:
        y += tl.load(b_ptr + cols, mask=mask)
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


@triton.jit
def _polar(a, b):
    radius = tl.sqrt(a * a + b * b)
    return radius, a / radius, b / radius


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def unit_vectors(a_ptr, b_ptr, u_ptr, v_ptr, n, BLOCK: tl.constexpr):
    """A helper that returns a tuple, and two outputs."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=1.0)
    b = tl.load(b_ptr + offs, mask=mask, other=1.0)
    radius, cosine, sine = _polar(a, b)
    tl.store(u_ptr + offs, cosine * tl.log(radius), mask=mask)
    tl.store(v_ptr + offs, sine, mask=mask)


@triton.jit
def row_product(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=1.0)
    tl.store(y_ptr + row, tl.reduce(x, 0, _times))


@triton.jit
def kept_square(x_ptr, keep_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """A pointer to booleans chooses what passes."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    keep = tl.load(keep_ptr + offs, mask=mask, other=0)
    tl.store(y_ptr + offs, tl.where(keep, x * x, 0.0), mask=mask)
