"""Control flow: `scf.if`, and the restructuring of early returns into nested `if`s.

An early `return` makes Triton print a graph of blocks (`cf.cond_br`). Undertow's IR has
blocks in blocks. `sequence` emits each block once: a branch becomes an `if`; blocks
that both sides can reach come after it, under the condition that a side did reach them.
Both sides yield what such a join takes as arguments. A `return` reaches nothing, so
what follows runs under the negated condition, as in the user's head.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias

from undertow.frontend.context import Lifter, Operand, Pointer
from undertow.frontend.memory import check_same_base, total
from undertow.frontend.ttir import MBlock, MFunc, MOp, MRegion, Successor
from undertow.ir import I1, I64, Block, TensorType, Type, Value, scalar

LiftOp: TypeAlias = Callable[[MOp], None]


@dataclass(frozen=True, slots=True)
class Exit:
    """How control leaves a sequence: whether at the join, and with what arguments.

    `reached` is a constant where the sequence always or never gets there.
    """

    reached: bool | Value
    values: tuple[Operand, ...] = ()


RETURNED = Exit(False)


def lift_if(lifter: Lifter, op: MOp, lift_op: LiftOp) -> None:
    """`scf.if`: a region each, the second may be missing."""
    condition = lifter.value(op.operands[0], op)
    sides: list[tuple[Block, Exit]] = []
    for region in (*op.regions, None)[:2]:
        with lifter.builder.region() as block:
            sides.append((block, _scf_side(lifter, region, lift_op)))
    lifter.bind(op, *_merge(lifter, op, condition, sides).values)


def _scf_side(lifter: Lifter, region: MRegion | None, lift_op: LiftOp) -> Exit:
    if region is None:
        return Exit(True)
    if len(region.blocks) != 1:
        lifter.refuse(
            region.blocks[1].ops[0],
            "a branch inside of an `if` expression is not supported",
        )
    with lifter.scope(region):
        for inner in region.blocks[0].ops:
            if inner.name == "scf.yield":
                return Exit(True, tuple(lifter.operands(inner)))
            lift_op(inner)
    return Exit(True)


# -- merging the sides of a branch --


def _merge(
    lifter: Lifter, op: MOp, condition: Value, sides: Sequence[tuple[Block, Exit]]
) -> Exit:
    """Builds the `if` of two finished blocks; its exit carries the values of both."""
    b = lifter.builder
    (_, then), (_, otherwise) = sides
    width = max(len(then.values), len(otherwise.values))
    models = [_model(lifter, op, then, otherwise, i) for i in range(width)]
    static = isinstance(then.reached, bool) and isinstance(otherwise.reached, bool)
    types: list[Type] = [] if static else [scalar(I1)]
    types += [_merged_type(model) for model in models]
    for block, leave in sides:
        with _reopened(lifter, block):
            flags = [] if static else [_flag(lifter, leave)]
            given = [_merged(lifter, leave, i, model) for i, model in enumerate(models)]
            b.emit("yield", [*flags, *given])
    two_yields = all(len(block.ops) == 1 for block, _ in sides)
    results: list[Value] = []
    if types or not two_yields:
        results += b.branch(condition, sides[0][0], sides[1][0], types)
    reached = _reached(lifter, condition, then, otherwise) if static else results.pop(0)
    pairs = zip(models, results, strict=True)
    return Exit(reached, tuple(_restored(model, result) for model, result in pairs))


def _flag(lifter: Lifter, leave: Exit) -> Value:
    if isinstance(leave.reached, Value):
        return leave.reached
    return lifter.builder.emit("const", (), (scalar(I1),), {"value": leave.reached})[0]


def _reached(
    lifter: Lifter, condition: Value, then: Exit, otherwise: Exit
) -> bool | Value:
    match then.reached, otherwise.reached:
        case (True, False):
            return condition
        case (False, True):
            true = lifter.builder.const(True, condition.tensor_type)
            return lifter.builder.pointwise("xor", condition, true)
        case (reached, _):
            return reached


def _model(lifter: Lifter, op: MOp, then: Exit, otherwise: Exit, index: int) -> Operand:
    """A value of the type that the sides give; one that returned gives none."""
    given = [e.values[index] for e in (then, otherwise) if index < len(e.values)]
    if isinstance(given[0], Pointer) and isinstance(given[-1], Pointer):
        check_same_base(lifter, op, given[0], given[-1])
    return given[0]


def _merged_type(model: Operand) -> Type:
    return TensorType(I64, model.shape) if isinstance(model, Pointer) else model.type


def _merged(lifter: Lifter, leave: Exit, index: int, model: Operand) -> Value:
    """What a side yields: a pointer's offset; an unread zero if it returned."""
    type = _merged_type(model)
    assert isinstance(type, TensorType)
    if index >= len(leave.values):
        zero = 0.0 if type.dtype.is_float else False if type.dtype == I1 else 0
        return lifter.builder.emit("const", (), (type,), {"value": zero})[0]
    operand = leave.values[index]
    return (
        total(lifter, operand, emit=True) if isinstance(operand, Pointer) else operand
    )


