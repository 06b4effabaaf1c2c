"""The transpose of a loop: its turns backwards, each from what it began with.

While the primal sweep runs a loop it writes what each turn begins with to a tape; the
reverse sweep reads the tape from its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from undertow.ir import I32, Block, Builder, Op, Value, scalar, walk
from undertow.transform.cotangents import Cotangent, clean
from undertow.transform.fold import constant
from undertow.transform.masks import conjunction, conjuncts, implies
from undertow.transform.rebuild import Env, Handlers, rebuild
from undertow.transform.sweep import State, captured
from undertow.transform.tapes import Tape, first_turn, read, write

Recompute = Callable[[State, Iterable[Op]], None]
Sweep = Callable[[State, Iterable[Op]], None]


def trips(b: Builder, lower: Value, upper: Value, step: Value) -> Value:
    """The number of turns; negative or zero for none. Steps are positive in TTIR."""
    type = lower.tensor_type
    span = b.pointwise("sub", upper, lower)
    if constant(step) == 1:
        return span
    up = b.pointwise("add", span, b.pointwise("sub", step, b.const(1, type)))
    return b.pointwise("sdiv", up, step)


def turn_of(b: Builder, variable: Value, lower: Value, step: Value) -> Value:
    """How many turns came before the one with this value of the loop's variable."""
    turn = b.pointwise("sub", variable, lower)
    return turn if constant(step) == 1 else b.pointwise("sdiv", turn, step)


# -- the primal sweep ----------------------------------------------------------------


def record(s: State, op: Op, env: Env, plain: Handlers) -> None:
    """Copies a loop, with what each turn begins with written to tapes."""
    s.b.emit("barrier")  # an enclosing loop's last turn may still read the tapes
    results = (_record_for if op.opcode == "for" else _record_while)(s, op, env, plain)
    for result, value in zip(op.results, results, strict=True):
        value.name, env[result] = result.name, value


def _record_for(s: State, op: Op, env: Env, plain: Handlers) -> tuple[Value, ...]:
    b, (body,) = s.b, op.regions
    lower, upper, step = bounds = [env[v] for v in op.head]
    s.turns[op] = trips(b, lower, upper, step)
    tapes = _make_tapes(s, op, s.turns[op])
    with b.region(body.args) as block:
        turn = turn_of(b, block.args[0], lower, step)
        for arg, tape in zip(block.args[1:], tapes, strict=True):
            write(b, tape, turn, arg)
        rebuild(b, body.ops, env | dict(zip(body.args, block.args, strict=True)), plain)
    b.loc = op.loc.unnamed
    return b.loop(bounds, [env[v] for v in op.initial], block, op)


def _record_while(s: State, op: Op, env: Env, plain: Handlers) -> tuple[Value, ...]:
    """Carries the number of turns as well, which the reverse sweep goes back over.

    The tape's size depends on that number before it is known: see `turns`.
    """
    b, (body,) = s.b, op.regions
    count = Value(scalar(I32), "turn")
    tapes = _make_tapes(s, op, count)
    with b.region([count, *body.args]) as block:
        turn, *args = block.args
        for arg, tape in zip(args, tapes, strict=True):
            write(b, tape, turn, arg)
        inner = env | dict(zip(body.args, args, strict=True))
        rebuild(b, body.ops[:-1], inner, plain)
        again, *following = (inner[v] for v in body.ops[-1].operands)
        b.loc = body.ops[-1].loc.unnamed
        one = b.const(1, turn.tensor_type)
        b.emit("yield", [again, b.pointwise("add", turn, one), *following])
    b.loc = op.loc.unnamed
    initial = [b.const(0, count.tensor_type), *(env[v] for v in op.initial)]
    types = [v.type for v in initial]
    operands = (env[op.operands[0]], *initial)
    s.turns[op], *results = b.emit("while", operands, types, {}, (block,))
    return tuple(results)


def _make_tapes(s: State, op: Op, count: Value) -> list[Tape]:
    tapes = s.recorded[op] = s.tapes.make(op, count)
    for tape in tapes:  # before the loop, which then need not compute it again
        first_turn(s.b, tape)
    return tapes


# -- the reverse sweep ---------------------------------------------------------------


