"""Typed SSA: values, ops, blocks and kernels.

The whole grammar (`printer` writes it, `parser` reads it)::

    kernel  ::= "kernel" NAME "(" param,* ")" block rule*
    rule    ::= "rule" NAME block
    param   ::= %NAME ":" type loc?
    block   ::= "{" ("(" param,* ")")? op* "}"
    op      ::= (value,+ "=")? OPCODE "(" value,* ")" attrs? (":" type,+)? block* loc?
    attrs   ::= "<" (NAME "=" literal),* ">"
    type    ::= DTYPE | DTYPE "[" INT,* "]" | "ptr<" DTYPE ">"
    loc     ::= "@" STRING ":" LINE ":" COLUMN (":" VARIABLE)?
    value   ::= %NUMBER, with locations %NUMBER.VARIABLE

Values compare by identity. An op is built once and never changed; a pass builds new
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from undertow.ir.types import PointerType, TensorType, Type

Attr: TypeAlias = int | float | bool | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loc:
    """A place in the user's source, and the variable being assigned there.

    `line` and `column` count from 1; line 0 means that the place is unknown.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    name: str = ""

    @property
    def known(self) -> bool:
        return self.line > 0

    @property
    def unnamed(self) -> Loc:
        """The same place, naming no variable."""
        return Loc(self.file, self.line, self.column) if self.name else self


UNKNOWN = Loc()


@dataclass(eq=False, slots=True)
class Value:
    """A parameter of a kernel, an argument of a block, or one result of an op.

    `op` is None for the first two; `is_argument` tells them apart, and `owner` is the
    op whose block has the argument, once that is built.
    """

    type: Type
    name: str = ""
    op: Op | None = field(default=None, repr=False)
    index: int = 0
    is_argument: bool = False
    owner: Op | None = field(default=None, repr=False)

    @property
    def is_parameter(self) -> bool:
        """Whether the value is a parameter of the kernel, the same in every program."""
        return self.op is None and not self.is_argument

    @property
    def tensor_type(self) -> TensorType:
        """The type of a value that is known to be no pointer."""
        assert isinstance(self.type, TensorType), self
        return self.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor_type.shape

    @property
    def is_float(self) -> bool:
        return isinstance(self.type, TensorType) and self.type.dtype.is_float


@dataclass(eq=False, slots=True)
class Block:
    """A sequence of ops. A nested block ends in `yield`; that of a loop has arguments.

    These are the variable of a `for`, and the values carried from one turn to the next.
    """

    ops: list[Op] = field(default_factory=lambda: list[Op]())
    args: tuple[Value, ...] = ()


LOOPS = {"for": 3, "while": 1}
"""The loops, and how many operands stand before what they carry."""


@dataclass(eq=False, slots=True)
class Op:
    """One operation: an opcode of `ops.OPS` applied to operands."""

    opcode: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attrs: Mapping[str, Attr] = field(default_factory=lambda: dict[str, Attr]())
    regions: tuple[Block, ...] = ()
    loc: Loc = UNKNOWN

    def __post_init__(self) -> None:
        for index, result in enumerate(self.results):
            result.op, result.index = self, index
        for region in self.regions:
            for index, arg in enumerate(region.args):
                arg.owner, arg.index = self, index

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    @property
    def is_loop(self) -> bool:
        return self.opcode in LOOPS

    @property
    def head(self) -> tuple[Value, ...]:
        """What decides how a loop turns: bounds and step, or the first condition."""
        return self.operands[: LOOPS[self.opcode]]

    @property
    def initial(self) -> tuple[Value, ...]:
        """What a loop carries into its first turn."""
        return self.operands[LOOPS[self.opcode] :]

    @property
    def carried(self) -> tuple[Value, ...]:
        """What a turn of a loop begins with: arguments of its block."""
        return self.regions[0].args[self.opcode == "for" :]

    @property
    def following(self) -> tuple[Value, ...]:
        """What a turn of a loop leaves for the next one."""
        given = self.regions[0].ops[-1].operands
        return given[1:] if self.opcode == "while" else given

    def int_attr(self, name: str) -> int:
        value = self.attrs[name]
        assert isinstance(value, int)
        return value

    def str_attr(self, name: str) -> str:
        value = self.attrs[name]
        assert isinstance(value, str)
        return value

    def tuple_attr(self, name: str) -> tuple[int, ...]:
        value = self.attrs[name]
        assert isinstance(value, tuple)
        return value


@dataclass(eq=False, slots=True)
class Kernel:
    """A kernel: parameters in the user's order, and a body.

    `params` holds what is passed at run time; `constexprs` what was fixed at capture.
    `rules` holds derivatives that the user gave for parts of the body, see `Custom`.
    """

    name: str
    params: tuple[Value, ...]
    body: Block
    loc: Loc = UNKNOWN
    constexprs: Mapping[str, object] = field(
        default_factory=lambda: dict[str, object]()
    )
    rules: Mapping[str, Block] = field(default_factory=lambda: dict[str, Block]())

    @property
    def pointers(self) -> tuple[Value, ...]:
        return tuple(p for p in self.params if isinstance(p.type, PointerType))

    def param(self, name: str) -> Value:
        """The parameter called `name`; KeyError if there is none."""
        for value in self.params:
            if value.name == name:
                return value
        raise KeyError(name)


def walk(block: Block) -> Iterator[Op]:
    """Every op of `block` and of the blocks inside it, outer ops first."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)


def postorder(
    value: Value, parts: Callable[[Value], Iterable[Value]], known: Container[Value]
) -> Iterator[Value]:
    """`value` and what it is made of, its `parts` before it, but for what is `known`.

    Each value must be known when the next one is asked for. Chains of thousands of ops
    are too deep for a function that calls itself.
    """
    stack = [value]
    while stack:
        top = stack[-1]
        unknown = [v for v in parts(top) if v not in known] if top not in known else []
        stack += unknown
        if not unknown:
            stack.pop()
            if top not in known:
                yield top


@dataclass(frozen=True, slots=True)
class Custom:
    """The operands of a `custom` op: what a function was given, and what it made of it.

    The results are the `outputs`, unchanged. Their derivative is `rule`, a name in
    `Kernel.rules`: a block of the inputs and a cotangent for each output, which yields
    the cotangents of those inputs that are floats.
    """

    rule: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @staticmethod
    def of(op: Op) -> Custom:
        count = op.int_attr("inputs")
        return Custom(op.str_attr("rule"), op.operands[:count], op.operands[count:])


@dataclass(frozen=True, slots=True)
class Access:
    """The operands of a memory op by role.

    The address is `base` plus the sum of `offsets`, in elements, summed in 64 bits;
    each offset has the access's shape, or is a scalar.
    """

    base: Value
    offsets: tuple[Value, ...]
    value: Value | None
    mask: Value | None
    other: Value | None

    @staticmethod
    def of(op: Op) -> Access:
        """Splits the operands of a `load`, `store` or `atomic_add`."""
        rest = list(op.operands)
        base = rest.pop(0)
        value = None if op.opcode == "load" else rest.pop(0)
        mask = rest.pop(0) if op.attrs.get("mask") else None
        other = rest.pop(0) if op.attrs.get("other") else None
        return Access(base, tuple(rest), value, mask, other)
