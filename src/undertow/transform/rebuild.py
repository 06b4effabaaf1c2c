"""Copies ops into a builder, and removes what nothing uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from undertow.ir import OPS, Block, Builder, Custom, Kernel, Op, Value, walk
from undertow.transform.fold import constant, fold

Env = dict[Value, Value]
"""Values of one kernel to the values that stand for them in another."""

Handler = Callable[[Op, Env], None]
"""Builds what stands for an op, and enters its results."""

Handlers = Mapping[str, Handler]
"""By opcode; ops without one are copied."""


def rebuild(
    b: Builder, ops: Iterable[Op], env: Env, handlers: Handlers | None = None
) -> None:
    """Appends what stands for each of `ops`, in nested blocks too."""
    handlers = handlers or {}
    for op in ops:
        b.loc = op.loc.unnamed  # a copy has its original's name, or none
        handler = handlers.get(op.opcode)
        if handler is None:
            copy(b, op, env, handlers)
        else:
            handler(op, env)


def copy(b: Builder, op: Op, env: Env, handlers: Handlers | None = None) -> None:
    """Appends `op` with its operands looked up in `env`, and enters its results."""
    operands = tuple(env[v] for v in op.operands)
    if OPS[op.opcode].pure:
        types = [r.type for r in op.results]
        for result in op.results:
            value = b.pure(op.opcode, operands, types[0], dict(op.attrs),
                           index=result.index, types=types)  # fmt: skip
            value.name = value.name or result.name
            env[result] = value
        return
    regions: list[Block] = []
    loc = b.loc
    for region in op.regions:
        with b.region(region.args) as block:
            inner = env | dict(zip(region.args, block.args, strict=True))
            rebuild(b, region.ops, inner, handlers)
        regions.append(block)
    b.loc = loc
    types = [r.type for r in op.results]
    copies = b.emit(op.opcode, operands, types, dict(op.attrs), regions)
    for result, value in zip(op.results, copies, strict=True):
        value.name, env[result] = result.name, value


def drop(op: Op, env: Env) -> None:
    """Leaves an op without results out."""


def pass_through(op: Op, env: Env) -> None:
    """Leaves out an op that only declares derivatives."""
    given = Custom.of(op).outputs if op.opcode == "custom" else op.operands
    for result, value in zip(op.results, given, strict=True):
        env[result] = env[value]
        env[result].name = env[result].name or result.name


DECLARED: Handlers = {"custom": pass_through, "stop": pass_through}
"""Leave out what the user declared of derivatives."""


def parameters(body: Block) -> Env:
    """An environment that keeps the parameters used in `body`."""
    return {v: v for op in walk(body) for v in op.operands if v.is_parameter}


def simplify(kernel: Kernel) -> Kernel:
    """`kernel` with equal values merged, identities folded and dead ops removed.

    1 / sqrt(x) becomes rsqrt(x), whose derivative needs the result alone.
    """
    b = Builder(fold)

    def div(op: Op, env: Env) -> None:
        root = op.operands[1].op
        if (
            constant(op.operands[0]) == 1.0
            and root is not None
            and root.opcode == "sqrt"
        ):
            env[op.result] = b.pointwise("rsqrt", env[root.operands[0]])
            env[op.result].name = op.result.name
        else:
            copy(b, op, env)

    rebuild(b, kernel.body.ops, {p: p for p in kernel.params}, {"div": div})
    return with_body(kernel, remove_dead(b.block))


def undeclared(kernel: Kernel) -> Kernel:
    """`kernel` without what the user declared of derivatives: what it computes."""
    if not any(op.opcode in DECLARED for op in walk(kernel.body)):
        return kernel
    return _without(kernel, DECLARED)


def without_rules(kernel: Kernel) -> Kernel:
    """`kernel` with the derivatives of what it computes in place of the user's."""
    return _without(kernel, {"custom": pass_through})


def _without(kernel: Kernel, declared: Handlers) -> Kernel:
    b = Builder(fold)
    rebuild(b, kernel.body.ops, {p: p for p in kernel.params}, declared)
    return replace(kernel, body=remove_dead(b.block), rules={})


def with_body(kernel: Kernel, body: Block) -> Kernel:
    return replace(kernel, body=body)


# -- dead code --


def remove_dead(block: Block) -> Block:
    """`block`, which is used up, without what neither writes memory nor feeds that."""
    return Block(_sweep(block, set(), None))


def _sweep(block: Block, live: set[Value], outputs: Iterable[int] | None) -> list[Op]:
    """The ops to keep; of a nested block the results at the positions `outputs`."""
    kept: list[Op] = []
    for op in reversed(block.ops):
        if op.opcode == "yield" and outputs is not None:
            op = Op("yield", tuple(op.operands[i] for i in outputs), loc=op.loc)
        elif op.regions:
            pruned = (_prune_if if op.opcode == "if" else _prune_loop)(op, live)
            if pruned is None:
                continue
            op = pruned
        elif not _has_effect(op) and not any(r in live for r in op.results):
            continue
        live.update(op.operands)
        kept.append(op)
    return kept[::-1]


def _has_effect(op: Op) -> bool:
    return op.opcode != "load" and not OPS[op.opcode].pure


def _prune_if(op: Op, live: set[Value]) -> Op | None:
    """The `if` without unused results, or None if nothing of it is needed."""
    used = [i for i, r in enumerate(op.results) if r in live]
    regions = [Block(_sweep(region, live, used)) for region in op.regions]
    if not used and all(len(r.ops) == 1 for r in regions):
        return None
    results = [op.results[i] for i in used]
    return Op("if", op.operands, tuple(results), op.attrs, tuple(regions), op.loc)


def _prune_loop(op: Op, live: set[Value]) -> Op | None:
    """The loop without what is carried for nothing, or None if nothing is needed."""
    (body,), carried = op.regions, op.carried
    if not any(r in live for r in op.results) and len(_sweep(body, set(live), ())) == 1:
        return None
    decides = len(body.ops[-1].operands) - len(carried)
    used = [i for i, r in enumerate(op.results) if r in live]
    while True:
        inside = set(live)
        kept = _sweep(body, inside, [*range(decides), *(decides + i for i in used)])
        needed = [i for i, a in enumerate(carried) if a in inside or i in used]
        if needed == used:
            break
        used = needed
    live |= inside
    variable = body.args[: len(body.args) - len(carried)]
    args = (*variable, *(carried[i] for i in used))
    operands = (*op.head, *(op.initial[i] for i in used))
    results = tuple(op.results[i] for i in used)
    return Op(op.opcode, operands, results, op.attrs, (Block(kept, args),), op.loc)
