"""Launches that add to their buffers: the old value has a gradient too."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from undertow import LaunchError, UnsupportedError, differentiable

from .comparison import close, leaf

N, BINS = 13, 5


@differentiable
@triton.jit
def scatter(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """y[index] += x²"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    index = tl.load(index_ptr + at, mask=at < n)
    tl.atomic_add(y_ptr + index, x * x, mask=at < n)


@differentiable
@triton.jit
def two_sums(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(y_ptr, tl.sum(x))
    tl.atomic_add(z_ptr, tl.sum(x * x))


@differentiable
@triton.jit
def read_back(x_ptr, y_ptr, z_ptr):
    tl.atomic_add(y_ptr, tl.load(x_ptr))
    tl.store(z_ptr, tl.load(y_ptr))  # here


@differentiable
@triton.jit
def read_before(x_ptr, y_ptr):
    y = tl.load(y_ptr)
    tl.atomic_add(y_ptr, tl.load(x_ptr) * y)


@differentiable
@triton.jit
def filled(x_ptr, y_ptr):
    tl.store(y_ptr, 0.0)
    tl.atomic_add(y_ptr, tl.load(x_ptr))


@differentiable
@triton.jit
def counted(x_ptr, y_ptr, count_ptr):
    """A lock-like counter beside what is differentiated."""
    tl.atomic_add(count_ptr, 1)
    tl.store(y_ptr + tl.program_id(0), 3.0 * tl.load(x_ptr + tl.program_id(0)))


def index(device: str = "cpu") -> torch.Tensor:
    return torch.randint(BINS, (N,), device=device)


def launch(x: torch.Tensor, at: torch.Tensor, y: torch.Tensor) -> None:
    scatter[(2,)](x, at, y, N, BLOCK=8)


def test_into_zeros(device: str):
    x, at, ct = leaf(N, device=device), index(device), torch.randn(BINS, device=device)
    y = torch.zeros(BINS, device=device)
    launch(x, at, y)
    close(y.detach(), torch.zeros_like(y).index_add(0, at, x.detach() ** 2))
    y.backward(ct)
    close(x.grad, 2 * x.detach() * ct[at])


def test_onto_a_tensor_with_history(device: str):
    x, at, ct = leaf(N, device=device), index(device), torch.randn(BINS, device=device)
    h = leaf(BINS, device=device)
    y = h * 5
    launch(x, at, y)
    y.backward(ct)
    close(x.grad, 2 * x.detach() * ct[at])
    close(h.grad, 5 * ct)


def test_one_launch_after_another():
    a, b, ct = leaf(N), leaf(N), torch.randn(BINS)
    first, second = index(), index()
    y = torch.zeros(BINS)
    launch(a, first, y)
    launch(b, second, y)
    y.backward(ct)
    close(a.grad, 2 * a.detach() * ct[first])
    close(b.grad, 2 * b.detach() * ct[second])


def test_only_the_old_value_needs_a_gradient():
    h, ct = leaf(BINS), torch.randn(BINS)
    y = h * 5
    launch(torch.randn(N), index(), y)
    y.backward(ct.expand(BINS))
    close(h.grad, 5 * ct)


def test_a_view_of_a_tensor_with_history():
    x, h, at, ct = leaf(N), leaf(3, BINS), index(), torch.randn(3, BINS)
    whole = h * 5
    launch(x, at, whole[1])
    whole.backward(ct)
    close(x.grad, 2 * x.detach() * ct[1][at])
    close(h.grad, 5 * ct)


def test_one_of_two_sums_is_used(device: str):
    x, y, z = leaf(N, device=device), leaf(device=device), leaf(device=device)
    a, b = y * 2, z * 3
    two_sums[(2,)](x, a, b, N, BLOCK=8)
    b.backward()
    close(x.grad, 2 * x.detach())
    close(z.grad, torch.tensor(3.0, device=device))
    assert y.grad is None or not y.grad.any()


def test_programs_that_no_address_tells_apart_all_add():
    x, at, y = leaf(N), index(), torch.zeros(BINS)
    scatter[(2, 3)](x, at, y, N, BLOCK=8)
    y.sum().backward()
    close(x.grad, 6 * x.detach())


def test_half_precision():
    x, at = leaf(N, dtype=torch.bfloat16), index()
    h = leaf(BINS, dtype=torch.bfloat16)
    y = h * 1
    launch(x, at, y)
    y.float().sum().backward()
    close(x.grad, 2 * x.detach().float(), 2e-2)
    close(h.grad, torch.ones(BINS))


def test_a_gap_of_a_view_is_not_added_to():
    x, y = leaf(N), torch.zeros(2 * BINS)[::2]
    with pytest.raises(LaunchError, match="`y_ptr` is accessed between its elements"):
        two_sums_at_one[(1,)](x, y)
    assert not y.any()


@differentiable
@triton.jit
def two_sums_at_one(x_ptr, y_ptr):
    tl.atomic_add(y_ptr + 1, tl.load(x_ptr))


@pytest.mark.parametrize(
    ("kernel", "others", "fact"),
    [
        (read_back, 2, "`y_ptr` is read and added to atomically in one kernel"),
        (read_before, 1, "`y_ptr` is read and added to atomically in one kernel"),
        (filled, 1, "`y_ptr` is written and added to atomically in one kernel"),
    ],
)
def test_what_depends_on_the_order_is_refused(kernel, others: int, fact: str):
    with pytest.raises(UnsupportedError) as caught:
        kernel[(2,)](leaf(1), *torch.zeros(others, 1))
    assert caught.value.fact == fact
    assert "which programs have done so by then is left open" in caught.value.why[0]
    assert caught.value.loc is not None
    assert caught.value.loc.file.endswith("test_additions.py")


def test_the_buffer_is_passed_as_an_input_too():
    y = torch.zeros(N)
    x = leaf(N) * 1
    with pytest.raises(UnsupportedError, match="read and added to atomically"):
        launch(x, index(), x)
    assert not y.any()


def test_integers_are_counted_beside_a_gradient(device: str):
    x = leaf(4, device=device)
    y = torch.empty(4, device=device)
    count = torch.zeros(1, dtype=torch.int32, device=device)
    counted[(4,)](x, y, count)
    y.sum().backward()
    assert count.item() == 4
    close(x.grad, torch.full((4,), 3.0, device=device))
