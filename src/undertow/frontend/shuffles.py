"""Floats that Triton's library moves as bits, read as the moves that they are.

`tl.flip`, `tl.sort` and `tl.topk` arrive inlined. Each step of theirs takes the bits of
a float, x, and gives along an axis of extent 2 the other element's: x ^ (x₀ ^ x₁). Read
by its integers that has no derivative; as a `flip` it has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from undertow.ir import OPS, Block, Builder, Op, TensorType, Value

_MOVES = ("reshape", "transpose", "expand_dims", "broadcast", "flip")


def exchanged(b: Builder, x: Value, y: Value) -> Value | None:
    """x ^ y as a `flip`, if y is the xor of both elements of x along one axis."""
    for bits, other in ((x, y), (y, x)):
        axis = _paired_axis(bits, other)
        if axis is not None:
            return _moved(b, bits, partial(b.flip, axis=axis))
    return None


def _paired_axis(bits: Value, other: Value) -> int | None:
    wide = other.op
    if wide is None or wide.opcode != "broadcast" or other.shape != bits.shape:
        return None
    row = wide.operands[0].op
    if row is None or row.opcode != "expand_dims":
        return None
    axis, paired = row.int_attr("axis"), row.operands[0].op
    known = {"kind": "xor", "axis": axis}
    if paired is None or paired.opcode != "reduce" or dict(paired.attrs) != known:
        return None
    return axis if paired.operands[0] is bits and bits.shape[axis] == 2 else None


def _moved(b: Builder, value: Value, move: Callable[[Value], Value]) -> Value:
    """`move` of a value; bits of a float are moved before they are taken."""
    op = value.op
    if op is None or op.opcode != "bitcast":
        return move(value)
    return b.pure("bitcast", (move(op.operands[0]),), value.tensor_type)


def reinterpreted(b: Builder, value: Value, type: TensorType) -> Value | None:
    """The value of `type` whose moved bits `value` is, if it is that."""
    op = value.op
    if value.type == type:
        return value
    if op is None:
        return None
    if op.opcode == "bitcast":
        source = op.operands[0]
        return source if source.tensor_type.dtype == type.dtype else None
    if op.opcode not in _MOVES:
        return None
    source = op.operands[0]
    inner = reinterpreted(b, source, source.tensor_type.with_dtype(type.dtype))
    if inner is None:
        return None
    return b.pure(op.opcode, (inner,), type, dict(op.attrs))


def drop_unused(block: Block, used: set[Value] | None = None) -> None:
    """Removes what `block` computes and does not use, such as bits that were read."""
    used = set[Value]() if used is None else used
    kept: list[Op] = []
    for op in reversed(block.ops):
        if OPS[op.opcode].pure and used.isdisjoint(op.results):
            continue
        for region in op.regions:
            drop_unused(region, used)
        used.update(op.operands)
        kept.append(op)
    block.ops[:] = kept[::-1]
