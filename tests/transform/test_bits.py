"""Bits of floats and floats of few bits: refused where a derivative would go."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import undertow


@triton.jit
def schraudolph(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    e = (tl.load(x + i) * 12102203.0 + 1064866805.0).to(tl.int32)
    tl.store(o + i, e.to(tl.float32, bitcast=True))


@triton.jit
def fast_log2(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    bits = tl.load(x + i).to(tl.int32, bitcast=True)
    tl.store(o + i, bits.to(tl.float32) * 1.1920929e-7 - 126.94269504)


@triton.jit
def fast_rsqrt(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    bits = tl.load(x + i).to(tl.int32, bitcast=True)
    tl.store(o + i, (0x5F3759DF - (bits >> 1)).to(tl.float32, bitcast=True))


@triton.jit
def carried(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x_i = tl.load(x + i)
    bits = tl.zeros((B,), tl.int32)
    for _ in range(n):
        o_i = bits.to(tl.float32, bitcast=True)
        bits = x_i.to(tl.int32)
        tl.store(o + i + _ * B, o_i * 2.0)


@triton.jit
def rounded(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x_i = tl.load(x + i)
    tl.store(o + i, x_i.to(tl.int32).to(tl.float32) + 2.0 * x_i)


@triton.jit
def signs(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x_i = tl.load(x + i)
    negative = x_i.to(tl.int32, bitcast=True) < 0
    tl.store(o + i, tl.where(negative, -x_i, x_i))


TYPES = {"x": "*fp32", "o": "*fp32"}


@pytest.mark.parametrize("kernel", [schraudolph, fast_log2, fast_rsqrt])
def test_bits_on_the_way_of_a_derivative(kernel) -> None:
    with pytest.raises(undertow.UnsupportedError, match="bitcast=True") as caught:
        undertow.derive(kernel, TYPES, {"B": 4})
    assert "reinterpreted bits have no derivative" in str(caught.value)


def test_bits_that_a_loop_carries() -> None:
    with pytest.raises(undertow.UnsupportedError, match="bitcast=True"):
        undertow.derive(carried, {**TYPES, "n": "i32"}, {"B": 4})


@pytest.mark.parametrize("kernel", [rounded, signs])
def test_rounding_and_comparing_are_piecewise_constant(kernel) -> None:
    (gradient,) = undertow.derive(kernel, TYPES, {"B": 4}).backward.gradients
    assert gradient.of == "x"


def test_an_output_that_is_only_loaded() -> None:
    with pytest.raises(undertow.UnsupportedError, match="`x` is not stored to"):
        undertow.derive(rounded, TYPES, {"B": 4}, outputs=["x"])


@triton.jit
def scaled(x, w, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i).to(tl.float32) * tl.load(w + i))


@triton.jit
def quantised(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i).to(tl.float8e5).to(tl.float32))


FP8 = {"x": "*fp8e4nv", "w": "*fp32", "o": "*fp32"}


def test_fp8_that_would_be_differentiated() -> None:
    with pytest.raises(undertow.UnsupportedError, match="`x` holds fp8 numbers"):
        undertow.derive(scaled, FP8, {"B": 4})
    with pytest.raises(undertow.UnsupportedError, match="`o` holds fp8 numbers"):
        undertow.derive(scaled, {**FP8, "o": "*fp8e5"}, {"B": 4}, wrt=["w"])
    with pytest.raises(undertow.UnsupportedError, match="fp8 numbers are not"):
        undertow.derive(quantised, TYPES, {"B": 4})


def test_fp8_without_gradient() -> None:
    derived = undertow.derive(scaled, FP8, {"B": 4}, wrt=["w"])
    assert [g.of for g in derived.backward.gradients] == ["w"]
    x = torch.tensor([1.0, 2.0, 3.0, -1.5]).to(torch.float8_e4m3fn)
    w, o = torch.ones(4, requires_grad=True), torch.empty(4)
    undertow.differentiable(scaled)[(1,)](x, w, o, B=4)
    o.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [1.0, 2.0, 3.0, -1.5]


def test_an_fp8_leaf_is_refused() -> None:
    x = torch.ones(4).to(torch.float8_e4m3fn).requires_grad_()
    with pytest.raises(undertow.UndertowError, match=r"fp8|float8"):
        undertow.differentiable(scaled)[(1,)](x, torch.ones(4), torch.empty(4), B=4)
