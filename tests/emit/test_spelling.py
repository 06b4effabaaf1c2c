"""Every pointwise opcode, as it is spelled, means what it meant."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from emit.roundtrip import (
    LANES,
    TORCH,
    build,
    loaded,
    recaptured,
    run,
    same,
    stored,
    vector,
)
from undertow.emit import emit
from undertow.ir import (
    DTYPES,
    OPS,
    Attr,
    Builder,
    Kernel,
    Value,
)
from undertow.ir.ops import FLOAT_PREDICATES, INT_PREDICATES

HOLES = [math.nan, math.inf, -math.inf, 0.0, -0.0]
SPECIAL = ("cast", "bitcast", "cmp", "select")
POINTWISE = [
    name for name, d in OPS.items() if d.kind == "pointwise" and name not in SPECIAL
]
LOGICAL = ("and", "or", "xor")
FLOATS = ("f16", "bf16", "f32", "f64")


def numbers(dtype: str, seed: int, *, low: float = -3.0, high: float = 3.0) -> Tensor:
    """Ordinary numbers and, of floats, the extraordinary ones."""
    generator = torch.Generator().manual_seed(seed)
    of = TORCH[dtype]
    if of == torch.bool:
        return torch.randint(2, (LANES,), generator=generator).bool()
    x = low + (high - low) * torch.rand(LANES, generator=generator, dtype=torch.float64)
    if of.is_floating_point:
        x[: len(HOLES)] = torch.tensor(HOLES, dtype=x.dtype)
        return x.roll(seed).to(of)
    return (x * 40).to(of)


def operands(opcode: str, dtype: str) -> list[Tensor]:
    """Operands of an op for which its result is defined."""
    arity = OPS[opcode].arity
    assert arity is not None
    xs = [numbers(dtype, seed) for seed in range(arity)]
    if opcode in ("sdiv", "udiv", "srem", "urem"):
        xs[1] = torch.where(xs[1] == 0, 7, xs[1])
    if opcode in ("shl", "sshr", "ushr"):
        xs[1] = xs[1].abs() % TORCH[dtype].itemsize
    if opcode == "clamp":
        xs[1:] = [torch.full_like(xs[0], bound) for bound in (-1.0, 1.0)]
    return xs


def applied(
    opcode: str, dtype: str, attrs: dict[str, Attr], *, lanes: bool = True
) -> tuple[Kernel, dict[str, object]]:
    """A kernel that applies one op, and its arguments."""
    xs = operands(opcode, dtype)
    result = "i1" if OPS[opcode].typing == "bool" else dtype

    def body(b: Builder, *pointers: Value) -> None:
        values = [loaded(b, p, lanes=lanes) for p in pointers[:-1]]
        type = values[-1].tensor_type.with_dtype(DTYPES[result])
        stored(b, pointers[-1], b.pure(opcode, values, type, attrs))

    params = {f"x{i}": f"*{dtype}" for i in range(len(xs))} | {"y": f"*{result}"}
    args: dict[str, object] = {f"x{i}": x for i, x in enumerate(xs)}
    return build(params, body), args | {"y": torch.zeros(LANES, dtype=TORCH[result])}


def check(kernel: Kernel, args: dict[str, object], folder: Path) -> None:
    again = recaptured(kernel, emit(kernel), folder)
    same(run(again, args), run(kernel, args))


def attributes(opcode: str) -> Iterator[dict[str, Attr]]:
    if opcode == "clamp":
        yield from ({"nan": nan} for nan in (False, True))
    else:
        yield {}


def variants() -> Iterator[tuple[str, str]]:
    for opcode in POINTWISE:
        domain = OPS[opcode].domain
        if domain != "int":
            yield from ((opcode, dtype) for dtype in ("f32", "f64"))
        if domain != "float":
            # `tl.umulhi` takes 32 and 64 bits
            integers = ("i32", "i64") if opcode == "umulhi" else ("i8", "i32", "i64")
            yield from ((opcode, dtype) for dtype in integers)
        if opcode in LOGICAL:
            yield opcode, "i1"


@pytest.mark.parametrize(("opcode", "dtype"), list(variants()))
def test_a_pointwise_opcode(opcode: str, dtype: str, tmp_path: Path) -> None:
    for attrs in attributes(opcode):
        for lanes in (True, False):
            check(*applied(opcode, dtype, attrs, lanes=lanes), tmp_path)


def predicates() -> Iterator[tuple[str, str]]:
    for dtype, names in (
        ("f32", FLOAT_PREDICATES),
        ("i32", INT_PREDICATES),
        ("i1", ["eq", "ne"]),
    ):
        yield from ((name, dtype) for name in names)


@pytest.mark.parametrize(("predicate", "dtype"), list(predicates()))
def test_a_comparison(predicate: str, dtype: str, tmp_path: Path) -> None:
    check(*applied("cmp", dtype, {"predicate": predicate}), tmp_path)


READ_UNSIGNED = ["udiv", "urem", "ushr", "umax", "umin", "umulhi", "ult", "uge"]


def unsigned(b: Builder, opcode: str, x: Value, y: Value) -> Value:
    if opcode in OPS:
        return b.pure(opcode, [x, y], x.tensor_type)
    type = x.tensor_type.with_dtype(DTYPES["i1"])
    holds = b.pure("cmp", [x, y], type, {"predicate": opcode})
    return b.cast(holds, x.tensor_type.dtype)


@pytest.mark.parametrize("constant", [5, -7])
@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("opcode", READ_UNSIGNED)
def test_literals_read_as_unsigned(
    opcode: str, dtype: str, constant: int, tmp_path: Path
) -> None:
    """A literal has no methods; `tl.rand` shifts and multiplies by some."""
    shift = opcode == "ushr"

    def body(b: Builder, x: Value, y: Value, z: Value, last: Value) -> None:
        for lanes in (True, False):
            value = loaded(b, x, lanes=lanes)
            literal = b.const(constant % 32 if shift else constant, value.tensor_type)
            stored(b, y, unsigned(b, opcode, value, literal))
            if not shift:
                stored(b, z, unsigned(b, opcode, literal, value))
                stored(b, last, unsigned(b, opcode, literal, literal))

    x = numbers(dtype, 1)
    x = torch.where(x == 0, 9, x)
    blank = torch.zeros_like(x)
    args = {"x": x, "y": blank, "z": blank, "last": blank}
    check(build(dict.fromkeys(args, f"*{dtype}"), body), args, tmp_path)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("opcode", READ_UNSIGNED)
def test_parameters_read_as_unsigned(opcode: str, dtype: str, tmp_path: Path) -> None:
    """Where they are 1, a launch folds them to a literal."""

    def body(b: Builder, n: Value, x: Value, y: Value) -> None:
        value = loaded(b, x, lanes=False)
        less = b.pure("sub", [n, b.const(4, n.tensor_type)], n.tensor_type)
        total = unsigned(b, opcode, value, n)
        if opcode != "ushr":
            other = unsigned(b, opcode, less, value)
            total = b.pure("add", [total, other], total.tensor_type)
        stored(b, y, total)

    kernel = build({"n": dtype, "x": f"*{dtype}", "y": f"*{dtype}"}, body)
    args = {"n": 1, "x": numbers(dtype, 1)[9:], "y": numbers(dtype, 2)}
    again = recaptured(kernel, emit(kernel), tmp_path, ones=True)
    same(run(again, args), run(kernel, args))


@pytest.mark.parametrize("negated", [False, True])
def test_a_wider_copy_and_a_parameter(negated: bool, tmp_path: Path) -> None:
    """Where it is 1 Triton takes it for a number, which widens nothing."""

    def body(b: Builder, n: Value, x: Value, y: Value) -> None:
        value = loaded(b, x, lanes=False)
        twice = b.pure("xor", [value, value], value.tensor_type)
        value = b.pure("or", [value, twice], value.tensor_type)
        stored(b, x, value)
        wide = b.cast(value, DTYPES["i32"])
        if negated:
            n = b.pure("sub", [n, b.const(3, n.tensor_type)], n.tensor_type)
            wide = b.pure("neg", [wide], wide.tensor_type)
        stored(b, y, b.pure("add", [wide, n], wide.tensor_type))

    kernel = build({"n": "i32", "x": "*i16", "y": "*i32"}, body)
    x = torch.full((LANES,), 2**15 - 1, dtype=torch.int16)
    args = {"n": 1, "x": x, "y": torch.zeros(LANES, dtype=torch.int32)}
    again = recaptured(kernel, emit(kernel), tmp_path, ones=True)
    same(run(again, args), run(kernel, args))


@pytest.mark.parametrize("predicate", ["ult", "sge"])
def test_a_comparison_of_a_wider_copy(predicate: str, tmp_path: Path) -> None:
    def body(b: Builder, x: Value, y: Value, z: Value) -> None:
        wide = b.cast(loaded(b, x), DTYPES["i32"])
        holds = b.pure(
            "cmp", [wide, loaded(b, y)], vector("i1"), {"predicate": predicate}
        )
        stored(b, z, holds)

    kernel = build({"x": "*i16", "y": "*i32", "z": "*i1"}, body)
    x, y = numbers("i16", 1), numbers("i32", 2)
    z = torch.zeros(LANES, dtype=torch.bool)
    check(kernel, {"x": x, "y": y, "z": z}, tmp_path)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i1", "i32"])
def test_a_selection(dtype: str, tmp_path: Path) -> None:
    def body(b: Builder, c: Value, x: Value, y: Value, out: Value) -> None:
        values = [loaded(b, p) for p in (c, x, y)]
        stored(b, out, b.pure("select", values, vector(dtype)))

    kernel = build({"c": "*i1", **dict.fromkeys("xyz", f"*{dtype}")}, body)
    args = {n: numbers(dtype, seed) for seed, n in enumerate("xyz")}
    check(kernel, {**args, "c": numbers("i1", 9)}, tmp_path)


DEFINED = {"i1": (0, 1), "i8": (0, 2), "i16": (-3, 3), "i32": (-3, 3), "i64": (-3, 3)}


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(
    ("source", "target"),
    list(itertools.permutations(["i1", "i8", "i32", "i64", *FLOATS], 2)),
)
def test_a_cast(source: str, target: str, signed: bool, tmp_path: Path) -> None:
    def body(b: Builder, x: Value, y: Value) -> None:
        stored(b, y, b.cast(loaded(b, x), DTYPES[target], signed=signed))

    low, high = DEFINED.get(target, (-3, 3))
    x = numbers(source, 1, low=low if signed else 0, high=high)
    if TORCH[source].is_floating_point and not TORCH[target].is_floating_point:
        x = torch.where(x.isfinite(), x, 1.5)
    args = {"x": x, "y": torch.zeros(LANES, dtype=TORCH[target])}
    check(build({"x": f"*{source}", "y": f"*{target}"}, body), args, tmp_path)


@pytest.mark.parametrize(
    ("source", "target"),
    [("f32", "i32"), ("i32", "f32"), ("bf16", "i16"), ("f64", "i64")],
)
def test_a_bitcast(source: str, target: str, tmp_path: Path) -> None:
    def body(b: Builder, x: Value, y: Value) -> None:
        stored(b, y, b.pure("bitcast", [loaded(b, x)], vector(target)))

    args = {"x": numbers(source, 1), "y": torch.zeros(LANES, dtype=TORCH[target])}
    check(build({"x": f"*{source}", "y": f"*{target}"}, body), args, tmp_path)


CONSTANTS = [
    0.0, 1.0, -1.0, 0.1, 1 / 3, 1e-30, 3.4e38, -2.5e-7, 16777216.0,
    math.inf, -math.inf, math.nan,
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_constants_keep_every_digit(dtype: str, tmp_path: Path) -> None:
    exact = torch.tensor(CONSTANTS, dtype=TORCH[dtype]).double().tolist()

    def body(b: Builder, x: Value, y: Value) -> None:
        total = loaded(b, x)
        for value in exact:
            constant = b.const(value, vector(dtype))
            total = b.pure("maxnum", [total, constant], vector(dtype))
            total = b.pure("mul", [total, constant], vector(dtype))
            stored(b, y, total)

    args = {"x": numbers(dtype, 1), "y": torch.zeros(LANES, dtype=TORCH[dtype])}
    check(build({"x": f"*{dtype}", "y": f"*{dtype}"}, body), args, tmp_path)
