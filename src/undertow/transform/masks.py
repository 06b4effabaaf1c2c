"""What follows from what, among the masks of a kernel.

A mask is read as a conjunction. Its *atoms* are the values joined by ``and``, each with
the lane moves (broadcast, expand_dims, …) between it and the mask, so that the atoms of
``(rows < m)[:, None] & (cols < n)[None, :]`` are found again however they were joined.
"""

from __future__ import annotations

from undertow.ir import I1, Builder, Value

MOVES = ("broadcast", "expand_dims", "reshape", "transpose")

Move = tuple[object, ...]
"""An opcode, its attributes, and the shape it gives."""
Atom = tuple[Value, tuple[Move, ...]]


def atoms(mask: Value, moves: tuple[Move, ...] = ()) -> dict[Atom, None]:
    """The atoms of `mask`, in order, when moved further by `moves`."""
    op = mask.op
    if op is not None and op.opcode == "and":
        return atoms(op.operands[0], moves) | atoms(op.operands[1], moves)
    if op is not None and op.opcode in MOVES:
        move = (op.opcode, *sorted(op.attrs.items()), mask.shape)
        return atoms(op.operands[0], (move, *moves))
    if op is not None and op.opcode == "const" and op.attrs["value"] is True:
        return {}
    return {(mask, moves): None}


def implies(value: Value, other: Value) -> bool:
    """Whether `other` is known to hold wherever `value` does."""
    if value is other:
        return True
    have = atoms(value)
    return all(_holds(have, atom) for atom in atoms(other))


def _holds(have: dict[Atom, None], atom: Atom) -> bool:
    """Whether an atom is among those given, or follows from one."""
    if atom in have:
        return True
    value, moves = atom
    op = value.op
    if op is None:
        return False
    if op.opcode == "or":
        return any(
            all(_holds(have, a) for a in atoms(part, moves)) for part in op.operands
        )
    if op.opcode != "reduce" or op.str_attr("kind") != "or" or not moves:
        return False
    source, rest = _reduced(value, moves)
    return source is not None and all(_holds(have, a) for a in atoms(source, rest))


def _reduced(
    value: Value, moves: tuple[Move, ...]
) -> tuple[Value | None, tuple[Move, ...]]:
    """m where `value` is any(m), spread over its lanes again by the first moves."""
    assert value.op is not None
    (source,), axis = value.op.operands, value.op.int_attr("axis")
    if not value.shape and moves[0][0] == "broadcast":
        while source.shape != moves[0][-1]:
            op = source.op
            if op is None or op.opcode != "reduce" or op.str_attr("kind") != "or":
                return None, moves
            (source,) = op.operands
        return source, moves[1:]
    wide = ("expand_dims", ("axis", axis)), ("broadcast", source.shape)
    if len(moves) > 1 and (moves[0][:2], moves[1]) == wide:
        return source, moves[2:]
    return None, moves


def conjuncts(mask: Value) -> list[Value]:
    """The values of the mask's own shape that ``and`` joins in it."""
    op = mask.op
    if op is None or op.opcode != "and":
        return [mask]
    return [part for v in op.operands for part in conjuncts(v)]


def conjunction(b: Builder, masks: list[Value]) -> Value | None:
    """All of `masks` at once; None for none."""
    total: Value | None = None
    for mask in masks:
        total = mask if total is None else b.pointwise("and", total, mask)
    return total


def negation(b: Builder, mask: Value) -> Value:
    assert mask.tensor_type.dtype == I1
    return b.pointwise("xor", mask, b.const(True, mask.tensor_type))


def opposite(mask: Value, other: Value) -> bool:
    """Whether `other` is the negation of `mask`, or the other way round."""
    for a, b in ((mask, other), (other, mask)):
        if b.op is not None and b.op.opcode == "xor" and b.op.operands[0] is a:
            flag = b.op.operands[1].op
            return flag is not None and flag.attrs.get("value") is True
    return False


def without_axis(b: Builder, mask: Value, axis: int) -> Value | None:
    """One slice of a mask that is the same all along `axis`; None if it may differ."""
    op = mask.op
    shape = (*mask.shape[:axis], *mask.shape[axis + 1 :])
    if op is None or op.opcode != "broadcast":
        return None
    (source,) = op.operands
    if not source.shape:
        return b.broadcast(source, shape)
    if source.shape[axis] != 1 or mask.shape[axis] == 1:
        return None
    narrow = b.reshape(source, (*source.shape[:axis], *source.shape[axis + 1 :]))
    return b.broadcast(narrow, shape)
