"""Layouts: overlap, strides of cotangents, buffers."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from undertow import LaunchError
from undertow.runtime.geometry import (
    Layout,
    aliases,
    buffer,
    collapsed,
    in_layout_of,
    is_dense,
    meets_itself,
    near,
    overlap,
    repeats,
    span,
)

layouts = st.integers(0, 3).flatmap(
    lambda n: st.tuples(
        st.tuples(*[st.integers(0, 4)] * n), st.tuples(*[st.integers(0, 7)] * n)
    )
)


def addresses(size: tuple[int, ...], stride: tuple[int, ...]) -> list[int]:
    return [
        sum(i * s for i, s in zip(index, stride, strict=True))
        for index in itertools.product(*map(range, size))
    ]


@given(layouts)
def test_what_is_said_of_a_layout(of: tuple[tuple[int, ...], tuple[int, ...]]):
    size, stride = of
    layout, touched = Layout(size, stride, torch.float32), addresses(size, stride)
    assert layout.numel == len(touched)
    assert layout.span == span(size, stride) == (max(touched) + 1 if touched else 0)
    if len(set(touched)) < len(touched):
        assert repeats(layout)
        assert not is_dense(size, stride)
    if is_dense(size, stride) and touched:
        assert sorted(touched) == list(range(len(touched)))
    if meets_itself(layout):
        assert repeats(layout)
        assert touched


@given(layouts, st.booleans())
def test_buffers_have_the_strides_asked_for(
    of: tuple[tuple[int, ...], tuple[int, ...]], zero: bool
):
    size, stride = of
    made = buffer(size, stride, torch.float32, torch.device("cpu"), zero=zero)
    assert made.shape == size
    if made.numel():
        assert made.stride() == stride
        assert made.untyped_storage().nbytes() >= 4 * span(size, stride)
    if zero:
        assert not made.any()


@given(st.tuples(*[st.integers(0, 9), st.integers(1, 4), st.integers(1, 3)] * 2))
def test_overlap(numbers: tuple[int, ...]):
    base = torch.zeros(40)
    (a, count_a, step_a), (b, count_b, step_b) = numbers[:3], numbers[3:]
    one = base.as_strided((count_a,), (step_a,), a)
    other = base.as_strided((count_b,), (step_b,), b)
    meet = set(range(a, a + count_a * step_a, step_a)) & set(
        range(b, b + count_b * step_b, step_b)
    )
    assert overlap(one, other) == bool(meet)
    reach = [4 * Layout.of(t).span for t in (one, other)]
    assert near((one, other), reach, 1) or not meet


def test_layouts_too_hard_to_tell_apart_are_said_to_overlap():
    base = torch.zeros(1)
    size, stride = (9,) * 8, (7919, 7907, 7901, 7883, 7879, 7877, 7873, 7867)
    flat = torch.empty(2 * span(size, stride), device="meta")
    assert flat.numel() > base.numel()
    memory = torch.empty(span(size, stride) + 1)
    one, other = (memory.as_strided(size, stride, offset) for offset in (0, 1))
    assert overlap(one, other)


def test_aliases():
    x, y = torch.zeros(8), torch.zeros(8)
    assert aliases("k", ["y", "z", "x"], [y, y, x], 2) == {"z": "y"}
    assert aliases("k", ["y", "x", "w"], [y, x, x], 1) == {}
    assert aliases("k", ["y", "x"], [x[::2], x[1::2]], 1) == {}
    assert aliases("k", ["y", "x"], [x[:0], x], 1) == {}
    with pytest.raises(LaunchError, match="`y` is written, and shares memory with `x`"):
        aliases("k", ["y", "x"], [x[:4], x[3:]], 1)


def test_a_copy_in_another_layout():
    t = torch.randn(3, 4)
    copy = in_layout_of(t, (2, 11))
    assert copy.stride() == (2, 11)
    assert torch.equal(copy, t)


def test_the_gradient_of_an_expanded_tensor():
    gradient = torch.tensor([1.0, 2.0]).as_strided((3, 2), (0, 1))
    result = collapsed(gradient)
    assert torch.equal(result, torch.tensor([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]))
