"""What polynomials and scalar values amount to in one launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from undertow.analysis.polynomials import Polynomial, Symbol
from undertow.ir import Op, Value, postorder

Launch = Mapping[str, int]
"""Integer arguments by name, and the grid as ``grid0``, ``grid1``, ``grid2``."""


@dataclass(frozen=True, slots=True)
class Bound:
    """``low < high`` holds wherever an access is made."""

    low: Polynomial
    high: Polynomial


# -- scalars --


def _truncated_div(a: int, b: int) -> int:
    """As in C; a division by zero, which C leaves open, gives 0."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_SCALAR: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "sdiv": _truncated_div,
    "srem": lambda a, b: a - b * _truncated_div(a, b),
    "smax": max,
    "smin": min,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
}


def uniform(value: Value) -> bool:
    """Whether a scalar is computed from integer arguments and the grid alone."""
    seen: dict[Value, bool] = {}
    for part in postorder(value, _parts, seen):
        op = part.op
        if part.shape or not part.tensor_type.dtype.is_int:
            seen[part] = False
        elif op is None:
            seen[part] = part.is_parameter
        else:
            seen[part] = _computable(op) and all(seen[v] for v in op.operands)
    return seen[value]


def _parts(value: Value) -> tuple[Value, ...]:
    op = value.op
    number = not value.shape and value.tensor_type.dtype.is_int
    return op.operands if op is not None and number and _computable(op) else ()


def _computable(op: Op) -> bool:
    if op.opcode == "cmp":
        return op.str_attr("predicate") in _COMPARE
    return op.opcode in _SCALAR or op.opcode in (
        "const",
        "num_programs",
        "cast",
        "select",
    )


def at_launch(what: Polynomial | Value, launch: Launch) -> int:
    """The number that a polynomial or value known at launch has in this launch."""
    if isinstance(what, Value):
        return _scalar(what, launch)
    total = 0
    for monomial, coefficient in what.terms.items():
        for symbol in monomial:
            coefficient *= _symbol(symbol, launch)
        total += coefficient
    return total


def _symbol(symbol: Symbol, launch: Launch) -> int:
    assert symbol.known_at_launch, symbol
    if symbol.of is not None and symbol.by is not None:
        a, b = at_launch(symbol.of, launch), at_launch(symbol.by, launch)
        quotient = _truncated_div(a, b)
        return quotient if symbol.kind == "quotient" else a - b * quotient
    if symbol.value is None:
        return launch[f"grid{symbol.axis}"]
    return _scalar(symbol.value, launch)


def _scalar(value: Value, launch: Launch) -> int:
    op = value.op
    if op is None:
        return int(launch[value.name])
    if op.opcode == "const":
        return int(op.int_attr("value"))
    if op.opcode == "num_programs":
        return launch[f"grid{op.int_attr('axis')}"]
    numbers = [_scalar(v, launch) for v in op.operands]
    match op.opcode:
        case "cast":
            return _cast(op, numbers[0])
        case "cmp":
            return int(_COMPARE[op.str_attr("predicate")](numbers[0], numbers[1]))
        case "select":
            return numbers[1] if numbers[0] else numbers[2]
        case _:
            result = _SCALAR[op.opcode](numbers[0], numbers[1])
            return _wrapped(result, value.tensor_type.dtype.bits)


def _wrapped(number: int, bits: int) -> int:
    if bits == 1:
        return number & 1
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _cast(op: Op, number: int) -> int:
    source, target = op.operands[0].tensor_type.dtype, op.result.tensor_type.dtype
    signed = bool(op.attrs.get("signed", True))
    if source.bits == 1:
        number = -number if signed else number
    elif not signed:
        number %= 1 << source.bits
    if target.bits == 1 and not signed:
        return int(number != 0)
    return _wrapped(number, target.bits)


# -- values that differ between programs and lanes --


@dataclass(frozen=True, slots=True)
class Ranges:
    """Lowest and highest values, in one launch, of what varies in an access."""

    shape: tuple[int, ...]
    bounds: tuple[Bound | None, ...]
    launch: Launch

    def of(self, polynomial: Polynomial) -> tuple[int, int] | None:
        """The values lie between these two, wherever the access is made; or None."""
        parts = polynomial.linear_in(polynomial.varying)
        if parts is None or not parts[1].known_at_launch:
            return None
        low = high = at_launch(parts[1], self.launch)
        for symbol, coefficient in parts[0].items():
            ends = self.symbol(symbol)
            if ends is None or not coefficient.known_at_launch:
                return None
            weight = at_launch(coefficient, self.launch)
            low += min(weight * ends[0], weight * ends[1])
            high += max(weight * ends[0], weight * ends[1])
        for bound in self.bounds:
            if bound and bound.low == polynomial and bound.high.known_at_launch:
                high = min(high, at_launch(bound.high, self.launch) - 1)
        return low, high

    def symbol(self, symbol: Symbol) -> tuple[int, int] | None:
        """The ends of one varying symbol; None for a division of negative numbers."""
        if symbol.kind == "program":
            return 0, self.launch[f"grid{symbol.axis}"] - 1
        if symbol.kind == "lane":
            return 0, self.shape[symbol.axis] - 1
        if symbol.kind == "turn" and symbol.by is not None:
            return 0, at_launch(symbol.by, self.launch) - 1
        if symbol.of is None or symbol.by is None or not symbol.by.known_at_launch:
            return None
        ends, by = self.of(symbol.of), at_launch(symbol.by, self.launch)
        if ends is None or ends[0] < 0 or by < 1 or not self.narrow(symbol.of):
            return None
        if symbol.kind == "quotient":
            return ends[0] // by, ends[1] // by
        return 0, min(by - 1, max(0, ends[1]))

    def narrow(self, polynomial: Polynomial) -> bool:
        """Whether it fits 32 bits in every lane, those outside of the bounds too."""
        ends = Ranges(self.shape, (), self.launch).of(polynomial)
        return ends is not None and ends[0] >= -(1 << 31) and ends[1] < 1 << 31
