"""Derivatives of the pointwise ops: one line of mathematics each.

Conventions at the points where no derivative exists are those of the table in
`docs/concepts/conventions.md`.
"""

from __future__ import annotations

import math

from undertow.ir import Value
from undertow.rules.expr import Expr, apply, where
from undertow.rules.registry import Table

_LN2, _LN10 = math.log(2.0), math.log(10.0)
_2_SQRT_PI = 2.0 / math.sqrt(math.pi)


def _f(opcode: str, *operands: Expr | float) -> Expr:
    return apply(opcode, *operands)


def register(table: Table) -> None:
    """Adds the verdicts of every pointwise opcode."""
    _arithmetic(table)
    _transcendental(table)
    _of_two(table)
    _choices(table)
    _zeros(table)


def _arithmetic(table: Table) -> None:
    linear, unary, binary = table.linear, table.unary, table.binary
    linear("add", 1, 1)
    linear("sub", 1, -1)
    linear("neg", -1)
    binary("mul", lambda t, a, b, y: t * b, lambda t, a, b, y: t * a)
    binary("div", lambda t, a, b, y: t / b, lambda t, a, b, y: -(t * y / b))
    binary("div_rn", lambda t, a, b, y: t / b, lambda t, a, b, y: -(t * y / b))
    binary(
        "fmod", lambda t, a, b, y: t, lambda t, a, b, y: -(t * _f("rint", (a - y) / b))
    )
    table.ternary(
        "fma",
        lambda t, a, b, c, y: t * b,
        lambda t, a, b, c, y: t * a,
        lambda t, a, b, c, y: t,
    )
    unary("reciprocal", lambda t, x, y: -(t * y * y))


def _transcendental(table: Table) -> None:
    unary = table.unary
    unary("exp", lambda t, x, y: t * y)
    unary("exp2", lambda t, x, y: t * y * _LN2)
    unary("expm1", lambda t, x, y: t * (y + 1.0))
    unary("log", lambda t, x, y: t / x)
    unary("log2", lambda t, x, y: t / (x * _LN2))
    unary("log10", lambda t, x, y: t / (x * _LN10))
    unary("log1p", lambda t, x, y: t / (x + 1.0))
    unary("sqrt", lambda t, x, y: 0.5 * t / y)
    unary("sqrt_rn", lambda t, x, y: 0.5 * t / y)
    unary("rsqrt", lambda t, x, y: -0.5 * t * (y * y * y))
    unary("cbrt", lambda t, x, y: t / (3.0 * y * y))
    unary("sin", lambda t, x, y: t * _f("cos", x))
    unary("cos", lambda t, x, y: -(t * _f("sin", x)))
    unary("tan", lambda t, x, y: t * (1.0 + y * y))
    unary("asin", lambda t, x, y: t / _f("sqrt", (1.0 - x) * (1.0 + x)))
    unary("acos", lambda t, x, y: -(t / _f("sqrt", (1.0 - x) * (1.0 + x))))
    unary("atan", lambda t, x, y: t / (1.0 + x * x))
    unary("sinh", lambda t, x, y: t * _f("cosh", x))
    unary("cosh", lambda t, x, y: t * _f("sinh", x))
    unary("tanh", lambda t, x, y: t * (1.0 - y * y))
    unary("asinh", lambda t, x, y: t / _f("sqrt", 1.0 + x * x))
    unary("acosh", lambda t, x, y: t / _f("sqrt", (x - 1.0) * (x + 1.0)))
    unary("atanh", lambda t, x, y: t / ((1.0 - x) * (1.0 + x)))
    unary("erf", lambda t, x, y: t * (_2_SQRT_PI * _f("exp", -(x * x))))
    unary("erfc", lambda t, x, y: -(t * (_2_SQRT_PI * _f("exp", -(x * x)))))
    unary("erfcx", lambda t, x, y: t * (2.0 * x * y - _2_SQRT_PI))
    unary("erfinv", lambda t, x, y: t * (_f("exp", y * y) / _2_SQRT_PI))
    unary("cyl_bessel_i0", lambda t, x, y: t * _f("cyl_bessel_i1", x))
    unary(
        "cyl_bessel_i1",
        lambda t, x, y: where(
            x.equals(0.0), 0.5 * t, t * (_f("cyl_bessel_i0", x) - y / x)
        ),
    )


