"""Takes running maxima out of the loops that carry them.

An online softmax rescales what it has summed whenever its maximum grows. Where analysis
shows that the maximum cancels in the end, any other number would do as well, so the
last maximum may stand for all of them: one loop finds it, and in a second one the
factors between old and new maxima are 1, what was rescaled is a plain sum, and no turn
depends on the one before. The backward then needs no tape, and no rule for ties.
"""

from __future__ import annotations

from collections.abc import Collection

from undertow.analysis.stabilisers import RunningMaximum, running_maxima
from undertow.ir import Builder, Kernel, Op, Value
from undertow.transform.fold import constant, fold
from undertow.transform.rebuild import Env, copy, drop, rebuild, remove_dead, with_body


def without_running_maxima(
    kernel: Kernel, outputs: Collection[Value]
) -> tuple[Kernel, frozenset[Value]]:
    """An equal kernel, and the maxima in it that have no cotangent.

    Args:
        kernel: the forward.
        outputs: the pointers whose derivatives are wanted.
    """
    found = {r.loop: r for r in running_maxima(kernel, outputs)}
    if not found:
        return kernel, frozenset()
    b = Builder(fold)
    last: list[Value] = []

    def loop(op: Op, env: Env) -> None:
        if op in found:
            last.append(_in_two(b, found[op], env))
        else:
            copy(b, op, env)

    rebuild(b, kernel.body.ops, {p: p for p in kernel.params}, {"for": loop})
    return with_body(kernel, remove_dead(b.block)), frozenset(last)


def _in_two(b: Builder, found: RunningMaximum, env: Env) -> Value:
    """Builds the loop that finds the maximum, and the one that uses it."""
    op, index = found.loop, found.index
    first: Env = dict(env)
    copy(b, op, first, {"store": drop, "atomic_add": drop})  # left to the second one
    maximum = first[op.results[index]]
    (body,) = op.regions
    kept = [k for k in range(len(op.results)) if k != index]
    bounds = [env[v] for v in op.head]
    initial = [_initial(b, found, k, bounds, env) for k in kept]
    arguments = [body.args[0], *(body.args[1 + k] for k in kept)]
    with b.region(arguments) as block:
        inner = env | dict(zip(arguments, block.args, strict=True))
        inner[body.args[1 + index]] = maximum
        _sums(b, op, index, maximum, inner)
        following = op.following
        b.emit("yield", [inner[following[k]] for k in kept])
    b.loc = op.loc.unnamed
    results = b.loop(bounds, initial, block, op)
    for k, value in zip(kept, results, strict=True):
        value.name, env[op.results[k]] = op.results[k].name, value
    env[op.results[index]] = maximum
    return maximum


def _sums(b: Builder, op: Op, index: int, maximum: Value, env: Env) -> None:
    """Copies a turn in which the new maximum is the old one."""
    (body,) = op.regions
    new = op.following[index]

    def same(inner: Op, env: Env) -> None:
        x, y = (env[v] for v in inner.operands)
        if x is y and inner.result.is_float:  # a maximum less itself
            env[inner.result] = b.const(0.0, x.tensor_type)
        else:
            copy(b, inner, env)

    def power(inner: Op, env: Env) -> None:
        if constant(env[inner.operands[0]]) == 0.0:
            env[inner.result] = b.const(1.0, inner.result.tensor_type)
        else:
            copy(b, inner, env)

    def turn(inner: Op, env: Env) -> None:
        if inner.result is new:
            env[new] = maximum
        else:
            copy(b, inner, env)

    handlers = {
        "sub": same,
        "exp": power,
        "exp2": power,
        "maxnum": turn,
        "maximum": turn,
    }
    rebuild(b, body.ops[:-1], env, handlers)


def _initial(
    b: Builder, found: RunningMaximum, k: int, bounds: list[Value], env: Env
) -> Value:
    """What a rescaled value starts with: nothing, once there is a turn."""
    value = env[found.loop.initial[k]]
    if k not in found.rescaled or constant(value) == 0.0:
        return value
    turns = b.pointwise("cmp", bounds[0], bounds[1], predicate="slt")
    zero = b.const(0.0, value.tensor_type)
    return b.pointwise("select", b.broadcast(turns, value.shape), zero, value)
