"""Integer ops against Python's integers, at every edge of every width."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evaluate.kernels import TORCH, evaluate, pairs, pointwise
from undertow.ir import DTYPES
from undertow.ir.ops import INT_BINARY, INT_PREDICATES

WIDTHS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
Reference = Callable[[int, int, int], int | None]
"""Takes two signed readings and the width; None where the result is undefined."""


def signed(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def unsigned(value: int, bits: int) -> int:
    return value % (1 << bits)


def truncated(a: int, b: int, bits: int) -> int | None:
    if b == 0 or (b == -1 and a == -(1 << (bits - 1))):
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder(a: int, b: int, bits: int) -> int | None:
    quotient = truncated(a, b, bits)
    return None if quotient is None else a - quotient * b


def read_unsigned(fn: Callable[[int, int], int]) -> Reference:
    return lambda a, b, bits: fn(unsigned(a, bits), unsigned(b, bits))


def shifted(fn: Callable[[int, int], int], *, as_unsigned: bool = False) -> Reference:
    def shift(a: int, b: int, bits: int) -> int | None:
        a = unsigned(a, bits) if as_unsigned else a
        return fn(a, b) if 0 <= b < bits else None

    return shift


def nonzero(fn: Reference) -> Reference:
    return lambda a, b, bits: None if b == 0 else fn(a, b, bits)


REFERENCES: dict[str, Reference] = {
    "add": lambda a, b, bits: a + b,
    "sub": lambda a, b, bits: a - b,
    "mul": lambda a, b, bits: a * b,
    "sdiv": truncated,
    "srem": remainder,
    "udiv": nonzero(read_unsigned(operator.floordiv)),
    "urem": nonzero(read_unsigned(operator.mod)),
    "and": lambda a, b, bits: a & b,
    "or": lambda a, b, bits: a | b,
    "xor": lambda a, b, bits: a ^ b,
    "shl": shifted(operator.lshift),
    "sshr": shifted(operator.rshift),
    "ushr": shifted(operator.rshift, as_unsigned=True),
    "smax": lambda a, b, bits: max(a, b),
    "smin": lambda a, b, bits: min(a, b),
    "umax": read_unsigned(max),
    "umin": read_unsigned(min),
    "umulhi": lambda a, b, bits: (unsigned(a, bits) * unsigned(b, bits)) >> bits,
}
COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def edges(bits: int) -> list[int]:
    top = (1 << (bits - 1)) - 1
    return [0, 1, 2, 3, 7, bits - 1, top // 3, top - 1, top, -1, -2, -7, -top, -top - 1]


def check(opcode: str, a: torch.Tensor, b: torch.Tensor, bits: int) -> None:
    got = pointwise(opcode, a, b).tolist()
    for x, y, z in zip(a.tolist(), b.tolist(), got, strict=True):
        expected = REFERENCES[opcode](x, y, bits)
        if expected is not None:
            assert z == signed(expected, bits), (opcode, x, y)


def test_every_binary_op_has_a_reference() -> None:
    assert set(REFERENCES) == {*INT_BINARY, "add", "sub", "mul"}


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("opcode", REFERENCES)
def test_binary_ops_at_the_edges(opcode: str, dtype: str) -> None:
    bits = WIDTHS[dtype]
    check(opcode, *pairs(edges(bits), TORCH[dtype]), bits)


@pytest.mark.parametrize("opcode", ["udiv", "urem", "umulhi", "ushr", "sdiv"])
@given(data=st.data())
def test_wide_ops_on_any_numbers(opcode: str, data: st.DataObject) -> None:
    number = st.integers(-(1 << 63), (1 << 63) - 1)
    values = data.draw(st.lists(st.tuples(number, number), min_size=1, max_size=8))
    a, b = (torch.tensor(column) for column in zip(*values, strict=True))
    check(opcode, a, b, 64)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("predicate", INT_PREDICATES)
def test_predicates(predicate: str, dtype: str) -> None:
    bits = WIDTHS[dtype]
    a, b = pairs(edges(bits), TORCH[dtype])
    got = pointwise("cmp", a, b, predicate=predicate).tolist()
    read = unsigned if predicate[0] == "u" else signed
    compare = COMPARE[predicate[-2:]]
    expected = [
        compare(read(x, bits), read(y, bits))
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert got == expected


def test_negation_wraps() -> None:
    x = torch.tensor([0, 5, -128, 127], dtype=torch.int8)
    assert pointwise("neg", x).tolist() == [0, -5, -128, -127]


@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "and", "or", "xor", "umax"])
def test_truth_values_are_one_bit_integers(opcode: str) -> None:
    a, b = pairs([0, 1], torch.bool)
    got = pointwise(opcode, a, b).int().tolist()
    expected = [
        signed(REFERENCES[opcode](-x, -y, 1) or 0, 1) & 1
        for x, y in zip(a.int().tolist(), b.int().tolist(), strict=True)
    ]
    assert got == expected


def test_comparing_truth_values() -> None:
    a, b = pairs([0, 1], torch.bool)
    assert pointwise("cmp", a, b, predicate="ult").tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert pointwise("cmp", a, b, predicate="slt").tolist() == [
        False,
        False,
        True,
        False,
    ]
    assert pointwise("cmp", a, b, predicate="eq").tolist() == [True, False, False, True]


@pytest.mark.parametrize("divisor", [-3, -1, 0, 1, 4, 256])
def test_division_by_a_constant(divisor: int) -> None:
    a = torch.tensor([-257, -256, -7, 0, 7, 255, 256, 1000], dtype=torch.int32)
    for opcode in ("sdiv", "srem", "udiv", "urem"):
        got = evaluate(
            lambda b, x, opcode=opcode: b.pointwise(
                opcode, x, b.const(divisor, x.type)
            ),
            a,
        ).tolist()
        if divisor:
            expected = [REFERENCES[opcode](x, divisor, 32) for x in a.tolist()]
            assert got == [signed(x or 0, 32) for x in expected]


def test_constants_may_be_written_as_unsigned() -> None:
    x = torch.tensor([1], dtype=torch.int32)
    got = evaluate(
        lambda b, v: b.pointwise("add", v, b.const(2**32 - 1, v.tensor_type)),
        x,
        programs=1,
    )
    assert got.tolist() == [0]


# -- conversions -----------------------------------------------------------------------


def cast(x: torch.Tensor, to: str, *, signed: bool = True) -> list[object]:
    op = evaluate(
        lambda b, v: b.cast(v, DTYPES[to], signed=signed),
        x,
        result=TORCH[to],
        programs=1,
    )
    return op.tolist()


def test_integers_extend_by_their_sign() -> None:
    x = torch.tensor([-1, -128, 127], dtype=torch.int8)
    assert cast(x, "i32") == [-1, -128, 127]
    assert cast(x, "i32", signed=False) == [255, 128, 127]
    assert cast(x, "i64", signed=False) == [255, 128, 127]
    assert cast(x, "f32", signed=False) == [255.0, 128.0, 127.0]
    assert cast(x, "f32") == [-1.0, -128.0, 127.0]


def test_integers_narrow_by_wrapping() -> None:
    x = torch.tensor([255, 256, -129, 1 << 20], dtype=torch.int32)
    assert cast(x, "i8") == [-1, 0, 127, 0]
    assert cast(x, "i1") == [True, False, True, False]


def test_truth_values_convert_to_zero_and_one() -> None:
    x = torch.tensor([True, False])
    assert cast(x, "f32") == [1.0, 0.0]
    assert cast(x, "i32") == [1, 0]
    assert cast(x, "i64", signed=False) == [1, 0]


def test_floats_truncate() -> None:
    x = torch.tensor([-1.9, -0.5, 0.5, 1.9, 200.0])
    assert cast(x, "i32") == [-1, 0, 0, 1, 200]
    assert cast(x, "i8", signed=False) == [-1, 0, 0, 1, -56]
    assert cast(x, "i1") == [True] * 5


def test_unsigned_64_bits_round_once() -> None:
    numbers = [0, 1, 1 << 63, (1 << 64) - 1, (1 << 63) + (1 << 39) + 1, (1 << 24) + 1]
    x = torch.tensor([signed(n, 64) for n in numbers])
    expected = [float(torch.tensor(float(n), dtype=torch.float64)) for n in numbers]
    assert cast(x, "f64", signed=False) == expected
    # Half way between two float32 numbers but for the last bit, which decides.
    assert cast(x, "f32", signed=False)[4] == float((1 << 63) + (1 << 40))
    back = torch.tensor([0.5, 2.0**63, 2.0**64 - 2.0**11], dtype=torch.float64)
    got = [unsigned(int(n), 64) for n in cast(back, "i64", signed=False)]  # type: ignore[call-overload]
    assert got == [0, 1 << 63, (1 << 64) - 2048]


def test_bitcasts_keep_the_bits() -> None:
    x = torch.tensor([1.0, -0.0, float("inf"), float("nan")])
    bits = evaluate(
        lambda b, v: b.pure("bitcast", (v,), v.tensor_type.with_dtype(DTYPES["i32"])),
        x,
        result=torch.int32,
    )
    assert torch.equal(bits, x.view(torch.int32))
