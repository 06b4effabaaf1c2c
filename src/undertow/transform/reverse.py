"""Reverse mode: the forward's ops backwards, each turned into its transpose.

`reverse` builds a kernel that recomputes the forward without its stores and then sweeps
it backwards. Every load of a differentiated input becomes an `atomic_add` to that
input's gradient at the loaded address, which is right whoever else touches the address;
`place` proves most of them to be plain stores. What the sweep does not need of the
recomputed forward is removed as dead code, so nothing here decides what to save; what
is read back from the forward's outputs instead is said by `stand_ins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from undertow.analysis.activity import Activity
from undertow.analysis.launch import uniform
from undertow.analysis.read_back import StandIns
from undertow.ir import I1, Block, Builder, Kernel, Op, Value
from undertow.rules import (
    RULES,
    Expr,
    Linear,
    Pointwise,
    Special,
    Structural,
    Unsupported,
)
from undertow.transform.branches import branch
from undertow.transform.cotangents import Cotangent, doubled, restrict
from undertow.transform.custom import custom
from undertow.transform.fold import fold
from undertow.transform.logistic import Logistic
from undertow.transform.loops import loop, record
from undertow.transform.padding import finite_where
from undertow.transform.read_back import stand_in
from undertow.transform.rebuild import (
    DECLARED,
    Env,
    Handlers,
    copy,
    drop,
    rebuild,
    remove_dead,
)
from undertow.transform.special import SPECIAL, accumulate, store
from undertow.transform.sweep import Buffers, State, refusal
from undertow.transform.tapes import Tapes, without_idle_tapes

PRIMAL, REVERSE = "primal sweep (recomputed)", "reverse sweep"


def reverse(
    kernel: Kernel,
    activity: Activity,
    buffers: Buffers,
    tapes: Tapes,
    stand_ins: StandIns,
) -> Block:
    """The backward's body. UnsupportedError where a rule is missing."""
    b = Builder(fold)
    env: Env = {p: p for p in kernel.params}
    s = State(kernel, b, env, activity, buffers, tapes, stand_ins)
    b.section(PRIMAL)
    recompute(s, kernel.body.ops)
    b.section(REVERSE)
    sweep(s, kernel.body.ops)
    return without_idle_tapes(remove_dead(b.block), tapes.made)


def recompute(s: State, ops: Iterable[Op]) -> None:
    """Copies `ops` but for what writes memory or assumes things of loaded values.

    The loops among them go to tape. Those inside of branches and other loops do not:
    when these are swept backwards, they are recomputed once more, and recorded then.
    """
    b = s.b

    def assume(op: Op, env: Env) -> None:
        if uniform(op.operands[0]):
            copy(b, op, env)

    plain: Handlers = {
        **DECLARED,
        "store": drop,
        "atomic_add": drop,
        "assume": assume,
    }

    def nested(op: Op, env: Env) -> None:
        copy(b, op, env, plain)

    def turns(op: Op, env: Env) -> None:
        record(s, op, env, plain)

    handlers = {**plain, "if": nested, "for": turns, "while": turns}
    for op in ops:
        rebuild(b, (op,), s.env, handlers)
        for result in op.results:
            if result in s.stand_ins:
                s.env[result] = stand_in(s, result)


def sweep(s: State, ops: Iterable[Op]) -> None:
    """Transposes `ops`, last first."""
    block = list(ops)
    own = set(block)
    for op in reversed(block):
        s.b.loc = op.loc.unnamed
        if op.opcode == "store":
            store(s, op)
        elif op.opcode == "atomic_add":
            accumulate(s, op)
        elif op.opcode == "if":
            branch(s, op, recompute, sweep)
        elif op.is_loop:
            loop(s, op, recompute, sweep)
        elif any(result in s.cts for result in op.results):
            cts = [s.cts.pop(result, None) for result in op.results]
            transpose(s, op, cts, Logistic.of(op, own))


def transpose(
    s: State, op: Op, cts: list[Cotangent | None], logistic: Logistic | None
) -> None:
    """Adds to the cotangents of the operands of `op`, given those of its results."""
    rule = RULES[op.opcode]
    if isinstance(rule, Structural):
        _structural(s, op, rule, cts)
        return
    if op.opcode == "custom":
        custom(s, op, cts)
        return
    (ct,) = cts
    assert ct is not None
    match rule:
        case Linear(signs):
            for value, sign in zip(op.operands, signs, strict=True):
                t = ct.value if sign > 0 else s.b.pointwise("neg", ct.value)
                s.add(value, ct.through(t, clean=ct.is_clean))
        case Pointwise(maps):
            _pointwise(s, op, maps, ct, logistic)
        case Special():
            SPECIAL[op.opcode](s, op, ct)
        case Unsupported(reason):
            raise refusal(s.kernel, op, reason)
        case _:
            raise AssertionError(f"{op.opcode} cannot be active")


def _pointwise(
    s: State,
    op: Op,
    maps: tuple[Callable[..., Expr] | None, ...],
    ct: Cotangent,
    logistic: Logistic | None,
) -> None:
    t = Expr(s.b, ct.value)
    operands = [Expr(s.b, s.primal(v)) for v in op.operands]
    result = Expr(s.b, s.primal(op.result))
    totals: dict[Value, Expr] = {}  # of an operand that stands twice, as in x * x
    for value, partial in zip(op.operands, maps, strict=True):
        if s.activity.active(value) and partial is not None:
            share = partial(t, *operands, result)
            known = totals.get(value)
            if known is not None and known.value is share.value:
                share = Expr(s.b, doubled(s.b, share.value))
            elif known is not None:
                share = known + share
            totals[value] = share
    if logistic is not None and totals.pop(op.operands[-1], None) is not None:
        shift = Expr(s.b, s.primal(logistic.shift))
        known = totals.get(logistic.exponent)
        share = logistic.partial(t, result, operands[-1], shift)
        totals[logistic.exponent] = share if known is None else known + share
    live = finite_where(s.b, s.env, op)
    for value, total in totals.items():
        s.add(value, restrict(s.b, ct.through(total.value), live))


def _structural(
    s: State, op: Op, rule: Structural, cts: list[Cotangent | None]
) -> None:
    """Moves lanes back, and with each lane whether it is in the support."""
    values = rule.transpose(s.b, op, tuple(ct and ct.value for ct in cts))
    supports: tuple[Value | None, ...] = (None,) * len(values)
    if any(ct is not None and ct.support is not None for ct in cts):
        masks = tuple(None if ct is None else _support(s.b, ct) for ct in cts)
        supports = rule.transpose(s.b, op, masks)
    is_clean = all(ct is None or ct.is_clean for ct in cts)
    for operand, value, support in zip(op.operands, values, supports, strict=True):
        if value is not None:
            s.add(operand, Cotangent(value, support, is_clean or support is None))


def _support(b: Builder, ct: Cotangent) -> Value:
    """The support as a mask, also where it is every lane."""
    if ct.support is not None:
        return ct.support
    return b.const(True, ct.value.tensor_type.with_dtype(I1))