def loop(s: State, op: Op, recompute: Recompute, sweep: Sweep) -> None:
    """Adds to the cotangents of what the loop starts with and uses of the outside."""
    s.b.emit("barrier")  # what was recorded is there for every lane
    seeds = [s.cts.pop(result, None) for result in op.results]
    targets = Targets.of(s, op)
    for order in (_in_any_order, _last_turn_first):
        if order(s, op, targets, seeds, recompute, sweep):
            break


@dataclass(frozen=True, slots=True)
class Targets:
    """What a loop's reverse adds to.

    Attributes:
        active: positions of the carried values that have a cotangent.
        carried: their arguments in the loop's block.
        captured: active values from outside that the loop uses.
    """

    active: tuple[int, ...]
    carried: tuple[Value, ...]
    captured: tuple[Value, ...]

    @staticmethod
    def of(s: State, op: Op) -> Targets:
        args = op.carried
        active = tuple(k for k, arg in enumerate(args) if s.activity.active(arg))
        carried = tuple(args[k] for k in active)
        return Targets(active, carried, tuple(captured(s, op)))


def _in_any_order(
    s: State,
    op: Op,
    targets: Targets,
    seeds: list[Cotangent | None],
    recompute: Recompute,
    sweep: Sweep,
) -> bool:
    """The loop as the user wrote it, if no turn changes a carried cotangent.

    So it is with sums: each term has the cotangent of the sum.
    """
    b, (body,) = s.b, op.regions
    bounds = _bounds(s, op)
    zeros = [b.const(0.0, s.cotangent_type(v)) for v in targets.captured]
    templates = [_template(v, t) for v, t in zip(zeros, targets.captured, strict=True)]
    for seed in seeds:
        if seed is not None:  # before the loop, which then need not compute it again
            clean(b, seed)
    with b.region([Value(bounds[0].type, _variable_name(op)), *templates]) as block:
        inner = _turn(s, op, block.args[0], turn_of(b, block.args[0], *bounds[::2]))
        recompute(inner, body.ops[:-1])
        for k in targets.active:
            seed = seeds[k]
            if seed is not None:
                inner.add(op.following[k], seed)
        sweep(inner, body.ops[:-1])
        if any(inner.cts.get(op.carried[k]) != seeds[k] for k in targets.active):
            return False
        b.emit("yield", _totals(inner, targets, block.args[1:]))
    b.loc = op.loc.unnamed
    results = b.loop(bounds, zeros, block, op)
    for k in targets.active:
        seed = seeds[k]
        if seed is not None:
            s.add(op.initial[k], seed)
    _add_totals(s, inner, targets, results, block)
    return True


def _last_turn_first(
    s: State,
    op: Op,
    targets: Targets,
    seeds: list[Cotangent | None],
    recompute: Recompute,
    sweep: Sweep,
) -> bool:
    """The turns in reverse, with the cotangents of what is carried handed on."""
    b, (body,) = s.b, op.regions
    lower, _, step = _bounds(s, op)
    count = s.turns[op]
    zero, one = (b.const(n, count.tensor_type) for n in (0, 1))
    active = [seeds[k] for k in targets.active]
    starts = [
        _start(s, arg, seed) for arg, seed in zip(targets.carried, active, strict=True)
    ]
    starts += [b.const(0.0, s.cotangent_type(v)) for v in targets.captured]
    named = (*targets.carried, *targets.captured)
    templates = [_template(v, t) for v, t in zip(starts, named, strict=True)]
    supports = [seed and seed.support for seed in active]
    lazy = [seed is None for seed in active]  # lanes outside of a support hold anything
    unseen = [*lazy]  # what a turn adds
    number = len(targets.active)

    def given(values: Sequence[Value]) -> list[Cotangent]:
        parts = zip(values, supports, lazy, strict=False)
        return [Cotangent(v, m, m is None or not idle) for v, m, idle in parts]

    while True:
        with b.region([Value(count.type), *templates]) as block:
            last = b.pointwise("sub", count, one)
            turn = b.pointwise("sub", last, block.args[0])
            scaled = turn if constant(step) == 1 else b.pointwise("mul", turn, step)
            inner = _turn(s, op, b.pointwise("add", lower, scaled), turn)
            recompute(inner, body.ops[:-1])
            for k, new, ct in zip(
                targets.active, unseen, given(block.args[1:]), strict=True
            ):
                if not new:
                    inner.add(op.following[k], ct)
            sweep(inner, body.ops[:-1])
            following = [
                _following(inner, arg, support if idle else None)
                for arg, support, idle in zip(
                    targets.carried, supports, lazy, strict=True
                )
            ]
            totals = _totals(inner, targets, block.args[1 + number :])
            b.emit("yield", [*following, *totals])
        found = [inner.cts.get(arg) for arg in targets.carried]
        kept = [
            _support(b, ct, block) if new else known if _within(ct, known) else None
            for ct, known, new in zip(found, supports, unseen, strict=True)
        ]
        if kept == supports and True not in unseen:
            break
        supports, unseen = kept, [False for _ in kept]
    b.loc = op.loc.unnamed
    results = b.loop((zero, count, one), starts, block, op)
    for k, ct in zip(targets.active, given(results), strict=True):
        s.add(op.initial[k], ct)
    _add_totals(s, inner, targets, results[number:], block)
    return True


