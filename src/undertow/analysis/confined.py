"""Whether some lanes of a value reach any output.

A tile of rows may hang over the edge of a matrix: what is computed in the rows beyond
is masked when it is stored. Follow the rows of a value through all that depends on it.
As long as rows stay apart, and every output is stored under a mask that holds only in
the rows asked about, what stands in the others does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from undertow.analysis.degrees import MOVES, moved
from undertow.ir import OPS, Access, Block, Op, Value, walk

Axes = dict[Value, tuple[int, ...]]
"""For each value that depends on the first one, where the axes of that one lie."""


def confined(
    block: Block, value: Value, mask: Value | None, outputs: Collection[Value]
) -> bool:
    """Whether lanes of `value`, made in `block`, outside of `mask` reach no output.

    Args:
        block: where `value` is computed.
        value: the value.
        mask: of its shape; None for all lanes.
        outputs: the pointers that matter.
    """
    if mask is None:
        return True
    own = tuple(range(len(value.shape)))
    wanted = _conjuncts(mask, own)
    assert value.op is not None
    after = block.ops[block.ops.index(value.op) + 1 :]
    return _Rows(wanted, outputs).follow(after, {value: own})


class _Rows:
    def __init__(self, wanted: set[object], outputs: Collection[Value]) -> None:
        self.wanted = wanted
        self.outputs = outputs

    def follow(self, ops: Iterable[Op], axes: Axes) -> bool:
        """Finds the axes of what `ops` compute; False where rows meet or get out."""
        for op in ops:
            if op.opcode == "for":
                if not self.loop(op, axes):
                    return False
            elif op.regions:
                if any(v in axes for v in _used(op)):
                    return False
            elif op.opcode in ("store", "atomic_add"):
                if not self.stored(op, axes):
                    return False
            elif op.opcode != "yield" and any(v in axes for v in op.operands):
                at = _axes_of(op, axes)
                if at is None:
                    return False
                axes.update((r, at) for r in op.results)
            elif op.opcode == "yield" and any(v in axes for v in op.operands):
                return False
        return True

    def stored(self, op: Op, axes: Axes) -> bool:
        access = Access.of(op)
        dependent = [v for v in op.operands if v in axes]
        if not dependent or access.base not in self.outputs:
            return not any(v is not access.value for v in dependent)
        if access.mask is None or any(v is not access.value for v in dependent):
            return False
        return self.wanted <= _conjuncts(access.mask, axes[dependent[0]])

    def loop(self, op: Op, axes: Axes) -> bool:
        if any(v in axes for v in op.head):
            return False
        (body,) = op.regions
        starts = zip(op.carried, op.initial, strict=True)
        carried = {arg: axes[start] for arg, start in starts if start in axes}
        while True:
            inner = axes | carried
            if not self.follow(body.ops[:-1], inner):
                return False
            pairs = list(zip(op.carried, op.following, strict=True))
            found = {arg: inner[v] for arg, v in pairs if v in inner}
            if any(carried.get(arg, at) != at for arg, at in found.items()):
                return False
            if found.keys() <= carried.keys():
                break
            carried |= found
        ends = zip(op.results, op.carried, strict=True)
        axes.update((r, carried[arg]) for r, arg in ends if arg in carried)
        return True


def _used(op: Op) -> Iterable[Value]:
    yield from op.operands
    for region in op.regions:
        for inner in walk(region):
            yield from inner.operands


def _axes_of(op: Op, axes: Axes) -> tuple[int, ...] | None:
    """Where rows lie in the results of `op`; None if they meet."""
    if op.opcode in MOVES:
        return moved(op, axes[op.operands[0]])
    if op.opcode == "reduce":
        axis = op.int_attr("axis")
        found = {axes[v] for v in op.operands if v in axes}
        if len(found) > 1 or any(axis in at for at in found):
            return None
        (at,) = found
        return tuple(a - (a > axis) for a in at)
    if op.opcode == "dot":
        for factor, summed in zip(op.operands, (-1, -2), strict=False):
            if factor in axes and len(factor.shape) + summed in axes[factor]:
                return None
    elif OPS[op.opcode].kind != "pointwise":
        return None
    found = {axes[v] for v in op.operands if v in axes}
    return found.pop() if len(found) == 1 else None


# -- masks, told apart from how they were spread over lanes --


def _conjuncts(mask: Value, axes: tuple[int, ...]) -> set[object]:
    """What ``and`` joins in `mask`, whose axes of rows are `axes`, in this order."""
    names: list[object] = [("lane", k) for k in range(len(mask.shape))]
    for row, axis in enumerate(axes):
        names[axis] = row
    found: set[object] = set()
    waiting = [(mask, tuple(names))]
    while waiting:
        value, lanes = _unspread(*waiting.pop())
        if value.op is not None and value.op.opcode == "and":
            waiting += [(v, lanes) for v in value.op.operands]
        else:
            found.add(_form(value, lanes))
    return found


Lanes = tuple[object, ...]
"""For each axis of a value the name of its lanes; None where there is one lane."""


def _unspread(value: Value, lanes: Lanes) -> tuple[Value, Lanes]:
    """What a value was before its lanes were spread, and where those lanes lie."""
    while (op := value.op) is not None:
        source = op.operands[0] if op.operands else value
        match op.opcode:
            case "expand_dims":
                axis = op.int_attr("axis")
                lanes = (*lanes[:axis], *lanes[axis + 1 :])
            case "broadcast":
                pairs = zip(source.shape, lanes, strict=False)
                lanes = tuple(None if n == 1 else lane for n, lane in pairs)
            case "transpose":
                order = op.tuple_attr("order")
                lanes = tuple(lanes[order.index(k)] for k in range(len(order)))
            case _:
                break
        value = source
    return value, lanes


def _form(value: Value, lanes: Lanes) -> object:
    """Equal for equal numbers, lane by lane."""
    value, lanes = _unspread(value, lanes)
    op = value.op
    if op is None or not OPS[op.opcode].pure or op.regions:
        return value, lanes
    if op.opcode == "const":
        return "const", op.attrs["value"]
    if OPS[op.opcode].kind == "pointwise":
        operands = tuple(_form(v, lanes) for v in op.operands)
        return op.opcode, tuple(sorted(op.attrs.items())), operands
    if op.opcode == "range":
        return "range", tuple(sorted(op.attrs.items())), lanes
    return value, lanes
