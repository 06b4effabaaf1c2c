"""Rows of the lift for ops that move elements and compute nothing.

Each is a function from a value to a value; a pointer goes through it offset by offset.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from undertow.frontend.context import Lifter, Operand, Pointer, Row
from undertow.frontend.memory import through
from undertow.frontend.ttir import MOp
from undertow.ir import I32, Builder, TensorType, Value, scalar

_AXES = {"x": 0, "y": 1, "z": 2}

Move = Callable[[Builder, MOp, Value], Value]


def int_attr(op: MOp, name: str) -> int:
    """An attribute printed as `0 : i32`."""
    return int(op.attrs[name].split(":")[0])


def ints(text: str) -> tuple[int, ...]:
    """An attribute printed as `array<i32: 1, 0>`."""
    return tuple(int(n) for n in re.findall(r"-?\d+", text.partition(":")[2]))


def _broadcast(b: Builder, op: MOp, value: Value) -> Value:
    return b.broadcast(value, op.type.shape)


def _expand_dims(b: Builder, op: MOp, value: Value) -> Value:
    return b.expand_dims(value, int_attr(op, "axis"))


def _reshape(b: Builder, op: MOp, value: Value) -> Value:
    axis = _new_axis(value.shape, op.type.shape)
    return (
        b.reshape(value, op.type.shape) if axis is None else b.expand_dims(value, axis)
    )


def _new_axis(source: tuple[int, ...], target: tuple[int, ...]) -> int | None:
    """The axis of extent 1 that makes `source` `target`: new versions reshape there."""
    for axis in range(len(target)):
        if target[axis] == 1 and (*target[:axis], *target[axis + 1 :]) == source:
            return axis
    return None


def _transpose(b: Builder, op: MOp, value: Value) -> Value:
    return b.transpose(value, ints(op.attrs["order"]))


MOVES: dict[str, Move] = {
    "tt.splat": _broadcast,
    "tt.broadcast": _broadcast,
    "tt.expand_dims": _expand_dims,
    "tt.reshape": _reshape,
    "tt.trans": _transpose,
}


def _move(apply: Move) -> Row:
    def row(lifter: Lifter, op: MOp) -> None:
        (operand,) = lifter.operands(op)
        if "allow_reorder" in op.words:
            _check_reorder(lifter, op)
        result: Operand
        if isinstance(operand, Pointer):
            result = through(
                operand, op.type.shape, lambda v: apply(lifter.builder, op, v)
            )
        else:
            result = apply(lifter.builder, op, operand)
        lifter.bind(op, result)

    return row


def _check_reorder(lifter: Lifter, op: MOp) -> None:
    """Accepts a free order of elements only where they are reduced to one value."""
    users = lifter.users(op.results[0])
    whole = len(op.type.shape) == 1
    if not whole or any(u.name != "tt.reduce" or len(u.operands) != 1 for u in users):
        lifter.refuse(
            op,
            "`can_reorder=True` is not supported",
            why="Triton leaves the order of the elements open",
            hint="drop `can_reorder=True`, and use `tl.reshape` in place of `tl.view`",
        )


def _join(lifter: Lifter, op: MOp) -> None:
    lifter.bind(op, lifter.builder.join(*lifter.values(op)))


def _split(lifter: Lifter, op: MOp) -> None:
    (value,) = lifter.values(op)
    lifter.bind(op, *lifter.builder.split(value))


def _gather(lifter: Lifter, op: MOp) -> None:
    value, index = lifter.values(op)
    lifter.bind(op, lifter.builder.gather(value, index, int_attr(op, "axis")))


def _unsplat(lifter: Lifter, op: MOp) -> None:
    (value,) = lifter.values(op)
    lifter.bind(op, lifter.builder.reshape(value, ()))


def _range(lifter: Lifter, op: MOp) -> None:
    start, end = int_attr(op, "start"), int_attr(op, "end")
    type = TensorType(I32, (end - start,))
    lifter.bind(
        op, lifter.builder.pure("range", (), type, {"start": start, "end": end})
    )


def _program(opcode: str) -> Row:
    def row(lifter: Lifter, op: MOp) -> None:
        axis = _AXES[op.words[0]]
        lifter.bind(op, lifter.builder.pure(opcode, (), scalar(I32), {"axis": axis}))

    return row


def _assume(lifter: Lifter, op: MOp) -> None:
    lifter.builder.emit("assume", (lifter.value(op.operands[0], op),))


ROWS: dict[str, Row] = {
    **{name: _move(apply) for name, apply in MOVES.items()},
    "tt.join": _join,
    "tt.split": _split,
    "tt.gather": _gather,
    "tt.unsplat": _unsplat,
    "tt.make_range": _range,
    "tt.get_program_id": _program("program_id"),
    "tt.get_num_programs": _program("num_programs"),
    "llvm.intr.assume": _assume,
}
