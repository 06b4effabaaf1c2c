"""Folding is exact: an identity gives the same bits, whatever stands in the lanes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from undertow.evaluate import run
from undertow.ir import (
    BF16,
    F16,
    F32,
    I1,
    I8,
    I32,
    I64,
    Access,
    Builder,
    DType,
    Kernel,
    PointerType,
    TensorType,
    Value,
    scalar,
    verify,
)
from undertow.transform.fold import fold

SHAPE = (4, 8)
EDGES = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 3e38, 1e-45, 1.5]
Build = Callable[[Builder, Value, Value], Value]


def bits(
    build: Build, folder: object, dtype: DType, torch_dtype: torch.dtype
) -> list[int]:
    """What `build` gives on pairs of edge cases, bit by bit, folded or not."""
    b = Builder(folder)  # type: ignore[arg-type]
    names = ("x", "y", "z")
    x_ptr, y_ptr, z_ptr = (Value(PointerType(dtype), n) for n in names)
    lane = b.pure("range", (), TensorType(I32, (32,)), {"start": 0, "end": 32})
    pid = b.pointwise("mul", b.program_id(0), b.const(32, scalar(I32)))
    flat = b.pointwise("add", b.broadcast(pid, (32,)), lane)
    offsets = (b.reshape(flat, SHAPE),)
    type = TensorType(dtype, SHAPE)
    x, y = (b.load(Access(p, offsets, None, None, None), type) for p in (x_ptr, y_ptr))
    z = build(b, x, y)
    b.store(Access(z_ptr, offsets, z, None, None))
    kernel = verify(Kernel("k", (x_ptr, y_ptr, z_ptr), b.block))
    values = EDGES if dtype.is_float else [0, 1, -1, 2, 5, -7, 100, -128, 127, 64]
    grid = torch.tensor(values).to(torch_dtype)
    pairs = torch.cartesian_prod(grid, grid).repeat(2, 1)[:128].contiguous()
    xs, ys = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    zs = torch.zeros(128, dtype=torch_dtype)
    run(kernel, {"x": xs, "y": ys, "z": zs}, (4,))
    zs = torch.where(zs.isnan(), torch.nan, zs) if dtype.is_float else zs
    raw = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return zs.view(raw[zs.element_size()]).tolist()


def neg(b: Builder, x: Value) -> Value:
    return b.pointwise("neg", x)


def number(b: Builder, value: float, x: Value) -> Value:
    return b.const(value, x.tensor_type)


FLOATS: dict[str, Build] = {
    "x + x": lambda b, x, y: b.pointwise("add", x, x),
    "x + -y": lambda b, x, y: b.pointwise("add", x, neg(b, y)),
    "-x + y": lambda b, x, y: b.pointwise("add", neg(b, x), y),
    "x - -y": lambda b, x, y: b.pointwise("sub", x, neg(b, y)),
    "x - 0": lambda b, x, y: b.pointwise("sub", x, number(b, 0.0, x)),
    "x - -0": lambda b, x, y: b.pointwise("sub", x, number(b, -0.0, x)),
    "x + 0": lambda b, x, y: b.pointwise("add", x, number(b, 0.0, x)),
    "1 * x": lambda b, x, y: b.pointwise("mul", number(b, 1.0, x), x),
    "x * -1": lambda b, x, y: b.pointwise("mul", x, number(b, -1.0, x)),
    "x * 0": lambda b, x, y: b.pointwise("mul", x, number(b, 0.0, x)),
    "-x * y": lambda b, x, y: b.pointwise("mul", neg(b, x), y),
    "-x * -y": lambda b, x, y: b.pointwise("mul", neg(b, x), neg(b, y)),
    "x / 1": lambda b, x, y: b.pointwise("div", x, number(b, 1.0, x)),
    "x / -y": lambda b, x, y: b.pointwise("div", x, neg(b, y)),
    "--x": lambda b, x, y: neg(b, neg(b, x)),
    "where(x < y, -x, 0)": lambda b, x, y: b.pointwise(
        "select",
        b.pointwise("cmp", x, y, predicate="olt"),
        neg(b, x),
        number(b, 0.0, x),
    ),
    "1 / where(x < y, -x, 0)": lambda b, x, y: b.pointwise(
        "div",
        number(b, 1.0, x),
        b.pointwise(
            "select",
            b.pointwise("cmp", x, y, predicate="olt"),
            neg(b, x),
            number(b, 0.0, x),
        ),
    ),
    "sum(-x)": lambda b, x, y: b.broadcast(
        b.expand_dims(b.reduce(neg(b, x), "sum", 1), 1), SHAPE
    ),
    "cast(-x)": lambda b, x, y: b.cast(
        b.cast(neg(b, x), BF16), x.tensor_type.dtype
    ),
    "-0 spread": lambda b, x, y: b.pointwise(
        "mul", b.broadcast(b.reduce(b.reduce(x, "max", 1), "max", 0), SHAPE),
        number(b, -0.0, x),
    ),
    "transposed twice": lambda b, x, y: b.transpose(b.transpose(x, (1, 0)), (1, 0)),
    "reshaped twice": lambda b, x, y: b.reshape(
        b.reshape(b.expand_dims(x, 1), (2, 16)), SHAPE
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(
    ("dtype", "held"), [(F32, torch.float32), (F16, torch.float16)], ids=["f32", "f16"]
)
def test_floats(name: str, dtype: DType, held: torch.dtype) -> None:
    build = FLOATS[name]
    assert bits(build, fold, dtype, held) == bits(build, None, dtype, held)


INTEGERS: dict[str, Build] = {
    "x + 0": lambda b, x, y: b.pointwise("add", x, number(b, 0, x)),
    "x - 0": lambda b, x, y: b.pointwise("sub", x, number(b, 0, x)),
    "1 * x": lambda b, x, y: b.pointwise("mul", number(b, 1, x), x),
    "100 * 100": lambda b, x, y: b.pointwise(
        "add", x, b.pointwise("mul", number(b, 100, x), number(b, 100, x))
    ),
    "-(-128)": lambda b, x, y: b.pointwise("add", y, neg(b, number(b, -128, x))),
    "x & x": lambda b, x, y: b.pointwise("and", x, x),
    "cast(100)": lambda b, x, y: b.cast(
        b.cast(number(b, 100, x), I64), x.tensor_type.dtype
    ),
    "not not": lambda b, x, y: b.cast(
        b.pointwise(
            "xor",
            b.pointwise("xor", _less(b, x, y), b.const(True, TensorType(I1, SHAPE))),
            b.const(True, TensorType(I1, SHAPE)),
        ),
        x.tensor_type.dtype,
        signed=False,
    ),
    "cast(True)": lambda b, x, y: b.cast(
        b.const(True, TensorType(I1, SHAPE)), x.tensor_type.dtype
    ),
    "and, or of what follows": lambda b, x, y: b.cast(
        b.pointwise(
            "or",
            b.pointwise(
                "and",
                _less(b, x, y),
                b.pointwise("and", _less(b, x, y), _less(b, y, x)),
            ),
            _less(b, x, y),
        ),
        x.tensor_type.dtype,
        signed=False,
    ),
}


def _less(b: Builder, x: Value, y: Value) -> Value:
    return b.pointwise("cmp", x, y, predicate="slt")


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize(
    ("dtype", "held"), [(I8, torch.int8), (I32, torch.int32)], ids=["i8", "i32"]
)
def test_integers(name: str, dtype: DType, held: torch.dtype) -> None:
    build = INTEGERS[name]
    assert bits(build, fold, dtype, held) == bits(build, None, dtype, held)
