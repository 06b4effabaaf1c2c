"""Right kernels with arguments of less common kinds, each with an example."""

import torch
import triton
import triton.language as tl


@triton.jit
def in_place(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(x_ptr + at, 2.0 * x, mask=at < n)


def in_place_example():
    def grid(meta):
        return (triton.cdiv(meta["n"], meta["BLOCK"]),)

    return grid, {"x_ptr": torch.randn(40), "n": 40, "BLOCK": 16}


@triton.autotune(
    [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], key=["n"]
)
@triton.jit
def tuned(x_ptr, y_ptr, sign_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.exp(x), mask=at < n)
    tl.store(sign_ptr + at, (x > 0).to(tl.int32), mask=at < n)


def tuned_example():
    x, sign = torch.randn(100), torch.empty(100, dtype=torch.int32)

    def grid(meta):
        return (triton.cdiv(100, meta["BLOCK"]),)

    return grid, (x, torch.empty_like(x), sign, 100), {}


@triton.jit
def expanded(x_ptr, w_ptr, y_ptr, w_stride, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n)
    w = tl.load(w_ptr + row * w_stride + at, mask=at < n)
    tl.store(y_ptr + row * n + at, x * w, mask=at < n)


def expanded_example():
    x, w = torch.randn(4, 20), torch.randn(1, 20).expand(4, 20)
    return (4,), (x, w, torch.empty_like(x), w.stride(0), 20, 32), {}


@triton.jit
def twice(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at) * tl.load(y_ptr + at))


def twice_example():
    x = torch.randn(16)
    return (1,), (x, x, torch.empty(16), 16), {}


@triton.jit
def scalar(x_ptr, y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK))))


def scalar_example():
    return (1,), (torch.randn(16), torch.zeros(()), 16), {}


@triton.jit
def integers(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at) + 1)


def integers_example():
    return (1,), (torch.arange(16), torch.empty(16, dtype=torch.int64), 16), {}


@triton.jit
def scatter_add(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    index = tl.load(index_ptr + at, mask=at < n)
    tl.atomic_add(y_ptr + index, x * x, mask=at < n)


def scatter_add_example():
    x, index = torch.randn(20), torch.randint(5, (20,))
    return (2,), (x, index, torch.zeros(6), 20, 16), {}
