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
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from undertow.analysis.confined import confined
from undertow.analysis.degrees import FREE, NONE, Degrees, literal
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
    finder = _Finder(kernel, readable, outputs)
    found: dict[Value, ReadBack | float] = {}
    for block in (kernel.body, *(r for op in walk(kernel.body) for r in op.regions)):
        if any(op.is_loop for op in block.ops):
            found |= finder.of(block, cancelled)
    return found


class _Finder:
    def __init__(
        self, kernel: Kernel, readable: Collection[Value], outputs: Collection[Value]
    ) -> None:
        writes = [
            op for op in walk(kernel.body) if op.opcode in ("store", "atomic_add")
        ]
        times = Counter(op.operands[0] for op in writes)
        self.readable = {p for p in readable if times[p] == 1}
        self.users = Counter(v for op in walk(kernel.body) for v in op.operands)
        self.outputs = outputs

    def of(
        self, block: Block, cancelled: Iterable[Value]
    ) -> dict[Value, ReadBack | float]:
        """What may stand for values of one block."""
        position = {r: k for k, op in enumerate(block.ops) for r in op.results}
        stores = self.stores(block)
        found: dict[Value, ReadBack | float] = {
            value: ReadBack(store)
            for value, store in stores.items()
            if self.fits(block, store, value, position)
        }
        for m in cancelled:
            degrees = degrees_of(m, block, self.outputs) if m in position else None
            if degrees is None:
                continue
            others = self.logarithms(block, m, degrees, stores, position)
            if others:  # which go with another maximum than what was stored
                moved = [v for v in found if not degrees.get(v, FREE).free]
                found = {v: x for v, x in found.items() if v not in moved} | others
        return found

    def stores(self, block: Block) -> dict[Value, Op]:
        """Values that took a loop, and what stores them."""
        looped: set[Value] = set()
        found: dict[Value, Op] = {}
        for op in block.ops:
            if op.opcode == "store" and op.operands[0] in self.readable:
                value = Access.of(op).value
                if value is not None and value in looped:
                    found.setdefault(value, op)
            elif op.is_loop or any(v in looped for v in op.operands):
                looped.update(op.results)
        return found

    def fits(
        self, block: Block, store: Op, value: Value, position: Mapping[Value, int]
    ) -> bool:
        """Whether what `store` left can be read where `value` is, and its other lanes
        do not matter."""
        access = Access.of(store)

        def early(v: Value) -> bool:
            if position.get(v, -1) <= position[value]:
                return True
            op = v.op
            assert op is not None
            return OPS[op.opcode].pure and all(early(x) for x in op.operands)

        places = [v for v in store.operands if v is not access.value]
        return all(early(v) for v in places) and confined(
            block, value, access.mask, self.outputs
        )

    def logarithms(
        self,
        block: Block,
        m: Value,
        degrees: Degrees,
        stores: Mapping[Value, Op],
        position: Mapping[Value, int],
    ) -> dict[Value, ReadBack | float]:
        """What a stored logarithm of a sum of exponentials makes of `m` and the sum."""
        for value, store in stores.items():
            found = _log_sum(value, m, degrees)
            if found is None or not _one_without_turns(block, degrees, found[0]):
                continue
            if not self.fits(block, store, m, position):
                continue
            total, factor = found
            empty = math.copysign(math.inf, factor)  # of it, every exponential is 0
            stand_ins: dict[Value, ReadBack | float] = {total: 1.0}
            stand_ins[m] = ReadBack(store, factor, empty)
            for quotient, other in stores.items():
                part = self.divided(quotient, total)
                if part is not None and self.fits(block, other, part, position):
                    stand_ins[part] = ReadBack(other, other=0.0)
            return stand_ins
        return {}

    def divided(self, value: Value, total: Value) -> Value | None:
        """What was divided by `total`, row by row, to give `value`, if that is so.

        Where `value` was rounded, nothing else may be made of what it was before.
        """
        chain = [value]
        while (op := chain[-1].op) is not None and op.opcode == "cast":
            chain.append(op.operands[0])
        part = None if op is None else _numerator(op, total)
        if part is None or part.op is None:
            return None
        if len(chain) > 1 and any(self.users[v] != 1 for v in (*chain, part)):
            return None
        return part


# -- sums of exponentials ------------------------------------------------------------

_LN = {"e": 1.0, "2": math.log(2.0)}


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


def _numerator(op: Op, total: Value) -> Value | None:
    """What `op` divides by `total`."""
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
