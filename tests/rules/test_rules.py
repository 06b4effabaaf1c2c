"""Each rule against central differences in float64, and one verdict an opcode."""

from __future__ import annotations

import math

import pytest
import torch

from derived import check, gradients
from undertow.errors import UnsupportedError
from undertow.ir import (
    F32,
    I1,
    I32,
    OPS,
    Access,
    Builder,
    Kernel,
    PointerType,
    TensorType,
    Value,
    verify,
)
from undertow.ir.ops import REDUCTIONS
from undertow.rules import RULES, Linear, Pointwise
from undertow.transform.differentiate import differentiate

ROWS, COLS = 4, 8
SHAPE = (ROWS, COLS)

SAMPLES: dict[str, tuple[tuple[float, float], ...]] = {
    "asin": ((-0.9, 0.9),),
    "acos": ((-0.9, 0.9),),
    "atanh": ((-0.9, 0.9),),
    "erfinv": ((-0.9, 0.9),),
    "acosh": ((1.2, 3.0),),
    "log": ((0.1, 3.0),),
    "log2": ((0.1, 3.0),),
    "log10": ((0.1, 3.0),),
    "log1p": ((-0.9, 3.0),),
    "sqrt": ((0.1, 3.0),),
    "sqrt_rn": ((0.1, 3.0),),
    "rsqrt": ((0.1, 3.0),),
    "reciprocal": ((0.3, 3.0),),
    "cbrt": ((0.3, 3.0),),
    "tan": ((-1.2, 1.2),),
    "div": ((-2.0, 2.0), (0.3, 2.0)),
    "div_rn": ((-2.0, 2.0), (-2.0, -0.3)),
    "fmod": ((-7.0, 7.0), (0.8, 1.7)),
    "pow": ((0.2, 2.0), (-2.0, 2.0)),
    "atan2": ((-2.0, 2.0), (0.2, 2.0)),
    "clamp": ((-2.0, 2.0), (-1.0, -0.5), (0.5, 1.0)),
}
"""Where each operand is drawn from; between −2 and 2 if an opcode is not listed."""

DIFFERENTIABLE = sorted(
    name for name, rule in RULES.items() if isinstance(rule, Linear | Pointwise)
)


def tile(b: Builder, base: Value) -> Value:
    return b.load(Access(base, (lanes(b),), None, None, None), TensorType(F32, SHAPE))


def lanes(b: Builder) -> Value:
    flat = b.pure("range", (), TensorType(I32, (32,)), {"start": 0, "end": 32})
    return b.reshape(flat, SHAPE)


def function(opcode: str, arity: int, **attrs: object) -> Kernel:
    """y = opcode(x0, …) over one tile."""
    params = [Value(PointerType(F32), f"x{i}_ptr") for i in range(arity)]
    out, b = Value(PointerType(F32), "y_ptr"), Builder()
    values = [tile(b, p) for p in params]
    y = b.pointwise(opcode, *values, **attrs)
    b.store(Access(out, (lanes(b),), y, None, None))
    return verify(Kernel("f", (*params, out), b.block))


