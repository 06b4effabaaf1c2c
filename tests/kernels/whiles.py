"""Kernels whose loops turn as often as data decide."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def relax(x_ptr, w_ptr, budget_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Each program turns until its budget is spent."""
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    y = tl.load(x_ptr + pid * n + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    budget = tl.load(budget_ptr + pid).to(tl.float32)
    while budget > 0.5:
        y = tl.sin(y * w) + 0.5 * y
        budget -= 1.0
    tl.store(y_ptr + pid * n + cols, y, mask=mask)


@triton.jit
def ragged(x_ptr, start_ptr, y_ptr, D, BLOCK: tl.constexpr):
    """A recurrence along sequences of different lengths, laid end to end."""
    pid = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    mask = d < D
    begin = tl.load(start_ptr + pid)
    end = tl.load(start_ptr + pid + 1)
    h = tl.zeros((BLOCK,), tl.float32)
    for t in range(begin, end):
        x = tl.load(x_ptr + t * D + d, mask=mask, other=0.0).to(tl.float32)
        h = tl.sin(h + x) * 0.75 + x * h
    tl.store(y_ptr + pid * D + d, h, mask=mask)


@triton.jit
def counting(x_ptr, y_ptr, n, step, BLOCK: tl.constexpr):
    """A `while` that counts, and moves a pointer."""
    cols = tl.arange(0, BLOCK)
    at = x_ptr + cols
    acc = tl.full((BLOCK,), 1.0, tl.float32)
    i = 0
    while i <= n:
        acc = acc * tl.load(at).to(tl.float32)
        at += BLOCK
        i += step
    tl.store(y_ptr + cols, acc + i)


@triton.jit
def nested_while(x_ptr, turns_ptr, y_ptr, rows, BLOCK: tl.constexpr):
    """A `while` in a branch in a loop, whose state the outer turns hand on."""
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    h = tl.full((BLOCK,), 0.5, tl.float32)
    for row in range(rows):
        at = pid * rows + row
        x = tl.load(x_ptr + at * BLOCK + cols).to(tl.float32)
        left = tl.load(turns_ptr + at)
        if left > 1:
            while left > 0:
                h = tl.sin(h * x) + 0.25 * h
                left = left // 2
        else:
            h = h * x
    tl.store(y_ptr + pid * BLOCK + cols, h)
