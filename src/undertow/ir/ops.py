"""The opcodes: what each takes, and the type of what it gives.

Every opcode stands here once. Its derivative stands in `undertow.rules`, its numerical
meaning in `undertow.evaluate`, its spelling in `undertow.emit`; a test asks that each
of them knows every opcode of this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "source",
    "pointwise",
    "structural",
    "reduction",
    "opaque",
    "memory",
    "control",
    "note",
]
Typing = Literal["same", "bool", "explicit"]


@dataclass(frozen=True, slots=True)
class OpDef:
    """An opcode.

    `typing` is how the result's type follows from the operands: ``same`` as the last
    operand, ``bool`` of the same shape, or ``explicit`` (given by whoever builds the
    op).
    """

    name: str
    kind: Kind
    arity: int | None
    typing: Typing
    domain: Literal["float", "int", "any"] = "any"

    @property
    def pure(self) -> bool:
        """Whether the op may be dropped, merged with an equal one, or recomputed."""
        return self.kind not in ("memory", "control", "note")


FLOAT_UNARY = (
    "exp exp2 log log2 log10 log1p expm1 sqrt sqrt_rn rsqrt reciprocal cbrt "
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf erfc erfcx erfinv cyl_bessel_i0 cyl_bessel_i1 lgamma "
    "floor ceil trunc round rint abs"
).split()
"""`round` rounds halves away from zero, `rint` to even; `sqrt_rn` rounds correctly."""

FLOAT_BINARY = (
    "div div_rn fmod pow atan2 hypot copysign fdim maxnum minnum maximum minimum"
).split()
"""`maxnum`/`minnum` prefer the number to a NaN; `maximum`/`minimum` pass the NaN on."""

FLOAT_TEST = "isnan isinf isfinite signbit".split()

INT_BINARY = (
    "sdiv udiv srem urem and or xor shl sshr ushr smax smin umax umin umulhi"
).split()
"""`sdiv`, `srem` truncate towards zero, as in C; s/u say how the operands are read."""

REDUCTIONS = "sum prod max min smax smin umax umin and or xor argmax argmin".split()
"""Kinds of `reduce`. Integers use `smax`/`umax`…; argmax takes the first of equals."""

SCANS = "sum prod".split()
"""Kinds of `scan`."""

INT_PREDICATES = "eq ne slt sle sgt sge ult ule ugt uge".split()
FLOAT_PREDICATES = "oeq one olt ole ogt oge ord ueq une ult ule ugt uge uno".split()
"""As in LLVM: o… is false, u… is true where an operand is NaN."""


_DEFS = [
    # Sources. `const` has attr value; `range` has start and end; the ids have axis.
    OpDef("const", "source", 0, "explicit"),
    OpDef("range", "source", 0, "explicit", "int"),
    OpDef("program_id", "source", 0, "explicit", "int"),
    OpDef("num_programs", "source", 0, "explicit", "int"),
    # Arithmetic for floats and integers alike.
    *(OpDef(name, "pointwise", 2, "same") for name in ("add", "sub", "mul")),
    OpDef("neg", "pointwise", 1, "same"),
    OpDef("fma", "pointwise", 3, "same", "float"),
    # clamp(x, low, high), attr nan: whether a NaN in x is propagated.
    OpDef("clamp", "pointwise", 3, "same", "float"),
    *(OpDef(name, "pointwise", 1, "same", "float") for name in FLOAT_UNARY),
    *(OpDef(name, "pointwise", 2, "same", "float") for name in FLOAT_BINARY),
    *(OpDef(name, "pointwise", 1, "bool", "float") for name in FLOAT_TEST),
    *(OpDef(name, "pointwise", 2, "same", "int") for name in INT_BINARY),
    # cmp has attr predicate; select(condition, then, else).
    OpDef("cmp", "pointwise", 2, "bool"),
    OpDef("select", "pointwise", 3, "same"),
    # cast converts values; attr signed says how an integer side is read.
    OpDef("cast", "pointwise", 1, "explicit"),
    OpDef("bitcast", "pointwise", 1, "explicit"),
    # Structure. broadcast: a scalar to any shape, or extents of 1 to larger ones.
    OpDef("broadcast", "structural", 1, "explicit"),
    OpDef("expand_dims", "structural", 1, "explicit"),
    OpDef("reshape", "structural", 1, "explicit"),
    OpDef("transpose", "structural", 1, "explicit"),
    # join(a, b) stacks along a new last axis of extent 2; split takes it apart.
    OpDef("join", "structural", 2, "explicit"),
    OpDef("split", "structural", 1, "explicit"),
    # flip reverses the order along attr axis.
    OpDef("flip", "structural", 1, "explicit"),
    # gather(x, index) takes along attr axis: y[i, j] = x[index[i, j], j] for axis 0.
    OpDef("gather", "reduction", 2, "explicit"),
    # reduce has attrs kind and axis.
    OpDef("reduce", "reduction", 1, "explicit"),
    # scan reduces up to each element along attr axis, from the last one on if attr
    # reverse says so; attr kind is one of SCANS.
    OpDef("scan", "reduction", 1, "same"),
    # recurrence(a, b) is h[t] = a[t] * h[t - 1] + b[t] along attr axis, from h = 0 on;
    # from the last one on, with t + 1 for t - 1, if attr reverse says so.
    OpDef("recurrence", "reduction", 2, "same", "float"),
    # dot(a, b, c) = a @ b + c over the last two axes, attr precision (ieee, tf32, …).
    # a and b have one dtype; c has that of the accumulation.
    OpDef("dot", "reduction", 3, "explicit", "float"),
    # What the user says of derivatives: custom(*inputs, *outputs) is `core.Custom`, and
    # stop(x) is x without a derivative.
    OpDef("custom", "opaque", None, "explicit"),
    OpDef("stop", "opaque", 1, "same"),
    # What only a GPU can execute, lane by lane: inline_asm has attrs asm, constraints
    # and pack, extern has the name of a function of libdevice.
    OpDef("inline_asm", "opaque", None, "explicit"),
    OpDef("extern", "opaque", None, "explicit"),
    # Memory: operands as `core.Access` splits them, attrs mask and other (bools).
    OpDef("load", "memory", None, "explicit"),
    OpDef("store", "memory", None, "explicit"),
    OpDef("atomic_add", "memory", None, "explicit"),
    # Control: if(condition) has two regions, each ending in yield(results).
    OpDef("if", "control", 1, "explicit"),
    # for(lower, upper, step, *initial) has one region; its arguments are the variable
    # and the carried values, its yield gives the next ones. The step is not zero.
    OpDef("for", "control", None, "explicit"),
    # while(condition, *initial) has one region too, whose arguments are the carried
    # values; its yield gives whether another turn follows, then the next values.
    OpDef("while", "control", None, "explicit"),
    OpDef("yield", "control", None, "explicit"),
    # assume(condition): a fact for the analyses. section: a heading (attr title).
    OpDef("assume", "note", 1, "explicit"),
    OpDef("section", "note", 0, "explicit"),
    # barrier: what a program's lanes have stored is seen by all of them after it.
    OpDef("barrier", "note", 0, "explicit"),
]

OPS: dict[str, OpDef] = {d.name: d for d in _DEFS}
