"""Kernels that move elements between lanes, or add up along them."""

import triton
import triton.language as tl


@triton.jit
def palindrome(x_ptr, y_ptr, n_cols, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    offsets = rows[:, None] * stride + cols[None, :]
    mask = (cols < n_cols)[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = x * tl.flip(tl.exp(x), 1)
    tl.store(y_ptr + offsets, y, mask=mask)


@triton.jit
def ranked(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"))
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    best = tl.sort(x.to(tl.float32), descending=True)
    tl.store(y_ptr + row * n_cols + cols, w * best * best, mask=mask)


@triton.jit
def best_few(x_ptr, y_ptr, n_cols, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
    best = tl.topk(x.to(tl.float32), K)
    tl.store(y_ptr + row * K + tl.arange(0, K), tl.exp(best))


@triton.jit
def permuted(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n
    x = tl.load(x_ptr + lanes, mask=mask).to(tl.float32)
    index = tl.load(index_ptr + lanes, mask=mask, other=0)
    y = tl.gather(x * x, index, 0) * tl.exp(x)
    tl.store(y_ptr + lanes, y, mask=mask)


@triton.jit
def prefix_sums(
    x_ptr,
    y_ptr,
    n_cols,
    REVERSE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    rows = tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    offsets = rows[:, None] * n_cols + cols[None, :]
    mask = (cols < n_cols)[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = tl.exp(tl.cumsum(x * x, axis=1, reverse=REVERSE))
    tl.store(y_ptr + offsets, y, mask=mask)


@triton.jit
def decay(x_ptr, w_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The lanes past `n` hold anything, and come after those that are stored."""
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n
    x = tl.load(x_ptr + lanes, mask=mask).to(tl.float32)
    w = tl.load(w_ptr)
    tl.store(y_ptr + lanes, x * tl.exp(-tl.cumsum(w * x * x, 0)), mask=mask)
