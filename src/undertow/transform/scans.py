"""Transposes of sums and products of prefixes, and of linear recurrences.

All are h[t] = a[t] h[t - 1] + x[t]: a sum has a = 1, a product x = 0. The cotangent of
the states runs the other way, g[t] = ct[t] + a[t + 1] g[t + 1]; then dx[t] = g[t] and
da[t] = g[t] h[t - 1]. No element is divided by, so that zeros of `a` need no care.
"""

from __future__ import annotations

from undertow.ir import I32, Builder, Op, Value
from undertow.transform.cotangents import Cotangent, clean
from undertow.transform.masks import conjunction, conjuncts, without_axis
from undertow.transform.sweep import State


def scan(s: State, op: Op, ct: Cotangent) -> None:
    """Adds to the cotangent of what is scanned."""
    (x,), reverse = op.operands, not op.attrs["reverse"]
    if op.str_attr("kind") == "sum":
        total = s.b.scan(clean(s.b, ct), "sum", op.int_attr("axis"), reverse=reverse)
        s.add(x, Cotangent(total, _reaching(s.b, op, ct)))
        return
    _add_to_gain(s, op, _state_cotangent(s, op, ct))


def recurrence(s: State, op: Op, ct: Cotangent) -> None:
    """Adds to the cotangents of both operands."""
    g = _state_cotangent(s, op, ct)
    s.add(op.operands[1], g)
    if s.activity.active(op.operands[0]):
        _add_to_gain(s, op, g)


def previous(b: Builder, op: Op, states: Value) -> Value:
    """h[t - 1] beside h[t]; before the first state, 1 for a product and 0 otherwise."""
    start = 1.0 if op.opcode == "scan" else 0.0
    return _beside(b, op, states, start, ahead=False)


def _add_to_gain(s: State, op: Op, g: Cotangent) -> None:
    before = previous(s.b, op, s.primal(op.result))
    s.add(op.operands[0], g.through(s.b.pointwise("mul", g.value, before)))


def _state_cotangent(s: State, op: Op, ct: Cotangent) -> Cotangent:
    """g. Elements of `a` past the last live lane may be anything, and count as 0."""
    b, axis, reverse = s.b, op.int_attr("axis"), not op.attrs["reverse"]
    gain, support = s.primal(op.operands[0]), _reaching(b, op, ct)
    if support is not None:
        zero = b.const(0.0, gain.tensor_type)
        gain = b.pointwise("select", support, gain, zero)
    following = _beside(b, op, gain, 0.0, ahead=True)
    g = b.recurrence(following, clean(b, ct), axis, reverse=reverse)
    return Cotangent(g, support)


def _reaching(b: Builder, op: Op, ct: Cotangent) -> Value | None:
    """The support of g: what the scan carries into a lane that `ct` is not 0 in."""
    axis, reverse = op.int_attr("axis"), not op.attrs["reverse"]
    kept: list[Value] = []
    for part in conjuncts(ct.support) if ct.support is not None else []:
        if without_axis(b, part, axis) is None and not _begins(part, axis, reverse):
            count = b.cast(part, I32, signed=False)
            part = b.scan(count, "sum", axis, reverse=reverse)
            zero = b.const(0, part.tensor_type)
            part = b.pointwise("cmp", part, zero, predicate="sgt")
        kept.append(part)
    return conjunction(b, kept)


def _begins(mask: Value, axis: int, reverse: bool) -> bool:
    """Whether each lane that g meets after a live one is live, as in ``lanes < n``."""
    predicates = ("slt", "sle") if reverse else ("sgt", "sge")
    op = mask.op
    while op is not None and op.opcode in ("broadcast", "expand_dims"):
        if op.opcode == "expand_dims":
            axis -= op.int_attr("axis") < axis
        op = op.operands[0].op
    if op is None or op.opcode != "cmp" or op.str_attr("predicate") not in predicates:
        return False
    lanes, bound = op.operands
    return len(lanes.shape) == 1 and _counts(lanes) and _same(bound)


def _counts(lanes: Value) -> bool:
    op = lanes.op
    if op is not None and op.opcode == "add":
        x, y = op.operands
        return (_counts(x) and _same(y)) or (_counts(y) and _same(x))
    return op is not None and op.opcode == "range"


def _same(value: Value) -> bool:
    """Whether all lanes of a vector are known to be one number."""
    op = value.op
    return op is not None and (
        op.opcode == "const" or (op.opcode == "broadcast" and not op.operands[0].shape)
    )


def _beside(b: Builder, op: Op, value: Value, edge: float, *, ahead: bool) -> Value:
    """In each lane what the scan meets one step ahead of it, or behind; `edge` last."""
    axis, shape = op.int_attr("axis"), value.shape
    lanes = b.range(shape[axis], axis, shape)
    one = b.const(1, lanes.tensor_type)
    if ahead != bool(op.attrs["reverse"]):
        last = b.const(shape[axis] - 1, lanes.tensor_type)
        index = b.pointwise("smin", b.pointwise("add", lanes, one), last)
    else:
        last = b.const(0, lanes.tensor_type)
        index = b.pointwise("smax", b.pointwise("sub", lanes, one), last)
    found = b.gather(value, index, axis)
    inside = b.pointwise("cmp", lanes, last, predicate="ne")
    return b.pointwise("select", inside, found, b.const(edge, value.tensor_type))
