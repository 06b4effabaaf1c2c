"""Reads back from the outputs what the forward computed in a loop."""

from __future__ import annotations

from undertow.analysis.read_back import ReadBack
from undertow.ir import Access, PointerType, Value
from undertow.transform.rebuild import copy
from undertow.transform.sweep import State


def stand_in(s: State, value: Value) -> Value:
    """What stands for `value` in the backward, where it would be computed."""
    b, type = s.b, value.tensor_type
    found = s.stand_ins[value]
    if not isinstance(found, ReadBack):
        return b.const(found, type)
    stored = Access.of(found.store)
    assert isinstance(stored.base.type, PointerType)
    b.loc = found.store.loc.unnamed
    for part in (*stored.offsets, *([] if stored.mask is None else [stored.mask])):
        _bring(s, part)
    held = type.with_dtype(stored.base.type.element)
    other = None
    if stored.mask is not None and found.other is not None:
        other = b.const(found.other, held)
    loaded = b.load(s.at(stored, stored.base, other=other), held)
    assert stored.value is not None
    loaded.name = stored.value.name
    loaded = b.cast(loaded, type.dtype)
    if found.factor != 1.0:
        loaded = b.pointwise("mul", loaded, b.const(found.factor, type))
        loaded.name = value.name
    return loaded


def _bring(s: State, value: Value) -> None:
    """Computes what the forward computes only later."""
    if value in s.env:
        return
    assert value.op is not None
    for operand in value.op.operands:
        _bring(s, operand)
    copy(s.b, value.op, s.env)
