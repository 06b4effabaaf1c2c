"""Kernels with loops and products of matrices."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def row_sum(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * stride + cols, mask=cols < n, other=0.0)
    tl.store(y_ptr + row, tl.sum(acc))


@triton.jit
def moving_sum(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * stride
    left = n
    ptrs = x_ptr + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for _ in range(tl.cdiv(n, BLOCK)):
        acc += tl.load(ptrs, mask=tl.arange(0, BLOCK) < left, other=0.0)
        ptrs += BLOCK
        left -= BLOCK
    tl.store(y_ptr + tl.program_id(0), tl.sum(acc))


@triton.jit
def uneven(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    ptrs = x_ptr + lanes
    scalar = x_ptr
    other = x_ptr + 1
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        acc += tl.load(ptrs) * tl.load(scalar) + tl.load(other)
        ptrs += lanes
        if i % 2 == 0:
            scalar += 3
        other = x_ptr + i
    tl.store(y_ptr + lanes, acc)
    tl.store(y_ptr + BLOCK + lanes, tl.load(ptrs) + tl.load(scalar) + tl.load(other))


@triton.jit
def swapped(x_ptr, y_ptr, n):
    p, q = x_ptr, x_ptr + 8
    s = 0.0
    for i in range(n):
        s += tl.load(p) * (i + 1)
        p, q = q, p + 1
    tl.store(y_ptr, s)


@triton.jit
def downwards(x_ptr, y_ptr, n):
    s = 0.0
    for i in range(n, 0, -2):
        s = s * 0.5 + tl.load(x_ptr + i)
    tl.store(y_ptr, s)


@triton.jit
def triangle(x_ptr, y_ptr, n):
    p = x_ptr
    for i in range(n):
        s = 0.0
        for j in range(i + 1):
            s += tl.load(p + j)
            if j > 1:
                tl.store(y_ptr + n + i, s)
        tl.store(y_ptr + i, s)
        p += n


@triton.jit
def tiles(x_ptr, y_ptr, m, n, BLOCK: tl.constexpr):
    p = x_ptr
    acc = 0.0
    for _ in range(m):
        for _ in range(0, n, BLOCK):
            acc += tl.sum(tl.load(p + tl.arange(0, BLOCK)))
            p += BLOCK
        acc *= 0.5
    tl.store(y_ptr, acc)


@triton.jit
def online_softmax(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0).to(tl.int64) * stride
    y_ptr += tl.program_id(0).to(tl.int64) * stride
    peak, total = float("-inf"), 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n, other=float("-inf"))
        new = tl.maximum(peak, tl.max(x))
        total = total * tl.exp(peak - new) + tl.sum(tl.exp(x - new))
        peak = new
    for start in tl.range(0, n, BLOCK, num_stages=2):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n, other=0.0)
        tl.store(y_ptr + cols, tl.exp(x - peak) / total, mask=cols < n)


@triton.jit
def layer_norm(x_ptr, w_ptr, y_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    acc = tl.zeros((BLOCK,), tl.float32)
    for off in range(0, n, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + cols, mask=cols < n, other=0.0)
    mean = tl.sum(acc) / n
    acc = tl.zeros((BLOCK,), tl.float32)
    for off in range(0, n, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n, other=0.0)
        x = tl.where(cols < n, x - mean, 0.0)
        acc += x * x
    rstd = 1 / tl.sqrt(tl.sum(acc) / n + eps)
    for off in range(0, n, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n)
        w = tl.load(w_ptr + cols, mask=cols < n)
        tl.store(y_ptr + cols, (x - mean) * rstd * w, mask=cols < n)


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    wide = GROUP * tl.cdiv(N, BN)
    first = pid // wide * GROUP
    size = min(tl.cdiv(M, BM) - first, GROUP)
    pm = first + (pid % wide) % size
    pn = (pid % wide) // size
    am = (pm * BM + tl.arange(0, BM)) % M
    bn = (pn * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + (am[:, None] * sam + ks[None, :] * sak)
    b_ptrs = b_ptr + (ks[:, None] * sbk + bn[None, :] * sbn)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), num_stages=3, flatten=True):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    cm = pm * BM + tl.arange(0, BM)
    cn = pn * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + cm[:, None] * scm + cn[None, :] * scn
    mask = (cm[:, None] < M) & (cn[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def batched(x_ptr, y_ptr):
    b, i, j = tl.arange(0, 4), tl.arange(0, 16), tl.arange(0, 16)
    at = b[:, None, None] * 256 + i[None, :, None] * 16 + j[None, None, :]
    x = tl.load(x_ptr + at)
    y = tl.dot(x, tl.permute(x, (0, 2, 1)), input_precision="ieee")
    tl.store(y_ptr + at, y)


@triton.jit
def block_pointers(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x_ptr, (n, n), (n, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(0, n, BLOCK):
        acc += tl.load(block, boundary_check=(0, 1), padding_option="zero")
        block = tl.advance(block, (0, BLOCK))
    lanes = tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes[:, None] * BLOCK + lanes[None, :], acc)


@triton.jit
def after_return(x_ptr, y_ptr, n):
    if tl.program_id(0) > n:
        return
    for i in range(n):
        tl.store(y_ptr + i, tl.load(x_ptr + i) + 1)


@triton.jit
def unrolled(x_ptr, y_ptr, N: tl.constexpr):
    for i in tl.static_range(N):
        tl.store(y_ptr + i, tl.load(x_ptr + i) + 1)


@triton.jit
def wide_loop(x_ptr, y_ptr, n):
    s = 0.0
    for i in range(n):
        s += tl.load(x_ptr + i)
    tl.store(y_ptr, s)


@triton.jit
def hints(x_ptr, y_ptr, n):
    for i in tl.range(
        0, n, num_stages=4, loop_unroll_factor=2, warp_specialize=True,
        disallow_acc_multi_buffer=True, disable_licm=True,
    ):  # fmt: skip
        tl.store(y_ptr + i, tl.load(x_ptr + i) + 1)
