"""Which variables are still to be read, so that one may be given another value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from undertow.ir import Block, Op, Value


@dataclass(frozen=True, slots=True)
class Frame:
    """A block that is being written.

    Attributes:
        block: the block.
        targets: by value, the variable that the block must leave it in.
        repeated: whether the block is inside of a loop.
        counters: the variables of the loops in the block so far.
    """

    block: Block
    targets: Mapping[Value, str] = field(default_factory=lambda: dict[Value, str]())
    repeated: bool = False
    counters: list[str] = field(default_factory=lambda: list[str]())


class Places:
    """Where in a kernel values and ops stand.

    Attributes:
        homes: the block in which a value is made; none for parameters and for the
            variables of loops, which are assigned nowhere else.
        loops: the innermost loop around an op, or None.
    """

    def __init__(self, body: Block) -> None:
        self.homes: dict[Value, Block] = {}
        self.loops: dict[Op, Op | None] = {}
        self._visit(body, None)

    def _visit(self, block: Block, loop: Op | None) -> None:
        for op in block.ops:
            if op.is_loop:
                self.homes.update(dict.fromkeys(op.carried, op.regions[0]))
            self.homes.update(dict.fromkeys(op.results, block))
            self.loops[op] = loop
            for region in op.regions:
                self._visit(region, op if op.is_loop else loop)

    def enters_loop(self, value: Value, users: Iterable[Op]) -> bool:
        """Whether an op of a loop uses a value made outside of it."""
        if value.op is None:
            return False
        own = self.loops[value.op]
        return any(self.loops[user] is not own for user in users)


@dataclass
class Reads:
    """Says which variables the text of a value or op names.

    Attributes:
        names: the values that have a variable; others are written in place.
    """

    names: Mapping[Value, str]

    def of(self, value: Value) -> set[str]:
        """The variables in the text of `value`."""
        return self._values([value], ())

    def by(self, ops: Iterable[Op], but: Collection[Value] = ()) -> set[str]:
        """The variables that `ops` and the ops inside them read, except of `but`."""
        found: set[str] = set()
        for op in ops:
            found |= self._values(op.operands, but)
            for region in op.regions:
                found |= self.by(region.ops, but)
        return found

    def _values(self, values: Iterable[Value], but: Collection[Value]) -> set[str]:
        found: set[str] = set()
        seen: set[Value] = set(but)
        todo = list(values)
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in self.names:
                found.add(self.names[value])
            elif value.op is not None:
                todo += value.op.operands
            elif value.is_parameter:
                found.add(value.name)
        return found


@dataclass(slots=True)
class Step:
    """One of several assignments: a variable, and a value or what variable holds it."""

    target: str
    source: Value | str

    def reads(self, reads: Reads) -> set[str]:
        return {self.source} if isinstance(self.source, str) else reads.of(self.source)


def in_turn(
    targets: Sequence[str],
    values: Sequence[Value],
    reads: Reads,
    fresh: Callable[[str], str],
) -> list[Step]:
    """Assignments that together give `targets` the `values` all at once.

    A variable is assigned when no other assignment needs its old value any more. Where
    they need one another's, one value waits in a new variable, called `new_…`.
    """
    pairs = zip(targets, values, strict=True)
    todo = [Step(n, v) for n, v in pairs if reads.names.get(v) != n]
    steps: list[Step] = []
    while todo:
        free = next((s for s in todo if not _needed(s, todo, reads)), None)
        if free is not None:
            todo.remove(free)
            steps.append(free)
            continue
        held = next(s for s in todo if not isinstance(s.source, str))
        steps.append(Step(fresh(f"new_{held.target}"), held.source))
        held.source = steps[-1].target
    return steps


def _needed(step: Step, steps: Sequence[Step], reads: Reads) -> bool:
    return any(s is not step and step.target in s.reads(reads) for s in steps)
