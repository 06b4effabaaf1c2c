"""Lanes that are padded with infinity, and stay so whatever else they meet.

Scores are often padded by −inf, so that their exponential is 0. Multiplied by something
that is differentiated too, say a temperature, such a lane stays infinite: it does not
depend on the temperature, and its cotangent, 0, must not be multiplied by the infinity.
"""

from __future__ import annotations

import math

from undertow.ir import Access, Builder, Op, Value
from undertow.transform.fold import constant
from undertow.transform.masks import conjunction, negation
from undertow.transform.rebuild import Env

_KEEPING = ("add", "sub", "mul", "div", "neg", "cast", "fma")
"""Pointwise ops that give an infinity (or NaN) where an operand is infinite."""


def finite_where(b: Builder, env: Env, op: Op) -> Value | None:
    """The mask outside of which the factors of `op` are padding; None if none are."""
    return _finite(b, env, op, 6) if op.opcode in ("mul", "div", "fma") else None


def _finite(b: Builder, env: Env, op: Op, depth: int) -> Value | None:
    masks: list[Value] = []
    for inner in dict.fromkeys(v.op for v in op.operands):
        mask = None
        if inner is None or depth == 0:
            continue
        if inner.opcode == "load":
            access = Access.of(inner)
            if access.mask and access.other and _infinite(access.other):
                mask = env[access.mask]
        elif inner.opcode == "select":
            mask = _selected(b, env, inner)
        elif inner.opcode in _KEEPING:
            mask = _finite(b, env, inner, depth - 1)
        masks += [mask] if mask is not None else []
    return conjunction(b, masks)


def _selected(b: Builder, env: Env, op: Op) -> Value | None:
    condition, x, y = op.operands
    if _infinite(y):
        return env[condition]
    return negation(b, env[condition]) if _infinite(x) else None


def _infinite(value: Value) -> bool:
    number = constant(value)
    return number is not None and math.isinf(number)
