"""Elementwise kernels: activations, gates, positional rotations."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def scale(x_ptr, w_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    w = tl.load(w_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, tl.exp(x) * w, mask=mask)


@triton.jit
def _silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def swiglu(a_ptr, b_ptr, c_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    a_ptr += row * stride
    b_ptr += row * stride
    c_ptr += row * stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    a = tl.load(a_ptr + cols, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask, other=0)
    c = _silu(a).to(b.dtype) * b
    tl.store(c_ptr + cols, c, mask=mask)


@triton.jit
def geglu_tanh(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + offs, mask=mask).to(tl.float32)
    inner = 0.7978845608028654 * (a + 0.044715 * a * a * a)
    gelu = 0.5 * a * (1 + libdevice.tanh(inner))
    tl.store(c_ptr + offs, gelu * b, mask=mask)


@triton.jit
def geglu_erf(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + offs, mask=mask).to(tl.float32)
    gelu = 0.5 * a * (1.0 + tl.erf(a * 0.7071067811865476))
    tl.store(c_ptr + offs, gelu * b, mask=mask)


@triton.jit
def bias_gelu(x_ptr, bias_ptr, y_ptr, n, n_cols, BLOCK: tl.constexpr):
    """The column of each element is decoded from its index."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    x += tl.load(bias_ptr + offs % n_cols, mask=mask)
    y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(y_ptr + offs, y, mask=mask)


@triton.jit
def dyt(x_ptr, alpha_ptr, w_ptr, b_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """tanh(alpha x) w + b, with one alpha for all."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    mask = cols < n_cols
    alpha = tl.load(alpha_ptr).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask).to(tl.float32)
    x = tl.load(x_ptr + row * stride + cols, mask=mask).to(tl.float32)
    y = libdevice.tanh(alpha * x) * w + b
    tl.store(y_ptr + row * stride + cols, y, mask=mask)


@triton.jit
def rope_pairs(x_ptr, cos_ptr, sin_ptr, y_ptr, stride, n_pairs, PAIRS: tl.constexpr):
    """Rotates neighbouring lanes (2k, 2k + 1) of a row by its angles."""
    row = tl.program_id(0)
    lanes = tl.arange(0, 2 * PAIRS)
    pairs = tl.arange(0, PAIRS)
    x = tl.load(x_ptr + row * stride + lanes, mask=lanes < 2 * n_pairs, other=0.0)
    angle = row * n_pairs + pairs
    cos = tl.load(cos_ptr + angle, mask=pairs < n_pairs, other=1.0)
    sin = tl.load(sin_ptr + angle, mask=pairs < n_pairs, other=0.0)
    a, b = tl.split(tl.reshape(x, (PAIRS, 2)))
    y = tl.join(a * cos - b * sin, b * cos + a * sin)
    y = tl.reshape(y, (2 * PAIRS,))
    tl.store(y_ptr + row * stride + lanes, y, mask=lanes < 2 * n_pairs)


@triton.jit
def rope_halves(q_ptr, cos_ptr, sin_ptr, stride, half, BLOCK: tl.constexpr):
    """Rotates the two halves of a row in place."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < half
    lower = q_ptr + row * stride + cols
    upper = lower + half
    a = tl.load(lower, mask=mask).to(tl.float32)
    b = tl.load(upper, mask=mask).to(tl.float32)
    cos = tl.load(cos_ptr + cols, mask=mask).to(tl.float32)
    sin = tl.load(sin_ptr + cols, mask=mask).to(tl.float32)
    tl.store(lower, a * cos - b * sin, mask=mask)
    tl.store(upper, b * cos + a * sin, mask=mask)


@triton.jit
def extremes(a_ptr, b_ptr, y_ptr, n, low, high, BLOCK: tl.constexpr):
    """Clamp, minimum, maximum and where, and loads whose dead lanes are undefined."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask)
    b = tl.load(b_ptr + offs, mask=mask)
    clamped = tl.clamp(a, low, high)
    narrow = tl.minimum(tl.maximum(a, b), a * b + 1.0)
    y = tl.where(a > b, clamped * b, narrow) + tl.abs(a - b)
    tl.store(y_ptr + offs, y, mask=mask)
