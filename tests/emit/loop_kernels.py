"""Kernels with loops as a user writes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl


@triton.jit
def row_sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        mask = start + offs < n
        acc += tl.load(x_ptr + row * n + start + offs, mask=mask, other=0.0)
    tl.store(y_ptr + row, tl.sum(acc))


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
    offs_n = tl.program_id(1) * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ks = k + offs_k
        a_mask = (offs_m[:, None] < M) & (ks[None, :] < K)
        a = tl.load(a_ptr + offs_m[:, None] * K + ks[None, :], mask=a_mask, other=0.0)
        b_mask = (ks[:, None] < K) & (offs_n[None, :] < N)
        b = tl.load(b_ptr + ks[:, None] * N + offs_n[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    c_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc, mask=c_mask)


@triton.jit
def softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    m = float("-inf")
    d = 0.0
    for start in tl.range(0, n, BLOCK, num_stages=2):
        mask = start + offs < n
        x = tl.load(x_ptr + row * n + start + offs, mask=mask, other=float("-inf"))
        m_new = tl.maximum(m, tl.max(x, axis=0))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    for start in range(0, n, BLOCK):
        mask = start + offs < n
        x = tl.load(x_ptr + row * n + start + offs, mask=mask, other=0.0)
        tl.store(y_ptr + row * n + start + offs, tl.exp(x - m) / d, mask=mask)


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, B: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    d = tl.arange(0, D)
    inside = rows[:, None] < n
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :], mask=inside, other=0.0)
    m = tl.full((B,), float("-inf"), tl.float32)
    total = tl.zeros((B,), tl.float32)
    acc = tl.zeros((B, D), tl.float32)
    for start in range(0, n, B):
        cols = start + tl.arange(0, B)
        at = cols[:, None] * D + d[None, :]
        k = tl.load(k_ptr + at, mask=cols[:, None] < n, other=0.0)
        v = tl.load(v_ptr + at, mask=cols[:, None] < n, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(cols[None, :] < n, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m - m_new)
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p, v, acc, input_precision="ieee")
        m = m_new
    out = acc / total[:, None]
    tl.store(o_ptr + rows[:, None] * D + d[None, :], out, mask=inside)


@triton.jit
def nested(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    count = 0
    for i in range(n):
        part = tl.zeros((BLOCK,), tl.float32)
        for j in range(i, n):
            x = tl.load(x_ptr + i * BLOCK + j + offs)
            if tl.sum(x) > 0.0:
                part += x
                count += 1
            else:
                part -= 2.0 * x
        total += tl.exp(part * 0.1)
    tl.store(y_ptr + offs, total + count)


@triton.jit
def in_branch(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + offs)
    if n > 2:
        for i in range(n):
            acc += tl.load(x_ptr + i + offs) * 0.5
    else:
        acc = -acc
    tl.store(y_ptr + offs, acc)


@triton.jit
def moving(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    ptrs = x_ptr + tl.arange(0, BLOCK)
    x = tl.load(ptrs)
    acc = tl.zeros((BLOCK,), tl.float32)
    for _ in range(n):
        ptrs += BLOCK
        acc += tl.exp(x)
        x = tl.load(ptrs)
    tl.store(y_ptr + tl.arange(0, BLOCK), acc * x)


class Case(NamedTuple):
    fn: Any
    pointers: str
    numbers: dict[str, int | float]
    constexprs: dict[str, int]
    grid: tuple[int, ...] = (1,)
    dtype: str = "fp32"


BLOCK = {"BLOCK": 16}
TILES = {"BM": 16, "BN": 32, "BK": 64}
SIZES = {"M": 24, "N": 40, "K": 100}

CASES = {
    "row_sum": Case(row_sum, "xy", {"n": 37}, BLOCK, (3,)),
    "matmul": Case(matmul, "abc", SIZES, TILES, (2, 2), "fp16"),
    "softmax": Case(softmax, "xy", {"n": 37}, BLOCK, (3,)),
    "attention": Case(
        attention, "qkvo", {"n": 40, "scale": 0.25}, {"B": 16, "D": 32}, (3,)
    ),
    "nested": Case(nested, "xy", {"n": 4}, BLOCK),
    "in_branch": Case(in_branch, "xy", {"n": 3}, BLOCK),
    "moving": Case(moving, "xy", {"n": 3}, BLOCK),
}
