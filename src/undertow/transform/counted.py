"""Writes a `while` that counts as the `for` it is.

``while i < n: …; i += step`` turns as often as ``for i in range(i, n, step)``, which
the analyses understand: its turns are numbered, and their number follows from the
arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

from undertow.ir import I32, I64, OPS, Builder, Kernel, Op, Value, scalar, walk
from undertow.transform.fold import constant, fold
from undertow.transform.rebuild import Env, Handlers, copy, rebuild, with_body


def counted(kernel: Kernel) -> Kernel:
    """`kernel` with each `while` that counts up to a bound written as a `for`."""
    if not any(op.opcode == "while" for op in walk(kernel.body)):
        return kernel
    b = Builder(fold)

    def loop(op: Op, env: Env) -> None:
        count = _count(op)
        if count is None:
            copy(b, op, env, handlers)
        else:
            _build(b, op, count, env, handlers)

    handlers: Handlers = {"while": loop}
    rebuild(b, kernel.body.ops, {p: p for p in kernel.params}, handlers)
    return with_body(kernel, b.block)


@dataclass(frozen=True, slots=True)
class _Count:
    """The place of what is counted among the carried values, bound and step."""

    place: int
    bound: Value
    inclusive: bool
    step: Value


def _count(op: Op) -> _Count | None:
    """What a `while` counts, if its condition compares that and nothing else."""
    inside = {r for o in walk(op.regions[0]) for r in o.results} | set(op.carried)
    first, again = op.operands[0].op, op.regions[0].ops[-1].operands[0].op
    if first is None or again is None or again.opcode != "cmp":
        return None
    for place, (arg, after) in enumerate(zip(op.carried, op.following, strict=True)):
        compared = _upwards(again, after)
        step = _step(arg, after)
        if compared is None or step is None or step in inside:
            continue
        bound, inclusive = compared
        starts = _upwards(first, op.initial[place])
        if starts is None or not _same(starts[0], bound) or starts[1] != inclusive:
            continue
        number = constant(step)
        if bound in inside and constant(bound) is None:
            continue
        if number is None or number >= 1:
            return _Count(place, starts[0], inclusive, step)
    return None


def _upwards(compare: Op, value: Value) -> tuple[Value, bool] | None:
    """The bound that `value` is compared with as lower, and whether it is included."""
    if compare.opcode != "cmp" or value not in compare.operands:
        return None
    if value.type not in (scalar(I32), scalar(I64)):
        return None
    a, b = compare.operands
    match compare.str_attr("predicate"):
        case "slt" | "sle" if a is value:
            return b, compare.str_attr("predicate") == "sle"
        case "sgt" | "sge" if b is value:
            return a, compare.str_attr("predicate") == "sge"
        case _:
            return None


def _step(arg: Value, after: Value) -> Value | None:
    """What a turn adds to `arg`, if it does nothing else to it."""
    if after.op is None or after.op.opcode != "add":
        return None
    x, y = after.op.operands
    return y if x is arg else x if y is arg else None


def _same(a: Value, b: Value) -> bool:
    """Whether two values are equal: one value, or equal pure ops of such."""
    if a is b:
        return True
    if a.op is None or b.op is None or a.op.opcode != b.op.opcode:
        return False
    alike = OPS[a.op.opcode].pure and a.op.attrs == b.op.attrs and a.type == b.type
    return alike and all(map(_same, a.op.operands, b.op.operands))


def _build(b: Builder, op: Op, count: _Count, env: Env, handlers: Handlers) -> None:
    (body,), loc = op.regions, b.loc
    lower, upper = env[op.initial[count.place]], env[count.bound]
    step = env.get(count.step)
    if step is None:  # a number that stands inside
        number = constant(count.step)
        assert isinstance(number, int)
        step = b.const(number, lower.tensor_type)
    if count.inclusive:
        upper = b.pointwise("add", upper, b.const(1, upper.tensor_type))
    variable = Value(lower.type, op.carried[count.place].name)
    with b.region([variable, *body.args]) as block:
        inner = env | dict(zip(body.args, block.args[1:], strict=True))
        inner[op.carried[count.place]] = block.args[0]
        rebuild(b, body.ops[:-1], inner, handlers)
        b.loc = body.ops[-1].loc.unnamed
        following = [inner[v] for v in op.following]
        carried = block.args[1 + count.place]  # what it ends as, for `induction`
        following[count.place] = b.pointwise("add", carried, step)
        b.emit("yield", following)
    b.loc = loc
    initial = [env[v] for v in op.initial]
    results = b.loop((lower, upper, step), initial, block)
    for result, value in zip(op.results, results, strict=True):
        value.name, env[result] = result.name, value
