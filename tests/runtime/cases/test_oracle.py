"""Comparisons that can fail, and the one that `check` makes on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from undertow.check import run as checks
from undertow.runtime import autograd

from ..comparison import close, leaf
from ..kernels import launch_scale

# -- tests that can fail --


@pytest.mark.parametrize("fault", [0.99, -1.0, 0.0])
def test_test_cannot_fail(fault: float):
    """openfold-3 PR 258: a loss that is a mean, whose gradients are below a tolerance.

    With cotangents of order 1 a gradient that is off by one part in a hundred fails;
    with those of a mean of 10⁶ numbers even its negative would pass.
    """
    x, w, ct = leaf(20), leaf(20), torch.randn(20)
    (d_x,) = torch.autograd.grad(launch_scale(x, w, torch.empty(20)), x, ct)
    expected = ct * (w + x.exp()).detach()
    close(d_x, expected)
    with pytest.raises(AssertionError, match="not close"):
        close(fault * d_x, expected)
    close(fault * d_x / 1e6, expected / 1e6)


# -- products that a compiler drops --


@triton.jit
def transposed_product(a_ptr, b_ptr, c_ptr, d_ptr, y_ptr, SIZE: tl.constexpr):
    """(a b)ᵀ c: a fresh product is transposed, and multiplied again."""
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i
    fresh = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)).to(a_ptr.dtype.element_ty)
    y = tl.dot(tl.trans(fresh), tl.load(c_ptr + at)) + tl.load(d_ptr + at)
    tl.store(y_ptr + at, y)


@triton.jit
def two_products(a_ptr, b_ptr, c_ptr, d_ptr, y_ptr, SIZE: tl.constexpr):
    """a b + c d in one accumulator."""
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i
    acc = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at))
    acc = tl.dot(tl.load(c_ptr + at), tl.load(d_ptr + at), acc)
    tl.store(y_ptr + at, acc)


@triton.jit
def first_product(a_ptr, b_ptr, c_ptr, d_ptr, y_ptr, SIZE: tl.constexpr):
    """What is left of `two_products` where a compiler drops the second one."""
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i
    tl.store(y_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


def squares() -> tuple[int, dict[str, Any]]:
    names = ("a_ptr", "b_ptr", "c_ptr", "d_ptr", "y_ptr")
    tensors = {n: 0.25 * torch.randn(64, 64) for n in names}
    return 1, {**{n: t.bfloat16() for n, t in tensors.items()}, "SIZE": 64}


def outcomes(kernel: Any, device: str) -> dict[str, checks.Check]:
    options = checks.Options(device=device)
    return {c.name: c for c in checks.check(kernel, squares, options)}


@pytest.mark.parametrize("kernel", [transposed_product, two_products])
def test_compiler_drops_or_misorders_dots(kernel: Any, device: str):
    """flash-linear-attention#640 (Triton 3.4 to 3.7, Hopper): `dot(trans(x), …)`.

    Liger-Kernel PR 1413: two dots into one accumulator. What Triton compiled on the
    device is compared with float64, in bf16 and 64 × 64.
    """
    found = outcomes(kernel, device)
    assert [c for c in found.values() if c.ok is False] == []
    if device == "cuda":
        assert found["value, cuda"].ok
        assert found["gradient, cuda"].ok


@pytest.mark.gpu
def test_a_dropped_dot_is_seen(monkeypatch: pytest.MonkeyPatch):
    """As though the compiler had dropped the second product."""
    monkeypatch.setattr(two_products, "run", first_product.run)
    found = outcomes(two_products, "cuda")
    assert found["value"].ok
    assert found["value, cuda"].ok is False
    assert "y_ptr" in found["value, cuda"].details[0]


@pytest.mark.gpu
def test_a_dropped_dot_of_the_backward_is_seen(monkeypatch: pytest.MonkeyPatch):
    """As though the compiler had lost the gradient of c."""
    execute: Callable[..., None] = autograd.execute

    def lossy(plan: Any, arguments: tuple[Any, ...], *rest: Any) -> None:
        execute(plan, arguments, *rest)
        backward = plan.derivation.backward
        (lost,) = (g.name for g in backward.gradients if g.of == "c_ptr")
        index = [p.name for p in backward.kernel.params].index(lost)
        if arguments[index].is_cuda:
            arguments[index].zero_()

    monkeypatch.setattr(autograd, "execute", lossy)
    found = outcomes(two_products, "cuda")
    assert found["gradient"].ok
    assert found["gradient, cuda"].ok is False
    assert "c_ptr" in found["gradient, cuda"].details[0]
