"""Kernels that reduce and scan by functions of their own."""

import triton
import triton.language as tl


@triton.jit
def _welford(mean1, m2_1, n1, mean2, m2_2, n2):
    n = n1 + n2
    share = tl.where(n > 0, n2 / n, 0.0)
    delta = mean2 - mean1
    return mean1 + delta * share, m2_1 + m2_2 + delta * delta * n1 * share, n


@triton.jit
def welford_norm(x_ptr, y_ptr, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Layer norm whose moments are merged as Welford's, along the first axis."""
    rows = tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    offsets = cols[:, None] + rows[None, :] * n_cols
    mask = (cols < n_cols)[:, None]
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    ones = tl.broadcast_to(mask.to(tl.float32), (BLOCK, ROWS))
    mean, m2, n = tl.reduce((x, tl.zeros_like(x), ones), 0, _welford)
    y = (x - mean[None, :]) * tl.rsqrt(m2 / n + 1e-5)[None, :]
    tl.store(y_ptr + offsets, y, mask=mask)


@triton.jit
def _maximum_and_value(a, x, b, y):
    """Passes a NaN on, and the first of equals."""
    first = (a >= b) | (a != a)
    return tl.where(first, a, b), tl.where(first, x, y)


@triton.jit
def value_of_largest(x_ptr, v_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n
    x = tl.load(x_ptr + lanes, mask=mask, other=float("-inf")).to(tl.float32)
    v = tl.load(v_ptr + lanes, mask=mask).to(tl.float32)
    largest, value = tl.reduce((x, v * v), 0, _maximum_and_value)
    tl.store(y_ptr, largest * value)


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def product_of_all(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=1.0).to(tl.float32)
    tl.store(y_ptr, tl.reduce(x, 0, _product))


@triton.jit
def prefix_products(
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
    x = tl.load(x_ptr + offsets, mask=mask, other=1.0).to(tl.float32)
    y = tl.exp(tl.cumprod(x, axis=1, reverse=REVERSE))
    tl.store(y_ptr + offsets, y, mask=mask)


@triton.jit
def _step(a1, x1, a2, x2):
    return a1 * a2, a2 * x1 + x2


@triton.jit
def linear_recurrence(
    a_ptr,
    x_ptr,
    h_ptr,
    n_steps,
    REVERSE: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """h[t] = a[t] * h[t - 1] + x[t]; the steps past the last one hold anything."""
    steps = tl.arange(0, BLOCK)
    channels = tl.arange(0, CHANNELS)
    offsets = steps[:, None] * CHANNELS + channels[None, :]
    mask = (steps < n_steps)[:, None]
    if REVERSE:
        a = tl.load(a_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    else:
        a = tl.load(a_ptr + offsets, mask=mask).to(tl.float32)
        x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    _, h = tl.associative_scan((a, x), 0, _step, reverse=REVERSE)
    tl.store(h_ptr + offsets, h, mask=mask)


@triton.jit
def _log_add(a, b):
    m = tl.maximum(a, b)
    return m + tl.log(tl.exp(a - m) + tl.exp(b - m))


@triton.jit
def prefix_log_sums(
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
    x = tl.load(x_ptr + offsets, mask=mask, other=-1e30).to(tl.float32)
    y = tl.associative_scan(x, 1, _log_add, reverse=REVERSE)
    tl.store(y_ptr + offsets, y, mask=mask)
