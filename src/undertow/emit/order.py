"""The order of statements: in the reverse sweep, a value comes when it is needed."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.ir import OPS, Block, Op, Value
from undertow.transform.reverse import REVERSE


def ordered(block: Block, *, on_demand: bool) -> list[Op]:
    """The ops of `block` as they are best read.

    Memory and control keep their order. From the heading of the reverse sweep on, or
    everywhere if `on_demand`, what is pure follows just before the first op that needs
    it, so that a gradient is stored where it is computed.
    """
    done: list[Op] = []
    pending: dict[Value, Op] = {}

    def place(op: Op) -> None:
        stack = [(op, iter(free(op)))]
        while stack:
            op, operands = stack[-1]
            needed = next((pending[v] for v in operands if v in pending), None)
            if needed is not None:
                stack.append((needed, iter(free(needed))))
                continue
            stack.pop()
            for result in op.results:
                pending.pop(result, None)
            done.append(op)

    for op in block.ops:
        if op.opcode == "section":
            on_demand = op.str_attr("title") == REVERSE
        if on_demand and OPS[op.opcode].pure:
            pending.update(dict.fromkeys(op.results, op))
        else:
            place(op)
    return done


def free(op: Op) -> Iterable[Value]:
    """The operands of an op and of the ops inside it."""
    yield from op.operands
    for region in op.regions:
        for inner in region.ops:
            yield from free(inner)
