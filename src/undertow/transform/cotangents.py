"""Cotangents with their support.

A masked load without `other` leaves lanes undefined, and a branch of `select` that was
not taken may hold an infinity. The cotangent of such a lane is exactly zero, but
multiplying a zero by what stands there gives NaN. So a cotangent carries its *support*,
the mask outside of which it is zero whatever its lanes hold; `clean` applies the mask,
and is called before lanes meet: in a sum over lanes, in a sum of cotangents, at memory.
A sum over lanes keeps the support that its lanes had: where none of them was live, its
zero may meet something undefined again.
"""

from __future__ import annotations

from dataclasses import dataclass

from undertow.ir import OPS, Access, Builder, Value
from undertow.transform.fold import constant
from undertow.transform.masks import (
    conjunction,
    conjuncts,
    implies,
    opposite,
    without_axis,
)


@dataclass(frozen=True, slots=True)
class Cotangent:
    """A cotangent: lanes of `value` inside `support`, zero outside.

    `is_clean` says that the lanes outside hold zeros already. No support means every
    lane.
    """

    value: Value
    support: Value | None = None
    is_clean: bool = True

    def through(self, value: Value, *, clean: bool = False) -> Cotangent:
        """The same support around a value computed from this one, lane by lane."""
        return Cotangent(value, self.support, self.support is None or clean)


def restrict(b: Builder, ct: Cotangent, mask: Value | None) -> Cotangent:
    """`ct` where `mask` holds, zero elsewhere."""
    if mask is None or (ct.support is not None and implies(ct.support, mask)):
        return ct
    support = mask if ct.support is None else b.pointwise("and", ct.support, mask)
    return Cotangent(ct.value, support, is_clean=False)


def clean(b: Builder, ct: Cotangent, given: Value | None = None) -> Value:
    """The value of `ct` with zeros outside of its support.

    Args:
        b: the builder to extend.
        ct: the cotangent.
        given: a mask outside of which nobody looks, so that no zeros are needed there.
    """
    if ct.is_clean or ct.support is None:
        return ct.value
    parts = [p for p in conjuncts(ct.support) if not zero_outside(ct.value, p)]
    if given is not None:
        parts = [part for part in parts if not implies(given, part)]
    return _masked(b, conjunction(b, parts), ct.value)


def zero_outside(value: Value, mask: Value) -> bool:
    """Whether a value was loaded with zeros where `mask` does not hold."""
    op = value.op
    if op is None or op.opcode not in ("cast", "load"):
        return False
    if op.opcode == "cast":
        return zero_outside(op.operands[0], mask)
    access = Access.of(op)
    padded = access.other is not None and constant(access.other) == 0
    return padded and access.mask is not None and implies(access.mask, mask)


def _masked(b: Builder, mask: Value | None, value: Value) -> Value:
    if mask is None:
        return value
    if value.op is not None and value.op.opcode == "neg":  # the sign of a zero is free
        return b.pointwise("neg", _masked(b, mask, value.op.operands[0]))
    return b.pointwise("select", mask, value, b.const(0.0, value.tensor_type))


def where_seen(b: Builder, value: Value, mask: Value) -> Value:
    """`value` without selections that `mask` decides, for a use that looks there."""
    seen: dict[Value, Value] = {}

    def visit(value: Value, depth: int) -> Value:
        op = value.op
        if op is None or depth == 0 or OPS[op.opcode].kind != "pointwise":
            return value
        if value not in seen:
            if op.opcode == "select" and implies(mask, op.operands[0]):
                seen[value] = visit(op.operands[1], depth - 1)
            else:
                operands = tuple(visit(v, depth - 1) for v in op.operands)
                same = operands == op.operands
                attrs = dict(op.attrs)
                seen[value] = (
                    value if same else b.pure(op.opcode, operands, value.type, attrs)
                )
        return seen[value]

    return visit(value, 8)


def doubled(b: Builder, value: Value) -> Value:
    """Twice `value`; a number that is a factor of it is doubled instead."""
    found = _scaled(b, value, 6)
    two = b.const(2.0, value.tensor_type)
    return b.pointwise("mul", two, value) if found is None else found


def _scaled(b: Builder, value: Value, depth: int) -> Value | None:
    op = value.op
    if op is None or depth == 0:
        return None
    number = constant(value)
    if number is not None:
        return b.const(2.0 * number, value.tensor_type)
    if op.opcode not in ("mul", "div", "neg", "broadcast", "expand_dims"):
        return None
    for index, operand in enumerate(op.operands[: 1 if op.opcode == "div" else None]):
        scaled = _scaled(b, operand, depth - 1)
        if scaled is not None:
            operands = list(op.operands)
            operands[index] = scaled
            return b.pure(op.opcode, operands, value.type, dict(op.attrs))
    return None


def add(b: Builder, x: Cotangent, y: Cotangent) -> Cotangent:
    """The sum of two cotangents of one value."""
    if x.support is y.support:
        total = b.pointwise("add", x.value, y.value)
        return Cotangent(total, x.support, x.is_clean and y.is_clean)
    if x.support is None or y.support is None:
        return Cotangent(b.pointwise("add", clean(b, x), clean(b, y)))
    if implies(x.support, y.support):
        total = b.pointwise("add", clean(b, x, y.support), y.value)
        return y.through(total, clean=y.is_clean and x.is_clean)
    if implies(y.support, x.support):
        total = b.pointwise("add", x.value, clean(b, y, x.support))
        return x.through(total, clean=y.is_clean and x.is_clean)
    chosen = _choice(b, x, y)
    if chosen is not None:
        return chosen
    total = b.pointwise("add", clean(b, x), clean(b, y))
    return Cotangent(total, b.pointwise("or", x.support, y.support))


def _choice(b: Builder, x: Cotangent, y: Cotangent) -> Cotangent | None:
    """The sum where the supports differ by a condition and its negation."""
    assert x.support is not None and y.support is not None
    mine, others = conjuncts(x.support), conjuncts(y.support)
    common = [part for part in mine if part in others]
    a = [part for part in mine if part not in common]
    c = [part for part in others if part not in common]
    if len(a) != 1 or len(c) != 1 or not opposite(a[0], c[0]):
        return None
    plain = (
        c[0].op is not None and c[0].op.opcode == "xor" and c[0].op.operands[0] is a[0]
    )
    condition, then, otherwise = (
        (a[0], x.value, y.value) if plain else (c[0], y.value, x.value)
    )
    value = b.pointwise("select", condition, then, otherwise)
    support = conjunction(b, common)
    return Cotangent(value, support, support is None or (x.is_clean and y.is_clean))


def sum_lanes(b: Builder, ct: Cotangent, axis: int) -> Cotangent:
    """The sum of a cotangent along `axis`.

    A part of the support that is the same all along the axis moves past the sum.
    """
    kept: list[Value] = []
    across: list[Value] = []
    for part in conjuncts(ct.support) if ct.support is not None else []:
        slice = without_axis(b, part, axis)
        (across if slice is None else kept).append(part if slice is None else slice)
    mask = conjunction(b, across)
    value = ct.value if ct.is_clean else _masked(b, mask, ct.value)
    total = _sum(b, value, axis)
    if mask is not None:
        kept.append(b.reduce(mask, "or", axis))
    is_clean = ct.is_clean or len(kept) == (mask is not None)
    return Cotangent(total, conjunction(b, kept), is_clean)


def _sum(b: Builder, value: Value, axis: int) -> Value:
    if value.op is not None and value.op.opcode == "neg":  # the sign of a zero is free
        return b.pointwise("neg", _sum(b, value.op.operands[0], axis))
    return b.reduce(value, "sum", axis)
