"""Bits of floats: refused where a derivative would go through them."""

from __future__ import annotations

import pytest
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


@triton.jit
def flipped(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.flip(tl.load(x + i), 0))


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


def test_flip_is_named() -> None:
    with pytest.raises(undertow.UnsupportedError, match="`tl.flip` of floats"):
        undertow.derive(flipped, TYPES, {"B": 4})


def test_an_output_that_is_only_loaded() -> None:
    with pytest.raises(undertow.UnsupportedError, match="`x` is not stored to"):
        undertow.derive(rounded, TYPES, {"B": 4}, outputs=["x"])