def _restored(model: Operand, result: Value) -> Operand:
    return (
        model.with_offsets((result,), model.shape)
        if isinstance(model, Pointer)
        else result
    )


@contextmanager
def _reopened(lifter: Lifter, block: Block) -> Generator[None]:
    """Builds at the end of a block that was left already."""
    outer, lifter.builder.block = lifter.builder.block, block
    try:
        yield
    finally:
        lifter.builder.block = outer


# -- graphs of blocks --


class Graph:
    """The blocks of a function, and an order in which all edges lead forwards."""

    def __init__(self, lifter: Lifter, region: MRegion, lift_op: LiftOp) -> None:
        self.lifter, self.lift_op = lifter, lift_op
        self.blocks = {block.label: block for block in region.blocks}
        self.entry = region.blocks[0]
        self.pending: list[str] = []
        """Joins that enclosing branches will emit when their sides are done."""
        self.order: dict[str, int] = {}
        self._place(self.entry.label, ())
        ranked = sorted(self.order, key=lambda label: -self.order[label])
        self.order = {label: rank for rank, label in enumerate(ranked)}

    def _place(self, label: str, path: tuple[str, ...]) -> None:
        """Ranks blocks by the end of a depth-first search; refuses a cycle."""
        if label in path:
            self.lifter.refuse(
                self.blocks[label].ops[0],
                "a loop with an early exit is not supported",
                hint="replace `return` in a loop by a mask",
            )
        if label in self.order:
            return
        for successor in self.next(label):
            self._place(successor, (*path, label))
        self.order[label] = len(self.order)

    def next(self, label: str) -> tuple[str, ...]:
        return tuple(s.label for s in self.blocks[label].ops[-1].successors)

    def returns(self, label: str) -> bool:
        """Whether a block does nothing but return: reaching it ends a sequence."""
        return (
            len(self.blocks[label].ops) == 1
            and self.blocks[label].ops[0].name == "tt.return"
        )

    def reach(self, label: str) -> set[str]:
        """The blocks reachable from `label` without passing through pending joins."""
        found, todo = set[str](), [label]
        while todo:
            at = todo.pop()
            if at not in found and at not in self.pending and not self.returns(at):
                found.add(at)
                todo += self.next(at)
        return found

    def join(self, op: MOp, stop: str | None) -> str | None:
        """Where the sides of branch `op` meet before `stop`; `stop` if they do not."""
        sides = [self.reach(s.label) for s in op.successors]
        shared = sides[0] & sides[1]
        if not shared:
            return stop
        first = min(shared, key=lambda label: self.order[label])
        edges = {
            n for label in (sides[0] | sides[1]) - shared for n in self.next(label)
        }
        if any(n in shared and n != first for n in edges):
            self._refuse_meeting(op)
        return first

    def _refuse_meeting(self, op: MOp) -> NoReturn:
        self.lifter.refuse(
            op,
            "control flow that meets in several places is not supported",
            hint="replace one of the early returns by a mask",
        )

    # -- emission --

    def sequence(self, block: MBlock, stop: str | None) -> Exit:
        """Emits from `block` up to `stop`, or to where control returns."""
        for op in block.ops[:-1]:
            self.lift_op(op)
        last = block.ops[-1]
        self.lifter.builder.loc = last.loc
        match last.name:
            case "tt.return":
                if last.operands:
                    self.lifter.refuse(
                        last,
                        "a function that returns a value is not a kernel",
                        hint="store the value through a pointer",
                    )
                return RETURNED
            case "cf.br":
                return self.follow(last, 0, stop)
            case "cf.cond_br":
                return self.branch(last, stop)
            case name:
                self.lifter.refuse(
                    last, f"a block that ends in `{name}` is not supported"
                )

    def follow(self, op: MOp, side: int, stop: str | None) -> Exit:
        """What is behind an edge: the join, or a block that only this edge leads to."""
        successor = op.successors[side]
        values = tuple(self.lifter.operand(name, op) for name in successor.operands)
        if successor.label == stop:
            return Exit(True, values)
        if successor.label in self.pending:
            self._refuse_meeting(op)
        return self.enter(successor.label, values, stop)

    def enter(self, label: str, values: tuple[Operand, ...], stop: str | None) -> Exit:
        block = self.blocks[label]
        for arg, value in zip(block.args, values, strict=True):
            self.lifter.define(arg.name, value)
        return self.sequence(block, stop)

    @contextmanager
    def _awaiting(self, join: str | None) -> Generator[None]:
        if join is None or join in self.pending:
            yield
            return
        self.pending.append(join)
        yield
        self.pending.pop()

    def branch(self, op: MOp, stop: str | None) -> Exit:
        lifter = self.lifter
        condition = lifter.value(op.operands[0], op)
        join = self.join(op, stop)
        sides: list[tuple[Block, Exit]] = []
        with self._awaiting(join):
            for side in (0, 1):
                with lifter.builder.region() as block, lifter.scope():
                    sides.append((block, self.follow(op, side, join)))
        lifter.builder.loc = op.loc
        met = _merge(lifter, op, condition, sides)
        if join == stop or join is None or met.reached is False:
            return met
        if met.reached is True:
            return self.enter(join, met.values, stop)
        with lifter.builder.region() as block, lifter.scope():
            rest = (block, self.enter(join, met.values, stop))
        lifter.builder.loc = op.loc
        with lifter.builder.region() as empty:
            pass
        return _merge(lifter, op, met.reached, [rest, (empty, RETURNED)])


def lift_body(lifter: Lifter, region: MRegion, lift_op: LiftOp) -> None:
    """The body of a kernel: one block, or a graph of blocks."""
    with lifter.scope(region):
        graph = Graph(lifter, region, lift_op)
        graph.sequence(graph.entry, None)


_END = "^end"


def lift_function(
    lifter: Lifter, func: MFunc, args: Sequence[Operand], lift_op: LiftOp
) -> tuple[Operand, ...]:
    """What a function of values returns; each `return` leads to one end."""
    blocks = [_to_end(block) for block in func.region.blocks]
    end = MBlock(_END, (), [replace(blocks[0].ops[-1], name=_END, successors=())])
    region = MRegion((*blocks, end))
    with lifter.scope(region):
        for arg, value in zip(func.args, args, strict=True):
            lifter.define(arg.name, value)
        graph = Graph(lifter, region, lift_op)
        return graph.sequence(graph.entry, _END).values


def _to_end(block: MBlock) -> MBlock:
    *ops, last = block.ops
    if last.name == "tt.return":
        successor = Successor(_END, last.operands)
        last = replace(last, name="cf.br", operands=(), successors=(successor,))
    return MBlock(block.label, block.args, [*ops, last])
