"""What the backward may read back from an output instead of computing it again.

A value that took a loop to compute, and that the forward stored, is there when the
backward begins. So are the sums of a softmax whose maximum cancels (`stabilisers`): any
number may stand for the maximum, and if it is the logarithm of the sum of exponentials
that the forward stored, then the sum is 1, and what was to be divided by the sum is
the quotient that the forward stored. That is the backward of FlashAttention-2 (Dao
2023, arXiv:2307.08691).

Lanes that a mask kept from being stored are unknown. They may stand for what they were
if they reach no output: `confined`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from undertow.analysis.confined import confined
from undertow.analysis.degrees import NONE, Degrees, literal
from undertow.analysis.stabilisers import degrees_of, without_turns
from undertow.ir import OPS, Access, Block, Kernel, Op, Value, walk


@dataclass(frozen=True, slots=True)
class ReadBack:
    """A value found at the address of `store`, `factor` times what is there.

    `other` is what stands where the store is masked; None leaves it undefined.
    """

    store: Op
    factor: float = 1.0
    other: float | None = None


StandIns = Mapping[Value, ReadBack | float]
"""What stands for a value in the backward: a number, or what an output holds."""


def read_backs(
    kernel: Kernel,
    readable: Collection[Value],
    outputs: Collection[Value],
    cancelled: Iterable[Value],
) -> StandIns:
    """What may stand for values that took a loop to compute.

    Args:
        kernel: the forward.
        readable: pointers that are only stored to, each element once.
        outputs: pointers whose derivatives are wanted.
        cancelled: maxima that cancel in all of `outputs`.
    """
    found: dict[Value, ReadBack | float] = {}
    for block in _blocks(kernel.body):
        stores = _stores(kernel, block, readable)
        if not stores:
            continue
        for value, store in stores.items():
            if confined(block, value, Access.of(store).mask, outputs):
                found[value] = ReadBack(store)
        for m in cancelled:
            if m.op in block.ops:
                found |= _logarithms(block, m, stores, outputs)
    return found


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in walk(block):
        yield from op.regions


def _stores(
    kernel: Kernel, block: Block, readable: Collection[Value]
) -> dict[Value, Op]:
    """Values of `block` that took a loop, and where the only store to a pointer is."""
    if not any(op.is_loop for op in block.ops):
        return {}
    looped: set[Value] = set()
    for op in block.ops:
        if op.is_loop or any(v in looped for v in op.operands):
            looped.update(op.results)
    found: dict[Value, Op] = {}
    for op in block.ops:
        value = Access.of(op).value if op.opcode == "store" else None
        if value is None or value not in looped or op.operands[0] not in readable:
            continue
        alone = sum(other.operands[:1] == op.operands[:1] for other in _writes(kernel))
        if alone == 1 and _available(block, op, value):
            found.setdefault(value, op)
    return found


def _writes(kernel: Kernel) -> Iterator[Op]:
    return (op for op in walk(kernel.body) if op.opcode in ("store", "atomic_add"))


def _available(block: Block, store: Op, value: Value) -> bool:
    """Whether the address of `store` can be computed where `value` is."""
    position = {r: k for k, op in enumerate(block.ops) for r in op.results}

    def early(v: Value) -> bool:
        if position.get(v, -1) <= position[value]:
            return True
        op = v.op
        assert op is not None
        return OPS[op.opcode].pure and all(early(operand) for operand in op.operands)

    stored = Access.of(store).value
    return all(early(v) for v in store.operands if v is not stored)


# -- sums of exponentials ------------------------------------------------------------

_LN = {"e": 1.0, "2": math.log(2.0)}


def _logarithms(
    block: Block, m: Value, stores: Mapping[Value, Op], outputs: Collection[Value]
) -> dict[Value, ReadBack | float]:
    """What a stored logarithm of a sum of exponentials makes of `m` and of the sum."""
    degrees = degrees_of(m, block, outputs)
    if degrees is None:
        return {}
    for value, store in stores.items():
        found = _log_sum(value, m, degrees)
        if found is None or not _available(block, store, m):
            continue
        if not _one_without_turns(block, degrees, found[0]):
            continue
        if not confined(block, m, Access.of(store).mask, outputs):
            continue
        total, factor = found
        empty = math.copysign(math.inf, factor)  # of it, every exponential is 0
        stand_ins: dict[Value, ReadBack | float] = {total: 1.0}
        stand_ins[m] = ReadBack(store, factor, empty)
        for quotient, other in stores.items():
            part = _divided(quotient, total)
            if part is None or not _available(block, other, part):
                continue
            if confined(block, part, Access.of(other).mask, outputs):
                stand_ins[part] = ReadBack(other, other=0.0)
        return stand_ins
    return {}


def _one_without_turns(block: Block, degrees: Degrees, total: Value) -> bool:
    """Whether the sum is 1 where a loop does not turn, and its maximum is none."""
    for op in block.ops:
        if op.opcode == "for" and any(r in degrees for r in op.results):
            others = [without_turns(op, value) for value in op.initial]
            if all(other is None for other in others):
                continue
            if total.op is not op:
                return False
            other = others[total.index]
            if other is None or literal(other) != 1.0:
                return False
    return True


def _log_sum(value: Value, m: Value, degrees: Degrees) -> tuple[Value, float] | None:
    """The sum, and by what to multiply `value` for the `m` that makes the sum 1.

    With a sum s·b^(k·m) that is m − log_b(sum) / k, and `value` a multiple of it.
    """
    terms = _linear(value)
    if m not in terms or len(terms) != 2 or value.tensor_type.dtype.bits < 32:
        return None
    (log,) = terms.keys() - {m}
    if log.op is None or log.op.opcode not in ("log", "log2"):
        return None
    (total,) = log.op.operands
    degree = degrees.get(total)
    if degree is None or degree.added != NONE or degree.power[1]:
        return None
    base = _LN["e" if log.op.opcode == "log" else "2"]
    ratio = -float(degree.power[0]) * terms[log] / terms[m]
    if not math.isclose(ratio * _LN.get(degree.base, 0.0), base, rel_tol=1e-6):
        return None
    return total, 1.0 / terms[m]


def _linear(value: Value) -> dict[Value, float]:
    """`value` as a sum of multiples of other values."""
    op = value.op
    if op is not None and op.opcode in ("add", "sub"):
        x, y = (_linear(v) for v in op.operands)
        sign = -1.0 if op.opcode == "sub" else 1.0
        return {v: x.get(v, 0.0) + sign * y.get(v, 0.0) for v in {**x, **y}}
    if op is not None and op.opcode in ("mul", "div"):
        number = literal(op.operands[1])
        if number:
            by = number if op.opcode == "mul" else 1.0 / number
            return {v: c * by for v, c in _linear(op.operands[0]).items()}
    return {value: 1.0}


def _divided(value: Value, total: Value) -> Value | None:
    """What was divided by `total`, row by row, to give `value`, if that is so."""
    op = value.op
    while op is not None and op.opcode == "cast" and op.operands[0].is_float:
        op = op.operands[0].op
    if op is None:
        return None
    if op.opcode in ("div", "div_rn") and _still(op.operands[1]) is total:
        return op.operands[0]
    if op.opcode == "mul":
        for part, factor in (op.operands, op.operands[::-1]):
            inverse = _still(factor).op
            if inverse is not None and inverse.opcode in ("div", "div_rn"):
                one, divisor = inverse.operands
                if literal(one) == 1.0 and _still(divisor) is total:
                    return part
    return None


def _still(value: Value) -> Value:
    """`value` before it was spread along axes of other values."""
    while value.op is not None and value.op.opcode in ("broadcast", "expand_dims"):
        value = value.op.operands[0]
    return value
