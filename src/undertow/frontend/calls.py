"""Rows of the lift for calls that are left in the TTIR.

What a helper with a rule returned becomes the result of a `custom` op, whose rule is
lifted to a block of its own: `overrides` left these calls. Triton leaves those of
`noinline` functions, and those in a branch or loop of functions that return early.
They are inlined here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from undertow.errors import CaptureError
from undertow.frontend.context import Lifter
from undertow.frontend.control import LiftOp, lift_function
from undertow.frontend.overrides import CUSTOM, RULE, STOP
from undertow.frontend.ttir import MFunc, MOp, MRegion
from undertow.ir import Attr, Block, Builder, Loc, TensorType, Value, cotangent_dtype

_CALLEE = re.compile(r'@(?:([\w$.]+)|"([^"]*)")\(')


@dataclass
class Calls:
    """The functions that may be called, and the rules that were lifted."""

    functions: Mapping[str, MFunc]
    rules: dict[str, Block] = field(default_factory=lambda: dict[str, Block]())
    _names: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    _last: MOp | None = None

    def lift(self, lifter: Lifter, op: MOp, lift_op: LiftOp) -> None:
        """`tt.call`."""
        name = callee(op)
        if name.startswith(RULE):
            self._last = op  # the next call looks at it
        elif name.startswith(CUSTOM):
            self._custom(lifter, op, lift_op)
        elif name.startswith(STOP):
            b = lifter.builder
            values = lifter.values(op)
            lifter.bind(op, *(b.pure("stop", (v,), v.type) for v in values))
        else:
            func = _moved(self.functions[name], op.loc)
            args = lifter.operands(op)
            lifter.bind(op, *lift_function(lifter, func, args, lift_op))

    def _custom(self, lifter: Lifter, op: MOp, lift_op: LiftOp) -> None:
        call, count = self._last, len(op.results)
        if call is None:
            raise CaptureError("a rule is not called where it should be", loc=op.loc)
        outputs = [lifter.value(name, op) for name in op.operands[:count]]
        inputs = lifter.values(call)[: len(call.operands) - count]
        given = [call.results.index(name) for name in op.operands[count:]]
        rule = self._rule(lifter, callee(call), inputs, outputs, given, lift_op)
        types = [v.type for v in outputs]
        attrs: dict[str, Attr] = {"rule": rule, "inputs": len(inputs)}
        operands = (*inputs, *outputs)
        lifter.bind(
            op,
            *(
                lifter.builder.pure(
                    "custom", operands, types[0], attrs, index=i, types=types
                )
                for i in range(count)
            ),
        )

    def _rule(
        self,
        lifter: Lifter,
        name: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        given: Sequence[int],
        lift_op: LiftOp,
    ) -> str:
        """The name of a rule, after it was lifted; `given` are results to yield."""
        if name in self._names:
            return self._names[name]
        args = [*inputs, *(Value(_cotangent(y)) for y in outputs)]
        outer, lifter.builder = lifter.builder, Builder()
        with lifter.builder.region(args) as block:
            returned = lift_function(lifter, self.functions[name], block.args, lift_op)
            cts: list[Value] = []
            floats = [v for v in inputs if v.is_float]
            for value, index in zip(floats, given, strict=True):
                ct = returned[index]
                assert isinstance(ct, Value)  # `overrides` let no pointer pass
                cts.append(lifter.builder.cast(ct, _cotangent(value).dtype))
            lifter.builder.emit("yield", cts)
        lifter.builder = outer
        self._names[name] = self._fresh(name)
        self.rules[self._names[name]] = block
        return self._names[name]

    def _fresh(self, name: str) -> str:
        stem = name.removeprefix(RULE).partition(":")[0]
        tried, count = stem, 1
        while tried in self.rules:
            count += 1
            tried = f"{stem}_{count}"
        return tried


def _moved(func: MFunc, loc: Loc) -> MFunc:
    """`func` with all of its ops where it is called, as if it had been inlined."""

    def at(region: MRegion) -> MRegion:
        blocks = (replace(b, ops=[moved(op) for op in b.ops]) for b in region.blocks)
        return MRegion(tuple(blocks))

    def moved(op: MOp) -> MOp:
        place = replace(loc, name=op.loc.name)
        return replace(op, loc=place, regions=tuple(map(at, op.regions)))

    return replace(func, region=at(func.region))


def _cotangent(value: Value) -> TensorType:
    type = value.tensor_type
    return type.with_dtype(cotangent_dtype(type.dtype))


def callee(op: MOp) -> str:
    """The name of the function that a `tt.call` calls, as far as it can be read."""
    match = _CALLEE.match(op.body)
    return "" if match is None else match[1] or match[2]
