"""Kernels with loops and matrix products."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    a_stride_m, a_stride_k, b_stride_k, b_stride_n, c_stride_m, c_stride_n,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """A leaky product, with programs in groups of rows and wrapped offsets."""
    pid = tl.program_id(0)
    rows = tl.cdiv(M, BM)
    in_group = GROUP * tl.cdiv(N, BN)
    first = pid // in_group * GROUP
    size = min(rows - first, GROUP)
    pid_m = first + pid % in_group % size
    pid_n = pid % in_group // size
    m = (pid_m * BM + tl.arange(0, BM)) % M
    n = (pid_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * a_stride_m + k[None, :] * a_stride_k
    b_ptrs = b_ptr + k[:, None] * b_stride_k + n[None, :] * b_stride_n
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        a = tl.load(a_ptrs, mask=k[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BK * a_stride_k
        b_ptrs += BK * b_stride_k
    c = tl.where(acc > 0, acc, 0.125 * acc)
    out_m = pid_m * BM + tl.arange(0, BM)
    out_n = pid_n * BN + tl.arange(0, BN)
    mask = (out_m[:, None] < M) & (out_n[None, :] < N)
    c_ptrs = c_ptr + out_m[:, None] * c_stride_m + out_n[None, :] * c_stride_n
    tl.store(c_ptrs, c, mask=mask)


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    """Rows longer than a block: three loops over each."""
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
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
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / n_cols + eps)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + cols, mask=mask).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=mask)
        b = tl.load(b_ptr + cols, mask=mask)
        tl.store(y_ptr + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def online_softmax(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """One pass for maximum and sum, one for the result."""
    row = tl.program_id(0)
    m = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(
            x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf")
        ).to(tl.float32)
        new = tl.maximum(m, tl.max(x, axis=0))
        total = total * tl.exp(m - new) + tl.sum(tl.exp(x - new), axis=0)
        m = new
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(
            x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf")
        ).to(tl.float32)
        y = tl.exp(x - m) / total
        tl.store(y_ptr + row * stride + cols, y, mask=cols < n_cols)


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, T, scale,
    CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Online softmax over blocks of keys; causal programs stop at the diagonal."""
    start = tl.program_id(0)
    head = tl.program_id(1) * T * D
    m = start * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    inside = m[:, None] < T
    q = tl.load(q_ptr + head + m[:, None] * D + d[None, :], mask=inside, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = tl.minimum((start + 1) * BM, T) if CAUSAL else T
    for first in range(0, end, BN):
        n = first + tl.arange(0, BN)
        valid = n[:, None] < T
        k = tl.load(k_ptr + head + n[:, None] * D + d[None, :], mask=valid, other=0.0)
        v = tl.load(v_ptr + head + n[:, None] * D + d[None, :], mask=valid, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        keep = n[None, :] < T
        if CAUSAL:
            keep = keep & (m[:, None] >= n[None, :])
        s = tl.where(keep, s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        alpha = tl.exp(top - new)
        p = tl.exp(s - new[:, None])
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        top = new
    o = acc / total[:, None]
    tl.store(o_ptr + head + m[:, None] * D + d[None, :], o, mask=inside)
    lse = top + tl.log(total)
    tl.store(lse_ptr + tl.program_id(1) * T + m, lse, mask=m < T)


@triton.jit
def recurrence(x_ptr, g_ptr, h_ptr, y_ptr, T, D, BLOCK: tl.constexpr):
    """A gated recurrence that is not linear in its state; the first state is given."""
    batch = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < D
    h = tl.load(h_ptr + batch * D + d, mask=mask).to(tl.float32)
    for t in range(T):
        at = (batch * T + t) * D + d
        x = tl.load(x_ptr + at, mask=mask).to(tl.float32)
        g = tl.sigmoid(tl.load(g_ptr + at, mask=mask).to(tl.float32))
        h = g * h + (1 - g) * tl.sin(h * x)
        tl.store(y_ptr + at, h, mask=mask)


@triton.jit
def loop_in_branch(x_ptr, y_ptr, n, flag, BLOCK: tl.constexpr):
    """A loop that only some programs run, over windows that overlap."""
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + pid * BLOCK + offs).to(tl.float32)
    if pid > flag:
        for i in tl.range(0, n, num_stages=2):
            acc += tl.load(x_ptr + i + offs).to(tl.float32) * 0.5
    else:
        acc = -acc
    tl.store(y_ptr + pid * BLOCK + offs, acc)


@triton.jit
def nested(x_ptr, w_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    """A loop in a loop, with a branch: each column's state lives as long as a row."""
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(n_rows):
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask).to(tl.float32)
        state = x
        for turn in range(row % 3 + 1):
            w = tl.load(w_ptr + turn * n_cols + cols, mask=mask).to(tl.float32)
            state = tl.sin(state * w)
            if turn == 1:
                state = state + x * x
        total += state
    tl.store(y_ptr + cols, total, mask=mask)


@triton.jit
def truncated_turns(x_ptr, y_ptr, T, BLOCK: tl.constexpr):
    """Turns counted by a quotient that Triton truncates towards zero."""
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), tl.float32) + 0.5
    for turn in range((-3 * pid - 1) // 8 + T):
        state = tl.sin(state + tl.load(x_ptr + (pid * T + turn) * BLOCK + offs))
    tl.store(y_ptr + pid * BLOCK + offs, state)


@triton.jit
def loaded_turns(x_ptr, n_ptr, y_ptr, T, BLOCK: tl.constexpr):
    """Turns counted by what is loaded, at most `T`."""
    offs = tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), tl.float32) + 0.5
    for turn in range(tl.minimum(tl.load(n_ptr), T)):
        state = tl.sin(state + tl.load(x_ptr + turn * BLOCK + offs))
    tl.store(y_ptr + offs, state)


@triton.jit
def grid_stride(x_ptr, w_ptr, y_ptr, stride, n_rows, n_cols, BLOCK: tl.constexpr):
    """Each program handles every so many rows."""
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 0.0009765625)
        tl.store(y_ptr + row * stride + cols, x * rstd * w, mask=mask)


@triton.jit
def chunks(x_ptr, y_ptr, n_rows, rows_per_program, BLOCK: tl.constexpr):
    """Each program handles a run of rows, whose products it carries along."""
    cols = tl.arange(0, BLOCK)
    first = tl.program_id(0) * rows_per_program
    h = tl.full((BLOCK,), 1.0, tl.float32)
    for row in range(first, min(first + rows_per_program, n_rows)):
        h = tl.sin(h * tl.load(x_ptr + row * BLOCK + cols).to(tl.float32)) + h
        tl.store(y_ptr + row * BLOCK + cols, h)
