"""Which values carry a derivative.

A value is *varied* if it depends on an input that is differentiated, *useful* if an
active output depends on it, and *active* if both. Only active values get a cotangent.

Integers carry no derivative, but for the bits of a varied float: what is computed from
them and made a float again would have one, so it counts as varied, and `bitcast` has no
rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from undertow.ir import I1, Access, Block, Kernel, Op, TensorType, Value, walk

Passes = Callable[[Op], bool]
"""Whether a derivative can pass through an op at all (its verdict is not zero)."""


@dataclass(frozen=True, slots=True)
class Activity:
    """The varied and the useful values of a kernel."""

    varied: frozenset[Value]
    useful: frozenset[Value]

    def active(self, value: Value) -> bool:
        return value in self.varied and value in self.useful


def activity(
    kernel: Kernel,
    inputs: Collection[Value],
    outputs: Collection[Value],
    passes: Passes,
    constant: Collection[Value] = (),
) -> Activity:
    """Activity for derivatives of the buffers `outputs` with respect to `inputs`.

    The values `constant` carry none, though they depend on inputs.
    """
    varied: set[Value] = set()
    useful: set[Value] = set()
    _forward(kernel.body, set(inputs), varied, passes, set(constant))
    _backward(kernel.body, set(outputs), useful, passes)
    return Activity(frozenset(varied), frozenset(useful))


def _forward(
    block: Block,
    inputs: set[Value],
    varied: set[Value],
    passes: Passes,
    constant: set[Value],
) -> None:
    for op in block.ops:
        if op.opcode == "for":
            body = partial(_forward, op.regions[0], inputs, varied, passes, constant)
            _through_turns(op, varied, body)
            varied.difference_update(r for r in op.results if r in constant)
            continue
        for region in op.regions:
            _forward(region, inputs, varied, passes, constant)
        if op.opcode == "if":
            for region in op.regions:
                pairs = zip(op.results, region.ops[-1].operands, strict=True)
                varied.update(r for r, v in pairs if v in varied)
        elif op.opcode == "load":
            if op.result.is_float and (op.operands[0] in inputs or _any(op, varied)):
                varied.add(op.result)
        elif _any(op, varied):
            varied.update(r for r in op.results if _carries(op, r, passes))
        varied.difference_update(r for r in op.results if r in constant)


def _through_turns(op: Op, varied: set[Value], body: Callable[[], None]) -> None:
    """A carried value is varied if it is at the start or after any turn."""
    (region,), initial = op.regions, op.operands[3:]
    carried = list(zip(region.args[1:], op.results, strict=True))
    varied.update(a for (a, _), v in zip(carried, initial, strict=True) if v in varied)
    while True:
        body()
        later = [
            a
            for (a, _), v in zip(carried, region.ops[-1].operands, strict=True)
            if v in varied and a not in varied
        ]
        if not later:
            break
        varied.update(later)
    varied.update(result for arg, result in carried if arg in varied)


def _carries(op: Op, result: Value, passes: Passes) -> bool:
    """Whether a result is varied, given that an operand is."""
    if result.is_float:
        return passes(op)
    bits = any(not v.is_float for v in op.operands if isinstance(v.type, TensorType))
    return result.tensor_type.dtype is not I1 and (op.opcode == "bitcast" or bits)


def _any(op: Op, values: set[Value]) -> bool:
    return any(v in values for v in op.operands)


def _backward(
    block: Block, outputs: set[Value], useful: set[Value], passes: Passes
) -> None:
    for op in reversed(block.ops):
        if op.opcode in ("store", "atomic_add"):
            access = Access.of(op)
            if (
                access.base in outputs
                and access.value is not None
                and access.value.is_float
            ):
                useful.add(access.value)
        elif op.opcode == "if":
            for region in op.regions:
                pairs = zip(op.results, region.ops[-1].operands, strict=True)
                useful.update(v for r, v in pairs if r in useful)
                _backward(region, outputs, useful, passes)
        elif op.opcode == "for":
            body = partial(_backward, op.regions[0], outputs, useful, passes)
            _into_turns(op, useful, body)
        elif op.opcode == "load":
            other = Access.of(op).other
            if other is not None and op.result in useful:
                useful.add(other)
        elif passes(op) and any(r in useful for r in op.results):
            useful.update(v for v in op.operands if v.is_float)


def _into_turns(op: Op, useful: set[Value], body: Callable[[], None]) -> None:
    """A carried value is useful if it is after the loop or in any later turn."""
    (region,), initial = op.regions, op.operands[3:]
    following = region.ops[-1].operands
    rows = list(zip(op.results, region.args[1:], following, initial, strict=True))
    useful.update(v for r, _, v, _ in rows if r in useful)
    while True:
        body()
        earlier = [v for _, a, v, _ in rows if a in useful and v not in useful]
        if not earlier:
            break
        useful.update(earlier)
    useful.update(v for r, a, _, v in rows if r in useful or a in useful)


def path_to_output(kernel: Kernel, start: Value) -> tuple[str, str, int] | None:
    """How `start` reaches memory: buffer, last named value before it, line; or None."""
    reached, name, line = {start}, start.name, start.op.loc.line if start.op else 0
    for op in walk(kernel.body):
        inside = any(
            v in reached for r in op.regions for o in r.ops for v in o.operands
        )
        if not inside and not any(v in reached for v in op.operands):
            continue
        if op.opcode in ("store", "atomic_add"):
            return op.operands[0].name, name, line
        reached.update(op.results)
        for result in op.results:
            if result.name:
                name, line = result.name, op.loc.line
    return None
