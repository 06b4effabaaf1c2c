"""Decides which values get a variable, and writes a block as statements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from undertow.emit.assembly import Assembly
from undertow.emit.expressions import Expressions
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
from undertow.emit.page import Mark, Page
from undertow.emit.stores import written
from undertow.emit.uses import MOVES, as_initial, count_uses, written_in_place
from undertow.ir import UNKNOWN, Access, Block, Kernel, Loc, Op, Value
from undertow.transform.reverse import REVERSE


class _ElsewhereError(Exception):
    """A value that should have a variable is made in an enclosing block."""


class Writer:
    """Writes the statements of a kernel's body.

    Where an expression turns out too long, a value inside of it gets a variable after
    all: writing goes on again from where that value is made. What stands before is
    settled, so each value is decided about once.
    """

    def __init__(
        self,
        kernel: Kernel,
        extents: Mapping[int, str],
        reasons: Mapping[str, str],
        assemblies: dict[Assembly, str],
    ) -> None:
        """`reasons` are comments above the first access to a buffer, by its name."""
        self.names = Names([*(p.name for p in kernel.params), *kernel.constexprs])
        self.expressions = Expressions({}, extents, assemblies)
        self.given = self.expressions.names
        self.page = Page(self.names, reasons, self.given)
        self.limits = Limits(self.expressions)
        self.forced: set[Value] = set()
        self.uses: dict[Value, int] = {}
        self.users: dict[Value, list[Op]] = {}
        count_uses(kernel.body, self.uses, self.users)
        self.reads = Reads(self.given)
        self.places = Places(kernel.body)
        self.frame = Frame(kernel.body)
        self.open: list[Block] = []
        self.rest: tuple[Sequence[Op], int] = (), 0
        self.wishes = Wishes(self.given, self.users)
        self.merged_loads: set[Value] = set()
        self.hints: dict[Value, str] = {}

    def body(self) -> tuple[list[str], Expressions]:
        """The lines of the body, indented by one level."""
        self.block(self.frame, 1, top=True)
        return self.page.lines or ["    pass"], self.expressions

    @property
    def later(self) -> Sequence[Op]:
        """The ops of the block after the one that is being written."""
        ops, position = self.rest
        return ops[position:]

    # -- deciding --------------------------------------------------------------------

    def needs_variable(self, op: Op, value: Value) -> bool:
        if len(op.results) > 1 or op.opcode == "recurrence":
            return True
        if written_in_place(op):
            return False
        users = self.users.get(value, [])
        repeated = self.places.enters_loop(value, users)
        if op.opcode == "load":
            return repeated or not self.merge(value)
        if value in self.merged_loads or value in self.forced:
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
        return self.names.fresh(self.wishes.of(value, primal=not self.page.on_demand))

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
        return (
            "" if not target or target in self.reads.by(self.later, results) else target
        )

    # -- writing ---------------------------------------------------------------------

    def block(self, frame: Frame, depth: int, *, top: bool = False) -> None:
        outer = self.frame, self.rest
        ops = ordered(frame.block, on_demand=self.page.on_demand)
        places = {op: position for position, op in enumerate(ops)}
        marks: list[tuple[Mark, int]] = []
        self.open.append(frame.block)
        position = 0
        while position < len(ops):
            op = ops[position]
            marks[position:] = [(self.page.mark(), len(frame.counters))]
            self.frame, self.rest = frame, (ops, position + 1)
            with suppress(_ElsewhereError):  # `again` knows what was asked for
                self.statement(op, depth, last=top and op is frame.block.ops[-1])
            again = self.again(places, position)
            position += 1
            if again is not None:
                position = again
                mark, counters = marks[position]
                self.page.rewind(mark)
                del frame.counters[counters:]
        self.open.pop()
        self.frame, self.rest = outer

    def statement(self, op: Op, depth: int, *, last: bool) -> None:
        match op.opcode:
            case "section":
                self.page.section = op.str_attr("title")
                self.page.on_demand = self.page.section == REVERSE
            case "assume" | "yield":
                pass
            case "store" | "atomic_add":
                self.memory(op, depth)
            case "if":
                self.branch(op, depth, last=last)
            case "for":
                self.loop(op, depth)
            case "while":
                self.repeat(op, depth)
            case "barrier":
                self.page.line(depth, "", "tl.debug_barrier()", op.loc)
            case _:
                self.assign(op, depth)

    def again(self, places: Mapping[Op, int], position: int) -> int | None:
        """Where to go on again, if the statement at `position` asked for variables.

        That is where the first of them is made, or at the statement itself if that is
        inside of it.
        """
        wanted = self.limits.too_long - self.forced
        self.limits.too_long.clear()
        if not wanted:
            return None
        homes = {v: self.places.homes[v] for v in wanted}
        outside = {v for v in wanted if homes[v] in self.open[:-1]}
        self.forced |= wanted - outside
        if outside:
            self.limits.too_long |= outside
            self.open.pop()
            raise _ElsewhereError
        made = [v.op for v in wanted if homes[v] is self.open[-1]]
        return min((places[op] for op in made if op is not None), default=position)

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
        if len(names) > 1:  # some that nobody wants
            unused = [not self.uses.get(r) for r in op.results]
            names = ["_" * u + name for u, name in zip(unused, names, strict=True)]
        self.given.update(zip(op.results, names, strict=True))
        if op.opcode == "recurrence":  # a scan of pairs, the second of which is wanted
            names.insert(0, self.names.fresh("_gain"))
            target = ""
        target = target or f"{', '.join(names)} = "
        if op.opcode == "load":
            self.limits.operands(op, depth)
        self.limits.check(op.operands, expression, depth, target)
        self.page.line(depth, target, expression, op.loc)

    def memory(self, op: Op, depth: int) -> None:
        self.page.explain(Access.of(op).base.name, depth)
        expression = written(op, self.expressions)
        self.limits.operands(op, depth)
        self.limits.check(op.operands, expression, depth, "")
        self.page.line(depth, "", expression, op.loc)

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
            self.page.line(depth, f"if {taken}:", "", op.loc)
            self.page.word(depth + 1, "return")
            self.block(Frame(otherwise if empty[0] else then), depth)
            return
        if empty[0]:
            condition = self.expressions.inverted(op.operands[0]).text
            then, otherwise = otherwise, then
        self.page.line(depth, f"if {condition}:", "", op.loc)
        self.region(then, names, depth + 1)
        if not (empty[0] or empty[1]):
            self.page.word(depth, "else:")
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
        before, last = len(self.page.lines), region.ops[-1]
        targets: dict[Value, str] = {}
        for name, value in zip(names, last.operands, strict=True):
            targets.setdefault(value, name)
        repeated = repeated or self.frame.repeated
        self.block(Frame(region, targets, repeated), depth)
        self.assignments(names, last.operands, depth, None if repeated else last.loc)
        if len(self.page.lines) == before:
            self.page.word(depth, "pass")

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
                self.page.line(depth, f"{step.target} = ", step.source, loc or UNKNOWN)
                continue
            target, text = assignment(step.target, step.source, self.expressions)
            if step.target in distinct:
                text = apart(text, step.source)
            self.limits.check([step.source], text, depth, target)
            made = None if step.source in self.given else step.source.op
            self.page.line(depth, target, text, loc or (made.loc if made else UNKNOWN))

    # -- loops -----------------------------------------------------------------------

    def loop(self, op: Op, depth: int) -> None:
        (body,) = op.regions
        names = self.carried(op)
        distinct = kept_apart(op, names, self.given)
        self.assignments(names, op.initial, depth, None, distinct)
        bounds = header(op, self.expressions)
        self.limits.check(op.head, bounds, depth, "for i in ")
        variable = self.counter(body)
        with self.names.scope():
            self.given.update(zip(body.args, [variable, *names], strict=True))
            self.page.line(depth, f"for {variable} in ", bounds, op.loc, ":")
            self.region(body, names, depth + 1, repeated=True)
        self.given.update(zip(op.results, names, strict=True))

    def repeat(self, op: Op, depth: int) -> None:
        """A `while`, with a variable for its condition beside those it carries."""
        (body,), names = op.regions, self.carried(op)
        again = self.names.fresh("again")
        initial = (*op.head, *op.initial)
        distinct = kept_apart(op, names, self.given)
        self.assignments([again, *names], initial, depth, None, distinct)
        with self.names.scope():
            self.given.update(zip(body.args, names, strict=True))
            self.page.line(depth, f"while {again}:", "", op.loc)
            self.region(body, [again, *names], depth + 1, repeated=True)
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
        held = self.given.get(op.initial[index], "")
        inside = self.reads.by(op.regions[0].ops, op.regions[0].args)
        busy = taken | inside | self.reads.by(self.later, op.results)
        target = self.left_in(op.results[index], op.results)
        if target and target not in busy:
            bounds = {n for v in op.head for n in self.reads.of(v)}
            if target == held or target not in bounds:
                return target
        if held not in busy and self.continues(op, index, held):
            return held
        primal = not self.page.on_demand
        return self.names.fresh(wished_name(op, index, self.wishes, primal=primal))

    def continues(self, op: Op, index: int, held: str) -> bool:
        """Whether a loop may go on in the variable that its initial value has."""
        initial, wish = op.initial[index], given_name(op, index)
        if self.places.homes.get(initial) is not self.frame.block or loose(initial):
            return False
        return bool(held) and (wish in ("", held) or self.names.taken(wish))
