"""How large a scalar can get in a launch, over all programs and turns of loops."""

from __future__ import annotations

from undertow.analysis.addresses import Addresses, widens
from undertow.analysis.launch import Launch, Ranges
from undertow.ir import Value

_MONOTONE = ("smin", "smax", "add", "sub", "sdiv", "cast")


def ceiling(value: Value, launch: Launch) -> int | None:
    """A number that `value` never exceeds, or None if data may decide.

    Args:
        value: an integer scalar.
        launch: integer arguments and grid.
    """
    return _ceiling(value, launch, Addresses())


def has_ceiling(value: Value) -> bool:
    """Whether `ceiling` gives a number in every launch."""
    polynomial = Addresses().of(value)
    if not polynomial.opaque and polynomial.linear_in(polynomial.varying) is not None:
        return True
    op = value.op
    if op is None:
        return False
    match op.opcode:
        case "smin":
            return any(map(has_ceiling, op.operands))
        case "smax" | "add":
            return all(map(has_ceiling, op.operands))
        case "sub" | "sdiv":
            by = _number(op.operands[1])
            fits = by is not None and (op.opcode == "sub" or by >= 1)
            return fits and has_ceiling(op.operands[0])
        case "cast" if widens(op):
            return has_ceiling(op.operands[0])
        case _:
            return False


def _ceiling(value: Value, launch: Launch, addresses: Addresses) -> int | None:
    polynomial = addresses.of(value)
    ends = None if polynomial.opaque else Ranges((), (), launch).of(polynomial)
    if ends is not None:
        return ends[1]
    if value.op is None or value.op.opcode not in _MONOTONE:
        return None
    if value.op.opcode == "cast" and not widens(value.op):
        return None
    parts = [_ceiling(v, launch, addresses) for v in value.op.operands]
    known = [part for part in parts if part is not None]
    match value.op.opcode:
        case "smin":
            return min(known) if known else None
        case "smax" | "add" | "cast" if len(known) == len(parts):
            return sum(known) if value.op.opcode == "add" else max(known)
        case "sub" | "sdiv" if known and parts[0] is not None:
            by = _number(value.op.operands[1])
            if by is None or (value.op.opcode == "sdiv" and by < 1):
                return None
            if value.op.opcode == "sub":
                return parts[0] - by
            return -(-parts[0] // by) if parts[0] < 0 else parts[0] // by
        case _:
            return None


def _number(value: Value) -> int | None:
    """The number behind a constant."""
    if value.op is None or value.op.opcode != "const":
        return None
    return value.op.int_attr("value")
