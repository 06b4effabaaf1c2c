"""Asks for variables inside of expressions that are too long or too deep to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from undertow.emit.expressions import Expressions
from undertow.emit.layout import (
    MAX_CALL,
    MAX_EXPRESSION,
    MAX_OPERAND,
    WIDTH,
    closing_of,
)
from undertow.emit.uses import TRANSPARENT, written_in_place
from undertow.ir import Op, Value

MAX_DEPTH = 10
"""An expression nested deeper than this is taken apart, however short."""
MIN_EXPRESSION = 12
"""Shorter ones are never taken out."""


@dataclass
class Limits:
    """Measures expressions.

    Attributes:
        expressions: writes them.
        too_long: the values that should get a variable.
    """

    expressions: Expressions
    too_long: set[Value] = field(default_factory=lambda: set[Value]())
    _depths: dict[Value, int] = field(default_factory=lambda: dict[Value, int]())

    def depth(self, op: Op) -> int:
        """How deep the expression of an op is nested."""
        inner = [v for v in op.operands if v.op and v not in self.expressions.names]
        found = 1 + max((self._depths.get(v, 0) for v in inner), default=0)
        self._depths.update(dict.fromkeys(op.results, found))
        return found

    def check(
        self, values: Sequence[Value], expression: str, depth: int, target: str
    ) -> None:
        """Asks for a variable inside an expression of `values` that is too long.

        Args:
            values: what the expression is made of.
            expression: its text.
            depth: how deep the statement is indented.
            target: what stands before the expression.
        """
        if len(expression) <= _most(expression, depth, target):
            return
        inner = [
            v
            for v in self._inlined(values)
            if v.op and v.op.opcode not in ("load", *TRANSPARENT)
        ]
        sizes = {v: len(self.expressions.text(v).text) for v in inner}
        short = [v for v in inner if MIN_EXPRESSION < sizes[v] <= MAX_EXPRESSION]
        long = [v for v in inner if sizes[v] > MAX_EXPRESSION]
        if short:
            self.too_long.add(max(short, key=lambda v: sizes[v]))
        elif long:
            self.too_long.add(min(long, key=lambda v: sizes[v]))

    def operands(self, op: Op, depth: int) -> None:
        """Asks for a variable for each operand of a memory op that fills a line."""
        most = MAX_OPERAND - 4 * (depth - 1)
        for value in op.operands:
            while value.op is not None and written_in_place(value.op):
                if not value.op.operands:
                    break
                value = value.op.operands[0]
            if value.op is None or value in self.expressions.names:
                continue
            if len(self.expressions.text(value).text) > most:
                self.too_long.add(value)

    def _inlined(self, values: Sequence[Value]) -> list[Value]:
        found: list[Value] = []
        for value in values:
            if value.op is not None and value not in self.expressions.names:
                found += [value, *self._inlined(value.op.operands)]
        return found


def _most(expression: str, depth: int, target: str) -> int:
    """How long an expression may be.

    A call may have its arguments on a line of their own, another one must fit on its
    line; a load or store may even have one line for each argument.
    """
    if any(call in expression for call in ("tl.load(", "tl.store(", "tl.atomic_add(")):
        return MAX_CALL
    opening = expression.find("(")
    if opening > 0 and closing_of(expression, opening) == len(expression) - 1:
        return min(MAX_EXPRESSION, WIDTH - 4 * (depth + 1) - 1)
    return min(MAX_EXPRESSION, WIDTH - 4 * depth - len(target))
