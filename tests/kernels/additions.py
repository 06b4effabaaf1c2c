"""Kernels that add to what they were given, by `tl.atomic_add`."""

import triton
import triton.language as tl


@triton.jit
def column_sums(
    x_ptr, y_ptr, rows, cols, stride, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """y += the sum of exp(x) over rows; programs share the columns."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLS + tl.arange(0, COLS)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + r[:, None] * stride + c[None, :], mask=inside)
    part = tl.sum(tl.where(inside, tl.exp(x.to(tl.float32)), 0.0), axis=0)
    tl.atomic_add(y_ptr + c, part, mask=c < cols, sem="relaxed", scope="cta")


@triton.jit
def split_k(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """c += a @ b, the sum over k shared by SPLIT programs."""
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(tl.program_id(2) * BLOCK_K, k, BLOCK_K * SPLIT):
        p = start + tl.arange(0, BLOCK_K)
        a_mask = (i[:, None] < m) & (p[None, :] < k)
        b_mask = (p[:, None] < k) & (j[None, :] < n)
        a = tl.load(a_ptr + i[:, None] * k + p[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + p[:, None] * n + j[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    inside = (i[:, None] < m) & (j[None, :] < n)
    tl.atomic_add(c_ptr + i[:, None] * n + j[None, :], total, mask=inside)


@triton.jit
def weighted_histogram(
    x_ptr, bin_ptr, sum_ptr, count_ptr, n, bins, BLOCK: tl.constexpr
):
    """Sums of x² by bin, and how many there are; bins outside are left out."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    where = tl.load(bin_ptr + offs, mask=offs < n, other=-1)
    valid = (where >= 0) & (where < bins)
    tl.atomic_add(sum_ptr + where, x * x, mask=valid, scope="sys")
    tl.atomic_add(count_ptr + where, 1, mask=valid)


@triton.jit
def bags(table_ptr, index_ptr, weight_ptr, y_ptr, length, dim, BLOCK: tl.constexpr):
    """y[index[i]] += weight[i] table[i], a row a turn."""
    cols = tl.arange(0, BLOCK)
    mask = cols < dim
    first = tl.program_id(0) * length
    for i in range(first, first + length):
        row = tl.load(table_ptr + i * dim + cols, mask=mask)
        weight = tl.load(weight_ptr + i).to(tl.float32)
        if weight > 0:
            to = tl.load(index_ptr + i) * dim
            tl.atomic_add(y_ptr + to + cols, row * tl.exp(weight), mask=mask)


@triton.jit
def mean_loss(x_ptr, target_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    """Every program adds its part to one number."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    target = tl.load(target_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    error = x - target
    tl.atomic_add(loss_ptr, tl.sum(error * error, axis=0) / n)
