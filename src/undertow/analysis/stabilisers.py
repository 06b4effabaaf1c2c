"""Maxima that only rescale: subtracted for range, without effect on any output.

In ``exp(x - m) / sum(exp(x - m))`` the maximum keeps the exponentials in range and
cancels. Its cotangent is zero, though reverse mode would compute it as the difference
of equal terms, and would have to say how ties of the maximum share it. To see that it
cancels, follow `m` as if it were a free variable: each value is then v0 + a·m or
v0·b^(k·m) with v0 free of `m`, and `m` cancels if every active output has degree zero.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from undertow.ir import Access, Block, Kernel, Op, Value, walk

MOVES = ("broadcast", "expand_dims", "reshape", "transpose", "split")


@dataclass(frozen=True, slots=True)
class Degree:
    """How a value depends on `m`: v0 + `added`·m, or v0·`base`^(`power`·m).

    The base is "e" or "2"; the two are never mixed.
    """

    added: Fraction = Fraction(0)
    power: Fraction = Fraction(0)
    base: str = ""

    @property
    def free(self) -> bool:
        return not self.added and not self.power


FREE = Degree()
Degrees = dict[Value, Degree]


def stabilisers(kernel: Kernel, outputs: Collection[Value]) -> frozenset[Value]:
    """The maxima of `kernel` that cancel in all of `outputs` (pointers)."""
    candidates = [
        op.result
        for op in walk(kernel.body)
        if op.opcode == "reduce" and op.str_attr("kind") == "max" and op.result.is_float
    ]
    return frozenset(m for m in candidates if _cancels(kernel, m, outputs))


def _cancels(kernel: Kernel, m: Value, outputs: Collection[Value]) -> bool:
    degrees: Degrees = {m: Degree(added=Fraction(1))}
    return _follow(kernel.body, degrees, outputs)


def _follow(block: Block, degrees: Degrees, outputs: Collection[Value]) -> bool:
    """Finds the degrees in `block`; False as soon as one is of no known form."""
    for op in block.ops:
        if op.regions:
            inside = (
                v for region in op.regions for o in walk(region) for v in o.operands
            )
            if any(not degrees.get(v, FREE).free for v in (*op.operands, *inside)):
                return False
        elif op.opcode == "store":
            access = Access.of(op)
            depends = [v for v in op.operands if not degrees.get(v, FREE).free]
            if any(v is not access.value for v in depends):
                return False
            if depends and access.base in outputs:
                return False
        elif any(v in degrees for v in op.operands):
            degree = _degree(op, degrees)
            if degree is None:
                return False
            degrees.update(
                (result, degree) for result in op.results if result not in degrees
            )
    return True


def _degree(op: Op, degrees: Degrees) -> Degree | None:
    """The degree of the results of `op`, or None if it is of no known form."""
    xs = [degrees.get(v, FREE) for v in op.operands]
    if all(x.free for x in xs) or op.opcode in MOVES:
        return xs[0] if op.opcode in MOVES else FREE
    match op.opcode:
        case "cast" if op.operands[0].is_float and op.results[0].is_float:
            return xs[0]
        case "neg":
            return Degree(-xs[0].added, xs[0].power, xs[0].base)
        case "add" | "sub":
            return _sum(xs[0], xs[1], -1 if op.opcode == "sub" else 1)
        case "mul" | "div" | "div_rn":
            return _product(op, xs)
        case "exp" | "exp2" if not xs[0].power:
            return Degree(power=xs[0].added, base="e" if op.opcode == "exp" else "2")
        case "log" | "log2" if xs[0].base == ("e" if op.opcode == "log" else "2"):
            return Degree(added=xs[0].power)
        case "select":
            return _choice(op, xs)
        case "reduce":
            return _reduction(op, xs[0])
        case _:
            return None


def _sum(x: Degree, y: Degree, sign: int) -> Degree | None:
    if x.power or y.power:
        return x if x == y else None
    return Degree(added=x.added + sign * y.added)


def _product(op: Op, xs: list[Degree]) -> Degree | None:
    x, y = xs
    if x.added or y.added:
        return _scaled(op, xs)
    if x.base and y.base and x.base != y.base:
        return None
    power = x.power - y.power if op.opcode.startswith("div") else x.power + y.power
    return Degree(power=power, base=(x.base or y.base) if power else "")


def _scaled(op: Op, xs: list[Degree]) -> Degree | None:
    """(v0 + a·m) times a number."""
    number = _number(op.operands[1 if xs[0].added else 0])
    if number is None or (op.opcode != "mul" and not xs[0].added):
        return None
    added = xs[0].added or xs[1].added
    return Degree(added=added * number if op.opcode == "mul" else added / number)


def _number(value: Value) -> Fraction | None:
    while value.op is not None and value.op.opcode in MOVES:
        value = value.op.operands[0]
    if value.op is None or value.op.opcode != "const":
        return None
    number = value.op.attrs["value"]
    assert isinstance(number, int | float)
    finite = number == number and abs(number) != float("inf") and number != 0
    return Fraction(number) if finite else None


def _choice(op: Op, xs: list[Degree]) -> Degree | None:
    """A selection of equal degrees; 0 has every power, -inf absorbs every addend."""
    condition, x, y = xs
    if not condition.free:
        return None
    if x == y:
        return x
    for degree, other in ((x, op.operands[2]), (y, op.operands[1])):
        literal = _literal(other)
        if (degree.power and literal == 0.0) or (
            degree.added and literal == -float("inf")
        ):
            return degree
    return None


def _literal(value: Value) -> float | None:
    while value.op is not None and value.op.opcode in MOVES:
        value = value.op.operands[0]
    if value.op is None or value.op.opcode != "const":
        return None
    number = value.op.attrs["value"]
    assert isinstance(number, int | float)
    return float(number)


def _reduction(op: Op, x: Degree) -> Degree | None:
    match op.str_attr("kind"):
        case "sum" if not x.added:
            return x
        case "max" | "min" if not x.power:
            return x
        case _:
            return None
