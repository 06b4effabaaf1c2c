"""A maximum that only rescales carries no cotangent; one that matters carries it."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from undertow import frontend
from undertow.analysis.stabilisers import stabilisers
from undertow.evaluate import finite_differences, run
from undertow.ir import Kernel
from undertow.transform.differentiate import differentiate
from undertow.transform.rebuild import simplify

COLS, BLOCK = 11, 16


@triton.jit
def softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + cols, e / tl.sum(e, axis=0), mask=cols < n)


@triton.jit
def logsumexp(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=-float("inf")) * 1.25
    m = tl.max(x, axis=0)
    total = tl.sum(tl.where(cols < n, tl.exp2((x - m) * 2.0), 0.0), axis=0)
    tl.store(y_ptr, m * 2.0 + tl.log2(total))


@triton.jit
def damped(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + cols, e / (tl.sum(e, axis=0) + 0.5), mask=cols < n)


@triton.jit
def mixed(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=-float("inf"))
    m = tl.max(x, axis=0)
    total = tl.sum(tl.where(cols < n, tl.exp2(x - m), 0.0), axis=0)
    tl.store(y_ptr + cols, tl.exp(x - m) / total, mask=cols < n)


@triton.jit
def with_maximum(x_ptr, y_ptr, m_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=-float("inf"))
    m = tl.max(x, axis=0)
    e = tl.exp(x - m)
    tl.store(y_ptr + cols, e / tl.sum(e, axis=0), mask=cols < n)
    tl.store(m_ptr, m)


@triton.jit
def masked_by_maximum(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n, other=-float("inf"))
    m = tl.max(x, axis=0)
    e = tl.where(x - m < -1.0, 0.0, tl.exp(x - m))
    tl.store(y_ptr + cols, e / tl.sum(e, axis=0), mask=cols < n)


@triton.jit
def across_rows(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Each row has a maximum of its own, and columns are summed over rows."""
    at = tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(y_ptr + at, e / tl.sum(e, axis=0)[None, :], mask=at < n)


@triton.jit
def transposed(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(y_ptr + at, e / tl.trans(e), mask=at < n)


@triton.jit
def flattened(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    e = tl.exp(x - tl.max(x, axis=0)[None, :])
    total = tl.sum(tl.reshape(e, (16,)), axis=0)
    tl.store(y_ptr + at, e / total, mask=at < n)


@triton.jit
def spread(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The sum of row i divides column i."""
    at = tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(y_ptr + at, e / tl.sum(e, axis=1)[None, :], mask=at < n)


@triton.jit
def by_rows(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    e = tl.trans(tl.exp(x - tl.max(x, axis=1)[:, None]))
    tl.store(y_ptr + at, tl.trans(e / tl.sum(e, axis=0)[None, :]), mask=at < n)


MIXED = [across_rows, transposed, flattened, spread]
"""Kernels in which values with the maxima of different rows meet."""


def captured(fn: object) -> Kernel:
    names = [p.name for p in frontend.parameters(fn) if not p.is_constexpr]
    signature = {n: "*fp32" if n.endswith("_ptr") else "i32" for n in names}
    return simplify(frontend.capture(fn, signature, {"BLOCK": BLOCK}))


def found(fn: object, *outputs: str) -> int:
    kernel = captured(fn)
    return len(stabilisers(kernel, [kernel.param(name) for name in outputs]))


@pytest.mark.parametrize("fn", [softmax, logsumexp, by_rows])
def test_cancels(fn: object) -> None:
    assert found(fn, "y_ptr") == 1


@pytest.mark.parametrize("fn", [damped, mixed, masked_by_maximum, *MIXED])
def test_matters(fn: object) -> None:
    assert found(fn, "y_ptr") == 0


def test_matters_only_for_the_outputs_that_are_active() -> None:
    assert found(with_maximum, "y_ptr") == 1
    assert found(with_maximum, "y_ptr", "m_ptr") == 0


@pytest.mark.parametrize(
    "fn",
    [
        softmax,
        logsumexp,
        damped,
        mixed,
        with_maximum,
        masked_by_maximum,
        by_rows,
        *MIXED,
    ],
)
def test_gradient_is_that_of_finite_differences(fn: object) -> None:
    torch.manual_seed(0)
    backward = differentiate(captured(fn))
    args = {p.name: torch.zeros(COLS, dtype=torch.float64)
            for p in backward.forward.pointers}  # fmt: skip
    args["x_ptr"] = torch.randn(COLS, dtype=torch.float64)
    cts = {c.of: torch.randn(COLS, dtype=torch.float64) for c in backward.cotangents}
    numbers = {"n": COLS}
    expected = finite_differences(
        backward.forward, {**args, **numbers}, (1,), ["x_ptr"], cts
    )["x_ptr"]
    gradient = torch.zeros(COLS, dtype=torch.float64)
    given = {**args, **numbers, "d_x_ptr": gradient}
    for ct in backward.cotangents:
        given[ct.name] = cts[ct.of]
        given.update((stride.name, 1) for stride in ct.strides)
    used = {p.name: given[p.name] for p in backward.kernel.params}
    run(backward.kernel, used, (1,), float_dtype=torch.float64)
    torch.testing.assert_close(gradient, expected, rtol=1e-7, atol=1e-8)
