"""Kernels whose helpers have derivatives of their own, true ones and others."""

from __future__ import annotations

import triton
import triton.language as tl

import undertow


@undertow.custom_vjp
@triton.jit
def softplus(x):
    return tl.where(x > 20, x, tl.log(1 + tl.exp(x)))


@softplus.vjp
@triton.jit
def softplus_vjp(x, d_y):
    return d_y * tl.sigmoid(x)


@triton.jit
def softplus_rows(x_ptr, w_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """A shared weight, so that lanes are summed behind the rule."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask).to(tl.float32)
    w = tl.load(w_ptr).to(tl.float32)
    y = softplus(x * w)
    tl.store(y_ptr + row * stride + cols, y, mask=mask)


@undertow.custom_vjp
@triton.jit
def clip_gradient(x, bound: tl.constexpr):
    return x


@clip_gradient.vjp
@triton.jit
def clip_gradient_vjp(x, bound: tl.constexpr, d_y):
    return tl.clamp(d_y, -bound, bound)


@undertow.custom_vjp
@triton.jit
def straight_through(x):
    return tl.floor(x + 0.5).to(tl.bfloat16)


@straight_through.vjp
@triton.jit
def straight_through_vjp(x, d_y):
    return d_y


@triton.jit
def quantised(x_ptr, s_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """A rule that is not the derivative, on a value that is rounded."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    scale = tl.load(s_ptr).to(tl.float32)
    q = straight_through(clip_gradient(x / scale, bound=0.5))
    tl.store(y_ptr + offs, q.to(tl.float32) * scale, mask=mask)


@undertow.custom_vjp
@triton.jit
def affine(x, scale, shift, power, DOUBLE: tl.constexpr = False):
    """Two blocks of floats, from a block, a number, a literal and an integer."""
    factor = scale * (2.0 if DOUBLE else 1.0)
    for _ in range(power):
        factor *= scale
    return x * factor + shift, tl.maximum(x, 0.0)


@affine.vjp
@triton.jit
def affine_vjp(x, scale, shift, power, DOUBLE: tl.constexpr, d_y, d_z):
    below = 2.0 if DOUBLE else 1.0
    for _ in range(power):
        below *= scale
    d_x = d_y * below * scale + tl.where(x > 0, d_z, 0.0)
    return d_x, tl.sum(d_y * x, 0) * below * (power + 1), tl.sum(d_y, 0)


@triton.jit
def mixed(x_ptr, s_ptr, y_ptr, z_ptr, stride, n_cols, power, BLOCK: tl.constexpr):
    """One rule, called with a literal and without, of which one output goes unused."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask).to(tl.float32)
    scale = tl.load(s_ptr + row).to(tl.float32)
    y, z = affine(x, scale, scale * scale, power, DOUBLE=True)
    more, _ = affine(y * z, 0.5, shift=1.5, power=0)
    tl.store(y_ptr + row * stride + cols, more, mask=mask)
    tl.store(z_ptr + row * stride + cols, z, mask=mask)


@triton.jit
def gated_recurrence(x_ptr, h_ptr, y_ptr, n, steps, BLOCK: tl.constexpr):
    """A rule in a loop with a tape, under a branch."""
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n
    h = tl.load(h_ptr + lanes, mask=mask).to(tl.float32)
    for t in range(steps):
        x = tl.load(x_ptr + t * n + lanes, mask=mask).to(tl.float32)
        if t % 2 == 0:
            h = softplus(h * x)
        else:
            h += x
        tl.store(y_ptr + t * n + lanes, h, mask=mask)


@triton.jit
def detached(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """x · sg(sigmoid(x)) + sg(x)², of which the last term has no gradient."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    gate = undertow.stop_gradient(tl.sigmoid(x))
    fixed = undertow.stop_gradient(x)
    tl.store(y_ptr + offs, x * gate + fixed * fixed, mask=mask)