def drawn(low: float, high: float, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand(ROWS * COLS, generator=generator, dtype=torch.float64)
    return low + (high - low) * unit


def test_every_opcode_has_one_verdict() -> None:
    assert set(RULES) == set(OPS)


@pytest.mark.parametrize("opcode", DIFFERENTIABLE)
def test_a_rule_agrees_with_differences(opcode: str) -> None:
    arity = OPS[opcode].arity or 0
    ranges = SAMPLES.get(opcode, ((-2.0, 2.0),) * arity)
    args = {f"x{i}_ptr": drawn(*r, seed=i) for i, r in enumerate(ranges)}
    kernel = function(opcode, arity)
    only = None if opcode != "copysign" else ["x0_ptr"]
    check(kernel, {**args, "y_ptr": torch.zeros(32)}, (1,), wrt=only)


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_what_has_no_derivative_says_why(opcode: str) -> None:
    rule = RULES[opcode]
    for reason in (getattr(rule, "reason", None), getattr(rule, "how", None)):
        assert reason is None or len(reason) > 10


# -- reductions --


def reduction(kind: str, axis: int) -> Kernel:
    x, y = Value(PointerType(F32), "x_ptr"), Value(PointerType(F32), "y_ptr")
    b = Builder()
    found = b.reduce(tile(b, x), kind, axis)
    (extent,) = found.shape
    attrs = {"start": 0, "end": extent}
    offsets = b.pure("range", (), TensorType(I32, (extent,)), attrs)
    b.store(Access(y, (offsets,), found, None, None))
    return verify(Kernel("f", (x, y), b.block))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod"])
def test_a_reduction_agrees_with_differences(kind: str, axis: int) -> None:
    args = {"x_ptr": drawn(-2.0, 2.0, 0), "y_ptr": torch.zeros(8 if axis == 0 else 4)}
    check(reduction(kind, axis), args, (1,))


def scanning(kind: str, axis: int, reverse: bool) -> Kernel:
    """Writes what `kind` makes of x, and of a gain too if it is a recurrence."""
    names = ("x_ptr", "a_ptr", "y_ptr")[:: 1 if kind == "recurrence" else 2]
    x, *a, y = (Value(PointerType(F32), name) for name in names)
    b = Builder()
    if a:
        found = b.recurrence(tile(b, a[0]), tile(b, x), axis, reverse=reverse)
    else:
        found = b.scan(tile(b, x), kind, axis, reverse=reverse)
    rows = b.range(4, 0, SHAPE)
    offsets = b.pointwise("mul", rows, b.const(8, rows.tensor_type))
    b.store(Access(y, (offsets, b.range(8, 1, SHAPE)), found, None, None))
    return verify(Kernel("f", (x, *a, y), b.block))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["sum", "prod", "recurrence"])
def test_a_scan_agrees_with_differences(kind: str, axis: int, reverse: bool) -> None:
    args = {"x_ptr": drawn(-2.0, 2.0, 0), "y_ptr": torch.zeros(32)}
    if kind == "recurrence":
        args["a_ptr"] = drawn(-1.0, 1.0, 1)
    check(scanning(kind, axis, reverse), args, (1,))


@pytest.mark.parametrize("zeros", [1, 2, 8])
def test_a_product_with_zeros_has_the_products_of_the_others(zeros: int) -> None:
    x = drawn(0.5, 2.0, 0).reshape(SHAPE)
    x[1, :zeros] = 0.0
    args = {"x_ptr": x, "y_ptr": torch.zeros(4)}
    found = check(reduction("prod", 1), args, (1,))["x_ptr"]
    assert found.isfinite().all()
    assert (found[1] != 0).sum() == (1 if zeros == 1 else 0)


def test_reductions_of_floats_have_a_rule_or_give_integers() -> None:
    floats = {"sum", "prod", "max", "min"}
    assert floats | {"argmax", "argmin"} == {
        kind
        for kind in REDUCTIONS
        if kind not in "smax smin umax umin and or xor".split()
    }


# -- conventions at the points without a derivative --

EDGES = {
    ("maximum", (1.0, 1.0)): (0.5, 0.5),
    ("minimum", (1.0, 1.0)): (0.5, 0.5),
    ("maxnum", (1.0, math.nan)): (1.0, 0.0),
    ("minnum", (math.nan, 2.0)): (0.0, 1.0),
    ("maximum", (3.0, 2.0)): (1.0, 0.0),
    ("abs", (0.0,)): (0.0,),
    ("pow", (0.0, 2.0)): (0.0, 0.0),
    ("pow", (-2.0, 2.0)): (-4.0, 0.0),
    ("pow", (0.0, 0.0)): (0.0, 0.0),
    ("pow", (0.0, 1.0)): (1.0, 0.0),
    ("hypot", (0.0, 0.0)): (0.0, 0.0),
    ("atan2", (0.0, 0.0)): (0.0, 0.0),
    ("fdim", (1.0, 1.0)): (0.0, 0.0),
    ("clamp", (1.0, 1.0, 2.0)): (0.0, 0.0, 0.0),
    ("clamp", (0.0, 1.0, 2.0)): (0.0, 1.0, 0.0),
    ("clamp", (0.0, 2.0, 1.0)): (0.0, 0.0, 1.0),
    ("clamp", (3.0, 1.0, 2.0)): (0.0, 0.0, 1.0),
}


