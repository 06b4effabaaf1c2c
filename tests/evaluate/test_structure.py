"""Structural ops and reductions against torch, on values held compactly or in full."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from evaluate.kernels import TORCH, build, evaluate, kernel, lanes
from undertow.evaluate import run
from undertow.ir import DTYPES, Access, Builder, Value, scalar

PROGRAMS, ROWS, COLUMNS = 2, 4, 8
ELEMENTS = PROGRAMS * ROWS * COLUMNS


def table(b: Builder, value: Value) -> Value:
    return b.reshape(value, (ROWS, COLUMNS))


def reduced(x: Tensor, kind: str, axis: int) -> Tensor:
    """The reduction of each program's table, read back lane by lane."""
    count = ROWS * COLUMNS

    def op(b: Builder, value: Value) -> Value:
        result = b.reduce(table(b, value), kind, axis)
        spread = b.broadcast(b.expand_dims(result, axis), (ROWS, COLUMNS))
        return b.reshape(spread, (count,))

    dtype = torch.int32 if kind.startswith("arg") else x.dtype
    full = evaluate(op, x, result=dtype, programs=PROGRAMS)
    return full.view(PROGRAMS, ROWS, COLUMNS).select(axis + 1, 0)


def sample(dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(0)
    if dtype.is_floating_point:
        return torch.randn(ELEMENTS).to(dtype)
    return torch.randint(-100, 100, (ELEMENTS,)).to(dtype)


def test_transpose_reshape_and_expand() -> None:
    x = sample()

    def op(b: Builder, value: Value) -> Value:
        turned = b.transpose(table(b, value), (1, 0))
        return b.reshape(b.expand_dims(turned, 1), (ROWS * COLUMNS,))

    expected = x.view(PROGRAMS, ROWS, COLUMNS).transpose(1, 2).reshape(-1)
    assert torch.equal(evaluate(op, x), expected)


def test_join_and_split_undo_each_other() -> None:
    x, y = sample(), sample().flip(0).contiguous()

    def op(b: Builder, u: Value, v: Value) -> Value:
        first, second = b.split(b.join(u, v))
        return b.pointwise("sub", first, second)

    assert torch.equal(evaluate(op, x, y), x - y)


def test_join_orders_the_last_axis() -> None:
    x = sample()

    def op(b: Builder, value: Value) -> Value:
        joined = b.join(value, b.pointwise("neg", value))
        first, _ = b.split(b.transpose(joined, (0, 1)))
        flat = b.reshape(joined, (2 * ROWS * COLUMNS,))
        total = b.broadcast(b.reduce(flat, "max", 0), value.shape)
        return b.pointwise("add", first, total)

    expected = x.view(PROGRAMS, -1)
    expected = expected + expected.abs().amax(1, keepdim=True)
    assert torch.equal(evaluate(op, x), expected.view(-1))


def test_a_broadcast_value_counts_once_for_each_lane() -> None:
    def body(b: Builder, p: dict[str, Value]) -> None:
        one = b.const(1.5, scalar(DTYPES["f32"]))
        full = b.broadcast(b.broadcast(one, (1, 8)), (4, 8))
        first, second = b.split(b.broadcast(b.broadcast(one, (1,)), (2,)))
        total = b.reduce(b.reduce(full, "sum", 1), "sum", 0)
        total = b.pointwise("add", total, b.pointwise("add", first, second))
        b.store(Access(p["out"], (b.program_id(0),), total, None, None))

    out = torch.zeros(3)
    run(build({"out": "*f32"}, body), {"out": out}, (3,))
    assert out.tolist() == [51.0] * 3


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "argmax", "argmin"])
def test_float_reductions(kind: str, axis: int) -> None:
    x = sample(torch.float64)
    view = x.view(PROGRAMS, ROWS, COLUMNS)
    name = {"max": "amax", "min": "amin"}.get(kind, kind)
    expected = getattr(torch, name)(view, dim=axis + 1)
    torch.testing.assert_close(
        reduced(x, kind, axis), expected.to(torch.int32) if "arg" in kind else expected
    )


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64"])
@pytest.mark.parametrize(
    "kind", ["sum", "smax", "smin", "umax", "umin", "and", "or", "xor"]
)
def test_integer_reductions(kind: str, dtype: str) -> None:
    x = sample(TORCH[dtype])
    mask = (1 << DTYPES[dtype].bits) - 1
    fold = {
        "sum": sum,
        "smax": max,
        "smin": min,
        "umax": lambda row: max(v & mask for v in row),
        "umin": lambda row: min(v & mask for v in row),
        "and": lambda row: _fold(row, int.__and__),
        "or": lambda row: _fold(row, int.__or__),
        "xor": lambda row: _fold(row, int.__xor__),
    }[kind]
    got = reduced(x, kind, 1).reshape(-1).tolist()
    for row, value in zip(x.view(-1, COLUMNS).tolist(), got, strict=True):
        assert (value - fold(row)) & mask == 0


