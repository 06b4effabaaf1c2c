"""Calls of helpers that Triton does not inline: it says so, or they return early."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _gain(s, least):
    if s < least:
        return least * 0.5
    s = s * s
    if s > 2.0:
        return tl.sqrt(s) + 1.0
    return s * 3.0


@triton.jit
def gained_rows(x_ptr, s_ptr, y_ptr, rows, n_cols, BLOCK: tl.constexpr):
    """A helper that returns early, under a branch in a loop."""
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        s = tl.load(s_ptr + row)
        y = tl.load(x_ptr + row * n_cols + cols, mask=mask)
        if s > 0.0:
            y = y * _gain(s, 0.5)
        tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


@triton.jit(noinline=True)
def _both(x_ptr, at):
    x = tl.load(x_ptr + at)
    return x * x, tl.sin(x)


@triton.jit(noinline=True)
def _put(y_ptr, at, a, b):
    if a > b:
        tl.store(y_ptr + at, a * b)
        return
    tl.store(y_ptr + at, _gain(a, b))


@triton.jit
def apart(x_ptr, y_ptr):
    """Helpers that load and store, and call another one."""
    at = tl.program_id(0)
    square, sine = _both(x_ptr, at)
    _put(y_ptr, at, square, sine)
