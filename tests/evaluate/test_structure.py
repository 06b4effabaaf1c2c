"""Structural ops and reductions against torch, on values held compactly or in full."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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


# -- values held compactly mean what full ones mean ------------------------------------

Pair = tuple[Value, Tensor]
"""A value, and what it is in every lane of every program."""


def start(b: Builder, programs: int) -> Pair:
    ids = torch.arange(programs, dtype=torch.int32)
    return b.program_id(0), ids


def grow(b: Builder, pair: Pair, choice: int) -> Pair:
    """`pair` after one structural op that fits it."""
    value, full = pair
    rank = len(value.shape)
    if choice == 0 and rank < 3:
        return b.expand_dims(value, rank // 2), full.unsqueeze(rank // 2 + 1)
    if choice == 1:
        wide = tuple(3 if n == 1 else n for n in value.shape) or (2, 1)
        lead = full.view(-1, 1, 1) if rank == 0 else full
        return b.broadcast(value, wide), lead.expand(-1, *wide)
    if choice == 2 and rank:
        total = full.sum(rank, dtype=torch.int32)
        return b.reduce(value, "sum", rank - 1), total
    if choice == 3:
        order = tuple(reversed(range(rank)))
        return b.transpose(value, order), full.permute(0, *(i + 1 for i in order))
    if choice == 4 and rank:
        return b.reshape(value, (full[0].numel(),)), full.reshape(full.shape[0], -1)
    if choice == 5 and rank == 1:
        count = value.shape[0]
        row = torch.arange(count, dtype=torch.int32)
        return b.pointwise("add", value, lanes(b, count)), full + row
    if choice == 6 and rank < 3:
        other = b.pointwise("mul", value, value)
        return b.join(value, other), torch.stack([full, full * full], -1)
    if choice == 7 and value.shape[-1:] == (2,):
        first, second = b.split(value)
        return b.pointwise("sub", first, second), full[..., 0] - full[..., 1]
    return b.pointwise("add", value, value), full + full


@given(choices=st.lists(st.integers(0, 7), max_size=14), programs=st.integers(1, 3))
def test_random_structure(choices: list[int], programs: int) -> None:
    expected: list[Tensor] = []

    def body(b: Builder, p: dict[str, Value]) -> None:
        value, full = start(b, programs)
        for choice in choices:
            if full[0].numel() < 1000 or choice not in (1, 6):
                value, full = grow(b, (value, full), choice)
        count = full[0].numel()
        value = b.reshape(value, (count,))
        size = b.const(count, scalar(DTYPES["i32"]))
        at = b.pointwise("mul", b.program_id(0), size)
        b.store(Access(p["out"], (at, lanes(b, count)), value, None, None))
        expected.append(full.reshape(-1))

    compact = build({"out": "*i32"}, body)
    out = torch.zeros_like(expected[0])
    run(compact, {"out": out}, (programs,))
    assert torch.equal(out, expected[0])
