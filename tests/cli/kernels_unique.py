"""A gather whose rows are promised to differ, and examples that keep that or do not."""

import torch
import triton
import triton.language as tl

import undertow


@undertow.differentiable(unique=("index_ptr",))
@triton.jit
def take(x_ptr, index_ptr, y_ptr, dim, BLOCK: tl.constexpr = 16):
    token, cols = tl.program_id(0), tl.arange(0, BLOCK)
    index = tl.load(index_ptr + token)
    x = tl.load(x_ptr + index * dim + cols, mask=cols < dim)
    tl.store(y_ptr + token * dim + cols, x * x, mask=cols < dim)


def take_example(tokens=6):
    x, index = torch.randn(65, 5), torch.randperm(65)[:tokens]
    return (tokens,), (x, index, torch.empty(tokens, 5), 5), {}


def repeated():
    """Two rows are taken twice."""
    index = torch.tensor([7, 3, 5, 3, 7, 0])
    return (6,), (torch.randn(8, 5), index, torch.empty(6, 5), 5), {}


def repeated_later(tokens=6):
    """From 64 tokens on, one row is taken twice."""
    index = torch.arange(tokens).reshape(1, -1)
    index[0, 63:64] = 2
    return (tokens,), (torch.randn(65, 5), index, torch.empty(tokens, 5), 5), {}


@triton.jit
def plain(x_ptr, index_ptr, y_ptr, dim, BLOCK: tl.constexpr = 16):
    token, cols = tl.program_id(0), tl.arange(0, BLOCK)
    index = tl.load(index_ptr + token)
    x = tl.load(x_ptr + index * dim + cols, mask=cols < dim)
    tl.store(y_ptr + token * dim + cols, x * x, mask=cols < dim)
