"""Sigmoids whose exponential overflows: their derivative is that of the function."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from undertow import differentiable

X = (-1000.0, -100.0, -89.0, -88.0, -20.0, -1.0, 0.0, 3.0, 20.0, 1000.0)


@differentiable
@triton.jit
def silu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(y_ptr + offs, x * tl.sigmoid(x), mask=offs < n)


@differentiable
@triton.jit
def shifted(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(y_ptr + offs, x / (tl.exp2(-x) + 3.0), mask=offs < n)


@differentiable
@triton.jit
def in_turns(x_ptr, y_ptr, n, turns, BLOCK: tl.constexpr):
    """The exponential stands outside of the loop that divides by it."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    whole = 1.0 + tl.exp(0.125 * x)
    total = tl.zeros((BLOCK,), tl.float32)
    for turn in range(turns):
        total += turn / whole
    tl.store(y_ptr + offs, total, mask=offs < n)


def gradients(kernel: object, *rest: int) -> tuple[Tensor, Tensor]:
    x = torch.tensor(X, requires_grad=True)
    y, ct = torch.zeros(len(X)), torch.linspace(1, 2, len(X))
    kernel[(1,)](x, y, len(X), *rest, BLOCK=16)  # type: ignore[index]
    y.backward(ct)
    assert x.grad is not None
    return x.grad.double(), ct.double()


@pytest.mark.parametrize("kernel", [silu, shifted])
def test_the_derivative_where_the_exponential_overflows(kernel: object):
    got, ct = gradients(kernel)
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    silu_of = kernel is silu
    (x * x.sigmoid() if silu_of else x / ((-x).exp2() + 3)).backward(ct)
    assert x.grad is not None
    torch.testing.assert_close(got, x.grad, rtol=1e-5, atol=1e-30)


def test_an_exponential_outside_of_the_loop():
    got, ct = gradients(in_turns, 4)
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    (6 / (1 + (0.125 * x).exp())).backward(ct)
    assert x.grad is not None
    ordinary = x.abs() <= 100
    torch.testing.assert_close(got[ordinary], x.grad[ordinary], rtol=1e-5, atol=1e-30)
