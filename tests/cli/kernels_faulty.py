"""Kernels with one fault each, and examples that show it."""

import torch
import triton
import triton.language as tl


@triton.jit
def race(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + at, mask=at < n)
    tl.store(y_ptr + at, x * x, mask=at < n)


def race_example():
    x = torch.randn(2, 8)
    return (2,), (x, torch.empty(8), 8), {"BLOCK": 8}


@triton.jit
def outside(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at + 1, mask=at < n)
    tl.store(y_ptr + at, x * x, mask=at < n)


def outside_example():
    return (1,), (torch.randn(8), torch.empty(8), 8), {"BLOCK": 16}


@triton.jit
def partial(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * x, mask=at < n - 1)


def partial_example():
    return (1,), (torch.randn(8), torch.empty(8), 8), {"BLOCK": 8}


@triton.jit
def leak(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr, tl.sum(x, axis=0))


def leak_example():
    return (1,), (torch.randn(8), torch.empty(1), 8), {"BLOCK": 16}


@triton.jit
def rounded(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, (x + 1e7) - 1e7, mask=at < n)


def rounded_example(n=8):
    return (1,), (torch.randn(n), torch.empty(n), n), {"BLOCK": 128}


@triton.jit
def refused(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    bins = tl.histogram(x.to(tl.int32), 16)
    tl.store(y_ptr + at, x * bins.to(tl.float32))


def refused_example():
    return (1,), (torch.rand(16), torch.empty(16)), {"BLOCK": 16}


def wrong_shape_example():
    return {"x_ptr": torch.rand(16)}


def wrong_size_example(n):
    return (1,), {}


def short_example():
    return (1,), (torch.rand(16),), {}


def raising_example():
    raise ValueError("no data today")


def shared_example():
    x = torch.randn(8)
    return (1,), (x, x, 8), {"BLOCK": 8}
