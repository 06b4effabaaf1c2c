"""The derivative of a / (c + exp(z)), which is finite where exp(z) overflows.

The chain through the quotient, the sum and the exponential multiplies 0 by infinity
there, though the sigmoid and all that is built of it are well defined.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from undertow.ir import Op, Value
from undertow.rules import Expr
from undertow.transform.fold import constant


@dataclass(frozen=True, slots=True)
class Logistic:
    """A quotient a / (c + exp(z)), or one of exp2.

    Attributes:
        quotient: its op, `div` or `reciprocal`.
        exponential: the op that makes exp(z).
        shift: c, a positive constant.
    """

    quotient: Op
    exponential: Op
    shift: Value

    @staticmethod
    def of(op: Op, block: Collection[Op]) -> Logistic | None:
        """`op` as such a quotient, if its parts stand in the same block."""
        if op.opcode not in ("div", "reciprocal"):
            return None
        *numerator, denominator = op.operands
        whole = denominator.op
        if whole is None or whole.opcode != "add" or denominator in numerator:
            return None
        for power, shift in (whole.operands, reversed(whole.operands)):
            made, number = power.op, constant(shift)
            if (
                made in block
                and made is not None
                and made.opcode in ("exp", "exp2")
                and number is not None
                and 0 < number < math.inf
            ):
                return Logistic(op, made, shift)
        return None

    @property
    def exponent(self) -> Value:
        return self.exponential.operands[0]

    def partial(self, t: Expr, quotient: Expr, denominator: Expr, shift: Expr) -> Expr:
        """The cotangent of z: -t q (1 - c / (c + exp(z)))."""
        numerators = [constant(v) for v in self.quotient.operands[:-1]] or [1.0]
        same = numerators == [constant(self.shift)]
        share = -(t * quotient * (1.0 - (quotient if same else shift / denominator)))
        return share * math.log(2.0) if self.exponential.opcode == "exp2" else share
