"""Who uses a value, and which values are written in place."""

from __future__ import annotations

from collections.abc import Sequence

from undertow.ir import I1, Block, Op, Value

TRANSPARENT = ("broadcast", "expand_dims", "const")
"""Ops that are written where they are used, however often."""


MOVES = ("reshape", "transpose")
"""Ops whose result is called what their operand is called, if it is used but once."""


def written_in_place(op: Op) -> bool:
    """Whether an op never gets a variable, since a reader would not want one.

    These are the transparent ones, a sign, and a number that arithmetic converts.
    """
    if op.opcode in TRANSPARENT:
        return True
    if any(result.name for result in op.results):
        return False
    if op.opcode == "cast" and not op.result.shape and op.result.is_float:
        source = op.operands[0].tensor_type.dtype
        return source.is_int and source != I1
    return op.opcode == "neg"


def count_uses(
    block: Block, uses: dict[Value, int], users: dict[Value, list[Op]]
) -> None:
    """Counts uses, seeing through the ops that are always written in place."""
    for op in block.ops:
        for value in op.operands:
            while value.op is not None and (
                written_in_place(value.op) and value.op.operands
            ):
                value = value.op.operands[0]
            if written_in_place(op):
                continue
            uses[value] = uses.get(value, 0) + 1
            users.setdefault(value, []).append(op)
        for region in op.regions:
            count_uses(region, uses, users)


def as_initial(value: Value, users: Sequence[Op]) -> tuple[Op, int] | None:
    """The loop that `value` is only used to start, and its place in what is carried."""
    if len(users) != 1 or not users[0].is_loop or value in users[0].head:
        return None
    places = [i for i, v in enumerate(users[0].initial) if v is value]
    return (users[0], places[0]) if places else None