def _support(b: Builder, ct: Cotangent | None, turn: Block) -> Value | None:
    """What masks from outside of the loop say about the lanes of a cotangent."""
    if ct is None or ct.support is None:
        return None
    local = {*turn.args, *(r for inner in walk(turn) for r in inner.results)}
    return conjunction(b, [m for m in conjuncts(ct.support) if m not in local])


def _within(ct: Cotangent | None, support: Value | None) -> bool:
    """Whether a turn leaves a cotangent zero outside of the lanes it began with."""
    if support is None or ct is None:
        return True
    return ct.support is not None and implies(ct.support, support)


def _bounds(s: State, op: Op) -> list[Value]:
    """Lower and upper bound and step of a loop, over the turns made of a `while`."""
    if op.opcode == "for":
        return [s.env[v] for v in op.head]
    type = s.turns[op].tensor_type
    return [s.b.const(0, type), s.turns[op], s.b.const(1, type)]


def _variable_name(op: Op) -> str:
    return op.regions[0].args[0].name if op.opcode == "for" else ""


def _turn(s: State, op: Op, variable: Value, turn: Value) -> State:
    """The state at the beginning of a turn."""
    inner = s.inside()
    if op.opcode == "for":
        variable.name = variable.name or _variable_name(op)
        inner.env[op.regions[0].args[0]] = variable
    for arg, tape in zip(op.carried, s.recorded[op], strict=True):
        inner.env[arg] = read(s.b, tape, turn, arg)
    return inner


def _template(start: Value, of: Value) -> Value:
    """An argument for the cotangent of `of`, by type and name."""
    return Value(start.type, of.name and f"d_{of.name}")


def _start(s: State, value: Value, seed: Cotangent | None) -> Value:
    if seed is not None:
        return clean(s.b, seed)
    return s.b.const(0.0, s.cotangent_type(value))


def _following(inner: State, arg: Value, given: Value | None) -> Value:
    """What a turn hands on; nobody looks outside of `given`."""
    ct = inner.cts.get(arg)
    return (
        clean(inner.b, ct, given)
        if ct
        else inner.b.const(0.0, inner.cotangent_type(arg))
    )


def _totals(inner: State, targets: Targets, args: Sequence[Value]) -> list[Value]:
    """The sums over turns so far, with this one's share."""
    b, found = inner.b, list[Value]()
    for value, arg in zip(targets.captured, args, strict=True):
        ct = inner.cts.get(value)
        found.append(b.pointwise("add", arg, clean(b, ct)) if ct else arg)
    return found


def _add_totals(
    s: State, inner: State, targets: Targets, totals: Sequence[Value], turn: Block
) -> None:
    """Adds the sums over all turns to what was captured; nothing where none adds.

    Lanes that no turn adds to are outside of the sum's support, as far as masks from
    outside of the loop say so.
    """
    for value, total in zip(targets.captured, totals, strict=True):
        ct = inner.cts.get(value)
        if ct is not None:
            s.add(value, Cotangent(total, _support(s.b, ct, turn)))