def _fold(row: list[int], combine: object) -> int:
    result = row[0]
    for value in row[1:]:
        result = combine(result, value)  # type: ignore[operator]
    return result


@pytest.mark.parametrize(("kind", "expected"), [("and", 0), ("or", 1), ("xor", 1)])
def test_reductions_of_truth_values(kind: str, expected: int) -> None:
    x = torch.zeros(ELEMENTS, dtype=torch.bool)
    x.view(-1, COLUMNS)[:, 1:4] = True
    assert reduced(x, kind, 1).int().eq(expected).all()


def test_argmax_takes_the_first_of_equals() -> None:
    x = torch.zeros(ELEMENTS)
    x.view(-1, COLUMNS)[:, [2, 5]] = 1.0
    assert reduced(x, "argmax", 1).eq(2).all()
    assert reduced(-x, "argmin", 1).eq(2).all()
    assert reduced(x.bool(), "argmax", 1).dtype == torch.int32


def test_extremes_ignore_nan_unless_there_is_nothing_else() -> None:
    x = torch.arange(ELEMENTS, dtype=torch.float32)
    rows = x.view(PROGRAMS, ROWS, COLUMNS)
    rows[0, 0, 7], rows[0, 1] = math.nan, math.nan
    got = reduced(x, "max", 1)
    assert got[0, 0] == 6.0
    assert got[0, 1].isnan()
    assert got[1, 3] == ELEMENTS - 1
    assert reduced(x, "argmax", 1)[0, 0] == 6


def test_sums_of_half_types_round_once() -> None:
    x = torch.full((ELEMENTS,), 0.1, dtype=torch.bfloat16)
    x[::COLUMNS] = 256.0
    expected = x.view(PROGRAMS, ROWS, COLUMNS).float().sum(2).to(torch.bfloat16)
    assert torch.equal(reduced(x, "sum", 1), expected)


def test_sums_of_integers_wrap() -> None:
    x = torch.full((ELEMENTS,), 2**30, dtype=torch.int32)
    assert reduced(x, "sum", 1).eq(0).all()


def test_a_reshape_of_a_value_held_compactly() -> None:
    text = """kernel k(%out: ptr<i32>) {
      %0 = range() <start=0, end=2> : i32[2]
      %1 = expand_dims(%0) <axis=0> : i32[1,2]
      %2 = broadcast(%1) : i32[3,2]
      %3 = reshape(%2) : i32[6]
      %4 = range() <start=0, end=6> : i32[6]
      store(%out, %3, %4)
    }"""
    out = torch.full((6,), -1, dtype=torch.int32)
    run(kernel(text), {"out": out}, (1,))
    assert out.tolist() == [0, 1] * 3


def test_lanes_are_a_range() -> None:
    def body(b: Builder, p: dict[str, Value]) -> None:
        b.store(Access(p["out"], (lanes(b, 4),), lanes(b, 4), None, None))

    out = torch.zeros(4, dtype=torch.int32)
    run(build({"out": "*i32"}, body), {"out": out}, (1,))
    assert out.tolist() == [0, 1, 2, 3]
