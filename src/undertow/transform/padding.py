"""Lanes that are padded with infinity, and stay so whatever else they meet.

Scores are often padded by −inf, so that their exponential is 0. Multiplied by something
that is differentiated too, say a temperature, such a lane stays infinite: it does not
depend on the temperature, and its cotangent, 0, must not be multiplied by the infinity.
"""

from __future__ import annotations

import math

from undertow.ir import I1, Access, Builder, Op, TensorType, Value
from undertow.transform.fold import constant
from undertow.transform.masks import MOVES, conjunction, negation
from undertow.transform.rebuild import Env

_KEEPING = ("add", "sub", "mul", "neg", "cast", "fma")
"""Pointwise ops that give an infinity (or NaN) where an operand is infinite.

So does a quotient of its numerator; an infinite denominator gives a plain 0.
"""


def finite_where(b: Builder, env: Env, op: Op) -> Value | None:
    """The mask outside of which the factors of `op` are padding; None if none are."""
    return _all(b, env, op, 6) if op.opcode in ("mul", "div", "fma") else None


def _all(b: Builder, env: Env, op: Op, depth: int) -> Value | None:
    masks = [_finite(b, env, v, depth) for v in dict.fromkeys(op.operands)]
    return conjunction(b, [mask for mask in masks if mask is not None])


def _finite(b: Builder, env: Env, value: Value, depth: int) -> Value | None:
    op = value.op
    if op is None or depth == 0:
        return None
    if op.opcode == "load":
        access = Access.of(op)
        padded = access.mask and access.other and _infinite(access.other)
        return env[access.mask] if padded and access.mask else None
    if op.opcode == "select":
        return _selected(b, env, op)
    if op.opcode in _KEEPING:
        return _all(b, env, op, depth - 1)
    if op.opcode == "div":
        return _finite(b, env, op.operands[0], depth - 1)
    mask = _finite(b, env, op.operands[0], depth - 1) if op.opcode in MOVES else None
    if mask is None:
        return None
    return b.pure(op.opcode, (mask,), TensorType(I1, value.shape), dict(op.attrs))


def _selected(b: Builder, env: Env, op: Op) -> Value | None:
    condition, x, y = op.operands
    if _infinite(y):
        return env[condition]
    return negation(b, env[condition]) if _infinite(x) else None


def _infinite(value: Value) -> bool:
    number = constant(value)
    return number is not None and math.isinf(number)
