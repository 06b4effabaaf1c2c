"""Kernels that `tl.static_range` unrolls to as many ops as are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl


@triton.jit
def pointwise_chain(x_ptr, y_ptr, n, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = x
    for _ in tl.static_range(N):
        y = tl.sin(y) * x
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def loads_and_stores(x_ptr, y_ptr, n, stride, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for i in tl.static_range(N):
        x = tl.load(x_ptr + i * stride + at, mask=at < n)
        tl.store(y_ptr + i * stride + at, x * x, mask=at < n)


@triton.jit
def walking_pointer(x_ptr, y_ptr, n, stride, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pointers = x_ptr + at
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in tl.static_range(N):
        x = tl.load(pointers, mask=at < n)
        total += x * x
        pointers += stride
    tl.store(y_ptr + at, total, mask=at < n)


@triton.jit
def reductions(x_ptr, y_ptr, n, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < n
    row = tl.program_id(0) * n
    x = tl.load(x_ptr + row + at, mask=mask, other=0.0)
    for _ in tl.static_range(N):
        x = tl.where(mask, x - tl.sum(x * x, axis=0) / n, 0.0)
    tl.store(y_ptr + row + at, x, mask=mask)


@triton.jit
def maxima(x_ptr, y_ptr, n, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in tl.static_range(N):
        row = (tl.program_id(0) * N + i) * n
        x = tl.load(x_ptr + row + at, mask=at < n, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def branches(x_ptr, y_ptr, n, flag, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    for i in tl.static_range(N):
        if flag > i:
            x = tl.sin(x)
        else:
            x = x * x
    tl.store(y_ptr + at, x, mask=at < n)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, K, stride, N: tl.constexpr, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for i in tl.static_range(N):
        k = i * BLOCK + tl.arange(0, BLOCK)
        mask = (rows < M) & (k < K)[None, :]
        a = tl.load(a_ptr + rows * K + k[None, :], mask=mask, other=0.0)
        mask = (k < K)[:, None]
        b = tl.load(b_ptr + k[:, None] * stride + cols, mask=mask, other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows * stride + cols, acc, mask=rows < M)


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, T, scale, N: tl.constexpr, BLOCK: tl.constexpr
):
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    dims = tl.arange(0, BLOCK)[None, :]
    q = tl.load(q_ptr + rows * BLOCK + dims, mask=rows < T, other=0.0)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for i in tl.static_range(N):
        keys = i * BLOCK + tl.arange(0, BLOCK)
        at, mask = keys[:, None] * BLOCK + dims, (keys < T)[:, None]
        k = tl.load(k_ptr + at, mask=mask, other=0.0)
        v = tl.load(v_ptr + at, mask=mask, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where((keys < T)[None, :], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        alpha = tl.exp(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p, v, acc * alpha[:, None])
        top = new
    tl.store(o_ptr + rows * BLOCK + dims, acc / total[:, None], mask=rows < T)


@dataclass(frozen=True)
class Unrolled:
    """A kernel, its parameters and about how many IR ops a turn gives."""

    kernel: Any
    pointers: str
    numbers: str
    turn: int
    block: int = 64

    @property
    def signature(self) -> dict[str, str]:
        pointers = {f"{name}_ptr": "*fp32" for name in self.pointers.split()}
        scale = {"scale": "fp32"} if self.kernel is attention else {}
        return pointers | dict.fromkeys(self.numbers.split(), "i32") | scale

    def constexprs(self, ops: int) -> dict[str, int]:
        """For a kernel of about `ops` ops."""
        return {"N": max(1, ops // self.turn), "BLOCK": self.block}


UNROLLED = {
    "pointwise_chain": Unrolled(pointwise_chain, "x y", "n", 2),
    "loads_and_stores": Unrolled(loads_and_stores, "x y", "n stride", 5),
    "walking_pointer": Unrolled(walking_pointer, "x y", "n stride", 5),
    "reductions": Unrolled(reductions, "x y", "n", 6),
    "maxima": Unrolled(maxima, "x y", "n", 14),
    "branches": Unrolled(branches, "x y", "n flag", 7),
    "matmul": Unrolled(matmul, "a b c", "M K stride", 16, 16),
    "attention": Unrolled(attention, "q k v o", "T", 31, 16),
}
