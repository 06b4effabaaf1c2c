"""The derivative of every opcode: one verdict each, in one table."""

from undertow.rules import pointwise, structure
from undertow.rules.expr import Expr, where
from undertow.rules.registry import (
    Linear,
    Pointwise,
    Special,
    Structural,
    Table,
    Unsupported,
    Verdict,
    Zero,
)
from undertow.rules.structure import reduce_cotangent, reduce_partial, widen


def _table() -> dict[str, Verdict]:
    table = Table()
    pointwise.register(table)
    structure.register(table)
    return table.verdicts


RULES: dict[str, Verdict] = _table()

__all__ = [
    "RULES",
    "Expr",
    "Linear",
    "Pointwise",
    "Special",
    "Structural",
    "Unsupported",
    "Verdict",
    "Zero",
    "reduce_cotangent",
    "reduce_partial",
    "where",
    "widen",
]
