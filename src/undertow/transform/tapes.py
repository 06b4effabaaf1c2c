"""Tapes: what each turn of a loop begins with, kept for the way back.

A sum needs no tape: the derivative of a turn does not look at the sum so far, so
nothing reads that tape, and what nothing reads is not written. Only what is left after
that is memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from undertow.analysis.ceiling import has_ceiling
from undertow.ir import (
    I1,
    I8,
    I32,
    I64,
    Access,
    Block,
    Builder,
    Op,
    PointerType,
    TensorType,
    Value,
    scalar,
    walk,
)
from undertow.transform.fold import fold
from undertow.transform.rebuild import Env, copy, drop, parameters, rebuild, remove_dead


@dataclass(frozen=True, slots=True)
class Tape:
    """Where a carried value stands at the beginning of each turn.

    Attributes:
        pointer: a parameter of the backward; an element a program, turn and lane.
        turns: a parameter of the backward: the largest number of turns in any program.
        trips: the number of turns, computed in the backward.
        size: lanes of the value.
        loop: the forward's loop.
        of: what the user calls the value.
    """

    pointer: Value
    turns: Value
    trips: Value
    size: int
    loop: Op
    of: str

    @property
    def counted(self) -> bool:
        """Whether data decide how often the loop turns, so that it must be counted."""
        return self.loop.opcode == "while" or not has_ceiling(self.trips)


@dataclass
class Tapes:
    """All tapes of a backward; `fresh` makes a parameter's name from a wish."""

    fresh: Callable[[str], str]
    made: list[Tape] = field(default_factory=lambda: list[Tape]())

    def make(self, op: Op, trips: Value) -> list[Tape]:
        """A tape for each value that the loop `op` carries."""
        loop = op.regions[0].args[0].name if op.opcode == "for" else ""
        turns = Value(scalar(I32), self.fresh(f"{loop or 'loop'}_turns"))
        made: list[Tape] = []
        for arg in op.carried:
            dtype = arg.tensor_type.dtype
            name = self.fresh(f"{arg.name or 'value'}_tape_ptr")
            pointer = Value(PointerType(I8 if dtype == I1 else dtype), name)
            size, of = arg.tensor_type.size, arg.name or "a value"
            made.append(Tape(pointer, turns, trips, size, op, of))
        self.made += made
        return made


def write(b: Builder, tape: Tape, turn: Value, value: Value) -> None:
    """Writes what a value is at the beginning of a turn."""
    if value.tensor_type.dtype == I1:
        value = b.cast(value, I8, signed=False)
    offsets = _place(b, tape, turn, value.shape)
    b.store(Access(tape.pointer, offsets, value, None, None))


def read(b: Builder, tape: Tape, turn: Value, like: Value) -> Value:
    """What a value was at the beginning of a turn."""
    assert isinstance(tape.pointer.type, PointerType)
    type = like.tensor_type.with_dtype(tape.pointer.type.element)
    offsets = _place(b, tape, turn, like.shape)
    value = b.load(Access(tape.pointer, offsets, None, None, None), type)
    if like.tensor_type.dtype == I1:
        zero = b.const(0, value.tensor_type)
        value = b.pointwise("cmp", value, zero, predicate="ne")
    value.name = like.name
    return value


def first_turn(b: Builder, tape: Tape) -> Value:
    """How many turns of other programs stand before this program's first one."""
    return b.pointwise("mul", program_number(b), b.wide(tape.turns))


def program_number(b: Builder) -> Value:
    """The number of this program in the grid, in 64 bits."""
    program = b.wide(b.program_id(2))
    for axis in (1, 0):
        count = b.pure("num_programs", (), scalar(I32), {"axis": axis})
        program = b.pointwise("mul", program, b.wide(count))
        program = b.pointwise("add", program, b.wide(b.program_id(axis)))
    program.name = program.name or "program"
    return program


def _place(
    b: Builder, tape: Tape, turn: Value, shape: tuple[int, ...]
) -> tuple[Value, ...]:
    """Offsets of a program's turn, then of its lanes in row-major order."""
    row = b.pointwise("add", first_turn(b, tape), b.wide(turn))
    row = b.pointwise("mul", row, b.const(tape.size, scalar(I64)))
    return (row, *_lanes(b, shape))


def _lanes(b: Builder, shape: tuple[int, ...]) -> list[Value]:
    found: list[Value] = []
    stride = 1
    for axis in reversed(range(len(shape))):
        extent = shape[axis]
        index = b.pure(
            "range", (), TensorType(I32, (extent,)), {"start": 0, "end": extent}
        )
        index = b.pointwise("mul", index, b.const(stride, index.tensor_type))
        for other in range(len(shape)):
            if other != axis:
                index = b.expand_dims(index, other)
        found.insert(0, b.broadcast(index, shape))
        stride *= extent
    return found


# -- tapes that nothing reads --------------------------------------------------------


def without_idle_tapes(body: Block, tapes: Iterable[Tape]) -> Block:
    """`body`, which is used up, without the tapes that are written and never read."""
    pointers = {tape.pointer for tape in tapes}
    while True:
        ops = list(walk(body))
        written = {op.operands[0] for op in ops if op.opcode == "store"} & pointers
        read = {op.operands[0] for op in ops if op.opcode == "load"}
        idle = written - read
        barriers = not written & read
        if not idle and not (barriers and any(op.opcode == "barrier" for op in ops)):
            return body
        body = _drop(body, idle, barriers)


def _drop(body: Block, idle: set[Value], barriers: bool) -> Block:
    b = Builder(fold)

    def store(op: Op, env: Env) -> None:
        if op.operands[0] not in idle:
            copy(b, op, env)

    handlers: dict[str, Callable[[Op, Env], None]] = {"store": store}
    if barriers:
        handlers["barrier"] = drop
    rebuild(b, body.ops, parameters(body), handlers)
    return remove_dead(b.block)
