"""An address as a sum of terms: an index times a coefficient known at launch.

``(rows * stride)[:, None] + cols[None, :]`` has two terms: `rows` times `stride`, with
lanes moved from ``[m]`` to ``[m, n]``, and `cols` times 1. A move of lanes goes through
a sum and past a coefficient, so both stand free however the user wrote them.
"""

from __future__ import annotations

from dataclasses import dataclass

from undertow.analysis.addresses import Addresses, widens
from undertow.analysis.launch import uniform
from undertow.analysis.polynomials import Polynomial
from undertow.ir import Builder, Op, Value
from undertow.transform.masks import MOVES
from undertow.transform.rebuild import Env


@dataclass(frozen=True, slots=True)
class Term:
    """One addend of an offset.

    Attributes:
        coefficient: a scalar known at launch; None is 1.
        index: what is multiplied by it.
        moves: ops that move or widen the lanes of the product, innermost first.
    """

    coefficient: Value | None
    index: Value
    moves: tuple[Op, ...] = ()

    def build(self, b: Builder, env: Env) -> Value:
        """The index with its lanes moved; a scalar stays one."""
        value = env[self.index]
        for op in self.moves:
            if op.opcode == "cast":
                value = b.cast(value, op.result.tensor_type.dtype)
            elif value.shape:
                type = value.tensor_type.with_shape(op.result.shape)
                value = b.pure(op.opcode, (value,), type, dict(op.attrs))
        return value

    def polynomial(self, addresses: Addresses) -> Polynomial:
        """The same as a polynomial over the lanes of the access."""
        total = addresses.of(self.index)
        for op in self.moves:
            total = addresses.through(op, total)
        return total


def terms(offset: Value, moves: tuple[Op, ...] = ()) -> list[Term]:
    """The terms of an offset whose lanes are then moved by `moves`."""
    op = offset.op
    if op is not None and op.opcode == "add":
        return [t for operand in op.operands for t in terms(operand, moves)]
    if op is not None and (op.opcode in MOVES or widens(op)):
        return terms(op.operands[0], (op, *moves))
    if op is not None and op.opcode == "mul":
        for one, other in (op.operands, op.operands[::-1]):
            coefficient = _coefficient(one)
            if coefficient is not None:
                return [Term(coefficient, other, moves)]
    return [Term(None, offset, moves)]


def _coefficient(value: Value) -> Value | None:
    """The scalar known at launch in every lane of `value`; a constant is none."""
    while value.op is not None and (value.op.opcode in MOVES or widens(value.op)):
        (value,) = value.op.operands
    constant = value.op is not None and value.op.opcode == "const"
    return value if uniform(value) and not constant else None
