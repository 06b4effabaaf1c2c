"""The registrars and the table they fill: one verdict for each opcode.

A pointwise rule is a linear map of `t`, elementwise and hence its own transpose: in
forward mode `t` is the tangent of an operand, in reverse mode the cotangent of the
result. One line serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from undertow.ir import Builder, Op, Value
from undertow.rules.expr import Expr

UnaryMap = Callable[[Expr, Expr, Expr], Expr]
"""(t, x, y) for y = f(x)."""
BinaryMap = Callable[[Expr, Expr, Expr, Expr], Expr]
"""(t, a, b, y) for y = f(a, b)."""
TernaryMap = Callable[[Expr, Expr, Expr, Expr, Expr], Expr]
"""(t, a, b, c, y) for y = f(a, b, c)."""
Transpose = Callable[[Builder, Op, tuple[Value | None, ...]], tuple[Value | None, ...]]
"""Cotangents of the results, None where zero, to cotangents of the operands."""


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Maps of `t`, one for each operand; they are given `t`, the operands, the result.

    None is the zero map.
    """

    maps: tuple[Callable[..., Expr] | None, ...]


@dataclass(frozen=True, slots=True)
class Linear:
    """Coefficients 1 or −1 of the operands: needs no primal value."""

    signs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Structural:
    """A linear op that moves lanes. Tangents pass through the op itself."""

    transpose: Transpose


@dataclass(frozen=True, slots=True)
class Zero:
    """The derivative is zero, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unsupported:
    """No derivative is known here, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Special:
    """Handled by the sweep itself: memory, regions and selections."""

    how: str


Verdict = Pointwise | Linear | Structural | Zero | Unsupported | Special


@dataclass
class Table:
    """Verdicts by opcode."""

    verdicts: dict[str, Verdict] = field(default_factory=lambda: dict[str, Verdict]())

    def _add(self, opcode: str, verdict: Verdict) -> None:
        assert opcode not in self.verdicts, f"{opcode} has two verdicts"
        self.verdicts[opcode] = verdict

    def unary(self, opcode: str, x: UnaryMap) -> None:
        self._add(opcode, Pointwise((x,)))

    def binary(self, opcode: str, a: BinaryMap, b: BinaryMap | None) -> None:
        self._add(opcode, Pointwise((a, b)))

    def ternary(self, opcode: str, a: TernaryMap, b: TernaryMap, c: TernaryMap) -> None:
        self._add(opcode, Pointwise((a, b, c)))

    def linear(self, opcode: str, *signs: int) -> None:
        self._add(opcode, Linear(signs))

    def structural(self, opcode: str, transpose: Transpose) -> None:
        self._add(opcode, Structural(transpose))

    def zero(self, opcodes: str, reason: str) -> None:
        for opcode in opcodes.split():
            self._add(opcode, Zero(reason))

    def unsupported(self, opcodes: str, reason: str) -> None:
        for opcode in opcodes.split():
            self._add(opcode, Unsupported(reason))

    def special(self, opcodes: str, how: str) -> None:
        for opcode in opcodes.split():
            self._add(opcode, Special(how))
