"""Launches whose backward reads outputs: autograd keeps them, and watches over them."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor

import undertow
from kernels import stored
from undertow import LaunchError

ROWS, COLS = 5, 45
norms = undertow.differentiable(stored.layer_norm_with_statistics)


def launch(
    x: Tensor,
    w: Tensor,
    y: Tensor | None = None,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    y = torch.empty(ROWS, COLS, dtype=x.dtype) if y is None else y
    mean = torch.empty(ROWS, dtype=x.dtype) if mean is None else mean
    rstd = torch.empty(ROWS, dtype=x.dtype) if rstd is None else rstd
    norms[(ROWS,)](x, w, y, mean, rstd, COLS, 1e-3, BLOCK=16)
    return y, mean, rstd


def leaves() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(ROWS, COLS).requires_grad_(), torch.randn(COLS).requires_grad_()


def expected(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.nn.functional.layer_norm(x.double(), (COLS,), w.double(), eps=1e-3)
    return torch.autograd.grad(y.square().sum(), (x, w))  # type: ignore[return-value]


def assert_right(x: Tensor, w: Tensor) -> None:
    for leaf, want in zip((x, w), expected(x, w), strict=True):
        torch.testing.assert_close(leaf.grad, want.to(leaf.dtype), rtol=1e-4, atol=1e-4)


def test_cotangents_of_some_outputs() -> None:
    x, w = leaves()
    y, _, _ = launch(x, w)
    y.square().sum().backward()
    assert_right(x, w)


def test_outputs_that_are_views() -> None:
    x, w = leaves()
    whole = torch.empty(2, ROWS)
    y, _, _ = launch(x, w, mean=whole[0], rstd=whole[1])
    y.square().sum().backward()
    assert_right(x, w)
    torch.testing.assert_close(whole[0], x.detach().mean(1), rtol=1e-5, atol=1e-5)


def test_an_output_that_was_changed_since() -> None:
    x, w = leaves()
    y, _, rstd = launch(x, w)
    with torch.no_grad():
        rstd.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.square().sum().backward()


def test_an_output_that_is_not_read_may_be_changed() -> None:
    x, w = leaves()
    y, _, _ = launch(x, w)
    loss = y.square().sum()
    with torch.no_grad():
        y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()  # by the square, which saved it
    x, w = leaves()
    y, _, _ = launch(x, w)
    loss = (y * 1.0).square().sum()
    with torch.no_grad():
        y.zero_()
    loss.backward()
    assert_right(x, w)


def test_saved_tensors_may_be_moved() -> None:
    x, w = leaves()
    with torch.autograd.graph.save_on_cpu():
        y, _, _ = launch(x, w)
    y.square().sum().backward()
    assert_right(x, w)


def test_recomputed_under_checkpoint() -> None:
    x, w = leaves()

    def norm(x: Tensor, w: Tensor) -> Tensor:
        return launch(x, w)[0]

    y = torch.utils.checkpoint.checkpoint(norm, x, w, use_reentrant=False)
    y.square().sum().backward()
    assert_right(x, w)


def test_twice_through_one_graph() -> None:
    x, w = leaves()
    y, _, _ = launch(x, w)
    loss = y.square().sum()
    loss.backward(retain_graph=True)
    x.grad = w.grad = None
    loss.backward()
    assert_right(x, w)


def test_outputs_and_graph_are_freed() -> None:
    x, w = leaves()
    gc.disable()
    try:
        outputs = launch(x, w)
        alive = [weakref.ref(t) for t in outputs]
        del outputs
        assert [ref() for ref in alive] == [None] * 3
    finally:
        gc.enable()


def test_a_gradient_through_what_is_read_cannot_be_differentiated() -> None:
    x, w = leaves()
    y, _, _ = launch(x, w.detach())
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(LaunchError, match="cannot be differentiated"):
        gradient.square().sum().backward()
