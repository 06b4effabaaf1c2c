"""Derivatives that the user gave: the rule of a `custom` op, built into the backward.

The rule is applied to whole blocks, with zeros where a cotangent has no support. As far
as its ops make zeros of zeros, lane by lane, the supports are carried through them as
the sweep carries them: lanes that hold nothing defined meet no others in a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from undertow.ir import I1, Block, Builder, Custom, Op, Value, walk
from undertow.transform.cotangents import Cotangent, add, clean, restrict, sum_lanes
from undertow.transform.fold import constant
from undertow.transform.masks import negation
from undertow.transform.rebuild import DECLARED, Env, Handlers, copy, drop
from undertow.transform.sweep import State, bits_refusal

Carried = dict[Value, Cotangent | None]
"""Values of a rule that are zero where its cotangents are, lane by lane; None for zero
everywhere."""

_HANDLERS: Handlers = {**DECLARED, "assume": drop}


def custom(s: State, op: Op, cts: Sequence[Cotangent | None]) -> None:
    """Adds what the rule gives to the cotangents of the inputs."""
    given = Custom.of(op)
    for value in given.inputs:
        if not value.is_float and value in s.activity.varied:
            raise bits_refusal(s.kernel, op)
    rule, count = s.kernel.rules[given.rule], len(given.inputs)
    env = {a: s.env[v] for a, v in zip(rule.args, given.inputs, strict=False)}
    carried: Carried = dict(zip(rule.args[count:], cts, strict=True))
    found = _Rule(s.b, env, carried).build(rule)
    floats = [v for v in given.inputs if v.is_float]
    for value, ct in zip(floats, found, strict=True):
        if ct is not None:
            s.add(value, ct)


@dataclass
class _Rule:
    """Builds the ops of a rule."""

    b: Builder
    env: Env
    carried: Carried

    def build(self, rule: Block) -> list[Cotangent | None]:
        """The cotangents that the rule yields."""
        *ops, last = rule.ops
        for op in ops:
            self.b.loc = op.loc.unnamed
            way = _WAYS.get(op.opcode)
            known = way and any(v in self.carried for v in op.operands)
            if not (known and way and way(self, op)):
                self.copy(op)
        return [
            self.carried[v] if v in self.carried else Cotangent(self.env[v])
            for v in last.operands
        ]

    def copy(self, op: Op) -> None:
        """An op that may make something of zeros, which stand outside of supports."""
        inside = [v for region in op.regions for o in walk(region) for v in o.operands]
        self.materialise((*op.operands, *inside))
        handler = _HANDLERS.get(op.opcode)
        if handler is not None:
            handler(op, self.env)
        else:
            copy(self.b, op, self.env, _HANDLERS)

    def materialise(self, values: Iterable[Value]) -> None:
        """Enters those of `values` that are carried as plain values."""
        for value in values:
            if value in self.carried:
                ct = self.carried[value]
                zero = self.b.const(0.0, value.tensor_type)
                self.env[value] = zero if ct is None else clean(self.b, ct)

    def enter(self, op: Op, ct: Cotangent | None) -> bool:
        if ct is not None:
            ct.value.name = ct.value.name or op.result.name
        self.carried[op.result] = ct
        return True

    # -- ops that make zeros of zeros, and sums of lanes; False where one does not --

    def scaled(self, op: Op) -> bool:
        """A product, or a quotient by what is no cotangent."""
        first, *rest = (v for v in op.operands if v in self.carried)
        if op.opcode != "mul" and first is not op.operands[0]:
            return False
        ct = self.carried[first]
        if ct is None:
            return self.enter(op, None)
        self.materialise(rest)
        operands = [ct.value if v is first else self.env[v] for v in op.operands]
        return self.enter(op, ct.through(self.b.pointwise(op.opcode, *operands)))

    def same(self, op: Op) -> bool:
        """A function of one of them that is 0 at 0, perhaps with numbers."""
        first, *rest = op.operands
        if not op.result.is_float or any(v in self.carried for v in rest):
            return False
        if not _at_zero(op, [constant(self.env[v]) for v in rest]):
            return False
        ct = self.carried[first]
        if ct is not None:
            operands = (ct.value, *(self.env[v] for v in rest))
            value = self.b.pure(op.opcode, operands, op.result.type, dict(op.attrs))
            ct = ct.through(value, clean=ct.is_clean)
        return self.enter(op, ct)

    def sum(self, op: Op) -> bool:
        if not all(v in self.carried for v in op.operands):
            return False
        x, y = (self.carried[v] for v in op.operands)
        if y is not None and op.opcode == "sub":
            y = y.through(self.b.pointwise("neg", y.value), clean=y.is_clean)
        return self.enter(op, add(self.b, x, y) if x and y else x or y)

    def choice(self, op: Op) -> bool:
        """A selection of one of them or of zero, or of two with one support."""
        condition, *sides = op.operands
        mask = self.env[condition]
        x, y = (self.carried.get(v) for v in sides)
        if x and y and x.support is y.support:
            value = self.b.pointwise("select", mask, x.value, y.value)
            return self.enter(op, x.through(value, clean=x.is_clean and y.is_clean))
        zeros = [v not in self.carried and constant(self.env[v]) == 0.0 for v in sides]
        if zeros == [False, True]:
            return self.enter(op, x and restrict(self.b, x, mask))
        if zeros == [True, False]:
            mask = negation(self.b, mask)
            return self.enter(op, y and restrict(self.b, y, mask))
        return False

    def moved(self, op: Op) -> bool:
        """Lanes that move, and with each whether it is in the support."""
        ct, attrs = self.carried[op.operands[0]], dict(op.attrs)
        if ct is None:
            return self.enter(op, None)
        value = self.b.pure(op.opcode, (ct.value,), op.result.type, attrs)
        support = ct.support
        if support is not None:
            type = op.result.tensor_type.with_dtype(I1)
            support = self.b.pure(op.opcode, (support,), type, attrs)
        return self.enter(op, Cotangent(value, support, ct.is_clean))

    def reduced(self, op: Op) -> bool:
        if op.str_attr("kind") != "sum":
            return False
        ct = self.carried[op.operands[0]]
        return self.enter(op, ct and sum_lanes(self.b, ct, op.int_attr("axis")))


def _at_zero(op: Op, numbers: Sequence[int | float | bool | None]) -> bool:
    """Whether a function is 0 at 0, where its other operands are `numbers`."""
    match op.opcode, numbers:
        case "clamp", [int() | float() as low, int() | float() as high]:
            return low <= 0 <= high
        case "maximum" | "maxnum", [int() | float() as other]:
            return other <= 0
        case "minimum" | "minnum", [int() | float() as other]:
            return other >= 0
        case _:
            return not numbers


_WAYS: dict[str, Callable[[_Rule, Op], bool]] = {
    **dict.fromkeys(("mul", "div", "div_rn"), _Rule.scaled),
    **dict.fromkeys("neg cast abs clamp sqrt tanh".split(), _Rule.same),
    **dict.fromkeys("maximum maxnum minimum minnum".split(), _Rule.same),
    **dict.fromkeys(("add", "sub"), _Rule.sum),
    "select": _Rule.choice,
    **dict.fromkeys(("broadcast", "expand_dims", "reshape", "transpose"), _Rule.moved),
    "reduce": _Rule.reduced,
}