@pytest.mark.parametrize(("at", "expected"), EDGES.items())
def test_conventions(
    at: tuple[str, tuple[float, ...]], expected: tuple[float, ...]
) -> None:
    opcode, point = at
    kernel = function(opcode, len(point))
    args = {f"x{i}_ptr": torch.full((32,), x).double() for i, x in enumerate(point)}
    args["y_ptr"] = torch.zeros(32)
    found = gradients(kernel, args, (1,), {"y_ptr": torch.ones(32).double()})
    for i, partial in enumerate(expected):
        assert found[f"x{i}_ptr"].tolist() == [partial] * 32


@pytest.mark.parametrize("opcode", ["maximum", "minimum", "maxnum", "minnum"])
def test_a_tie_with_a_bound_gives_zero(opcode: str) -> None:
    x, y = Value(PointerType(F32), "x_ptr"), Value(PointerType(F32), "y_ptr")
    for bound_first in (False, True):
        b = Builder()
        pair = [tile(b, x), b.const(0.0, TensorType(F32, SHAPE))]
        value = b.pointwise(opcode, *(pair[::-1] if bound_first else pair))
        b.store(Access(y, (lanes(b),), value, None, None))
        kernel = verify(Kernel("relu", (x, y), b.block))
        args = {"x_ptr": torch.zeros(32), "y_ptr": torch.zeros(32)}
        found = gradients(kernel, args, (1,), {"y_ptr": torch.ones(32).double()})
        assert found["x_ptr"].abs().max() == 0


def test_the_extreme_of_a_row_is_split_evenly_among_equal_ones() -> None:
    x = torch.zeros(SHAPE, dtype=torch.float64)
    x[0, :2], x[1, :] = 1.0, 3.0
    args = {"x_ptr": x, "y_ptr": torch.zeros(4)}
    ones = {"y_ptr": torch.ones(4).double()}
    found = gradients(reduction("max", 1), args, (1,), ones)["x_ptr"]
    assert found[0].tolist() == [0.5, 0.5, 0, 0, 0, 0, 0, 0]
    assert found[1].tolist() == [0.125] * 8


def test_bits_of_a_float_made_a_float_again_are_refused() -> None:
    x, y = Value(PointerType(F32), "x_ptr"), Value(PointerType(F32), "y_ptr")
    b = Builder()
    type = TensorType(I32, SHAPE)
    bits = b.pure("bitcast", (tile(b, x),), type)
    shifted = b.pointwise("add", bits, b.const(1, type))
    value = b.pure("bitcast", (shifted,), TensorType(F32, SHAPE))
    b.store(Access(y, (lanes(b),), value, None, None))
    kernel = verify(Kernel("f", (x, y), b.block))
    with pytest.raises(UnsupportedError, match=r"no derivative rule for .*bitcast"):
        differentiate(kernel)


def test_a_truth_value_carries_nothing() -> None:
    x, y = Value(PointerType(F32), "x_ptr"), Value(PointerType(F32), "y_ptr")
    b = Builder()
    value = tile(b, x)
    test = b.pointwise("cmp", value, b.const(0.0, value.tensor_type), predicate="ogt")
    assert test.tensor_type.dtype is I1
    b.store(Access(y, (lanes(b),), b.cast(test, F32, signed=False), None, None))
    backward = differentiate(verify(Kernel("f", (x, y), b.block)))
    assert backward.zeros == ("x_ptr",)
    assert not backward.gradients
