"""Maxima that only rescale: subtracted for range, without effect on any output.

In ``exp(x - m) / sum(exp(x - m))`` the maximum keeps the exponentials in range and
cancels. Its cotangent is zero, though reverse mode would compute it as the difference
of equal terms, and would have to say how ties of the maximum share it. To see that it
cancels, follow `m` as if it were a free variable: each value is then v0 + a·m or
v0·b^(k·m) with v0 free of `m`, and `m` cancels if every active output has degree zero.

A loop may carry a running maximum: each turn has an old one, `m`, and a new one, and
what is carried beside them is rescaled from the one to the other (`running_maxima`).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction

from undertow.ir import Access, Block, Kernel, Op, Value, walk

MOVES = ("broadcast", "expand_dims", "reshape", "transpose", "split")
Vector = tuple[Fraction, Fraction]
"""Coefficients of the old and of the new maximum; a maximum that stays is old."""
NONE: Vector = (Fraction(0), Fraction(0))
OLD: Vector = (Fraction(1), Fraction(0))
NEW: Vector = (Fraction(0), Fraction(1))
MAX_CARRIED = 5


@dataclass(frozen=True, slots=True)
class Degree:
    """How a value depends on `m`: v0 + `added`·m, or v0·`base`^(`power`·m).

    The base is "e" or "2"; the two are never mixed.
    """

    added: Vector = NONE
    power: Vector = NONE
    base: str = ""

    @property
    def free(self) -> bool:
        return self.added == NONE and self.power == NONE


FREE = Degree()
Degrees = dict[Value, Degree]


def stabilisers(kernel: Kernel, outputs: Collection[Value]) -> frozenset[Value]:
    """The maxima of `kernel` that cancel in all of `outputs` (pointers)."""
    candidates = [
        op.result
        for op in walk(kernel.body)
        if op.opcode == "reduce" and op.str_attr("kind") == "max" and op.result.is_float
    ]
    return frozenset(
        m for m in candidates if cancels(kernel, {m: Degree(OLD)}, outputs)
    )


def cancels(kernel: Kernel, start: Degrees, outputs: Collection[Value]) -> bool:
    """Whether no output depends on what the values in `start` depend on."""
    return _follow(kernel.body, dict(start), outputs)


def _follow(block: Block, degrees: Degrees, outputs: Collection[Value]) -> bool:
    """Finds the degrees in `block`; False as soon as one is of no known form."""
    for op in block.ops:
        if op.opcode == "yield":
            continue
        if op.regions:
            if any(not degrees.get(v, FREE).free for v in _used(op)):
                followed = op.opcode == "for" and _sums(op, degrees, outputs)
                if not followed:
                    return False
        elif op.opcode == "store":
            access = Access.of(op)
            depends = [v for v in op.operands if not degrees.get(v, FREE).free]
            if any(v is not access.value for v in depends):
                return False
            if depends and access.base in outputs:
                return False
        elif any(v in degrees for v in op.operands):
            if all(r in degrees for r in op.results):  # the maximum itself
                continue
            degree = _degree(op, degrees)
            if degree is None:
                return False
            degrees.update((r, degree) for r in op.results)
    return True


def _used(op: Op) -> Iterator[Value]:
    yield from op.operands
    for region in op.regions:
        for inner in walk(region):
            yield from inner.operands


def _sums(op: Op, degrees: Degrees, outputs: Collection[Value]) -> bool:
    """A loop whose turns leave degrees as they are: sums of terms of one degree."""
    (body,) = op.regions
    if any(not degrees.get(v, FREE).free for v in op.operands[:3]):
        return False
    carried = [a for a in body.args[1:] if a.is_float]
    if len(carried) > MAX_CARRIED:
        return False
    options = {FREE, *(d for v in _used(op) if (d := degrees.get(v)) is not None)}
    for degree in list(options):
        if degree.added != NONE:
            power = _scaled(degree.added, -1)
            options |= {Degree(power=power, base=base) for base in "e2"}
    for choice in itertools.product(options, repeat=len(carried)):
        trial = degrees | dict(zip(carried, choice, strict=True))
        if not _starts(op, trial) or not _follow(body, trial, outputs):
            continue
        pairs = zip(body.args[1:], body.ops[-1].operands, strict=True)
        if all(trial.get(a, FREE) == trial.get(v, FREE) for a, v in pairs):
            ends = zip(op.results, body.args[1:], strict=True)
            degrees.update((r, trial.get(a, FREE)) for r, a in ends)
            return True
    return False


def _starts(op: Op, degrees: Degrees) -> bool:
    """Whether initial values have the degrees of the arguments; zero has any power."""
    for arg, value in zip(op.regions[0].args[1:], op.operands[3:], strict=True):
        degree = degrees.get(arg, FREE)
        zero = degree.power != NONE and literal(value) == 0.0
        if not zero and degrees.get(value, FREE) != degree:
            return False
    return True


# -- running maxima ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunningMaximum:
    """A maximum that a loop carries and that cancels in the end.

    Attributes:
        loop: the `for`.
        index: its place among what is carried.
        rescaled: places of the carried values that are rescaled with it.
    """

    loop: Op
    index: int
    rescaled: tuple[int, ...]


def running_maxima(kernel: Kernel, outputs: Collection[Value]) -> list[RunningMaximum]:
    """The running maxima of loops in the kernel's own block that cancel."""
    found: list[RunningMaximum] = []
    for op in kernel.body.ops:
        if op.opcode == "for" and not any(
            x.opcode == "for" for x in walk(op.regions[0])
        ):
            for index, arg in enumerate(op.regions[0].args[1:]):
                if _is_maximum(op, index, arg):
                    certified = _certify(kernel, op, index, outputs)
                    found += [] if certified is None else [certified]
    return found


