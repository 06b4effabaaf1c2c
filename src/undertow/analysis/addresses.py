"""Addresses as polynomials over program ids, lanes and what is known at launch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from undertow.analysis.launch import Bound, uniform
from undertow.analysis.polynomials import ONE, ZERO, Polynomial, Symbol, rejoin
from undertow.ir import I1, Access, Op, Value, postorder


@dataclass
class Addresses:
    """Turns integer values into polynomials, remembering what it has seen.

    ``lane(i)`` in the polynomial of a value is the position along axis `i` of that
    value.

    Attributes:
        unique: names of buffers of integers that hold none twice.
    """

    unique: Collection[str] = ()
    _known: dict[Value, Polynomial] = field(
        default_factory=lambda: dict[Value, Polynomial]()
    )

    def of(self, value: Value) -> Polynomial:
        """The polynomial of an integer; what is not polynomial in it is opaque."""
        for part in postorder(value, _parts, self._known):
            self._known[part] = self._polynomial(part)
        return self._known[value]

    def access(self, op: Op) -> Polynomial:
        """The address of a memory op relative to its base, in elements."""
        total = ZERO
        for offset in Access.of(op).offsets:
            total += self.of(offset)
        return rejoin(total)

    def bounds(self, op: Op) -> list[Bound | None]:
        """The conjuncts of the op's mask that compare integers; None for another one.

        Ignoring a None makes the set of lanes larger than it is, never smaller.
        """
        mask = Access.of(op).mask
        return [] if mask is None else self._conjuncts(mask)

    def taken(self, branch: Op, index: int) -> list[Bound | None]:
        """The same for what holds inside of a branch of an ``if``; 0 is its first."""
        condition = branch.operands[0]
        if index == 0:
            return self._conjuncts(condition)
        op = condition.op
        if op is None or op.opcode != "cmp":
            return [None]
        (found,) = self._conjuncts(condition)
        return [found and Bound(found.high, found.low + ONE)]

    def through(self, op: Op, polynomial: Polynomial) -> Polynomial:
        """The polynomial of a result, from that of the operand that `op` moves."""
        move = _LANEWISE.get(op.opcode)
        return polynomial if move is None else move(op, polynomial)

    def _conjuncts(self, mask: Value) -> list[Bound | None]:
        op = mask.op
        if op is None:
            return [None]
        if op.opcode == "and":
            return [pair for v in op.operands for pair in self._conjuncts(v)]
        if op.opcode == "load" and mask.tensor_type.dtype == I1:
            return [None, *(self.bounds(op) if _false_where_off(op) else ())]
        if op.opcode in _LANEWISE:
            move = _LANEWISE[op.opcode]
            inner = self._conjuncts(op.operands[0])
            return [b and Bound(move(op, b.low), move(op, b.high)) for b in inner]
        if op.opcode != "cmp" or not op.operands[0].tensor_type.dtype.is_int:
            return [None]
        a, b = map(self.of, op.operands)
        match op.str_attr("predicate"):
            case "slt":
                return [Bound(a, b)]
            case "sle":
                return [Bound(a, b + ONE)]
            case "sgt":
                return [Bound(b, a)]
            case "sge":
                return [Bound(b, a + ONE)]
            case _:
                return [None]

    def _polynomial(self, value: Value) -> Polynomial:
        op = value.op
        if op is None:
            return self._variable(value) if value.is_argument else _atom(value)
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
            case "sub" if (turn := self._backwards(op)) is not None:
                return Polynomial.symbol(turn)
            case "add" | "sub" | "mul" if value.tensor_type.dtype.bits >= 32:
                a, b = map(self.of, op.operands)
                return _ARITHMETIC[op.opcode](a, b)
            case "sdiv" | "srem":
                return self._digit(op)
            case "cast" if widens(op):
                return self.of(op.operands[0])
            case "load" if op.operands[0].name in self.unique:
                return self._element(op)
            case _ if op.opcode in _LANEWISE:
                return _LANEWISE[op.opcode](op, self.of(op.operands[0]))
            case _:
                return _atom(value)

    def turn(self, loop: Op) -> Symbol | None:
        """The turns of a loop, if what bounds their number is known at launch.

        A program may make fewer turns than that, as in ``range(pid, n, programs)``.
        """
        if loop.opcode != "for":
            return None
        lower, step = self.of(loop.head[0]), self.of(loop.head[2])
        if not step.known_at_launch or (step.number is not None and step.number < 1):
            return None
        for upper in self._uppers(loop.head[1]):
            count = _most(upper - lower)
            if count is None:
                continue
            if step != ONE:
                up = count + step - ONE
                count = Polynomial.symbol(Symbol("quotient", of=up, by=step))
            return Symbol("turn", value=loop.regions[0].args[0], by=count)
        return None

    def exact(self, loop: Op) -> bool:
        """Whether each program makes all the turns that `turn` tells of."""
        lower, upper, _ = map(self.of, loop.head)
        return (upper - lower).known_at_launch

    def _uppers(self, value: Value) -> list[Polynomial]:
        """Polynomials that `value` is no higher than."""
        own, op = self.of(value), value.op
        if op is None or not own.opaque:
            return [own]
        if op.opcode == "smin":
            return [upper for operand in op.operands for upper in self._uppers(operand)]
        if op.opcode == "cast" and widens(op):
            return self._uppers(op.operands[0])
        if op.opcode == "sub":
            less = self.of(op.operands[1])
            return [upper - less for upper in self._uppers(op.operands[0])]
        return [own]

    def _backwards(self, op: Op) -> Symbol | None:
        """``count - 1 - turn`` in a loop over ``range(count)``, of an unknown count.

        That is the loop from its last turn on: it takes the values that the turn takes.
        """
        last, variable = op.operands
        loop = variable.owner
        if loop is None or variable in loop.carried or last.op is None:
            return None
        _, upper, step = loop.head
        starts = [self.of(v).number for v in (loop.head[0], step)] == [0, 1]
        if not starts or last.op.opcode != "sub" or last.op.operands[0] is not upper:
            return None
        if self.of(upper).known_at_launch or self.of(last.op.operands[1]) != ONE:
            return None
        turn = self.turn(loop)
        return None if turn is None else backwards(turn)

    def _variable(self, value: Value) -> Polynomial:
        """The variable of a loop: where it starts, and a step for each turn."""
        owner = value.owner
        turn = self.turn(owner) if owner and value not in owner.carried else None
        if turn is None or value.owner is None:
            return Polynomial.symbol(Symbol("opaque", value=value))
        lower, _, step = map(self.of, value.owner.head)
        return lower + step * Polynomial.symbol(turn)

    def _element(self, load: Op) -> Polynomial:
        """An integer that its place in a buffer tells apart from all others."""
        place, bounds = self.access(load), self.bounds(load)
        guard = tuple((b.low, b.high) for b in bounds if b is not None)
        strange = place.opaque or any(p.opaque for pair in guard for p in pair)
        if None in bounds or strange or not place.varying:
            return _atom(load.result)
        base, origin = load.operands[0], load.result
        return Polynomial.symbol(
            Symbol("unique", value=base, of=place, guard=guard, origin=origin)
        )

    def _digit(self, op: Op) -> Polynomial:
        of, by = map(self.of, op.operands)
        if of.opaque or not of.varying or not by.known_at_launch:
            return _atom(op.result)
        kind = "quotient" if op.opcode == "sdiv" else "remainder"
        return Polynomial.symbol(Symbol(kind, of=of, by=by))


def _parts(value: Value) -> tuple[Value, ...]:
    """The values whose polynomials that of `value` is made of."""
    op = value.op
    if op is None:
        return ()
    wide = value.tensor_type.dtype.bits >= 32
    arithmetic = op.opcode in _ARITHMETIC and wide
    digit = op.opcode in ("sdiv", "srem")
    moved = op.opcode in _LANEWISE or widens(op)
    return op.operands if arithmetic or digit or moved else ()


def backwards(turn: Symbol) -> Symbol:
    """How many turns are to come, as a symbol of its own."""
    return replace(turn, axis=1)


def _most(count: Polynomial) -> Polynomial | None:
    """The highest number that `count` is in any program and turn; None if not known."""
    if count.opaque:
        return None
    parts = count.linear_in(count.varying)
    if parts is None:
        return None
    total = parts[1]
    for symbol, weight in parts[0].items():
        if weight.number is None:
            return None
        if symbol.kind == "program":
            extent = Polynomial.symbol(Symbol("grid", symbol.axis))
        elif symbol.kind == "turn" and symbol.by is not None:
            extent = symbol.by
        else:
            return None
        if weight.number > 0:
            total += weight * (extent - ONE)
    return total if total.known_at_launch else None


_ARITHMETIC: dict[str, Callable[[Polynomial, Polynomial], Polynomial]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
}


def _atom(value: Value) -> Polynomial:
    kind = "scalar" if uniform(value) else "opaque"
    return Polynomial.symbol(Symbol(kind, value=value))


def _false_where_off(load: Op) -> bool:
    other = Access.of(load).other
    op = None if other is None else other.op
    return op is not None and op.opcode == "const" and not op.attrs["value"]


def widens(op: Op) -> bool:
    """Whether `op` is a cast that keeps every integer what it is."""
    if op.opcode != "cast":
        return False
    source, target = op.operands[0].tensor_type.dtype, op.result.tensor_type.dtype
    return (
        source.is_int
        and target.is_int
        and target.bits >= source.bits > 1
        and bool(op.attrs.get("signed", True))
    )


# -- ops that move lanes --


def _lane(axis: int) -> Symbol:
    return Symbol("lane", axis)


def _move(
    polynomial: Polynomial, axes: Mapping[int, Polynomial], *, op: Op
) -> Polynomial:
    """Lanes renamed; an opaque part becomes the opaque result of this op."""
    for symbol in sorted(polynomial.symbols, key=str):
        if symbol.kind == "opaque":
            origin = symbol.origin or symbol.value
            moved = Symbol("opaque", value=op.results[0], origin=origin)
            return Polynomial.symbol(moved)
    return polynomial.substitute({_lane(axis): p for axis, p in axes.items()})


def _broadcast(op: Op, p: Polynomial) -> Polynomial:
    narrow = [i for i, extent in enumerate(op.operands[0].shape) if extent == 1]
    return _move(p, dict.fromkeys(narrow, ZERO), op=op)


def _expand_dims(op: Op, p: Polynomial) -> Polynomial:
    axis, rank = op.int_attr("axis"), len(op.operands[0].shape)
    moved = {i: Polynomial.symbol(_lane(i + (i >= axis))) for i in range(rank)}
    return _move(p, moved, op=op)


def _transpose(op: Op, p: Polynomial) -> Polynomial:
    order = op.tuple_attr("order")
    moved = {source: Polynomial.symbol(_lane(i)) for i, source in enumerate(order)}
    return _move(p, moved, op=op)


def _reshape(op: Op, p: Polynomial) -> Polynomial:
    """Row-major: an old lane is a sum over the new lanes that it falls apart into."""
    source, target = op.operands[0].shape, op.results[0].shape
    if all(extent == 1 for extent in source):
        return _move(p, dict.fromkeys(range(len(source)), ZERO), op=op)
    moved: dict[int, Polynomial] = {}
    new = 0
    for axis, extent in enumerate(source):
        first, product = new, 1
        while new < len(target) and product * target[new] <= extent:
            product *= target[new]
            new += 1
        if product != extent:
            return Polynomial.symbol(Symbol("opaque", value=op.results[0]))
        moved[axis] = _row_major(target, first, new)
    return _move(p, moved, op=op)


def _row_major(shape: tuple[int, ...], first: int, end: int) -> Polynomial:
    total, stride = ZERO, 1
    for axis in reversed(range(first, end)):
        total += Polynomial.constant(stride) * Polynomial.symbol(_lane(axis))
        stride *= shape[axis]
    return total


_LANEWISE: dict[str, Callable[[Op, Polynomial], Polynomial]] = {
    "broadcast": _broadcast,
    "expand_dims": _expand_dims,
    "transpose": _transpose,
    "reshape": _reshape,
}
