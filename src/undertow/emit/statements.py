"""Decides which values get a variable, and writes a block as statements."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from undertow.emit.expressions import Expressions, hints
from undertow.emit.layout import (
    MAX_CALL,
    MAX_DEPTH,
    MAX_EXPRESSION,
    MAX_OPERAND,
    MIN_EXPRESSION,
    closing_of,
    fits,
    wrap,
)
from undertow.emit.names import Names, Wishes
from undertow.emit.order import ordered
from undertow.emit.text import ATOM, call
from undertow.ir import I1, OPS, Access, Block, Kernel, Loc, Op, Value
from undertow.transform.reverse import REVERSE

TRANSPARENT = ("broadcast", "expand_dims", "const")
"""Ops that are written where they are used, however often."""


MOVES = ("reshape", "transpose")
"""Ops whose result is called what their operand is called, if it is used but once."""


def written_in_place(op: Op) -> bool:
    """Whether an op never gets a variable, since a reader would not want one.

    These are the transparent ones, a sign, and a number that arithmetic converts.
    """
    if op.opcode in TRANSPARENT:
        return True
    if any(result.name for result in op.results):
        return False
    if op.opcode == "cast" and not op.result.shape and op.result.is_float:
        source = op.operands[0].tensor_type.dtype
        return source.is_int and source != I1
    return op.opcode == "neg"


def count_uses(
    block: Block, uses: dict[Value, int], users: dict[Value, list[Op]]
) -> None:
    """Counts uses, seeing through the ops that are always written in place."""
    for op in block.ops:
        for value in op.operands:
            while value.op is not None and (
                written_in_place(value.op) and value.op.operands
            ):
                value = value.op.operands[0]
            if written_in_place(op):
                continue
            uses[value] = uses.get(value, 0) + 1
            users.setdefault(value, []).append(op)
        for region in op.regions:
            count_uses(region, uses, users)


@dataclass
class Writer:
    """Writes the statements of a kernel's body.

    Attributes:
        forced: values that get a variable because an expression would be too long.
        reasons: comments to put above the first access to a buffer.
    """

    kernel: Kernel
    extents: Mapping[int, str]
    reasons: Mapping[str, str]
    forced: set[Value] = field(default_factory=lambda: set[Value]())

    def body(self) -> tuple[list[str], Expressions]:
        """The lines of the body, indented by one level."""
        while True:
            run = _Run(self)
            run.block(self.kernel.body, 1, top=True)
            if not run.too_long - self.forced:
                return run.lines or ["    pass"], run.expressions
            self.forced |= run.too_long


class _Run:
    """One attempt, with the variables decided so far."""

    def __init__(self, writer: Writer) -> None:
        kernel = writer.kernel
        self.writer = writer
        taken = [*(p.name for p in kernel.params), *kernel.constexprs]
        self.names = Names(taken)
        self.expressions = Expressions({}, writer.extents)
        self.lines: list[str] = []
        self.too_long: set[Value] = set()
        self.place = ""
        self.section: str | None = None
        self.explained: set[str] = set()
        self.uses: dict[Value, int] = {}
        self.users: dict[Value, list[Op]] = {}
        count_uses(kernel.body, self.uses, self.users)
        self.wishes = Wishes(self.expressions.names, self.users)
        self.merged_loads: set[Value] = set()
        self.hints: dict[Value, str] = {}
        self.depths: dict[Value, int] = {}
        self.on_demand = False

    # -- deciding --------------------------------------------------------------------

    def needs_variable(self, op: Op, value: Value) -> bool:
        if op.opcode in ("if", "split"):
            return True
        if written_in_place(op):
            return False
        if op.opcode == "load":
            return not self.merge(value)
        if value in self.merged_loads or value in self.writer.forced:
            return True
        if op.opcode in MOVES and self.uses.get(value, 0) == 1:
            return value.name not in ("", op.operands[0].name)
        if [user.opcode for user in self.users.get(value, [])] == ["yield"]:
            return False
        if self.depth(op) > MAX_DEPTH:
            return True
        if self.absorbed(value):
            return False
        return bool(value.name) or self.uses.get(value, 0) > 1

    def absorbed(self, value: Value) -> bool:
        """Whether a gradient only goes into another value that stands for the same."""
        users = self.users.get(value, [])
        if not value.name.startswith("d_") or len(users) != 1:
            return False
        results = users[0].results
        if len(results) != 1:
            return False
        after = [user.opcode for user in self.users.get(results[0], [])]
        return results[0].name == value.name or (
            not results[0].name and after == ["yield"]
        )

    def depth(self, op: Op) -> int:
        """How deep the expression of an op is nested."""
        inner = [v for v in op.operands if v.op and v not in self.expressions.names]
        found = 1 + max((self.depths.get(v, 0) for v in inner), default=0)
        self.depths.update(dict.fromkeys(op.results, found))
        return found

    def merge(self, load: Value) -> bool:
        """Whether a load that is only cast is written together with its cast."""
        users = self.users.get(load, [])
        if (
            len(users) != 1
            or users[0].opcode != "cast"
            or users[0].operands[0] is not load
        ):
            return False
        self.merged_loads.add(users[0].result)
        self.hints[users[0].result] = load.name
        return True

    def name(self, value: Value) -> str:
        """A new variable for `value`."""
        hint = self.hints.get(value) if not value.name else None
        return self.names.fresh(
            hint or self.wishes.of(value, primal=not self.on_demand)
        )

    # -- writing ---------------------------------------------------------------------

    def block(self, block: Block, depth: int, *, top: bool = False) -> None:
        for op in ordered(block, on_demand=self.on_demand):
            match op.opcode:
                case "section":
                    self.section = op.str_attr("title")
                    self.on_demand = self.section == REVERSE
                case "assume" | "yield":
                    pass
                case "store" | "atomic_add":
                    self.memory(op, depth)
                case "if":
                    self.branch(op, depth, last=top and op is block.ops[-1])
                case _:
                    self.assign(op, depth)

    def line(self, depth: int, target: str, expression: str, loc: Loc) -> None:
        """A statement, its heading if it is the first of a section, and its origin."""
        indent = "    " * depth
        if self.section is not None:
            self.lines.append(f"{indent}# -- {self.section} --")
            self.section, self.place = None, ""
        place = f"{os.path.basename(loc.file)}:{loc.line}" if loc.known else ""
        comment = f"  # {place}" if place and place != self.place else ""
        self.place = place or self.place
        load, dtype = cast_of_load(expression)
        if (
            load
            and fits(f"{indent}{target}{load}.to(")
            and not fits(f"{indent}{target}{expression}")
        ):
            self.line(depth, target, load, loc)
            expression, comment = f"{target.removesuffix(' = ')}.to({dtype})", ""
        statement = f"{indent}{target}{expression}"
        if comment and fits(statement) and not fits(statement + comment):
            self.lines.append(f"{indent}{comment.lstrip()}")
            comment = ""
        self.lines += wrap(indent, target, expression, comment)

    def assign(self, op: Op, depth: int) -> None:
        named = [r for r in op.results if self.needs_variable(op, r)]
        if not named:
            return
        expression = self.expressions.build(op).text
        self.limit(
            op, expression, MAX_CALL if "tl.load(" in expression else MAX_EXPRESSION
        )
        names = [self.name(r) for r in op.results]
        self.expressions.names.update(zip(op.results, names, strict=True))
        self.line(depth, f"{', '.join(names)} = ", expression, op.loc)

    def limit(self, op: Op, expression: str, most: int) -> None:
        """Asks for variables inside an expression that is too long to read."""
        if OPS[op.opcode].kind == "memory":
            self.limit_operands(op)
        if len(expression) <= most:
            return
        inner = [
            v
            for v in self.inlined(op)
            if v.op and v.op.opcode not in ("load", *TRANSPARENT)
        ]
        sizes = {v: len(self.expressions.text(v).text) for v in inner}
        short = [v for v in inner if MIN_EXPRESSION < sizes[v] <= MAX_EXPRESSION]
        long = [v for v in inner if sizes[v] > MAX_EXPRESSION]
        if short:
            self.too_long.add(max(short, key=lambda v: sizes[v]))
        elif long:
            self.too_long.add(min(long, key=lambda v: sizes[v]))

    def limit_operands(self, op: Op) -> None:
        """Asks for a variable for each operand of a memory op that fills a line."""
        for value in op.operands:
            while value.op is not None and written_in_place(value.op):
                if not value.op.operands:
                    break
                value = value.op.operands[0]
            if value.op is None or value in self.expressions.names:
                continue
            if len(self.expressions.text(value).text) > MAX_OPERAND:
                self.too_long.add(value)

    def inlined(self, op: Op) -> list[Value]:
        found: list[Value] = []
        for value in op.operands:
            if value.op is not None and value not in self.expressions.names:
                found += [value, *self.inlined(value.op)]
        return found

    def memory(self, op: Op, depth: int) -> None:
        access = Access.of(op)
        assert access.value is not None
        name = access.base.name
        if name in self.writer.reasons and name not in self.explained:
            self.explained.add(name)
            self.lines.append(f"{'    ' * depth}# {self.writer.reasons[name]}")
        value = self.stored(access.value)
        arguments = [self.expressions.pointer(access, access.value.shape), value]
        if access.mask is not None:
            arguments.append(f"mask={self.expressions.stripped(access.mask)[0].text}")
        if op.opcode == "atomic_add":
            arguments.append('sem="relaxed"')
        function = "tl.store" if op.opcode == "store" else "tl.atomic_add"
        expression = call(function, *arguments, *hints(op)).text
        self.limit(op, expression, MAX_CALL)
        self.line(depth, "", expression, op.loc)

    def stored(self, value: Value) -> str:
        """What is stored, without the rounding that a store does by itself."""
        sign, inner = "", value
        if self.inline(inner, "neg"):
            sign, inner = "-", _operand(inner)
        if not (self.inline(inner, "cast") and rounds(inner)):
            return self.expressions.stripped(value)[0].text
        text, _ = self.expressions.stripped(_operand(inner))
        return f"-{text.within(ATOM)}" if sign else text.text

    def inline(self, value: Value, opcode: str) -> bool:
        named = value in self.expressions.names
        return not named and value.op is not None and value.op.opcode == opcode

    def branch(self, op: Op, depth: int, *, last: bool) -> None:
        then, otherwise = op.regions
        names = [self.name(r) for r in op.results]
        condition = self.expressions.text(op.operands[0]).text
        empty = [len(r.ops) == 1 and not names for r in op.regions]
        if last and not names and True in empty:
            taken = (
                condition
                if empty[0]
                else self.expressions.inverted(op.operands[0]).text
            )
            self.line(depth, f"if {taken}:", "", op.loc)
            self.lines.append("    " * (depth + 1) + "return")
            self.block(otherwise if empty[0] else then, depth)
            return
        if empty[0]:
            condition = self.expressions.inverted(op.operands[0]).text
            then, otherwise = otherwise, then
        self.line(depth, f"if {condition}:", "", op.loc)
        self.region(then, names, depth + 1)
        if not (empty[0] or empty[1]):
            self.lines.append("    " * depth + "else:")
            self.region(otherwise, names, depth + 1)
        self.expressions.names.update(zip(op.results, names, strict=True))

    def region(self, region: Block, names: list[str], depth: int) -> None:
        self.block(region, depth)
        last = region.ops[-1]
        for name, value in zip(names, last.operands, strict=True):
            self.line(depth, f"{name} = ", self.expressions.full(value), last.loc)
        if not names and len(region.ops) == 1:
            self.lines.append("    " * depth + "pass")


def cast_of_load(expression: str) -> tuple[str, str]:
    """The load and the dtype of ``tl.load(...).to(dtype)``; else empty."""
    if not expression.startswith("tl.load("):
        return "", ""
    end = closing_of(expression, len("tl.load")) + 1
    load, move = expression[:end], expression[end:]
    cast = move.startswith(".to(") and "(" not in move[4:]
    return (load, move[4:-1]) if cast else ("", "")


def rounds(value: Value) -> bool:
    """Whether a cast gives a float of fewer bits."""
    source = _operand(value)
    if not (value.is_float and source.is_float):
        return False
    return source.tensor_type.dtype.bits > value.tensor_type.dtype.bits


def _operand(value: Value) -> Value:
    assert value.op is not None
    return value.op.operands[0]