def _is_maximum(op: Op, index: int, arg: Value) -> bool:
    """Whether each turn gives the maximum of what came and something new."""
    new = op.regions[0].ops[-1].operands[index].op
    return (
        new is not None and new.opcode in ("maxnum", "maximum") and arg in new.operands
    )


def _certify(
    kernel: Kernel, op: Op, index: int, outputs: Collection[Value]
) -> RunningMaximum | None:
    (body,) = op.regions
    args, following = body.args[1:], body.ops[-1].operands
    others = [k for k, a in enumerate(args) if k != index and a.is_float]
    if len(others) > MAX_CARRIED:
        return None
    by_old = [Degree(power=_scaled(OLD, -1), base=base) for base in "e2"]
    for choice in itertools.product([FREE, *by_old], repeat=len(others)):
        degrees: Degrees = {args[index]: Degree(OLD), following[index]: Degree(NEW)}
        degrees |= {args[k]: d for k, d in zip(others, choice, strict=True)}
        if not _follow(body, degrees, outputs):
            continue
        handed_on = all(
            degrees.get(following[k], FREE) == _renewed(d)
            for k, d in zip(others, choice, strict=True)
        )
        rescaled = tuple(k for k, d in zip(others, choice, strict=True) if not d.free)
        if not handed_on or not rescaled or not _begins_empty(op, index, rescaled):
            continue
        ends = {op.results[k]: d for k, d in zip(others, choice, strict=True)}
        ends[op.results[index]] = Degree(OLD)
        after = kernel.body.ops[kernel.body.ops.index(op) + 1 :]
        if _follow(Block(after), ends, outputs):
            return RunningMaximum(op, index, rescaled)
    return None


def _renewed(degree: Degree) -> Degree:
    """The same degree in the new maximum."""
    (a, b), (p, q) = degree.added, degree.power
    return Degree((b, a), (q, p), degree.base)


def _begins_empty(op: Op, index: int, rescaled: tuple[int, ...]) -> bool:
    """Whether what is rescaled starts as zero, or is lost in the first turn."""
    initial = op.operands[3:]
    start = literal(initial[index])
    if start is not None and start <= -1e30:
        return True
    return all(literal(initial[k]) == 0.0 for k in rescaled)


# -- degrees by opcode ---------------------------------------------------------------


def _degree(op: Op, degrees: Degrees) -> Degree | None:
    """The degree of the results of `op`, or None if it is of no known form."""
    xs = [degrees.get(v, FREE) for v in op.operands]
    if all(x.free for x in xs) or op.opcode in MOVES:
        return xs[0] if op.opcode in MOVES else FREE
    match op.opcode:
        case "cast" if op.operands[0].is_float and op.results[0].is_float:
            return xs[0]
        case "neg":
            return Degree(_scaled(xs[0].added, -1), xs[0].power, xs[0].base)
        case "add" | "sub":
            return _sum(xs[0], xs[1], -1 if op.opcode == "sub" else 1)
        case "mul" | "div" | "div_rn":
            return _product(op, xs)
        case "dot":
            return _contraction(op, xs)
        case "exp" | "exp2" if xs[0].power == NONE:
            base = "e" if op.opcode == "exp" else "2"
            return Degree(power=xs[0].added, base=base)
        case "log" | "log2" if xs[0].base == ("e" if op.opcode == "log" else "2"):
            return Degree(added=xs[0].power)
        case "select":
            return _choice(op, xs)
        case "reduce":
            return _reduction(op, xs[0])
        case _:
            return None


def _plus(x: Vector, y: Vector, sign: int = 1) -> Vector:
    return x[0] + sign * y[0], x[1] + sign * y[1]


def _scaled(x: Vector, by: Fraction | int) -> Vector:
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
    """``a @ b + c``: a product whose degree `c` must have too, unless it is zero."""
    product = _product(op, xs[:2])
    if product is None or product == xs[2] or literal(op.operands[2]) == 0.0:
        return product
    return None


def _times_number(op: Op, xs: list[Degree]) -> Degree | None:
    """(v0 + a·m) times a number."""
    mine = xs[0].added != NONE
    value = literal(op.operands[1 if mine else 0])
    usable = value is not None and value == value and abs(value) not in (0.0, _INFINITY)
    if (
        not usable
        or value is None
        or op.opcode == "dot"
        or not (mine or op.opcode == "mul")
    ):
        return None
    number, added = Fraction(value), _plus(xs[0].added, xs[1].added)
    return Degree(_scaled(added, number if op.opcode == "mul" else 1 / number))


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
        if degree.added != NONE and value == -_INFINITY:
            return degree
    return None


_INFINITY = float("inf")


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
    match op.str_attr("kind"):
        case "sum" if x.added == NONE:
            return x
        case "max" | "min" if x.power == NONE:
            return x
        case _:
            return None
