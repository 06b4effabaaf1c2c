"""Copies ops into a builder, and removes what nothing uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from undertow.ir import OPS, Block, Builder, Kernel, Op, Value
from undertow.transform.fold import fold

Env = dict[Value, Value]
"""Values of one kernel to the values that stand for them in another."""


def copy_op(b: Builder, op: Op, env: Env) -> None:
    """Appends `op` with its operands looked up in `env`, and enters its results there."""
    b.loc = replace(op.loc, name="")  # a copy has the name of what it copies, or none
    operands = tuple(env[v] for v in op.operands)
    if OPS[op.opcode].pure:
        for result in op.results:
            copy = b.pure(op.opcode, operands, result.type, dict(op.attrs),
                          index=result.index, count=len(op.results))  # fmt: skip
            copy.name = copy.name or result.name
            env[result] = copy
        return
    regions: list[Block] = []
    for region in op.regions:
        with b.region() as block:
            copy_ops(b, region.ops, dict(env))
        regions.append(block)
    b.loc = op.loc
    types = [r.type for r in op.results]
    copies = b.emit(op.opcode, operands, types, dict(op.attrs), regions)
    for result, copy in zip(op.results, copies, strict=True):
        copy.name = result.name
        env[result] = copy


def copy_ops(b: Builder, ops: Iterable[Op], env: Env) -> None:
    """`copy_op` for each of `ops`."""
    for op in ops:
        copy_op(b, op, env)


def simplify(kernel: Kernel) -> Kernel:
    """`kernel` with equal values merged, identities folded and dead ops removed."""
    b = Builder(fold)
    copy_ops(b, kernel.body.ops, {p: p for p in kernel.params})
    return with_body(kernel, remove_dead(b.block))


def with_body(kernel: Kernel, body: Block) -> Kernel:
    return Kernel(kernel.name, kernel.params, body, kernel.loc, kernel.constexprs)


def remove_dead(block: Block, outputs: Iterable[int] | None = None) -> Block:
    """`block` without ops that neither write memory nor feed one that does.

    Args:
        block: the block, which is used up; a nested one ends in `yield`.
        outputs: for a nested block, the positions of its results that are used.
    """
    live: set[Value] = set()
    return Block(_sweep(block, live, outputs))


def _sweep(block: Block, live: set[Value], outputs: Iterable[int] | None) -> list[Op]:
    kept: list[Op] = []
    for op in reversed(block.ops):
        if op.opcode == "yield" and outputs is not None:
            op = Op("yield", tuple(op.operands[i] for i in outputs), loc=op.loc)
        elif op.opcode == "if":
            pruned = _prune_if(op, live)
            if pruned is None:
                continue
            op = pruned
        elif op.opcode == "load" or OPS[op.opcode].pure:
            if not any(r in live for r in op.results):
                continue
        live.update(op.operands)
        kept.append(op)
    return kept[::-1]


def _prune_if(op: Op, live: set[Value]) -> Op | None:
    """The `if` without unused results, or None if nothing of it is needed."""
    used = [r.index for r in op.results if r in live]
    regions = [Block(_sweep(region, live, used)) for region in op.regions]
    if not used and all(len(r.ops) == 1 for r in regions):
        return None
    results = [op.results[i] for i in used]
    return Op("if", op.operands, tuple(results), op.attrs, tuple(regions), op.loc)
