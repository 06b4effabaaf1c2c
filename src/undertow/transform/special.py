"""Transposes of the ops that no table row covers: selections, sums, memory."""

from __future__ import annotations

import math
from collections.abc import Callable

from undertow.ir import I32, Access, Builder, Op, Value, cotangent_dtype
from undertow.rules import reduce_cotangent, widen
from undertow.transform.cotangents import (
    Cotangent,
    clean,
    restrict,
    sum_lanes,
    where_seen,
    zero_outside,
)
from undertow.transform.masks import (
    conjunction,
    conjuncts,
    implies,
    negation,
    without_axis,
)
from undertow.transform.scans import recurrence, scan
from undertow.transform.sweep import Place, State, refusal

LARGEST = 1 << 20
"""Triton allows a block no more elements."""


def _select(s: State, op: Op, ct: Cotangent) -> None:
    condition, x, y = op.operands
    mask = s.env[condition]
    if s.activity.active(x):
        s.add(x, restrict(s.b, ct, mask))
    if s.activity.active(y):
        s.add(y, restrict(s.b, ct, negation(s.b, mask)))


def _cast(s: State, op: Op, ct: Cotangent) -> None:
    dtype = cotangent_dtype(op.operands[0].tensor_type.dtype)
    value = s.b.cast(ct.value, dtype)
    s.add(op.operands[0], ct.through(value, clean=ct.is_clean))


def _broadcast(s: State, op: Op, ct: Cotangent) -> None:
    b, source = s.b, op.operands[0].shape
    if not source:
        for axis in reversed(range(len(op.result.shape))):
            ct = sum_lanes(b, ct, axis)
        s.add(op.operands[0], ct)
        return
    for axis, (narrow, wide) in enumerate(zip(source, op.result.shape, strict=True)):
        if narrow != wide:
            ct = sum_lanes(b, ct, axis)
            support = ct.support and b.expand_dims(ct.support, axis)
            ct = Cotangent(b.expand_dims(ct.value, axis), support, ct.is_clean)
    s.add(op.operands[0], ct)


def _reduce(s: State, op: Op, ct: Cotangent) -> None:
    (x,), axis, kind = op.operands, op.int_attr("axis"), op.str_attr("kind")
    value = reduce_cotangent(s.b, op, ct.value, s.primal(x), s.primal(op.result))
    if value is None:
        raise refusal(s.kernel, op, f"no rule for kind `{kind}`")
    support = ct.support and widen(s.b, ct.support, axis, x.shape)
    is_clean = support is None or (ct.is_clean and kind == "sum")
    s.add(x, Cotangent(value, support, is_clean))


def _gather(s: State, op: Op, ct: Cotangent) -> None:
    """Element j of x sums the lanes whose index is j; triton has no scatter."""
    b, (x, index), axis = s.b, op.operands, op.int_attr("axis")
    extent = x.shape[axis]
    shape = (*op.result.shape[: axis + 1], extent, *op.result.shape[axis + 1 :])
    if math.prod(shape) > LARGEST:
        lanes = " x ".join(map(str, shape))
        raise refusal(
            s.kernel,
            op,
            f"its sums need a block of {lanes} elements",
            "gather from a smaller block, or load at the indices",
        )
    wide = b.broadcast(b.expand_dims(s.env[index], axis + 1), shape)
    position = b.range(extent, axis + 1, shape)
    hit = b.pointwise("cmp", b.cast(wide, I32), position, predicate="eq")
    if ct.support is not None:
        live = b.broadcast(b.expand_dims(ct.support, axis + 1), shape)
        hit = b.pointwise("and", hit, live)
    value = b.broadcast(b.expand_dims(ct.value, axis + 1), shape)
    kept = b.pointwise("select", hit, value, b.const(0.0, value.tensor_type))
    s.add(x, Cotangent(b.reduce(kept, "sum", axis), b.reduce(hit, "or", axis)))


def _load(s: State, op: Op, ct: Cotangent) -> None:
    access = Access.of(op)
    mask = s.mask(access)
    if (
        access.other is not None
        and mask is not None
        and s.activity.active(access.other)
    ):
        s.add(access.other, restrict(s.b, ct, negation(s.b, mask)))
    gradient = s.buffers.gradients.get(access.base)
    if gradient is None:
        return
    value = clean(s.b, ct, given=mask)
    seen = value if mask is None else where_seen(s.b, value, mask)
    name = value.name or (op.result.name and f"d_{op.result.name}")
    seen.name = seen.name or name
    s.b.atomic_add(s.at(access, gradient, seen))


