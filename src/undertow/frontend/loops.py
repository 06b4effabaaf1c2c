"""`scf.for` and `scf.while`: what is carried, and pointers that move.

The IR carries numbers only. Of a pointer it carries how far it has moved since the loop
began, in 64 bits: one number where it moves by the same amount in all elements. Where
its moves cannot be told (one of two pointers is chosen), its whole offset is carried.
What is found after the body was lifted decides, so a body may be lifted again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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
    bounds = [lifter.value(name, op) for name in op.operands[:3]]
    if bounds[0].type not in (scalar(I32), scalar(I64)):
        lifter.refuse(
            op,
            f"a loop over values of type `{bounds[0].type}` is not supported",
            hint="give the bounds as 32-bit or 64-bit integers",
        )
    given = [lifter.operand(name, op) for name in op.operands[3:]]
    ops, last = _single_block(lifter, op, 0, "scf.yield")
    names = _BOUND.findall(op.body)

    def turn(args: Sequence[Operand]) -> Following:
        with lifter.scope(op.regions[0]):
            for name, operand in zip(names, args, strict=True):
                lifter.define(name, operand)
            for inner in ops:
                lift_op(inner)
            lifter.builder.loc = last.loc.unnamed
            return [], lifter.operands(last)

    made = {name: inner.loc.name for inner in ops for name in inner.results}
    wishes = [made.get(name, "") for name in last.operands]
    carry = _Carry(lifter, op, given, wishes, names[1:])
    variable = Value(bounds[0].type, _user_name(names[0]))
    carry.loop(turn, bounds, [variable], attrs)


def lift_while(lifter: Lifter, op: MOp, lift_op: LiftOp) -> None:
    """`scf.while`; the condition is lifted twice: before the loop, and after a turn."""
    before, test = _single_block(lifter, op, 0, "scf.condition")
    after, last = _single_block(lifter, op, 1, "scf.yield")
    names = _BOUND.findall(op.body)
    args = [arg.name for arg in op.regions[1].blocks[0].args]

    def condition(values: Sequence[Operand]) -> tuple[Value, list[Operand]]:
        with lifter.scope(op.regions[0]):
            for name, operand in zip(names, values, strict=True):
                lifter.define(name, operand)
            for inner in before:
                lift_op(inner)
            lifter.builder.loc = test.loc.unnamed
            flag, *given = test.operands
            return lifter.value(flag, test), [lifter.operand(n, test) for n in given]

    def turn(carried: Sequence[Operand]) -> Following:
        with lifter.scope(op.regions[1]):
            for name, operand in zip(args, carried, strict=True):
                lifter.define(name, operand)
            for inner in after:
                lift_op(inner)
            lifter.builder.loc = last.loc.unnamed
            values = lifter.operands(last)
        again, following = condition(values)
        return [again], following

    first, given = condition(lifter.operands(op))
    made = {name: inner.loc.name for inner in after for name in inner.results}
    by_arg = dict(zip(names, last.operands, strict=True))
    wishes = [made.get(by_arg.get(name, ""), "") for name in test.operands[1:]]
    carry = _Carry(lifter, op, given, wishes, test.operands[1:])
    carry.loop(turn, [first])


def _user_name(printed: str) -> str:
    """The user's name in a name of the TTIR, if there is one."""
    match = _PRINTED.match(printed)
    return match[1] if match else ""


Following: TypeAlias = "tuple[list[Value], list[Operand]]"
"""What a turn ends with: whether another one follows (of a `while`), and with what."""


def _single_block(
    lifter: Lifter, op: MOp, region: int, end: str
) -> tuple[list[MOp], MOp]:
    """The ops of a loop's region, and the one that ends it."""
    blocks = op.regions[region].blocks
    *ops, last = blocks[0].ops
    if len(blocks) != 1 or last.name != end:
        lifter.refuse(op, "a branch out of a loop is not supported")
    return ops, last


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


class _Carry:
    """Builds a loop, with `forms` for what it carries.

    Attributes:
        given: what the loop starts with.
        wishes: the user's names of what a turn leaves, as far as they are known.
        printed: names in the TTIR of what the loop carries.
    """

    def __init__(
        self,
        lifter: Lifter,
        op: MOp,
        given: Sequence[Operand],
        wishes: Sequence[str],
        printed: Sequence[str],
    ) -> None:
        self.lifter, self.op, self.given = lifter, op, given
        self.wishes, self.printed = wishes, printed
        self.forms: list[Form] = [
            Moved(v) if isinstance(v, Pointer) else None for v in given
        ]
        self.block = Block()

    def loop(
        self,
        turn: Callable[[Sequence[Operand]], Following],
        head: Sequence[Value],
        variable: Sequence[Value] = (),
        attrs: dict[str, Attr] | None = None,
    ) -> None:
        """Emits the loop; its body is lifted until the forms do for all that it does.

        Args:
            turn: lifts a turn, given its variable, if any, and what it begins with.
            head: bounds and step of a `for`, or the first condition of a `while`.
            variable: of the type of the variable of a `for`; empty for a `while`.
            attrs: of the op.
        """
        lifter = self.lifter
        loc = lifter.builder.loc.unnamed
        while True:
            lifter.builder.loc = loc
            pairs = zip(self.given, self.forms, strict=True)
            initial = [
                form.initial(lifter) if form else self._number(v) for v, form in pairs
            ]
            if not self._turn(variable, initial, turn):
                break
        lifter.builder.loc = loc
        types, operands = [v.type for v in initial], (*head, *initial)
        opcode, blocks = "for" if variable else "while", (self.block,)
        results = lifter.builder.emit(opcode, operands, types, attrs, blocks)
        for arg, result in zip(self.block.args[len(variable) :], results, strict=True):
            result.name = arg.name
        lifter.bind(self.op, *self.operands(results))

    def operands(self, values: Sequence[Value]) -> list[Operand]:
        """The operands that carried values stand for."""
        pairs = zip(self.forms, values, strict=True)
        return [v if form is None else form.at(v) for form, v in pairs]

    def _turn(
        self,
        variable: Sequence[Value],
        initial: Sequence[Value],
        turn: Callable[[Sequence[Operand]], Following],
    ) -> bool:
        """Lifts the body; whether `forms` changed, and it has to be lifted again."""
        b = self.lifter.builder
        with b.region([*variable, *initial]) as self.block:
            given, args = self.block.args, self.block.args[len(variable) :]
            self._name(args)
            flags, following = turn([*given[: len(variable)], *self.operands(args)])
            before = list(self.forms)
            steps = enumerate(zip(following, args, strict=True))
            b.emit("yield", [*flags, *(self._next(i, *step) for i, step in steps)])
        return before != self.forms

    def _name(self, args: Sequence[Value]) -> None:
        """Names the arguments as the user does, as far as that can be told."""
        rows = zip(args, self.printed, self.wishes, self.forms, strict=True)
        for arg, name, wish, form in rows:
            # an offset has no name of the user's
            arg.name = "" if form is not None else wish or _user_name(name)

    def _number(self, operand: Operand) -> Value:
        assert isinstance(operand, Value)
        return operand

    def _next(self, index: int, after: Operand, arg: Value) -> Value:
        """What is yielded for `arg`; enters another form if this one does not do."""
        form = self.forms[index]
        if form is None or isinstance(after, Value):
            return self._number(after)
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
