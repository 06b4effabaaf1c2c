"""Float ops against Python's mathematics, with infinities, NaN and signed zeros."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from evaluate.kernels import evaluate, pointwise
from undertow.evaluate.compiler import STEPS
from undertow.evaluate.structure import REDUCE
from undertow.ir import DTYPES, OPS
from undertow.ir.ops import (
    FLOAT_BINARY,
    FLOAT_PREDICATES,
    FLOAT_TEST,
    FLOAT_UNARY,
    REDUCTIONS,
)

INF, NAN = math.inf, math.nan
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.5, INF, -INF, NAN], dtype=torch.float64)


def test_every_opcode_has_a_row() -> None:
    assert set(STEPS) == set(OPS)


def test_every_kind_of_reduction_has_a_row() -> None:
    assert set(REDUCE) == set(REDUCTIONS)


def away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


def bessel(order: int, x: float) -> float:
    """The modified Bessel function of the first kind, by its power series."""
    terms = range(30)
    f = math.factorial
    return sum((x / 2) ** (2 * k + order) / (f(k) * f(k + order)) for k in terms)


UNARY: dict[str, tuple[Callable[[float], float], list[float]]] = {
    "exp": (math.exp, [-2.0, 0.0, 3.5]),
    "exp2": (lambda x: 2.0**x, [-2.0, 0.0, 3.5]),
    "log": (math.log, [0.1, 1.0, 7.0]),
    "log2": (math.log2, [0.1, 1.0, 8.0]),
    "log10": (math.log10, [0.1, 1.0, 1000.0]),
    "log1p": (math.log1p, [-0.5, 1e-12, 3.0]),
    "expm1": (math.expm1, [-0.5, 1e-12, 3.0]),
    "sqrt": (math.sqrt, [0.0, 2.0, 9.0]),
    "sqrt_rn": (math.sqrt, [0.0, 2.0, 9.0]),
    "rsqrt": (lambda x: 1 / math.sqrt(x), [0.25, 2.0, 9.0]),
    "reciprocal": (lambda x: 1 / x, [-0.25, 2.0, 9.0]),
    "cbrt": (math.cbrt, [-27.0, 0.0, 2.0, 1e300]),
    "sin": (math.sin, [-1.0, 0.0, 2.0]),
    "cos": (math.cos, [-1.0, 0.0, 2.0]),
    "tan": (math.tan, [-1.0, 0.0, 2.0]),
    "asin": (math.asin, [-1.0, 0.0, 0.5]),
    "acos": (math.acos, [-1.0, 0.0, 0.5]),
    "atan": (math.atan, [-1.0, 0.0, 2.0]),
    "sinh": (math.sinh, [-1.0, 0.0, 2.0]),
    "cosh": (math.cosh, [-1.0, 0.0, 2.0]),
    "tanh": (math.tanh, [-1.0, 0.0, 2.0]),
    "asinh": (math.asinh, [-1.0, 0.0, 2.0]),
    "acosh": (math.acosh, [1.0, 1.5, 2.0]),
    "atanh": (math.atanh, [-0.5, 0.0, 0.9]),
    "erf": (math.erf, [-1.0, 0.0, 2.0]),
    "erfc": (math.erfc, [-1.0, 0.0, 5.0]),
    "erfinv": (lambda y: {0.0: 0.0, math.erf(0.5): 0.5}[y], [0.0, math.erf(0.5)]),
    "erfcx": (lambda x: math.exp(x * x) * math.erfc(x), [-1.0, 0.0, 2.0]),
    "cyl_bessel_i0": (lambda x: bessel(0, x), [-1.0, 0.0, 2.0]),
    "cyl_bessel_i1": (lambda x: bessel(1, x), [-1.0, 0.0, 2.0]),
    "lgamma": (math.lgamma, [0.5, 1.0, 10.0]),
    "floor": (math.floor, [-1.5, -0.0, 1.5]),
    "ceil": (math.ceil, [-1.5, 0.0, 1.5]),
    "trunc": (math.trunc, [-1.5, 0.0, 1.5]),
    "round": (away, [-2.5, -0.5, 0.5, 1.5, 2.5, -0.4]),
    "rint": (round, [-2.5, -0.5, 0.5, 1.5, 2.5]),
    "abs": (abs, [-1.5, 0.0, 1.5]),
}
BINARY: dict[str, Callable[[float, float], float]] = {
    "div": lambda a, b: a / b,
    "div_rn": lambda a, b: a / b,
    "fmod": math.fmod,
    "pow": lambda a, b: abs(a) ** b,
    "atan2": math.atan2,
    "hypot": math.hypot,
    "copysign": math.copysign,
    "fdim": lambda a, b: max(a - b, 0.0),
    "maxnum": max,
    "minnum": min,
    "maximum": max,
    "minimum": min,
}


def test_references_are_complete() -> None:
    assert set(UNARY) == set(FLOAT_UNARY)
    assert set(BINARY) == set(FLOAT_BINARY)


@pytest.mark.parametrize("opcode", UNARY)
def test_unary_ops(opcode: str) -> None:
    reference, points = UNARY[opcode]
    got = pointwise(opcode, torch.tensor(points, dtype=torch.float64)).tolist()
    assert got == pytest.approx([reference(x) for x in points], rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("opcode", BINARY)
def test_binary_ops(opcode: str) -> None:
    a = torch.tensor([-2.5, 1.0, 7.25, 3.0], dtype=torch.float64)
    b = torch.tensor([1.5, -4.0, 2.0, 3.0], dtype=torch.float64)
    a = a.abs() if opcode == "pow" else a
    got = pointwise(opcode, a, b).tolist()
    expected = [
        BINARY[opcode](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert got == pytest.approx(expected, rel=1e-14)


def test_rounding_just_below_a_half() -> None:
    below = math.nextafter(0.5, 0)
    x = torch.tensor([below, -below, -0.0, INF, -INF, 2.0**52 + 1], dtype=torch.float64)
    got = pointwise("round", x)
    assert got.tolist() == [0.0, 0.0, 0.0, INF, -INF, 2.0**52 + 1]
    assert got.signbit().tolist() == [False, True, True, False, True, False]
    assert math.isnan(pointwise("round", torch.tensor([NAN]))[0])


def test_cube_roots_of_special_values() -> None:
    got = pointwise("cbrt", SPECIAL)
    assert got[:2].tolist() == [0.0, 0.0]
    assert got[5:7].tolist() == [INF, -INF]
    assert math.isnan(got[7])


def test_extremes_and_nan() -> None:
    a = torch.tensor([NAN, 1.0, NAN, 2.0])
    b = torch.tensor([1.0, NAN, NAN, 3.0])
    for opcode, number in (("maxnum", 3.0), ("minnum", 2.0)):
        got = pointwise(opcode, a, b).tolist()
        assert got[:2] == [1.0, 1.0]
        assert math.isnan(got[2])
        assert got[3] == number
    for opcode in ("maximum", "minimum"):
        assert pointwise(opcode, a, b).isnan().tolist() == [True, True, True, False]


def test_clamp_and_nan() -> None:
    x = torch.tensor([-5.0, 0.25, 5.0, NAN])
    low, high = torch.full((4,), -1.0), torch.full((4,), 1.0)
    assert pointwise("clamp", x, low, high, nan=False).tolist() == [
        -1.0,
        0.25,
        1.0,
        -1.0,
    ]
    kept = pointwise("clamp", x, low, high, nan=True)
    assert kept[:3].tolist() == [-1.0, 0.25, 1.0]
    assert math.isnan(kept[3])


def test_fdim_and_nan() -> None:
    a, b = torch.tensor([NAN, 1.0, INF]), torch.tensor([1.0, NAN, INF])
    got = pointwise("fdim", a, b)
    assert got.isnan().tolist() == [True, True, False]
    assert got[2] == 0.0


def test_fma_rounds_once() -> None:
    e = 2.0**-13
    a = torch.tensor([1.0 + e]).float()
    c = torch.tensor([-1.0 - 2 * e]).float()
    assert pointwise("fma", a, a, c).item() == e * e
    assert (a * a + c).item() != e * e


@pytest.mark.parametrize("opcode", FLOAT_TEST)
def test_float_tests(opcode: str) -> None:
    reference = {
        "isnan": math.isnan,
        "isinf": math.isinf,
        "isfinite": math.isfinite,
        "signbit": lambda x: math.copysign(1.0, x) < 0,
    }[opcode]
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        got = pointwise(opcode, SPECIAL.to(dtype)[:7]).tolist()
        assert got == [reference(x) for x in SPECIAL[:7].tolist()]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float8_e5m2])
@pytest.mark.parametrize("predicate", FLOAT_PREDICATES)
def test_predicates(predicate: str, dtype: torch.dtype) -> None:
    a = SPECIAL.repeat_interleave(len(SPECIAL)).to(dtype)
    b = SPECIAL.repeat(len(SPECIAL)).to(dtype)
    got = pointwise("cmp", a, b, predicate=predicate).tolist()
    for x, y, z in zip(a.tolist(), b.tolist(), got, strict=True):
        unordered = math.isnan(x) or math.isnan(y)
        ordered = {
            "eq": x == y,
            "ne": x != y,
            "lt": x < y,
            "le": x <= y,
            "gt": x > y,
            "ge": x >= y,
        }
        if predicate in ("ord", "uno"):
            assert z == (unordered == (predicate == "uno"))
        else:
            expected = predicate[0] == "u" if unordered else ordered[predicate[1:]]
            assert z == expected, (predicate, x, y)


def test_select_takes_what_was_chosen() -> None:
    condition = torch.tensor([True, False])
    a, b = torch.tensor([1.0, NAN]), torch.tensor([NAN, 2.0])
    assert pointwise("select", condition, a, b).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
@pytest.mark.parametrize("opcode", ["add", "mul", "div", "exp", "neg", "maxnum"])
def test_half_types_compute_in_float32_and_round(
    opcode: str, dtype: torch.dtype
) -> None:
    a = torch.tensor([0.1, -1.7, 3.3, 0.02]).to(dtype)
    b = torch.tensor([2.3, 0.7, -0.9, 1.1]).to(dtype)
    operands = (a, b)[: OPS[opcode].arity]
    wide = pointwise(opcode, *(x.float() for x in operands))
    got = pointwise(opcode, *operands)
    assert torch.equal(got.view(torch.uint8), wide.to(dtype).view(torch.uint8))


def test_the_oracle_does_not_round() -> None:
    x = torch.tensor([0.1, 1 / 3], dtype=torch.float64)

    def twice(b, v):  # type: ignore[no-untyped-def]
        half = b.cast(v, DTYPES["bf16"])
        return b.cast(b.pointwise("mul", half, half), DTYPES["f64"])

    exact = evaluate(twice, x, float_dtype=torch.float64)
    assert torch.equal(exact, x * x)
    assert not torch.equal(evaluate(twice, x), exact)
