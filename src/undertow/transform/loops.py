"""The transpose of `for`: its turns backwards, each recomputed from what it began with.

While the primal sweep runs a loop it writes what each turn begins with to a tape; the
reverse sweep reads the tape from its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from undertow.ir import Builder, Op, Value, walk
from undertow.transform.cotangents import Cotangent, clean
from undertow.transform.fold import constant
from undertow.transform.masks import implies
from undertow.transform.rebuild import Env, Handlers, rebuild
from undertow.transform.sweep import State
from undertow.transform.tapes import first_turn, read, write

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


# -- the primal sweep ----------------------------------------------------------------


def record(s: State, op: Op, env: Env, plain: Handlers) -> None:
    """Copies a loop, with what each turn begins with written to tapes."""
    b, (body,) = s.b, op.regions
    lower, upper, step = bounds = [env[v] for v in op.operands[:3]]
    b.emit("barrier")  # an enclosing loop's last turn may still read the tapes
    tapes = s.tapes.make(op, trips(b, lower, upper, step))
    s.recorded[op] = tapes
    for tape in tapes:  # before the loop, which then need not compute it again
        first_turn(b, tape)
    with b.region(body.args) as block:
        turn = b.pointwise("sub", block.args[0], lower)
        if constant(step) != 1:
            turn = b.pointwise("sdiv", turn, step)
        for arg, tape in zip(block.args[1:], tapes, strict=True):
            write(b, tape, turn, arg)
        rebuild(b, body.ops, env | dict(zip(body.args, block.args, strict=True)), plain)
    b.loc = op.loc.unnamed
    results = b.loop(bounds, [env[v] for v in op.operands[3:]], block)
    for result, value in zip(op.results, results, strict=True):
        value.name, env[result] = result.name, value


# -- the reverse sweep ---------------------------------------------------------------


def loop(s: State, op: Op, recompute: Recompute, sweep: Sweep) -> None:
    """Adds to the cotangents of what the loop starts with and uses of the outside."""
    b, (body,) = s.b, op.regions
    seeds = [s.cts.pop(result, None) for result in op.results]
    active = [k for k, arg in enumerate(body.args[1:]) if s.activity.active(arg)]
    targets = [body.args[1 + k] for k in active] + _captured(s, op)
    starts = [_start(s, body.args[1 + k], seeds[k]) for k in active]
    starts += [s.b.const(0.0, s.cotangent_type(v)) for v in targets[len(active) :]]
    count = trips(b, *(s.env[v] for v in op.operands[:3]))
    zero, one = (b.const(n, count.tensor_type) for n in (0, 1))
    b.emit("barrier")  # what was recorded is there for every lane
    templates = [_template(v, t) for v, t in zip(starts, targets, strict=True)]
    supports = [ct and ct.support for ct in (seeds[k] for k in active)]
    while True:
        with b.region([Value(count.type), *templates]) as block:
            last = b.pointwise("sub", count, one)
            inner = _turn(s, op, b.pointwise("sub", last, block.args[0]))
            recompute(inner, body.ops[:-1])
            for k, ct, support in zip(active, block.args[1:], supports, strict=False):
                inner.add(body.ops[-1].operands[k], Cotangent(ct, support))
            sweep(inner, body.ops[:-1])
            b.emit("yield", _following(inner, targets, block.args[1:], len(active)))
        found = [inner.cts.get(v) for v in targets[: len(active)]]
        if all(map(_within, found, supports)):
            break
        supports = [
                known if _within(ct, known) else None
                for ct, known in zip(found, supports, strict=True)
            ]
    b.loc = op.loc.unnamed
    results = b.loop((zero, count, one), starts, block)
    ends = [op.operands[3 + k] for k in active] + targets[len(active) :]
    for value, result in zip(ends, results, strict=True):
        s.add(value, Cotangent(result))


def _within(ct: Cotangent | None, support: Value | None) -> bool:
    """Whether a turn leaves a cotangent zero outside of the lanes it began with."""
    if support is None or ct is None:
        return True
    return ct.support is not None and implies(ct.support, support)


def _turn(s: State, op: Op, turn: Value) -> State:
    """The state at the beginning of a turn."""
    b, (body,) = s.b, op.regions
    inner = s.inside()
    lower, step = s.env[op.operands[0]], s.env[op.operands[2]]
    scaled = turn if constant(step) == 1 else b.pointwise("mul", turn, step)
    variable = b.pointwise("add", lower, scaled)
    variable.name = variable.name or body.args[0].name
    inner.env[body.args[0]] = variable
    for arg, tape in zip(body.args[1:], s.recorded[op], strict=True):
        inner.env[arg] = read(b, tape, turn, arg)
    return inner


def _template(start: Value, of: Value) -> Value:
    """An argument for the cotangent of `of`, by type and name."""
    return Value(start.type, of.name and f"d_{of.name}")


def _start(s: State, value: Value, seed: Cotangent | None) -> Value:
    if seed is not None:
        return clean(s.b, seed)
    return s.b.const(0.0, s.cotangent_type(value))


def _following(
    inner: State, targets: list[Value], args: tuple[Value, ...], carried: int
) -> list[Value]:
    """Cotangents after a turn: of what is carried the new ones, of others the sums."""
    b, found = inner.b, list[Value]()
    for index, (value, arg) in enumerate(zip(targets, args, strict=True)):
        ct = inner.cts.get(value)
        if index >= carried:
            found.append(b.pointwise("add", arg, clean(b, ct)) if ct else arg)
        else:
            zero = b.const(0.0, inner.cotangent_type(value))
            found.append(clean(b, ct) if ct else zero)
    return found


def _captured(s: State, op: Op) -> list[Value]:
    """Active values from outside of the loop that it uses, in order of use."""
    inside = {r for x in walk(op.regions[0]) for r in x.results}
    inside |= {a for x in (op, *walk(op.regions[0])) for r in x.regions for a in r.args}
    used = (v for x in walk(op.regions[0]) for v in x.operands)
    return [
        v for v in dict.fromkeys(used) if v not in inside and s.activity.active(v)
    ]
