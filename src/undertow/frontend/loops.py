"""`scf.for`: the variable, what is carried, and pointers that move.

The IR carries numbers only. Of a pointer it carries how far it has moved since the loop
began, in 64 bits: one number where it moves by the same amount in all elements. Where
its moves cannot be told (one of two pointers is chosen), its whole offset is carried.
What is found after the body was lifted decides, so a body may be lifted again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from undertow.errors import CaptureError
from undertow.frontend.context import Lifter, Operand, Pointer
from undertow.frontend.control import LiftOp
from undertow.frontend.memory import check_same_base, total
from undertow.frontend.refusals import LOOP_HINTS
from undertow.frontend.structure import int_attr
from undertow.frontend.ttir import MOp
from undertow.ir import I32, I64, Attr, Block, TensorType, Value, scalar

_BOUND = re.compile(r"(%[\w$.\-]+) = ")
_PRINTED = re.compile(r"%(?!arg\d+$)([A-Za-z_]\w*?)(?:_\d+)?$")
_WORDS = ("to", "step", "iter_args")
_STAGES = "tt.num_stages"


@dataclass(frozen=True, slots=True)
class Moved:
    """A carried pointer: `start` plus a carried offset of `shape`.

    With `whole` it is the carried offset alone, in the pointer's shape.
    """

    start: Pointer
    shape: tuple[int, ...] = ()
    whole: bool = False

    @property
    def type(self) -> TensorType:
        return TensorType(I64, self.start.shape if self.whole else self.shape)

    def initial(self, lifter: Lifter) -> Value:
        b = lifter.builder
        return total(lifter, self.start) if self.whole else b.const(0, self.type)

    def at(self, moved: Value) -> Pointer:
        kept = () if self.whole else self.start.offsets
        return self.start.with_offsets((*kept, moved), self.start.shape)


Form = Moved | None
"""How an operand is carried: None for a number, which is carried as it is."""


def lift_for(lifter: Lifter, op: MOp, lift_op: LiftOp) -> None:
    """`scf.for`; pointers are carried as far as they have moved."""
    attrs = _attributes(lifter, op)
    loc = lifter.builder.loc.unnamed
    bounds = [lifter.value(name, op) for name in op.operands[:3]]
    if bounds[0].type not in (scalar(I32), scalar(I64)):
        lifter.refuse(
            op,
            f"a loop over values of type `{bounds[0].type}` is not supported",
            hint="give the bounds as 32-bit or 64-bit integers",
        )
    given = [lifter.operand(name, op) for name in op.operands[3:]]
    forms: list[Form] = [Moved(v) if isinstance(v, Pointer) else None for v in given]
    while True:
        lifter.builder.loc = loc
        body = _Body(lifter, op, forms)
        if not body.lift(bounds[0], lift_op):
            break
    lifter.builder.loc = loc
    types = [v.type for v in body.initial]
    operands = (*bounds, *body.initial)
    results = lifter.builder.emit("for", operands, types, attrs, (body.block,))
    for arg, result in zip(body.block.args[1:], results, strict=True):
        result.name = arg.name
    lifter.bind(op, *body.operands(results))


def _attributes(lifter: Lifter, op: MOp) -> dict[str, Attr]:
    """What is kept of the loop's hints: the number of stages of its pipeline."""
    known = (_STAGES, *LOOP_HINTS, *_WORDS)
    unknown = [name for name in (*op.attrs, *op.words) if name not in known]
    if unknown:
        raise CaptureError(
            f"`{op.name}` has an attribute `{unknown[0]}` that Undertow does not know",
            loc=op.loc,
            kernel=lifter.kernel,
        )
    return {"num_stages": int_attr(op, _STAGES)} if _STAGES in op.attrs else {}


class _Body:
    """One attempt to lift the body, with `forms` for what is carried."""

    def __init__(self, lifter: Lifter, op: MOp, forms: list[Form]) -> None:
        self.lifter, self.op, self.forms = lifter, op, forms
        self.names = _BOUND.findall(op.body)
        self.initial = [
            lifter.value(name, op) if form is None else form.initial(lifter)
            for name, form in zip(op.operands[3:], forms, strict=True)
        ]
        self.block = Block()

    def operands(self, values: Sequence[Value]) -> list[Operand]:
        """The operands that carried values stand for."""
        pairs = zip(self.forms, values, strict=True)
        return [v if form is None else form.at(v) for form, v in pairs]

    def lift(self, variable: Value, lift_op: LiftOp) -> bool:
        """Lifts the body; whether `forms` changed, and it has to be lifted again."""
        lifter, b, (region,) = self.lifter, self.lifter.builder, self.op.regions
        *ops, last = region.blocks[0].ops
        if len(region.blocks) != 1 or last.name != "scf.yield":
            lifter.refuse(self.op, "a branch out of a loop is not supported")
        with (
            b.region([variable, *self.initial]) as self.block,
            lifter.scope(region),
        ):
            args = self.block.args
            self._name(args, ops, last)
            inside = self.operands(args[1:])
            for name, operand in zip(self.names, [args[0], *inside], strict=True):
                lifter.define(name, operand)
            for op in ops:
                lift_op(op)
            b.loc = last.loc.unnamed
            before = list(self.forms)
            steps = enumerate(zip(last.operands, args[1:], strict=True))
            b.emit("yield", [self._next(last, i, *step) for i, step in steps])
        return before != self.forms

    def _name(self, args: Sequence[Value], ops: Sequence[MOp], last: MOp) -> None:
        """Names the arguments as the user does, as far as that can be told."""
        made = {name: op.loc.name for op in ops for name in op.results}
        sources = ["", *last.operands]
        forms: list[Form] = [None, *self.forms]
        for arg, name, source, form in zip(
            args, self.names, sources, forms, strict=True
        ):
            printed = _PRINTED.match(name)
            arg.name = made.get(source, "") or (printed[1] if printed else "")
            if form is not None:  # an offset has no name of the user's
                arg.name = ""

    def _next(self, last: MOp, index: int, name: str, arg: Value) -> Value:
        """What is yielded for `arg`; enters another form if this one does not do."""
        form = self.forms[index]
        after = self.lifter.operand(name, last)
        if form is None or isinstance(after, Value):
            return self.lifter.value(name, last)
        check_same_base(self.lifter, self.op, form.start, after)
        if form.whole:
            return total(self.lifter, after)
        kept = (*form.start.offsets, arg)
        if after.offsets[: len(kept)] != kept:
            self.forms[index] = Moved(form.start, whole=True)
            return arg
        moves = after.offsets[len(kept) :]
        if not form.shape:
            single = [_uniform(self.lifter, move) for move in moves]
            if None in single:
                self.forms[index] = Moved(form.start, form.start.shape)
                return arg
            moves = tuple(move for move in single if move is not None)
        moved = form.start.with_offsets((arg, *moves), form.shape)
        return total(self.lifter, moved)


def _uniform(lifter: Lifter, value: Value) -> Value | None:
    """The scalar that every element of `value` holds, or None if it is not known."""
    if not value.shape:
        return value
    op = value.op
    if op is not None and op.opcode == "broadcast":
        return _uniform(lifter, op.operands[0])
    if op is not None and op.opcode == "const":
        number = op.attrs["value"]
        assert isinstance(number, int)
        return lifter.builder.const(number, value.tensor_type.with_shape(()))
    return None
