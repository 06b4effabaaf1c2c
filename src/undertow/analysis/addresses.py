"""Addresses as polynomials over program ids, lanes and what is known at launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from undertow.analysis.polynomials import Polynomial, Symbol
from undertow.ir import Access, Op, Value

Launch = Mapping[str, int]
"""Integer arguments by name, and the grid as ``grid0``, ``grid1``, ``grid2``."""


@dataclass(frozen=True, slots=True)
class Bound:
    """``low < high`` holds wherever an access is made."""

    low: Polynomial
    high: Polynomial


@dataclass
class Addresses:
    """Turns integer values into polynomials, remembering what it has seen.

    ``lane(i)`` in the polynomial of a value is the position along axis `i` of that value.
    """

    _known: dict[Value, Polynomial] = field(
        default_factory=lambda: dict[Value, Polynomial]()
    )

    def of(self, value: Value) -> Polynomial:
        """The polynomial of an integer value; what is not polynomial in it is opaque."""
        if value not in self._known:
            self._known[value] = self._polynomial(value)
        return self._known[value]

    def access(self, op: Op) -> Polynomial:
        """The address of a memory op relative to its base, in elements."""
        total = Polynomial({})
        for offset in Access.of(op).offsets:
            total += self.of(offset)
        return total

    def bounds(self, op: Op) -> list[Bound | None]:
        """The conjuncts of the op's mask that compare integers; None for any other one.

        Ignoring a None makes the set of lanes larger than it is, never smaller.
        """
        mask = Access.of(op).mask
        return [] if mask is None else self._conjuncts(mask)

    def _conjuncts(self, mask: Value) -> list[Bound | None]:
        op = mask.op
        if op is None:
            return [None]
        if op.opcode == "and":
            return [pair for v in op.operands for pair in self._conjuncts(v)]
        if op.opcode in _LANEWISE:
            move = _LANEWISE[op.opcode]
            inner = self._conjuncts(op.operands[0])
            return [b and Bound(move(op, b.low), move(op, b.high)) for b in inner]
        if op.opcode != "cmp" or not op.operands[0].tensor_type.dtype.is_int:
            return [None]
        a, b = map(self.of, op.operands)
        one = Polynomial.constant(1)
        match op.str_attr("predicate"):
            case "slt":
                return [Bound(a, b)]
            case "sle":
                return [Bound(a, b + one)]
            case "sgt":
                return [Bound(b, a)]
            case "sge":
                return [Bound(b, a + one)]
            case _:
                return [None]

    def _polynomial(self, value: Value) -> Polynomial:
        op = value.op
        if op is None:
            return Polynomial.symbol(Symbol("scalar", value=value))
        match op.opcode:
            case "const":
                return Polynomial.constant(int(op.int_attr("value")))
            case "program_id":
                return Polynomial.symbol(Symbol("program", op.int_attr("axis")))
            case "num_programs":
                return Polynomial.symbol(Symbol("grid", op.int_attr("axis")))
            case "range":
                lane = Polynomial.symbol(Symbol("lane", 0))
                return lane + Polynomial.constant(op.int_attr("start"))
            case "add" | "sub" | "mul":
                a, b = map(self.of, op.operands)
                return (
                    a + b
                    if op.opcode == "add"
                    else a - b
                    if op.opcode == "sub"
                    else a * b
                )
            case "cast" if op.operands[0].tensor_type.dtype.bits > 1 and _widens(op):
                return self.of(op.operands[0])
            case _ if op.opcode in _LANEWISE:
                return _LANEWISE[op.opcode](op, self.of(op.operands[0]))
            case _:
                kind = "scalar" if uniform(value) else "opaque"
                return Polynomial.symbol(Symbol(kind, value=value))


def _widens(op: Op) -> bool:
    source, target = op.operands[0].tensor_type.dtype, op.result.tensor_type.dtype
    return source.is_int and target.is_int and target.bits >= source.bits


def uniform(value: Value) -> bool:
    """Whether a scalar is computed from integer arguments and the grid alone."""
    if value.op is None:
        return value.tensor_type.dtype.is_int
    if value.shape or not value.tensor_type.dtype.is_int or len(value.op.results) > 1:
        return False
    op = value.op
    known = op.opcode in _SCALAR or op.opcode in (
        "const",
        "num_programs",
        "cast",
        "select",
    )
    known = known or (op.opcode == "cmp" and op.str_attr("predicate") in _COMPARE)
    return known and all(uniform(v) for v in op.operands)


# -- ops that move lanes ---------------------------------------------------------------------


def _lane(axis: int) -> Symbol:
    return Symbol("lane", axis)


def _move(
    polynomial: Polynomial, axes: Mapping[int, Polynomial], *, op: Op
) -> Polynomial:
    """Lanes renamed; an opaque part becomes the opaque result of this op."""
    if any(s.kind == "opaque" for s in polynomial.symbols):
        return Polynomial.symbol(Symbol("opaque", value=op.results[0]))
    return polynomial.substitute({_lane(axis): p for axis, p in axes.items()})


def _broadcast(op: Op, p: Polynomial) -> Polynomial:
    narrow = [i for i, extent in enumerate(op.operands[0].shape) if extent == 1]
    return _move(p, {i: Polynomial({}) for i in narrow}, op=op)


def _expand_dims(op: Op, p: Polynomial) -> Polynomial:
    axis, rank = op.int_attr("axis"), len(op.operands[0].shape)
    moved = {i: Polynomial.symbol(_lane(i + (i >= axis))) for i in range(rank)}
    return _move(p, moved, op=op)


def _transpose(op: Op, p: Polynomial) -> Polynomial:
    order = op.tuple_attr("order")
    moved = {source: Polynomial.symbol(_lane(i)) for i, source in enumerate(order)}
    return _move(p, moved, op=op)


def _reshape(op: Op, p: Polynomial) -> Polynomial:
    """Row-major: each old lane is a sum over the new lanes it is made of, if it is that."""
    source, target = op.operands[0].shape, op.results[0].shape
    moved: dict[int, Polynomial] = {}
    new = 0
    for axis, extent in enumerate(source):
        parts: list[int] = []
        product = 1
        while (
            new < len(target)
            and product * target[new] <= extent
            and (product < extent or target[new] == 1)
        ):
            product *= target[new]
            parts.append(new)
            new += 1
        if product != extent:
            return Polynomial.symbol(Symbol("opaque", value=op.results[0]))
        total, stride = Polynomial({}), 1
        for part in reversed(parts):
            total += Polynomial.constant(stride) * Polynomial.symbol(_lane(part))
            stride *= target[part]
        moved[axis] = total
    return _move(p, moved, op=op)


_LANEWISE: dict[str, Callable[[Op, Polynomial], Polynomial]] = {
    "broadcast": _broadcast,
    "expand_dims": _expand_dims,
    "transpose": _transpose,
    "reshape": _reshape,
}


# -- values known at launch ------------------------------------------------------------------


def _truncated_div(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


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
    "shl": lambda a, b: a << b,
    "sshr": lambda a, b: a >> b,
}

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
}


def at_launch(what: Polynomial | Value, launch: Launch) -> int:
    """The number that a polynomial or value known at launch has in this launch."""
    if isinstance(what, Polynomial):
        total = 0
        for monomial, coefficient in what.terms.items():
            for symbol in monomial:
                assert symbol.known_at_launch, symbol
                grid = symbol.value is None
                coefficient *= (
                    launch[f"grid{symbol.axis}"]
                    if grid
                    else at_launch(_value(symbol), launch)
                )
            total += coefficient
        return total
    if what.op is None:
        return int(launch[what.name])
    op = what.op
    if op.opcode == "const":
        return int(op.int_attr("value"))
    if op.opcode == "num_programs":
        return launch[f"grid{op.int_attr('axis')}"]
    numbers = [at_launch(v, launch) for v in op.operands]
    match op.opcode:
        case "cast":
            return numbers[0]
        case "cmp":
            return int(_COMPARE[op.str_attr("predicate")](numbers[0], numbers[1]))
        case "select":
            return numbers[1] if numbers[0] else numbers[2]
        case _:
            return _SCALAR[op.opcode](numbers[0], numbers[1])


def _value(symbol: Symbol) -> Value:
    assert symbol.value is not None
    return symbol.value
