"""The transpose of `if`: an `if` whose branches recompute theirs and sweep it
backwards.

Nothing crosses from the primal branch to the reverse one, so a branch that was not
taken cannot leak an infinity into one that was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from undertow.ir import I1, Block, Op, Value, walk
from undertow.transform.cotangents import Cotangent, clean
from undertow.transform.masks import conjunction, conjuncts, negation
from undertow.transform.sweep import State, captured

Recompute = Callable[[State, Iterable[Op]], None]
Sweep = Callable[[State, Iterable[Op]], None]
Cotangents = dict[Value, Cotangent]


def branch(s: State, op: Op, recompute: Recompute, sweep: Sweep) -> None:
    """Adds to the cotangents of what the branches of `op` use of the outside."""
    seeds = [s.cts.pop(result, None) for result in op.results]
    outside = captured(s, op)
    blocks: list[Block] = []
    found: list[Cotangents] = []
    for region in op.regions:
        inner = s.inside()
        with s.b.region() as block:
            recompute(inner, region.ops[:-1])
            for value, seed in zip(region.ops[-1].operands, seeds, strict=True):
                if seed is not None:
                    inner.add(value, seed)
            sweep(inner, region.ops[:-1])
            _yield(s, outside, inner.cts)
        blocks.append(block)
        found.append(inner.cts)
    s.b.loc = op.loc.unnamed
    types = [s.primal(v).tensor_type for v in outside]
    types += [type.with_dtype(I1) for type in types]
    results = s.b.branch(s.env[op.operands[0]], blocks[0], blocks[1], types)
    local = {r for block in blocks for inner in walk(block) for r in inner.results}
    for index, value in enumerate(outside):
        if any(value in cts for cts in found):
            total, mask = results[index], results[index + len(outside)]
            total.name = value.name and f"d_{value.name}"
            support = _support(s, op, [cts.get(value) for cts in found], local, mask)
            s.add(value, Cotangent(total, support))


def _yield(s: State, captured: list[Value], cts: Cotangents) -> None:
    """Ends a branch: cotangents, then the lanes where each may differ from zero."""
    totals: list[Value] = []
    masks: list[Value] = []
    for value in captured:
        ct, type = cts.get(value), s.primal(value).tensor_type
        totals.append(clean(s.b, ct) if ct else s.b.const(0.0, type))
        lanes = s.b.const(ct is not None, type.with_dtype(I1))
        masks.append(ct.support if ct and ct.support else lanes)
    s.b.emit("yield", [*totals, *masks])


def _support(
    s: State, op: Op, cts: list[Cotangent | None], local: set[Value], mask: Value
) -> Value | None:
    """The lanes of a cotangent after the `if`, in values from before it if possible.

    Args:
        s: the state outside.
        op: the forward's `if`.
        cts: the cotangent at the end of each branch.
        local: what the branches define, out of reach here.
        mask: the lanes as the branches say, for where that is needed.
    """
    parts = [_parts(ct) for ct in cts]
    if any(part in local for known in parts for part in known or []):
        known = [p for p in parts if p is not None]
        outer = [v for v in known[0] if v not in local and all(v in p for p in known)]
        return conjunction(s.b, [*outer, mask])  # a loop around may only keep those
    if None not in parts:
        return conjunction(s.b, parts[0] or []) if parts[0] == parts[1] else mask
    condition = s.env[op.operands[0]]
    taken = condition if parts[0] is not None else negation(s.b, condition)
    wide = s.b.broadcast(taken, mask.shape)
    return conjunction(s.b, [wide, *(parts[0] or parts[1] or [])])


def _parts(ct: Cotangent | None) -> list[Value] | None:
    if ct is None:
        return None
    return [] if ct.support is None else conjuncts(ct.support)
