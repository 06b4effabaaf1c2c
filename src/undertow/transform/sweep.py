"""What the reverse sweep knows at a point: the builder, primal values, cotangents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from undertow.analysis.activity import Activity, path_to_output
from undertow.analysis.read_back import StandIns
from undertow.errors import UnsupportedError
from undertow.ir import (
    Access,
    Builder,
    Kernel,
    Op,
    TensorType,
    Value,
    cotangent_dtype,
    walk,
)
from undertow.transform.cotangents import Cotangent, add
from undertow.transform.rebuild import Env
from undertow.transform.tapes import Tape, Tapes


@dataclass(frozen=True, slots=True)
class Buffers:
    """Parameters of the backward kernel by parameter of the forward.

    Attributes:
        cotangents: of each active output, the pointer its cotangent is read from.
        gradients: of each differentiated input, the pointer its gradient is added to.
    """

    cotangents: Mapping[Value, Value]
    gradients: Mapping[Value, Value]


Place = tuple[Value, tuple[Value, ...], tuple[int, ...]]
"""A buffer, offsets and a shape: equal places are equal addresses, lane by lane."""


@dataclass
class State:
    """The state of a reverse sweep over one block.

    Attributes:
        kernel: the forward.
        b: builds the backward.
        env: values of the forward to recomputed ones.
        activity: which values have a cotangent.
        buffers: the backward's pointers.
        cts: the cotangents known so far.
        tapes: those of the whole backward.
        stand_ins: what stands for values that are not computed again.
        overwritten: places that a later store of the forward writes for certain, and
            the mask it does so under (None: in every lane).
        recorded: the tapes of the loops in this block.
        turns: how often these loops have turned.
    """

    kernel: Kernel
    b: Builder
    env: Env
    activity: Activity
    buffers: Buffers
    tapes: Tapes
    stand_ins: StandIns
    cts: dict[Value, Cotangent] = field(
        default_factory=lambda: dict[Value, Cotangent]()
    )
    overwritten: dict[Place, Value | None] = field(
        default_factory=lambda: dict[Place, Value | None]()
    )
    recorded: dict[Op, list[Tape]] = field(
        default_factory=lambda: dict[Op, list[Tape]]()
    )
    turns: dict[Op, Value] = field(default_factory=lambda: dict[Op, Value]())

    def inside(self) -> State:
        """A state for a nested block, whose cotangents start empty."""
        return State(
            self.kernel,
            self.b,
            dict(self.env),
            self.activity,
            self.buffers,
            self.tapes,
            self.stand_ins,
            overwritten=dict(self.overwritten),
        )

    def add(self, value: Value, ct: Cotangent) -> None:
        """Adds to the cotangent of `value`, if it has one to add to."""
        if not self.activity.active(value):
            return
        known = self.cts.get(value)
        total = ct if known is None else add(self.b, known, ct)
        if value.name:
            _rename(total.value, f"d_{value.name}", known)
        self.cts[value] = total

    def cotangent_type(self, value: Value) -> TensorType:
        type = value.tensor_type
        return type.with_dtype(cotangent_dtype(type.dtype))

    def primal(self, value: Value) -> Value:
        """The recomputed value, in the dtype of cotangents."""
        copy = self.env[value]
        if not value.is_float:
            return copy
        return self.b.cast(copy, cotangent_dtype(copy.tensor_type.dtype))

    def mask(self, access: Access) -> Value | None:
        """The recomputed mask of an access of the forward."""
        return None if access.mask is None else self.env[access.mask]

    def at(
        self,
        access: Access,
        base: Value,
        value: Value | None = None,
        other: Value | None = None,
    ) -> Access:
        """The same lanes at the same address in another buffer."""
        offsets = tuple(self.env[v] for v in access.offsets)
        return Access(base, offsets, value, self.mask(access), other)


def captured(s: State, op: Op) -> list[Value]:
    """Active values from outside of `op` that its blocks use, in order of use."""
    inside: set[Value] = set()
    used: dict[Value, None] = {}
    for region in op.regions:
        inside.update(region.args)
        for inner in walk(region):
            inside.update(inner.results)
            inside.update(arg for nested in inner.regions for arg in nested.args)
            used.update(dict.fromkeys(inner.operands))
    return [v for v in used if v not in inside and s.activity.active(v)]


def refusal(kernel: Kernel, op: Op, reason: str, hint: str = "") -> UnsupportedError:
    """The error for an active op without a derivative."""
    name = _written(op)
    if op.opcode in _BLACK_BOXES:
        hint = hint or _OWN_RULE.format(name)
    return UnsupportedError(
        f"no derivative rule for `{name}`",
        loc=op.loc,
        kernel=kernel.name,
        why=_path(kernel, op, reason),
        hint=hint,
    )


_BLACK_BOXES = ("inline_asm", "extern", "lgamma")
_OWN_RULE = (
    "call it in a helper function that has a rule, see `undertow.custom_vjp`;"
    ' if a zero gradient is meant, pass zero=("{}",)'
)


def _written(op: Op) -> str:
    match op.opcode:
        case "reduce":
            return f"tl.reduce ({op.str_attr('kind')})"
        case "custom":
            return op.str_attr("rule")
        case "inline_asm":
            return "tl.inline_asm_elementwise"
        case "extern":
            return f"libdevice.{op.str_attr('function')}"
        case "lgamma":
            return "libdevice.lgamma"
        case opcode:
            return f"tl.{opcode}"


def bits_refusal(kernel: Kernel, op: Op) -> UnsupportedError:
    """The error for a float with a derivative that is made from bits."""
    return UnsupportedError(
        "no derivative rule for `.to(…, bitcast=True)`",
        loc=op.loc,
        kernel=kernel.name,
        why=_path(kernel, op, "reinterpreted bits have no derivative"),
        hint="write it in floating-point operations",
    )


def _path(kernel: Kernel, op: Op, reason: str) -> str:
    """How the result reaches an output, and the reason."""
    path = path_to_output(kernel, op.results[0]) if op.results else None
    if path is None:
        return reason
    buffer, name, line = path
    through = f" through `{name}` (line {line})" if name else ""
    return f"it reaches output `{buffer}`{through}; {reason}"


def _rename(value: Value, name: str, part: Cotangent | None) -> None:
    """Names a cotangent; a part of the sum it has become gives the name up."""
    if part is not None and part.value.name == name:
        part.value.name = ""
    value.name = value.name or name
