"""Merging while building: equal pure ops are one value, and only those."""

from __future__ import annotations

import math

from undertow.ir import F32, I1, I32, Access, Builder, PointerType, TensorType, Value, scalar


def test_equal_ops_are_one_value() -> None:
    b, x = Builder(), Value(scalar(F32), "x")
    assert b.pointwise("exp", x) is b.pointwise("exp", x)
    assert b.pointwise("exp", x) is not b.pointwise("exp2", x)
    one = b.const(1.0, scalar(F32))
    assert b.pointwise("sub", x, one) is not b.pointwise("sub", one, x)


def test_constants_are_told_apart_by_bits_and_type() -> None:
    b, f, i = Builder(), scalar(F32), scalar(I32)
    values = [b.const(0.0, f), b.const(-0.0, f), b.const(0, i), b.const(False, scalar(I1))]
    assert len(set(values)) == 4
    assert b.const(math.nan, f) is b.const(math.nan, f)
    assert b.const(1, TensorType(I32, (2,))) is not b.const(1, i)


def test_both_halves_of_a_split_come_from_one_op() -> None:
    b, x = Builder(), Value(TensorType(F32, (4, 2)), "x")
    first, second = b.split(x)
    assert first.op is second.op
    assert b.split(x) == (first, second)


def test_loads_are_not_merged() -> None:
    b, p = Builder(), Value(PointerType(F32), "p")
    access = Access(p, (), None, None, None)
    assert b.load(access, scalar(F32)) is not b.load(access, scalar(F32))


def test_a_region_sees_outside_and_is_not_seen() -> None:
    b, x = Builder(), Value(scalar(F32), "x")
    outer = b.pointwise("exp", x)
    with b.region() as block:
        assert b.pointwise("exp", x) is outer
        inner = b.pointwise("log", x)
    assert [op.opcode for op in block.ops] == ["log"]
    assert b.pointwise("log", x) is not inner
