"""Decides which values get a variable, and writes a block as statements."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from undertow.emit.expressions import Expressions
from undertow.emit.layout import WIDTH, cast_of_load, fits, wrap
from undertow.emit.limits import MAX_DEPTH, Limits
from undertow.emit.liveness import Frame, Places, Reads, in_turn
from undertow.emit.loops import (
    apart,
    assignment,
    given_name,
    header,
    kept_apart,
    loose,
    trivial,
    wished_name,
)
from undertow.emit.names import Names, Wishes
from undertow.emit.order import ordered
from undertow.emit.stores import written
from undertow.emit.uses import MOVES, as_initial, count_uses, written_in_place
from undertow.ir import UNKNOWN, Access, Block, Kernel, Loc, Op, Value
from undertow.transform.reverse import REVERSE


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
            run.block(Frame(self.kernel.body), 1, top=True)
            if not run.limits.too_long - self.forced:
                return run.lines or ["    pass"], run.expressions
            self.forced |= run.limits.too_long


class _Run:
    """One attempt, with the variables decided so far."""

    def __init__(self, writer: Writer) -> None:
        kernel = writer.kernel
        self.writer = writer
        taken = [*(p.name for p in kernel.params), *kernel.constexprs]
        self.names = Names(taken)
        self.expressions = Expressions({}, writer.extents)
        self.lines: list[str] = []
        self.limits = Limits(self.expressions)
        self.place = ""
        self.section: str | None = None
        self.explained: set[str] = set()
        self.uses: dict[Value, int] = {}
        self.users: dict[Value, list[Op]] = {}
        count_uses(kernel.body, self.uses, self.users)
        self.given = self.expressions.names
        self.reads = Reads(self.given)
        self.places = Places(kernel.body)
        self.frame = Frame(kernel.body)
        self.later: Sequence[Op] = ()
        self.wishes = Wishes(self.given, self.users)
        self.merged_loads: set[Value] = set()
        self.hints: dict[Value, str] = {}
        self.on_demand = False

    # -- deciding --------------------------------------------------------------------

    def needs_variable(self, op: Op, value: Value) -> bool:
        if op.opcode in ("if", "split"):
            return True
        if written_in_place(op):
            return False
        users = self.users.get(value, [])
        repeated = self.places.enters_loop(value, users)
        if op.opcode == "load":
            return repeated or not self.merge(value)
        if value in self.merged_loads or value in self.writer.forced:
            return True
        if repeated and not trivial(value, self.given):
            return True
        if op.opcode in MOVES and self.uses.get(value, 0) == 1:
            return value.name not in ("", op.operands[0].name)
        if [user.opcode for user in users] == ["yield"] or as_initial(value, users):
            return False
        if self.limits.depth(op) > MAX_DEPTH:
            return True
        if self.absorbed(value):
            return False
        return bool(value.name) or self.uses.get(value, 0) > 1

    def absorbed(self, value: Value) -> bool:
        """Whether a value only goes into another one that stands for the same."""
        users = self.users.get(value, [])
        if not value.name or len(users) != 1:
            return False
        if value.name == self.variable_of(users[0]):
            return True
        if not value.name.startswith("d_"):
            return False
        results = users[0].results
        if len(results) != 1:
            return False
        after = [user.opcode for user in self.users.get(results[0], [])]
        return results[0].name == value.name or (
            not results[0].name and after == ["yield"]
        )

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

    def variable_of(self, op: Op) -> str:
        """The variable of a loop that the result of `op` is a new or first value of."""
        if len(op.results) != 1 or op.regions:
            return ""
        starts = as_initial(op.result, self.users.get(op.result, []))
        if starts:
            return given_name(*starts)
        return self.frame.targets.get(op.result, "") if self.frame.repeated else ""

    def name(self, value: Value) -> str:
        """A new variable for `value`."""
        starts = as_initial(value, self.users.get(value, []))
        role = given_name(*starts) if starts else self.hints.get(value)
        if role and (starts or not value.name):
            return self.names.fresh(role)
        target = self.frame.targets.get(value, "")
        if self.frame.repeated and target and value.name in ("", target):
            return self.names.fresh(f"new_{target}")
        return self.names.fresh(self.wishes.of(value, primal=not self.on_demand))

    def left_in(self, value: Value, results: Collection[Value]) -> str:
        """The variable that the block leaves `value` in, if it may be assigned now.

        That is when nothing that follows needs what it holds; `results` are what the op
        being written makes. A value of the same name and type may be in it before.
        """
        targets = self.frame.targets
        alike = (
            n for v, n in targets.items() if (v.type, n) == (value.type, value.name)
        )
        target = targets.get(value) or next(alike, "")
        return "" if target in self.reads.by(self.later, results) else target

    # -- writing ---------------------------------------------------------------------

    def block(self, frame: Frame, depth: int, *, top: bool = False) -> None:
        outer = self.frame, self.later
        ops = ordered(frame.block, on_demand=self.on_demand)
        for position, op in enumerate(ops):
            self.frame, self.later = frame, ops[position + 1 :]
            match op.opcode:
                case "section":
                    self.section = op.str_attr("title")
                    self.on_demand = self.section == REVERSE
                case "assume" | "yield":
                    pass
                case "store" | "atomic_add":
                    self.memory(op, depth)
                case "if":
                    self.branch(op, depth, last=top and op is frame.block.ops[-1])
                case "for":
                    self.loop(op, depth)
                case "barrier":
                    self.line(depth, "", "tl.debug_barrier()", op.loc)
                case _:
                    self.assign(op, depth)
        self.frame, self.later = outer

    def line(
        self, depth: int, target: str, expression: str, loc: Loc, end: str = ""
    ) -> None:
        """A statement, its heading if it is the first of a section, and its origin."""
        indent = "    " * depth
        if self.section is not None:
            self.lines.append(f"{indent}# -- {self.section} --")
            self.section, self.place = None, ""
        place = f"{os.path.basename(loc.file)}:{loc.line}" if loc.known else ""
        comment = f"  # {place}" if place and place != self.place else ""
        self.place = place or self.place
        load, kind = cast_of_load(expression)
        whole = f"{indent}{target}{expression}"
        splits = load and fits(f"{indent}{target}{load}.to(") and not fits(whole)
        if splits and target.endswith(" = "):
            self.line(depth, target, load, loc)
            expression, comment = f"{target.removesuffix(' = ')}.to({kind})", ""
        statement = f"{indent}{target}{expression}{end}"
        if comment and fits(statement) and not fits(statement + comment):
            self.lines.append(f"{indent}{comment.lstrip()}")
            comment = ""
        self.lines += wrap(indent, target, expression, f"{end}{comment}")

    def assign(self, op: Op, depth: int) -> None:
        in_place = written_in_place(op) or not self.frame.repeated
        left = ["" if in_place else self.left_in(r, op.results) for r in op.results]
        named = [self.needs_variable(op, r) for r in op.results]
        if not any((*left, *named)):
            return
        if len(left) == 1 and left[0]:
            target, expression = assignment(left[0], op.result, self.expressions)
        else:
            target, expression = "", self.expressions.build(op).text
        pairs = zip(left, op.results, strict=True)
        names = [name or self.name(r) for name, r in pairs]
        self.given.update(zip(op.results, names, strict=True))
        target = target or f"{', '.join(names)} = "
        if op.opcode == "load":
            self.limits.operands(op, depth)
        self.limits.check(op.operands, expression, depth, target)
        self.line(depth, target, expression, op.loc)

    def memory(self, op: Op, depth: int) -> None:
        name = Access.of(op).base.name
        if name in self.writer.reasons and name not in self.explained:
            self.explained.add(name)
            mark = f"{'    ' * depth}# "
            self.lines += textwrap.wrap(
                self.writer.reasons[name],
                WIDTH,
                initial_indent=mark,
                subsequent_indent=mark,
            )
        expression = written(op, self.expressions)
        self.limits.operands(op, depth)
        self.limits.check(op.operands, expression, depth, "")
        self.line(depth, "", expression, op.loc)

    def branch(self, op: Op, depth: int, *, last: bool) -> None:
        then, otherwise = op.regions
        names = [
            (self.frame.repeated and self.left_in(r, op.results)) or self.name(r)
            for r in op.results
        ]
        condition = self.expressions.text(op.operands[0]).text
        empty = [self.leaves(r, names) for r in op.regions]
        if last and not names and True in empty:
            taken = (
                condition
                if empty[0]
                else self.expressions.inverted(op.operands[0]).text
            )
            self.line(depth, f"if {taken}:", "", op.loc)
            self.lines.append("    " * (depth + 1) + "return")
            self.block(Frame(otherwise if empty[0] else then), depth)
            return
        if empty[0]:
            condition = self.expressions.inverted(op.operands[0]).text
            then, otherwise = otherwise, then
        self.line(depth, f"if {condition}:", "", op.loc)
        self.region(then, names, depth + 1)
        if not (empty[0] or empty[1]):
            self.lines.append("    " * depth + "else:")
            self.region(otherwise, names, depth + 1)
        self.given.update(zip(op.results, names, strict=True))

    def leaves(self, region: Block, names: Sequence[str]) -> bool:
        """Whether a block need do nothing to leave its values in variables `names`."""
        held = [self.given.get(v) for v in region.ops[-1].operands]
        return len(region.ops) == 1 and held == list(names)

    def region(
        self, region: Block, names: Sequence[str], depth: int, *, repeated: bool = False
    ) -> None:
        """A nested block, which leaves its values in variables `names`."""
        before, last = len(self.lines), region.ops[-1]
        targets: dict[Value, str] = {}
        for name, value in zip(names, last.operands, strict=True):
            targets.setdefault(value, name)
        repeated = repeated or self.frame.repeated
        self.block(Frame(region, targets, repeated), depth)
        self.assignments(names, last.operands, depth, None if repeated else last.loc)
        if len(self.lines) == before:
            self.lines.append("    " * depth + "pass")

    def assignments(
        self,
        names: Sequence[str],
        values: Sequence[Value],
        depth: int,
        loc: Loc | None,
        distinct: Collection[str] = (),
    ) -> None:
        """Gives variables `names` new values, all at once.

        Each has its own place in the source if `loc` is None. Those of `distinct` get a
        value of their own, not just another name for one.
        """
        for step in in_turn(names, values, self.reads, self.names.fresh):
            if isinstance(step.source, str):
                self.line(depth, f"{step.target} = ", step.source, loc or UNKNOWN)
                continue
            target, text = assignment(step.target, step.source, self.expressions)
            if step.target in distinct:
                text = apart(text, step.source)
            self.limits.check([step.source], text, depth, target)
            made = None if step.source in self.given else step.source.op
            self.line(depth, target, text, loc or (made.loc if made else UNKNOWN))

    # -- loops -----------------------------------------------------------------------

    def loop(self, op: Op, depth: int) -> None:
        (body,) = op.regions
        names = self.carried(op)
        distinct = kept_apart(op, names, self.given)
        self.assignments(names, op.operands[3:], depth, None, distinct)
        bounds = header(op, self.expressions)
        self.limits.check(op.operands[:3], bounds, depth, "for i in ")
        variable = self.counter(body)
        with self.names.scope():
            self.given.update(zip(body.args, [variable, *names], strict=True))
            self.line(depth, f"for {variable} in ", bounds, op.loc, ":")
            self.region(body, names, depth + 1, repeated=True)
        self.given.update(zip(op.results, names, strict=True))

    def counter(self, body: Block) -> str:
        """A name for a loop's variable.

        Triton lets it be seen in the rest of the block: only another loop of that very
        block may have the same name.
        """
        wish, before = body.args[0].name, self.frame.counters
        if wish not in before:
            again = before[0] if before and not wish else ""
            wish = again or (self.names.fresh(wish) if wish else self.names.counter())
            before.append(wish)
        return wish

    def carried(self, op: Op) -> list[str]:
        """A variable for each value carried by a loop."""
        names: list[str] = []
        for index in range(len(op.results)):
            names.append(self.carry(op, index, {*names}))
        return names

    def carry(self, op: Op, index: int, taken: set[str]) -> str:
        """The variable of the result or the initial value if free, or a new one."""
        held = self.given.get(op.operands[3 + index], "")
        inside = self.reads.by(op.regions[0].ops, op.regions[0].args)
        busy = taken | inside | self.reads.by(self.later, op.results)
        target = self.left_in(op.results[index], op.results)
        if target and target not in busy:
            bounds = {n for v in op.operands[:3] for n in self.reads.of(v)}
            if target == held or target not in bounds:
                return target
        if held not in busy and self.continues(op, index, held):
            return held
        primal = not self.on_demand
        return self.names.fresh(wished_name(op, index, self.wishes, primal=primal))

    def continues(self, op: Op, index: int, held: str) -> bool:
        """Whether a loop may go on in the variable that its initial value has."""
        initial, wish = op.operands[3 + index], given_name(op, index)
        if self.places.homes.get(initial) is not self.frame.block or loose(initial):
            return False
        return bool(held) and (wish in ("", held) or self.names.taken(wish))
