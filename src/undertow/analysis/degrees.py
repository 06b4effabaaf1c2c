"""How values depend on a maximum: degrees, and what each op makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from undertow.ir import Op, Value

MOVES = ("broadcast", "expand_dims", "reshape", "transpose", "split")
Vector = tuple[Fraction, Fraction]
"""Coefficients of the old and of the new maximum; a maximum that stays is old."""
NONE: Vector = (Fraction(0), Fraction(0))
OLD: Vector = (Fraction(1), Fraction(0))
NEW: Vector = (Fraction(0), Fraction(1))


@dataclass(frozen=True, slots=True)
class Degree:
    """How a value depends on `m`: v0 + `added`·m, or v0·`base`^(`power`·m).

    The base is "e" or "2"; the two are never mixed. `axes` are the axes of the value
    along which its `m` differs: one for each axis of `m`.
    """

    added: Vector = NONE
    power: Vector = NONE
    base: str = ""
    axes: tuple[int, ...] = ()

    @property
    def free(self) -> bool:
        return self.added == NONE and self.power == NONE


FREE = Degree()
Degrees = dict[Value, Degree]


def degree_of(op: Op, degrees: Degrees) -> Degree | None:
    """The degree of the results of `op`, or None if it is of no known form."""
    xs = [degrees.get(v, FREE) for v in op.operands]
    dependent = [x for x in xs if not x.free]
    if not dependent:
        return FREE
    if op.opcode in MOVES:
        axes = moved(op, xs[0].axes)
        return None if axes is None else replace(xs[0], axes=axes)
    if op.opcode in ("dot", "reduce"):
        found = _contraction(op, xs) if op.opcode == "dot" else _reduction(op, xs[0])
    elif any(x.axes != dependent[0].axes for x in dependent):
        return None
    else:
        found = _pointwise(op, xs)
        found = found and replace(found, axes=dependent[0].axes)
    return FREE if found is not None and found.free else found


def _pointwise(op: Op, xs: list[Degree]) -> Degree | None:
    match op.opcode:
        case "cast" if op.operands[0].is_float and op.results[0].is_float:
            return xs[0]
        case "neg":
            return Degree(scaled(xs[0].added, -1), xs[0].power, xs[0].base)
        case "add" | "sub":
            return _sum(xs[0], xs[1], -1 if op.opcode == "sub" else 1)
        case "mul" | "div" | "div_rn":
            return _product(op, xs)
        case "exp" | "exp2" if xs[0].power == NONE:
            base = "e" if op.opcode == "exp" else "2"
            return Degree(power=xs[0].added, base=base)
        case "log" | "log2" if xs[0].base == ("e" if op.opcode == "log" else "2"):
            return Degree(added=xs[0].power)
        case "select":
            return _choice(op, xs)
        case _:
            return None


def moved(op: Op, axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Where rows lie after lanes moved; None if they are torn or spread."""
    source, target = op.operands[0].shape, op.results[0].shape
    match op.opcode:
        case "expand_dims":
            new = op.int_attr("axis")
            return tuple(axis + (axis >= new) for axis in axes)
        case "transpose":
            order = op.tuple_attr("order")
            return tuple(order.index(axis) for axis in axes)
        case "broadcast" | "split":
            fits = all(a < len(target) and source[a] == target[a] for a in axes)
            return axes if fits else None
        case _:  # a reshape keeps rows whole if it only adds or drops extents of 1
            wide = [i for i, n in enumerate(source) if n != 1]
            kept = [i for i, n in enumerate(target) if n != 1]
            whole = [source[i] for i in wide] == [target[i] for i in kept]
            if not axes:
                return axes
            if not whole or not all(axis in wide for axis in axes):
                return None
            return tuple(kept[wide.index(axis)] for axis in axes)


def _plus(x: Vector, y: Vector, sign: int = 1) -> Vector:
    return x[0] + sign * y[0], x[1] + sign * y[1]


def scaled(x: Vector, by: Fraction | int) -> Vector:
    return x[0] * by, x[1] * by


def _sum(x: Degree, y: Degree, sign: int) -> Degree | None:
    if x.power != NONE or y.power != NONE:
        return x if x == y else None
    return Degree(added=_plus(x.added, y.added, sign))


def _product(op: Op, xs: list[Degree]) -> Degree | None:
    x, y = xs
    if x.added != NONE or y.added != NONE:
        return _times_number(op, xs)
    if x.base and y.base and x.base != y.base:
        return None
    power = _plus(x.power, y.power, -1 if op.opcode.startswith("div") else 1)
    return Degree(power=power, base=(x.base or y.base) if power != NONE else "")


def _contraction(op: Op, xs: list[Degree]) -> Degree | None:
    """``a @ b + c``: one factor's rows are rows of the result; `c` must share them."""
    x, y, start = xs
    if not x.free and not y.free:
        return None
    factor, summed = (x, -1) if y.free else (y, -2)
    at = len(op.results[0].shape) + summed
    if factor.free or factor.added != NONE or at in factor.axes:
        return None
    if factor == start or literal(op.operands[2]) == 0.0:
        return factor
    return None


def _times_number(op: Op, xs: list[Degree]) -> Degree | None:
    """(v0 + a·m) times a number."""
    mine = xs[0].added != NONE
    value = literal(op.operands[1 if mine else 0])
    usable = value is not None and value == value and abs(value) not in (0.0, INFINITY)
    if not usable or value is None or not (mine or op.opcode == "mul"):
        return None
    number, added = Fraction(value), _plus(xs[0].added, xs[1].added)
    return Degree(scaled(added, number if op.opcode == "mul" else 1 / number))


def _choice(op: Op, xs: list[Degree]) -> Degree | None:
    """A selection of equal degrees; 0 has every power, -inf absorbs every addend."""
    condition, x, y = xs
    if not condition.free:
        return None
    if x == y:
        return x
    for degree, other in ((x, op.operands[2]), (y, op.operands[1])):
        value = literal(other)
        if degree.power != NONE and value == 0.0:
            return degree
        if degree.added != NONE and value == -INFINITY:
            return degree
    return None


INFINITY = float("inf")


def literal(value: Value) -> float | None:
    """The number that every lane of `value` holds, if it is written in the kernel."""
    while value.op is not None and value.op.opcode in MOVES:
        value = value.op.operands[0]
    if value.op is None or value.op.opcode != "const":
        return None
    number = value.op.attrs["value"]
    assert isinstance(number, int | float)
    return float(number)


def _reduction(op: Op, x: Degree) -> Degree | None:
    """A sum or an extremum of lanes of one row."""
    axis, kind = op.int_attr("axis"), op.str_attr("kind")
    if axis in x.axes:
        return None
    alike = (kind == "sum" and x.added == NONE) or (
        kind in ("max", "min") and x.power == NONE
    )
    return replace(x, axes=tuple(a - (a > axis) for a in x.axes)) if alike else None
