"""Kernels that store what the backward would take a loop to compute again."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def layer_norm_with_statistics(
    x_ptr, w_ptr, y_ptr, mean_ptr, rstd_ptr, n_cols, eps, BLOCK: tl.constexpr
):
    """Rows of any length, in three passes."""
    row = tl.program_id(0)
    x_ptr += row * n_cols
    y_ptr += row * n_cols
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n_cols
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        centred = tl.where(cols < n_cols, x - mean, 0.0)
        squares += centred * centred
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n_cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        w = tl.load(w_ptr + cols, mask=mask)
        x = tl.load(x_ptr + cols, mask=mask).to(tl.float32)
        tl.store(y_ptr + cols, (x - mean) * rstd * w, mask=mask)


@triton.jit
def norms_of_tiles(
    x_ptr, y_ptr, rstd_ptr, n_rows, n_cols, eps, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """Several rows a program, of which the last ones may hang over the edge."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    live = rows < n_rows
    squares = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, n_cols, COLS):
        cols = start + tl.arange(0, COLS)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        squares += x * x
    rstd = tl.rsqrt(tl.sum(squares, axis=1) / n_cols + eps)
    tl.store(rstd_ptr + rows, rstd, mask=live)
    for start in range(0, n_cols, COLS):
        cols = start + tl.arange(0, COLS)
        mask = live[:, None] & (cols < n_cols)[None, :]
        at = rows[:, None] * n_cols + cols[None, :]
        x = tl.load(x_ptr + at, mask=mask).to(tl.float32)
        tl.store(y_ptr + at, x * rstd[:, None], mask=mask)


@triton.jit
def norm_and_total(
    x_ptr, total_ptr, norm_ptr, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """Rows beyond the edge are not stored, but count: each adds the root of 4."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    squares = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, n_cols, COLS):
        cols = start + tl.arange(0, COLS)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        at = rows[:, None] * n_cols + cols[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        squares += x * x
    norm = tl.sqrt(tl.sum(squares, axis=1) + 4.0)
    tl.store(norm_ptr + rows, norm, mask=rows < n_rows)
    tl.store(total_ptr + tl.program_id(0), tl.sum(norm * norm * norm, axis=0))


@triton.jit
def attention_base_2(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, T, D, scale, GROUP,
    BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Grouped heads of any size, powers of two, and a logarithm in base e."""
    head = tl.program_id(1)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    inside = (m[:, None] < T) & (d[None, :] < D)
    q = tl.load(q_ptr + head * T * D + m[:, None] * D + d[None, :], mask=inside)
    q = tl.where(d[None, :] < D, q, 0.0)
    kv = head // GROUP * T * D
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.full((BM,), 1.0, tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    for first in range(0, T, BN):
        n = first + tl.arange(0, BN)
        at = kv + n[:, None] * D + d[None, :]
        valid = (n[:, None] < T) & (d[None, :] < D)
        k = tl.load(k_ptr + at, mask=valid, other=0.0)
        v = tl.load(v_ptr + at, mask=valid, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * (
            scale * 1.4426950408889634
        )
        s = tl.where((n < T)[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        alpha = tl.exp2(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        top = new
    inverse = 1.0 / total
    at = head * T * D + m[:, None] * D + d[None, :]
    o = (acc * inverse[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + at, o, mask=inside)
    lse = (top + tl.log2(total)) * 0.6931471805599453
    tl.store(lse_ptr + head * T + m, lse, mask=m < T)


@triton.jit
def cross_entropy_with_lse(
    x_ptr, label_ptr, loss_ptr, lse_ptr, n_cols, smoothing, BLOCK: tl.constexpr
):
    """One pass over the classes of a row."""
    row = tl.program_id(0)
    label = tl.load(label_ptr + row)
    x_ptr += row * n_cols
    top = -float("inf")
    total = 0.0
    mean = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + cols, mask=mask, other=-float("inf")).to(tl.float32)
        mean += tl.sum(tl.where(mask, x, 0.0), axis=0)
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    lse = tl.log(total) + top
    picked = tl.load(x_ptr + label).to(tl.float32)
    even = lse - mean / n_cols
    tl.store(loss_ptr + row, (1 - smoothing) * (lse - picked) + smoothing * even)
    tl.store(lse_ptr + row, lse)


@triton.jit
def rows_in_turn(x_ptr, y_ptr, norm_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    """A few programs, each with many rows, and a row in several blocks."""
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        squares = 0.0
        for start in range(0, n_cols, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
            x = x.to(tl.float32)
            squares += tl.sum(x * x, axis=0)
        norm = tl.sqrt(squares + 1.0)
        tl.store(norm_ptr + row, norm)
        for start in range(0, n_cols, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
            tl.store(y_ptr + row * n_cols + cols, x / norm, mask=cols < n_cols)
