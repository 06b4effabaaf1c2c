"""Kernels whose arguments are named, wrapped and defaulted in different ways."""

import triton
import triton.language as tl

import undertow

SCALE = tl.constexpr(2.0)


@triton.jit
def square(v):
    return v * v * SCALE


@triton.jit
def read(source, at, mask):
    return tl.load(source + at, mask=mask, other=0.0)


@triton.jit
def by_flow(X, Y, start, n, BLOCK: tl.constexpr = 32):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    block = X + start
    block += at
    Out = Y
    tl.store(Out + at, square(tl.load(block, mask=mask)), mask=mask)


@triton.jit
def by_helper(A, B, n, BLOCK: tl.constexpr = 32):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(B + at, read(A, at, at < n).to(B.dtype.element_ty), mask=at < n)


@triton.jit
def with_defaults(
    x_ptr,
    bias_ptr,
    y_ptr,
    n: "i64",  # noqa: F821
    slope=0.1,
    shift=None,
    BLOCK: tl.constexpr = 32,
):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + at, mask=at < n)
    if shift is not None:
        x += shift
    tl.store(y_ptr + at, tl.where(x > 0, x, x * slope), mask=at < n)


@triton.autotune(
    [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], key=["n"]
)
@triton.jit
def tuned(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.exp(tl.load(x_ptr + at, mask=at < n)), mask=at < n)


@triton.heuristics({"BLOCK": lambda args: 16 if args["n"] < 100 else 64})
@triton.jit
def guided(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.sin(tl.load(x_ptr + at, mask=at < n)), mask=at < n)


wrapped = undertow.differentiable(tuned)


@triton.jit
def gather(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr = 32):
    at = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at, mask=at < n, other=0)
    tl.store(y_ptr + at, tl.load(x_ptr + index, mask=at < n), mask=at < n)


@triton.jit
def strict(x_ptr, y_ptr, scale, BLOCK: tl.constexpr = 32):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at) * tl.exp(scale))


def plain(x):
    return x
