"""Kernels that look like softmax, in which the maximum subtracted has a derivative."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def columns_of_rows(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """Sums over columns of what is relative to the maximum of its row."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i[:, None] * BLOCK + i[None, :])
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    total = tl.sum(e, axis=0)
    tl.store(y_ptr + i, total / tl.sum(total, axis=0))


@triton.jit
def contracted_over_rows(x_ptr, v_ptr, y_ptr, BLOCK: tl.constexpr):
    """The same through a matrix product."""
    i = tl.arange(0, BLOCK)
    offs = i[:, None] * BLOCK + i[None, :]
    x = tl.load(x_ptr + offs)
    v = tl.load(v_ptr + offs)
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    mixed = tl.dot(tl.trans(e), v, input_precision="ieee")
    tl.store(y_ptr + offs, mixed / tl.sum(e, axis=0)[:, None])


@triton.jit
def unscaled_turns(x_ptr, v_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """Sums over turns, each relative to its own maximum."""
    total = 0.0
    weighted = 0.0
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)
        v = tl.load(v_ptr + offs)
        e = tl.exp(x - tl.max(x, axis=0))
        total += tl.sum(e, axis=0)
        weighted += tl.sum(e * v, axis=0)
    tl.store(y_ptr, weighted / total)


@triton.jit
def ratio_of_turns(x_ptr, y_ptr, T, BLOCK: tl.constexpr):
    """Each turn divides the one before it, which has another maximum."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    before = tl.zeros((BLOCK,), tl.float32)
    for turn in range(T):
        x = tl.load(x_ptr + turn * BLOCK + offs)
        e = tl.exp(x - tl.max(x, axis=0))
        total += before / e
        before = e
    tl.store(y_ptr + offs, total)


@triton.jit
def sum_of_logcumsumexp(x_ptr, y_ptr, T, BLOCK: tl.constexpr):
    """Uses the running maximum and sum in the very loop that builds them."""
    offs = tl.arange(0, BLOCK)
    top = tl.zeros((BLOCK,), tl.float32) - 1e38
    scaled = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for turn in range(T):
        x = tl.load(x_ptr + turn * BLOCK + offs)
        higher = tl.maximum(top, x)
        scaled = scaled * tl.exp(top - higher) + tl.exp(x - higher)
        top = higher
        total += top + tl.log(scaled)
    tl.store(y_ptr + offs, total)


@triton.jit
def masked_scores(x_ptr, v_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """Attention of one query that sees no key, with a sum that starts at one."""
    top = -1e30
    total = 1.0
    weighted = 0.0
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.where(offs < 0, tl.load(x_ptr + offs), -1e30)
        v = tl.load(v_ptr + offs)
        higher = tl.maximum(top, tl.max(x, axis=0))
        scale = tl.exp(top - higher)
        e = tl.exp(x - higher)
        total = total * scale + tl.sum(e, axis=0)
        weighted = weighted * scale + tl.sum(e * v, axis=0)
        top = higher
    tl.store(y_ptr, weighted / total)
