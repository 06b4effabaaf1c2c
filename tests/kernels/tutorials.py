"""Kernels written the way Triton's tutorials teach it."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def persistent_softmax(
    x_ptr, y_ptr, x_stride, y_stride, n_rows, n_cols,
    BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """A fixed number of programs, each with every so many rows, pipelined."""
    step = tl.num_programs(0)
    for row in tl.range(tl.program_id(0), n_rows, step, num_stages=STAGES):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=-float("inf"))
        shifted = x.to(tl.float32) - tl.max(x, axis=0).to(tl.float32)
        numerator = tl.exp(shifted)
        y = numerator / tl.sum(numerator, axis=0)
        tl.store(y_ptr + row * y_stride + cols, y.to(x.dtype), mask=mask)


@triton.jit
def dropout(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    """The mask is drawn in the kernel and never stored."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    keep = tl.rand(seed, offs) > p
    tl.store(y_ptr + offs, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@triton.jit
def _activation(x, KIND: tl.constexpr):
    if KIND == "silu":
        x = x * tl.sigmoid(x)
    elif KIND == "relu":
        x = tl.maximum(x, 0.0)
    return x


@triton.jit
def linear(
    x_ptr, w_ptr, b_ptr, r_ptr, y_ptr,
    M, N, K,
    x_stride, w_stride, y_stride,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    KIND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """act(x wᵀ + b) + r, in groups of rows of blocks, masked at every edge."""
    pid = tl.program_id(0)
    in_group = GROUP * tl.cdiv(N, BN)
    first = (pid // in_group) * GROUP
    size = min(tl.cdiv(M, BM) - first, GROUP)
    pid_m = first + (pid % in_group) % size
    pid_n = (pid % in_group) // size
    m = pid_m * BM + tl.arange(0, BM)
    n = pid_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(
            x_ptr + m[:, None] * x_stride + k[None, :],
            mask=(m[:, None] < M) & (k[None, :] < K),
            other=0.0,
        )
        w = tl.load(
            w_ptr + n[:, None] * w_stride + k[None, :],
            mask=(n[:, None] < N) & (k[None, :] < K),
            other=0.0,
        )
        acc = tl.dot(x, w.T, acc, input_precision=PRECISION)
    acc += tl.load(b_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    acc = _activation(acc, KIND)
    mask = (m[:, None] < M) & (n[None, :] < N)
    at = m[:, None] * y_stride + n[None, :]
    acc += tl.load(r_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _attend(
    acc, total, top, q, k_ptr, v_ptr, head, m, low, high, T, scale,
    BN: tl.constexpr, D: tl.constexpr, DIAGONAL: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The keys from `low` to `high`; only on the diagonal are some of them later."""
    d = tl.arange(0, D)
    for start in tl.range(low, high, BN):
        n = start + tl.arange(0, BN)
        at = head + n[:, None] * D + d[None, :]
        k = tl.load(k_ptr + at, mask=n[:, None] < T, other=0.0)
        s = tl.dot(q, k.T, input_precision=PRECISION) * scale
        keep = n[None, :] < T
        if DIAGONAL:
            keep = keep & (m[:, None] >= n[None, :])
        s = tl.where(keep, s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - new[:, None])
        alpha = tl.exp2(top - new)
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptr + at, mask=n[:, None] < T, other=0.0)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision=PRECISION)
        top = new
    return acc, total, top


@triton.jit
def staged_attention(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, T, scale,
    CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Causal rows in two loops: blocks that all rows see, and those on the diagonal."""
    block = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64) * T * D
    m = block * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    inside = m[:, None] < T
    q = tl.load(q_ptr + head + m[:, None] * D + d[None, :], mask=inside, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    scale = scale * 1.44269504
    if CAUSAL:
        acc, total, top = _attend(
            acc, total, top, q, k_ptr, v_ptr, head, m, 0, block * BM, T, scale,
            BN, D, False, PRECISION,
        )  # fmt: skip
        acc, total, top = _attend(
            acc, total, top, q, k_ptr, v_ptr, head, m,
            block * BM, tl.minimum((block + 1) * BM, T), T, scale,
            BN, D, True, PRECISION,
        )  # fmt: skip
    else:
        acc, total, top = _attend(
            acc, total, top, q, k_ptr, v_ptr, head, m, 0, T, T, scale,
            BN, D, False, PRECISION,
        )  # fmt: skip
    o = acc / total[:, None]
    at = head + m[:, None] * D + d[None, :]
    tl.store(o_ptr + at, o.to(o_ptr.dtype.element_ty), mask=inside)
    tl.store(lse_ptr + tl.program_id(1) * T + m, top + tl.log2(total), mask=m < T)