def _of_two(table: Table) -> None:
    binary = table.binary
    binary(
        "pow",
        lambda t, a, b, y: where(b.equals(0.0), 0.0, t * b * _f("pow", a, b - 1.0)),
        lambda t, a, b, y: where(a > 0.0, t * y * _f("log", a), 0.0),
    )
    binary(
        "atan2",
        lambda t, a, b, y: _over(t * b, a * a + b * b),
        lambda t, a, b, y: -_over(t * a, a * a + b * b),
    )
    binary(
        "hypot",
        lambda t, a, b, y: _over(t * a, y),
        lambda t, a, b, y: _over(t * b, y),
    )


def _over(t: Expr, y: Expr) -> Expr:
    """t / y, and 0 where y is 0: a = b = 0, where no derivative exists."""
    return where(y.equals(0.0), 0.0, t / y)


def _choices(table: Table) -> None:
    """Ops that pass one operand on: they route `t`, never multiply it by 0."""
    table.unary("abs", lambda t, x, y: where(x > 0.0, t, where(x < 0.0, -t, 0.0)))
    for opcode in ("maxnum", "maximum", "minnum", "minimum"):
        up = opcode.startswith("max")
        table.binary(
            opcode,
            lambda t, a, b, y, up=up: _route(t, a, b, y, up),
            lambda t, a, b, y, up=up: _route(t, b, a, y, up),
        )
    table.ternary(
        "clamp",
        lambda t, x, low, high, y: where((x > low) & (x < high), t, 0.0),
        lambda t, x, low, high, y: where((x < low) & (low < high), t, 0.0),
        lambda t, x, low, high, y: where((x > high) | (low > high), t, 0.0),
    )
    table.binary(
        "fdim",
        lambda t, a, b, y: where(a > b, t, 0.0),
        lambda t, a, b, y: where(a > b, -t, 0.0),
    )
    table.binary(
        "copysign",
        lambda t, a, b, y: where(a.equals(0.0), 0.0, where(a.equals(y), t, -t)),
        None,
    )


def _route(t: Expr, mine: Expr, other: Expr, y: Expr, up: bool) -> Expr:
    """The share of `mine` in max(mine, other) or min(mine, other).

    Against a bound (a literal, a constexpr, a scalar argument) a tie gives 0; between
    two tensors it is split evenly. Comparing with the result rather than with the other
    operand keeps the share right where the other one is a NaN that was ignored.
    """
    if is_bound(other.value):
        return where(mine > other if up else mine < other, t, 0.0)
    return where(mine.equals(other), 0.5 * t, where(mine.equals(y), t, 0.0))


_NO_BOUND = ("load", "program_id", "range", "num_programs", "if", "for", "while")


def is_bound(value: Value) -> bool:
    """Whether a value is computed from constants and scalar arguments alone."""
    pending, seen = [value], {value}
    while pending:
        value = pending.pop()
        op = value.op
        if op is None and value.is_parameter:
            continue
        if op is None or op.opcode in _NO_BOUND:
            return False
        new = [v for v in op.operands if v not in seen]
        pending += new
        seen.update(new)
    return True


def _zeros(table: Table) -> None:
    zero = table.zero
    zero("floor ceil trunc round rint", "it is piecewise constant")
    zero("cmp isnan isinf isfinite signbit", "its result is a truth value")
    zero(
        "sdiv udiv srem urem and or xor shl sshr ushr smax smin umax umin umulhi",
        "integers carry no derivative",
    )
    table.unsupported("lgamma", "its derivative, digamma, has no Triton spelling")
    table.unsupported("bitcast", "reinterpreted bits have no derivative")
    table.special("select", "routed by its condition")
    table.special("cast", "linear between floats; zero from or to integers")
