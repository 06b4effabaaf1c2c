"""Which values carry a derivative.

A value is *varied* if it depends on an input that is differentiated, *useful* if an
active output depends on it, and *active* if both. Only active values get a cotangent.

Integers carry no derivative, but for the bits of a varied float: what is computed from
them and made a float again, be it by its bits or by its value, would have one. So it
counts as varied, and is refused. So is a rounded float whose value becomes the bits of
another. Rounded and made a float by its value, it is piecewise constant: zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from undertow.ir import I1, Access, Block, Custom, Kernel, Op, Value, walk

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
    forward = _Forward(frozenset(inputs), frozenset(constant), passes)
    forward.block(kernel.body)
    useful: set[Value] = set()
    _backward(kernel.body, set(outputs), useful, passes)
    return Activity(frozenset(forward.varied), frozenset(useful))


class _Forward:
    """Finds what is varied; `rounded` are integers that varied floats were made."""

    def __init__(
        self, inputs: frozenset[Value], constant: frozenset[Value], passes: Passes
    ) -> None:
        self.inputs, self.constant, self.passes = inputs, constant, passes
        self.varied: set[Value] = set()
        self.rounded: set[Value] = set()

    def block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)
            self.varied.difference_update(r for r in op.results if r in self.constant)

    def _op(self, op: Op) -> None:
        if op.is_loop:
            self._turns(op)
            return
        for region in op.regions:
            self.block(region)
        if op.opcode == "if":
            for region in op.regions:
                pairs = list(zip(op.results, region.ops[-1].operands, strict=True))
                for known in (self.varied, self.rounded):
                    known.update(r for r, v in pairs if v in known)
        elif op.opcode == "load":
            varied = op.operands[0] in self.inputs or _any(op, self.varied)
            if op.result.is_float and varied:
                self.varied.add(op.result)
        elif op.opcode != "stop":
            self._pure(op)

    def _pure(self, op: Op) -> None:
        varied, rounded = _any(op, self.varied), _any(op, self.rounded)
        for result in op.results if varied or rounded else ():
            if result.is_float:
                if (varied and self._carries(op)) or (rounded and op.opcode == BITS):
                    self.varied.add(result)
            elif result.tensor_type.dtype is not I1:
                bits = any(v in self.varied and not v.is_float for v in op.operands)
                carries = bits or (varied and op.opcode == BITS)
                (self.varied if carries else self.rounded).add(result)

    def _carries(self, op: Op) -> bool:
        """Whether a float result is varied, given that an operand is."""
        return self.passes(op) or reinterprets(op)

    def _turns(self, op: Op) -> None:
        """A carried value is varied if it is at the start or after any turn."""
        (region,), initial, args = op.regions, op.initial, op.carried
        kinds = self.varied, self.rounded
        for known in kinds:
            known.update(a for a, v in zip(args, initial, strict=True) if v in known)
        while True:
            self.block(region)
            before = sum(map(len, kinds))
            following = list(zip(args, op.following, strict=True))
            for known in kinds:
                known.update(a for a, v in following if v in known)
            if sum(map(len, kinds)) == before:
                break
        for known in kinds:
            known.update(r for r, a in zip(op.results, args, strict=True) if a in known)


BITS = "bitcast"


def reinterprets(op: Op) -> bool:
    """Whether `op` makes an integer, perhaps of a float's bits, a float by value."""
    return op.opcode == "cast" and op.result.is_float and not op.operands[0].is_float


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
        elif op.is_loop:
            body = partial(_backward, op.regions[0], outputs, useful, passes)
            _into_turns(op, useful, body)
        elif op.opcode == "load":
            other = Access.of(op).other
            if other is not None and op.result in useful:
                useful.add(other)
        elif passes(op) and any(r in useful for r in op.results):
            given = Custom.of(op).inputs if op.opcode == "custom" else op.operands
            useful.update(v for v in given if v.is_float)


def _into_turns(op: Op, useful: set[Value], body: Callable[[], None]) -> None:
    """A carried value is useful if it is after the loop or in any later turn.

    What is useful after the loop is so before the last turn too, even if no turn looks
    at it: there may be no turn.
    """
    rows = list(zip(op.results, op.carried, op.following, op.initial, strict=True))
    for result, arg, value, _ in rows:
        if result in useful:
            useful.update((arg, value))
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
