"""Cotangents with their support.

A masked load without `other` leaves lanes undefined, and a branch of `select` that was not
taken may hold an infinity. The cotangent of such a lane is exactly zero, but multiplying a
zero by what stands there gives NaN. So a cotangent carries its *support*, the mask outside
of which it is zero whatever its lanes hold; `clean` applies the mask, and is called before
lanes meet: in a reduction, in a sum of cotangents, at memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from undertow.ir import I1, OPS, Builder, Value
from undertow.transform.fold import implies


@dataclass(frozen=True, slots=True)
class Cotangent:
    """A cotangent: lanes of `value` inside `support`, zero outside.

    `is_clean` says that the lanes outside hold zeros already. No support means every lane.
    """

    value: Value
    support: Value | None = None
    is_clean: bool = True

    def through(self, value: Value, *, clean: bool = False) -> Cotangent:
        """The same support around a value computed from this one, lane by lane."""
        return Cotangent(value, self.support, self.support is None or clean)


def restrict(b: Builder, ct: Cotangent, mask: Value | None) -> Cotangent:
    """`ct` where `mask` holds, zero elsewhere."""
    if mask is None:
        return ct
    support = mask if ct.support is None else b.pointwise("and", ct.support, mask)
    return Cotangent(ct.value, support, ct.is_clean and support is ct.support)


def negate_mask(b: Builder, mask: Value) -> Value:
    return b.pointwise("xor", mask, b.const(True, mask.tensor_type))


def where_seen(b: Builder, value: Value, mask: Value, depth: int = 8) -> Value:
    """`value` without selections that `mask` decides, for a use that looks only there."""
    op = value.op
    if op is None or depth == 0 or OPS[op.opcode].kind != "pointwise":
        return value
    if op.opcode == "select" and implies(mask, op.operands[0]):
        return where_seen(b, op.operands[1], mask, depth - 1)
    operands = tuple(where_seen(b, v, mask, depth - 1) for v in op.operands)
    if operands == op.operands:
        return value
    return b.pure(op.opcode, operands, value.type, dict(op.attrs))


def clean(b: Builder, ct: Cotangent, given: Value | None = None) -> Value:
    """The value of `ct` with zeros outside of its support.

    Args:
        b: the builder to extend.
        ct: the cotangent.
        given: a mask outside of which nobody looks, so that zeros there are not needed.
    """
    if ct.is_clean or ct.support is None:
        return ct.value
    rest = _without(b, ct.support, given)
    if rest is None:
        return ct.value
    return b.pointwise("select", rest, ct.value, b.const(0.0, ct.value.tensor_type))


def _without(b: Builder, support: Value, given: Value | None) -> Value | None:
    """The conjuncts of `support` that `given` does not imply, or None if there are none."""
    if given is None:
        return support
    if implies(given, support):
        return None
    op = support.op
    if op is None or op.opcode != "and":
        return support
    kept = [
        part
        for part in (_without(b, x, given) for x in op.operands)
        if part is not None
    ]
    return kept[0] if len(kept) == 1 else b.pointwise("and", *kept) if kept else None


def add(b: Builder, x: Cotangent, y: Cotangent) -> Cotangent:
    """The sum of two cotangents of one value."""
    if x.support is y.support:
        total = b.pointwise("add", x.value, y.value)
        return Cotangent(total, x.support, x.is_clean and y.is_clean)
    total = b.pointwise("add", clean(b, x), clean(b, y))
    if x.support is None or y.support is None:
        return Cotangent(total)
    either = b.pointwise("or", x.support, y.support)
    assert either.tensor_type.dtype == I1
    return Cotangent(total, either, is_clean=True)
