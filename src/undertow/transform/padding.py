"""Lanes that are padded with infinity, and stay so whatever else they meet.

Scores are often padded by −inf, so that their exponential is 0. Multiplied by something
that is differentiated too, say a temperature, such a lane stays infinite: it does not
depend on the temperature, and its cotangent, 0, must not be multiplied by the infinity.
"""

from __future__ import annotations

import math

from undertow.ir import Access, Op, Value
from undertow.transform.fold import constant
from undertow.transform.masks import conjunction, negation
from undertow.transform.sweep import State

_KEEPING = ("add", "sub", "mul", "div", "neg", "cast", "fma")
"""Pointwise ops that give an infinity (or NaN) where an operand is infinite."""


def finite_where(s: State, op: Op) -> Value | None:
    """The mask outside of which the factors of `op` are padding; None if none are."""
    if op.opcode not in ("mul", "div", "fma"):
        return None
    masks = [_finite(s, v, 6) for v in dict.fromkeys(op.operands)]
    return conjunction(s.b, [mask for mask in masks if mask is not None])


def _finite(s: State, value: Value, depth: int) -> Value | None:
    op = value.op
    if op is None or depth == 0:
        return None
    if op.opcode == "load":
        access = Access.of(op)
        padded = access.other is not None and _infinite(access.other)
        return s.mask(access) if padded else None
    if op.opcode == "select":
        return _selected(s, op)
    if op.opcode not in _KEEPING:
        return None
    masks = [_finite(s, v, depth - 1) for v in dict.fromkeys(op.operands)]
    return conjunction(s.b, [mask for mask in masks if mask is not None])


def _selected(s: State, op: Op) -> Value | None:
    condition, x, y = op.operands
    if _infinite(y):
        return s.env[condition]
    return negation(s.b, s.env[condition]) if _infinite(x) else None


def _infinite(value: Value) -> bool:
    number = constant(value)
    return number is not None and math.isinf(number)
