"""Writes the ops that write memory."""

from __future__ import annotations

from undertow.emit import spelling
from undertow.emit.expressions import Expressions
from undertow.emit.text import ATOM, call
from undertow.ir import Access, Op, Value


def written(op: Op, expressions: Expressions) -> str:
    """``tl.store(…)`` or ``tl.atomic_add(…)``."""
    access = Access.of(op)
    assert access.value is not None
    value = _stored(access.value, expressions)
    arguments = [expressions.pointer(access, access.value.shape), value]
    if access.mask is not None:
        arguments.append(f"mask={expressions.stripped(access.mask)[0].text}")
    if op.opcode == "atomic_add":
        arguments.append('sem="relaxed"')
    function = "tl.store" if op.opcode == "store" else "tl.atomic_add"
    return call(function, *arguments, *spelling.hints(op)).text


def _stored(value: Value, expressions: Expressions) -> str:
    """What is stored, without the rounding that a store does by itself."""

    def is_inline(value: Value, opcode: str) -> bool:
        named = value in expressions.names
        return not named and value.op is not None and value.op.opcode == opcode

    sign, inner = "", value
    if is_inline(inner, "neg"):
        sign, inner = "-", _operand(inner)
    if not (is_inline(inner, "cast") and rounds(inner)):
        return expressions.stripped(value)[0].text
    text, _ = expressions.stripped(_operand(inner))
    return f"-{text.within(ATOM)}" if sign else text.text


def rounds(value: Value) -> bool:
    """Whether a cast gives a float of fewer bits."""
    source = _operand(value)
    if not (value.is_float and source.is_float):
        return False
    return source.tensor_type.dtype.bits > value.tensor_type.dtype.bits


def _operand(value: Value) -> Value:
    assert value.op is not None
    return value.op.operands[0]