def _dot(s: State, op: Op, ct: Cotangent) -> None:
    """``da = ct @ bᵀ`` and ``db = aᵀ @ ct``, in the operands' dtype as the forward's.

    Rows and columns that carry no cotangent may hold anything in `a` and `b`, and must
    not meet the others in a product.
    """
    b, (x, y, c) = s.b, op.operands
    precision = op.str_attr("precision")
    s.add(c, ct)
    g = clean(b, ct)
    rows, cols = _live(b, ct, -1), _live(b, ct, -2)
    swap = (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
    g = b.cast(g, x.tensor_type.dtype)
    if s.activity.active(x):
        other = b.transpose(_defined(b, s.env[y], cols, -2), swap)
        zero = b.const(0.0, s.cotangent_type(x))
        s.add(x, Cotangent(b.dot(g, other, zero, precision), _spread(b, rows, x, -1)))
    if s.activity.active(y):
        other = b.transpose(_defined(b, s.env[x], rows, -1), swap)
        zero = b.const(0.0, s.cotangent_type(y))
        s.add(y, Cotangent(b.dot(other, g, zero, precision), _spread(b, cols, y, -2)))


def _live(b: Builder, ct: Cotangent, axis: int) -> Value | None:
    """The part of a support that is the same all along `axis`, without that axis."""
    parts = conjuncts(ct.support) if ct.support is not None else []
    at = axis + len(ct.value.shape)
    slices = [without_axis(b, part, at) for part in parts]
    return conjunction(b, [s for s in slices if s is not None])


def _spread(b: Builder, live: Value | None, like: Value, axis: int) -> Value | None:
    """`live`, which lacks `axis`, as a mask of the lanes of `like`."""
    if live is None:
        return None
    return b.broadcast(b.expand_dims(live, axis + len(like.shape)), like.shape)


def _defined(b: Builder, value: Value, live: Value | None, axis: int) -> Value:
    """`value` with zeros where `live`, which lacks `axis`, does not hold."""
    mask = _spread(b, live, value, axis)
    if mask is None or zero_outside(value, mask):
        return value
    return b.pointwise("select", mask, value, b.const(0.0, value.tensor_type))


SPECIAL: dict[str, Callable[[State, Op, Cotangent], None]] = {
    "select": _select,
    "cast": _cast,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "scan": scan,
    "recurrence": recurrence,
    "load": _load,
    "dot": _dot,
    "gather": _gather,
}


# -- stores --


def store(s: State, op: Op) -> None:
    """The value's cotangent is read where the value was written.

    Lanes that a later store writes over get none. What stood there before the store has
    no gradient: where it is wanted, it starts as zero.
    """
    access = Access.of(op)
    assert access.value is not None
    place = access.base, tuple(s.env[v] for v in access.offsets), access.value.shape
    source = s.buffers.cotangents.get(access.base)
    if source is not None and s.activity.active(access.value):
        ct = _stored_cotangent(s, access, source)
        if place not in s.overwritten:
            s.add(access.value, ct)
        elif (later := s.overwritten[place]) is not None:
            s.add(access.value, restrict(s.b, ct, negation(s.b, later)))
    gradient = s.buffers.gradients.get(access.base)
    if gradient is not None:
        dtype = cotangent_dtype(access.value.tensor_type.dtype)
        zero = s.b.const(0.0, access.value.tensor_type.with_dtype(dtype))
        s.b.store(s.at(access, gradient, zero))
    _overwrite(s, place, s.mask(access))


def accumulate(s: State, op: Op) -> None:
    """The cotangent of the sum is that of each term, and of what it started from."""
    access = Access.of(op)
    source = s.buffers.cotangents.get(access.base)
    if source is not None and access.value and s.activity.active(access.value):
        s.add(access.value, _stored_cotangent(s, access, source))


def _stored_cotangent(s: State, access: Access, source: Value) -> Cotangent:
    assert access.value is not None
    type, mask = access.value.tensor_type, s.mask(access)
    zero = s.b.const(0.0, type) if mask is not None else None
    loaded = s.b.load(s.at(access, source, other=zero), type)
    loaded.name = source.name.removesuffix("_ptr")
    return Cotangent(s.b.cast(loaded, cotangent_dtype(type.dtype)), mask)


def _overwrite(s: State, place: Place, mask: Value | None) -> None:
    """Adds the lanes of a store to those written at the same place."""
    if place not in s.overwritten or mask is None:
        s.overwritten[place] = mask
    elif (known := s.overwritten[place]) is not None and not implies(mask, known):
        s.overwritten[place] = s.b.pointwise("or", known, mask)
