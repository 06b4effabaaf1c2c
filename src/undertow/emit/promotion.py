"""What Triton's type promotion does to operands by itself."""

from __future__ import annotations

from collections.abc import Container

from undertow.emit.text import OPERATORS
from undertow.ir import I1, DType, Value

PROMOTING = ("add", "sub", "mul", "div", "cmp")
"""Opcodes whose operands Triton brings to one type."""


def inside(value: Value, names: Container[Value]) -> Value:
    """`value` without broadcasts that have no variable."""
    while value not in names and value.op and value.op.opcode == "broadcast":
        value = value.op.operands[0]
    return value


def weak(value: Value, names: Container[Value]) -> bool:
    """Whether a value is written as a bare number, whose dtype does not count."""
    value = inside(value, names)
    return value.op is not None and value.op.opcode == "const"


def foldable(value: Value, names: Container[Value]) -> bool:
    """Whether Triton computes `value` from numbers: arguments may be folded to 1.

    What has a variable without being computed belongs to a loop or a branch.
    """
    if value.op is None:
        return value not in names and not value.shape
    if value.op.opcode in ("const", "broadcast") or value.op.opcode in OPERATORS:
        return all(foldable(operand, names) for operand in value.op.operands)
    return False


def implicit(value: Value, target: DType, names: Container[Value]) -> Value | None:
    """What is cast to `target`, if arithmetic with `target` casts it too."""
    value = inside(value, names)
    if value in names or value.op is None or value.op.opcode != "cast":
        return None
    inner = value.op.operands[0]
    source = inner.tensor_type.dtype
    if target.is_int and source.bits >= target.bits:
        return None
    if source.is_int and source != I1 and value.op.attrs.get("signed", True):
        return inner
    return inner if source.is_float and source.bits < target.bits else None
