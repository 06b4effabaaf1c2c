"""What is decided before a launch with gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from undertow import LaunchError, UnsupportedError, differentiable
from undertow.ir import Kernel
from undertow.runtime.recording import Recording
from undertow.runtime.specialisation import Specialisation, merge_parameters

from .comparison import close, leaf
from .kernels import rows, scale

N = 8


@differentiable
@triton.jit
def columns(x_ptr, y_ptr, y_row, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * y_row + cols, 2 * tl.load(x_ptr + row * BLOCK + cols))


@differentiable
@triton.jit
def total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Every program stores the sum of everything."""
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0))


@differentiable
@triton.jit
def halves(x_ptr, y_ptr, shift, BLOCK: tl.constexpr):
    """Two stores that meet unless `shift` keeps them apart."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, x)
    tl.store(y_ptr + offs + shift, 2 * x)


@differentiable
@triton.jit
def named(x_ptr, y_ptr, grid0, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < grid0), mask=offs < grid0)


def test_elements_that_several_programs_write():
    x, y = leaf(2, N), torch.zeros(2, N)
    with pytest.raises(LaunchError, match="`y_ptr` is written several times"):
        total[(2,)](x, y, N, BLOCK=N)
    with pytest.raises(LaunchError, match="a stride is 0 in this launch"):
        columns[(2,)](x, y, 0, BLOCK=N)
    with pytest.raises(LaunchError, match="no program looks at grid axis 1"):
        columns[(2, 2)](x, y, N, BLOCK=N)
    assert not y.any()
    total[(1,)](x, y, N, BLOCK=N)
    y.sum().backward()
    close(x.grad, torch.stack([torch.ones(N), torch.zeros(N)]))


def test_two_stores_that_may_meet():
    x, y = leaf(N), torch.zeros(2 * N)
    with pytest.raises((LaunchError, UnsupportedError), match=r"several|may meet"):
        halves[(1,)](x, y, N // 2, BLOCK=N)
    assert not y.any()


def test_a_parameter_named_like_the_analysis_names_the_grid():
    x, y = leaf(N), torch.zeros(N)
    with pytest.raises(UnsupportedError, match="a parameter is called `grid0`"):
        named[(1,)](x, y, N, BLOCK=N)


def recording_of(y: Tensor) -> Recording:
    assert y.grad_fn is not None
    return y.grad_fn.launch[0]


def test_what_is_kept_is_found_again():
    x, w = leaf(4, N), leaf(N)

    def launch(
        view: Callable[[Tensor], Tensor] = lambda t: t, cols: int = N
    ) -> Recording:
        y = torch.zeros(4, N)
        given = view(x)
        strides = (*given.stride(), *y.stride())
        rows[(4,)](given, w, y, *strides, cols, BLOCK=N)
        y.sum().backward()
        return recording_of(y)

    first = launch()
    assert launch() is first
    assert launch(lambda t: t.detach()) is not first
    assert launch(lambda t: t.reshape(N, 4).t()) is not first
    assert launch(cols=N - 1) is not first
    assert first.saved == ("x_ptr", "w_ptr")
    assert first.passed == ("y_ptr", "x_ptr", "w_ptr")
    w.requires_grad_(False)
    assert launch().passed == ("y_ptr", "x_ptr")
    assert launch().saved == ("x_ptr", "w_ptr")


def test_merged_parameters():
    y = torch.zeros(N)
    scale[(1,)](leaf(N), leaf(N), y, N, BLOCK=N)
    spec: Specialisation = recording_of(y).specialisation
    merged: Kernel = merge_parameters(spec.forward, {"x_ptr": "w_ptr"})
    found = Specialisation(merged, spec.names)
    assert found.tensors == ("y_ptr", "w_ptr")
    assert spec.tensors == ("y_ptr", "x_ptr", "w_ptr")
    assert spec.with_aliases({"x_ptr": "w_ptr"}) is spec.with_aliases(
        {"x_ptr": "w_ptr"}
    )


def test_gradient_buffers_start_undefined_only_where_all_is_written():
    x, w, y = leaf(3, N), leaf(N), torch.zeros(3, N)
    rows[(3,)](x, w, y, N, 1, N, 1, N, BLOCK=N)
    found, scalars, _ = y.grad_fn.launch  # type: ignore[union-attr]
    plan = found.plan((False, True, True), [(N, 1)], scalars)
    assert [g.start for g in plan.gradients] == ["empty", "zero"]
    assert plan.atomic == ("w_ptr",)
    rows[(2,)](x, w, y := torch.zeros(3, N), N, 1, N, 1, N, BLOCK=N)
    found, scalars, _ = y.grad_fn.launch  # type: ignore[union-attr]
    plan = found.plan((False, True, True), [(N, 1)], scalars)
    assert [g.start for g in plan.gradients] == ["zero", "zero"]
    y.sum().backward()
    assert x.grad is not None
    assert not x.grad[2].any()
