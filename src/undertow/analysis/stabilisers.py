"""Maxima that only rescale: subtracted for range, without effect on any output.

In ``exp(x - m) / sum(exp(x - m))`` the maximum keeps the exponentials in range and
cancels. Its cotangent is zero, though reverse mode would compute it as the difference
of equal terms, and would have to say how ties of the maximum share it. To see that it
cancels, follow `m` as if it were a free variable: each value is then v0 + a·m or
v0·b^(k·m) with v0 free of `m`, and `m` cancels if every active output has degree zero.

A maximum along an axis is one number for each row. Then `m` stands for the one of the
value's own row: a degree says along which axes rows lie, and values whose rows lie
otherwise, or meet in a sum, do not combine.

A loop may carry a running maximum: each turn has an old one, `m`, and a new one, and
what is carried beside them is rescaled from the one to the other (`running_maxima`).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from undertow.analysis.degrees import (
    FREE,
    INFINITY,
    NEW,
    NONE,
    OLD,
    Degree,
    Degrees,
    Vector,
    degree_of,
    literal,
    scaled,
)
from undertow.ir import Access, Block, Kernel, Op, Value, walk

MAX_CARRIED = 5

Users = dict[Value, list[int]]
"""The ops of a block, by position, that use a value, be it inside of them."""


def stabilisers(kernel: Kernel, outputs: Collection[Value]) -> frozenset[Value]:
    """The maxima of `kernel` that cancel in all of `outputs` (pointers)."""
    users = _users(kernel.body)
    found: set[Value] = set()
    for op in walk(kernel.body):
        if op.opcode != "reduce" or op.str_attr("kind") != "max":
            continue
        m = op.result
        if m.is_float and degrees_of(m, kernel.body, outputs, users) is not None:
            found.add(m)
    return frozenset(found)


def degrees_of(
    m: Value,
    block: Block,
    outputs: Collection[Value],
    users: Users | None = None,
) -> Degrees | None:
    """How what `block` computes depends on the maximum `m`, if `m` cancels there."""
    degrees = {m: of(m)}
    dependents = _dependents(m, block.ops, users or _users(block), degrees)
    return degrees if _follow(dependents, degrees, outputs) else None


def _users(block: Block) -> Users:
    users: Users = {}
    for position, op in enumerate(block.ops):
        for value in dict.fromkeys(_used(op)):
            users.setdefault(value, []).append(position)
    return users


def _dependents(
    m: Value, ops: Sequence[Op], users: Users, degrees: Degrees
) -> Iterator[Op]:
    """The ops that depend on `m`, in order; `degrees` grow on the way."""
    waiting = list(users.get(m, ()))
    last = -1
    while waiting:
        position = heapq.heappop(waiting)
        if position == last:
            continue
        last = position
        yield ops[position]
        for result in ops[position].results:
            if not degrees.get(result, FREE).free:
                for user in users.get(result, ()):
                    heapq.heappush(waiting, user)


def of(m: Value, added: Vector = OLD) -> Degree:
    """The degree of a maximum itself."""
    return Degree(added, axes=tuple(range(len(m.shape))))


def _follow(ops: Iterable[Op], degrees: Degrees, outputs: Collection[Value]) -> bool:
    """Finds the degrees of `ops`; False as soon as one is of no known form."""
    for op in ops:
        if op.opcode == "yield":
            continue
        if op.regions:
            if any(not degrees.get(v, FREE).free for v in _used(op)):
                followed = op.opcode == "for" and _sums(op, degrees, outputs)
                if not followed:
                    return False
        elif op.opcode in ("store", "atomic_add"):
            access = Access.of(op)
            depends = [v for v in op.operands if not degrees.get(v, FREE).free]
            if any(v is not access.value for v in depends):
                return False
            if depends and access.base in outputs:
                return False
        elif any(v in degrees for v in op.operands):
            if all(r in degrees for r in op.results):  # the maximum itself
                continue
            degree = degree_of(op, degrees)
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
    if any(not degrees.get(v, FREE).free for v in op.head):
        return False
    carried = [a for a in body.args[1:] if a.is_float]
    if len(carried) > MAX_CARRIED:
        return False
    made_here = {r for inner in walk(body) for r in inner.results} & degrees.keys()
    used = {d for v in _used(op) if not (d := degrees.get(v, FREE)).free}
    options = [FREE, *sorted(used | _exponentials(used), key=str)]
    if made_here:  # another maximum in each turn: nothing with it may be handed on
        options = [FREE]
    for choice in itertools.product(options, repeat=len(carried)):
        trial = degrees | dict(zip(carried, choice, strict=True))
        if not _starts(op, trial) or not _follow(body.ops, trial, outputs):
            continue
        pairs = zip(body.args[1:], body.ops[-1].operands, strict=True)
        if all(trial.get(a, FREE) == trial.get(v, FREE) for a, v in pairs):
            ends = zip(op.results, body.args[1:], strict=True)
            degrees.update((r, trial.get(a, FREE)) for r, a in ends)
            return True
    return False


def without_turns(op: Op, value: Value) -> Value | None:
    """y, where the initial `value` of a `for` is 0 if it turns at all, and y if not."""
    made = _one_for_all(value).op
    if made is None or made.opcode != "select":
        return None
    condition, zero, other = made.operands
    test = _one_for_all(condition).op
    if test is None or test.opcode != "cmp" or test.str_attr("predicate") != "slt":
        return None
    turns = test.operands == tuple(op.head[:2])
    return other if turns and literal(zero) == 0.0 else None


def _one_for_all(value: Value) -> Value:
    """What `value` was before it was broadcast."""
    while value.op is not None and value.op.opcode == "broadcast":
        (value,) = value.op.operands
    return value


def _exponentials(degrees: Collection[Degree]) -> set[Degree]:
    """What subtracting values of these degrees in an exponent may give."""
    return {
        Degree(power=scaled(d.added, -1), base=base, axes=d.axes)
        for d in degrees
        for base in "e2"
        if d.added != NONE
    }


def _starts(op: Op, degrees: Degrees) -> bool:
    """Whether initial values have the degrees of the arguments; zero has any power."""
    for arg, value in zip(op.regions[0].args[1:], op.initial, strict=True):
        degree = degrees.get(arg, FREE)
        zero = literal(value) == 0.0 or without_turns(op, value) is not None
        if not (zero and degree.power != NONE) and degrees.get(value, FREE) != degree:
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
        if op.opcode == "for" and not any(x.is_loop for x in walk(op.regions[0])):
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
    ways = [[FREE, *_by_old(args[index], args[k])] for k in others]
    for choice in itertools.product(*ways):
        degrees: Degrees = {
            args[index]: of(args[index]),
            following[index]: of(args[index], NEW),
        }
        degrees |= {args[k]: d for k, d in zip(others, choice, strict=True)}
        if not _follow(body.ops, degrees, outputs):
            continue
        handed_on = all(
            degrees.get(following[k], FREE) == _renewed(d)
            for k, d in zip(others, choice, strict=True)
        )
        rescaled = tuple(k for k, d in zip(others, choice, strict=True) if not d.free)
        if not handed_on or not rescaled or not _begins_empty(op, index, rescaled):
            continue
        if _used_on_the_way(op, index, rescaled):
            continue
        ends = {op.results[k]: d for k, d in zip(others, choice, strict=True)}
        ends[op.results[index]] = of(args[index])
        after = kernel.body.ops[kernel.body.ops.index(op) + 1 :]
        if _follow(after, ends, outputs):
            return RunningMaximum(op, index, rescaled)
    return None


def _used_on_the_way(op: Op, index: int, rescaled: tuple[int, ...]) -> bool:
    """Whether a turn uses the sums so far for more than handing them on.

    The last maximum may be far above an early one, and these sums then vanish.
    """
    (body,) = op.regions
    following = body.ops[-1].operands
    sums = {body.args[1 + k] for k in (index, *rescaled)}
    for inner in walk(body):
        if inner.opcode in ("store", "atomic_add") and sums & set(inner.operands):
            return True
        if sums & set(inner.operands):
            sums.update(inner.results)
    handed = {following[k] for k in (index, *rescaled)}
    return any(v in sums and v not in handed for v in following)


def _by_old(m: Value, value: Value) -> Iterator[Degree]:
    """Degrees of what is rescaled with `m`: its rows lie along some of its axes."""
    for axes in itertools.combinations(range(len(value.shape)), len(m.shape)):
        if tuple(value.shape[axis] for axis in axes) == m.shape:
            for base in "e2":
                yield Degree(power=scaled(OLD, -1), base=base, axes=axes)


def _renewed(degree: Degree) -> Degree:
    """The same degree in the new maximum."""
    (a, b), (p, q) = degree.added, degree.power
    return Degree((b, a), (q, p), degree.base, degree.axes)


def _begins_empty(op: Op, index: int, rescaled: tuple[int, ...]) -> bool:
    """Whether what is rescaled starts as zero, or is lost in the first turn."""
    initial = op.initial
    if literal(initial[index]) == -INFINITY:
        return True
    return all(literal(initial[k]) == 0.0 for k in rescaled)
