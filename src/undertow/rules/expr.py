"""Arithmetic on values as one writes it: ``1 - y * y`` builds IR.

An `Expr` is a float or boolean value together with the builder to extend. Numbers take
the type of the other operand.
"""

from __future__ import annotations

from dataclasses import dataclass

from undertow.ir import Builder, Value


@dataclass(frozen=True, slots=True)
class Expr:
    """A value under construction; its operators append ops to `builder`."""

    builder: Builder
    value: Value

    def __add__(self, other: Operand) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: float) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return apply("sub", self, other)

    def __rsub__(self, other: float) -> Expr:
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return apply("mul", self, other)

    def __rmul__(self, other: float) -> Expr:
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return apply("div", self, other)

    def __rtruediv__(self, other: float) -> Expr:
        return apply("div", other, self)

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __lt__(self, other: Operand) -> Expr:
        return compare("olt", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return compare("ogt", self, other)

    def equals(self, other: Operand) -> Expr:
        """Elementwise equality; false where an operand is NaN."""
        return compare("oeq", self, other)

    def __and__(self, other: Expr) -> Expr:
        return apply("and", self, other)

    def __or__(self, other: Expr) -> Expr:
        return apply("or", self, other)


Operand = Expr | float


def apply(opcode: str, *operands: Operand) -> Expr:
    """The pointwise op `opcode` of operands, at least one of which is an `Expr`."""
    model = next(o for o in operands if isinstance(o, Expr))
    values = [_value(o, model) for o in operands]
    return Expr(model.builder, model.builder.pointwise(opcode, *values))


def compare(predicate: str, a: Expr, b: Operand) -> Expr:
    value = a.builder.pointwise("cmp", a.value, _value(b, a), predicate=predicate)
    return Expr(a.builder, value)


def where(condition: Expr, a: Operand, b: Operand) -> Expr:
    """`a` where the condition holds, else `b`; one of them is an `Expr`."""
    model = a if isinstance(a, Expr) else b
    assert isinstance(model, Expr)
    builder = condition.builder
    value = builder.pointwise(
        "select", condition.value, _value(a, model), _value(b, model)
    )
    return Expr(builder, value)


def _value(operand: Operand, model: Expr) -> Value:
    if isinstance(operand, Expr):
        return operand.value
    return model.builder.const(operand, model.value.tensor_type)
