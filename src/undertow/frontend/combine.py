"""Reductions and scans by a function of the user's, as a tree of it.

Triton takes such a function for associative and combines in an order of its own. Here
neighbours are combined, then neighbours of those; a scan keeps the totals of its blocks
beside their prefixes. What is left is moves of elements and elementwise operations,
which have derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn, TypeAlias

from undertow.frontend.attributes import check_attributes
from undertow.frontend.context import Lifter
from undertow.frontend.pointwise import ROWS
from undertow.frontend.structure import int_attr
from undertow.frontend.ttir import MOp, MType
from undertow.ir import Builder, Value

Elements: TypeAlias = "tuple[Value, ...]"
"""A tensor for each argument that the function takes twice."""


def reduced(lifter: Lifter, op: MOp) -> Elements:
    """The results of a `tt.reduce`."""
    b, axis = lifter.builder, int_attr(op, "axis")
    values = tuple(_last(b, value, axis) for value in lifter.values(op))
    while (extent := values[0].shape[-1]) > 1:
        halves = (*values[0].shape[:-1], extent // 2, 2)
        values = _combined(lifter, op, *_split(b, values, halves))
    return tuple(b.reshape(value, value.shape[:-1]) for value in values)


def scanned(lifter: Lifter, op: MOp) -> Elements:
    """The results of a `tt.scan`.

    A step joins neighbouring blocks of `size` elements: the total of the one that comes
    first, in the scan's order, goes into each element of the other.
    """
    b, axis = lifter.builder, int_attr(op, "axis")
    totals = tuple(_last(b, value, axis) for value in lifter.values(op))
    *outer, extent = totals[0].shape
    prefixes, size = totals, 1
    reverse = op.attrs["reverse"] == "true"
    while size < extent:
        pairs = (*outer, extent // (2 * size), 2)
        blocks = tuple(b.reshape(p, (*pairs, size)) for p in prefixes)
        blocks = tuple(_swap_last(b, block) for block in blocks)
        first, second = _split(b, blocks, blocks[0].shape)
        head, tail = _split(b, totals, pairs)
        if reverse:
            first, second, head, tail = second, first, tail, head
        carried = tuple(
            b.broadcast(b.expand_dims(h, len(pairs) - 1), (*pairs[:-1], size))
            for h in head
        )
        second = _combined(lifter, op, carried, second)
        totals = _combined(lifter, op, head, tail)
        if reverse:
            first, second = second, first
        joined = [b.join(x, y) for x, y in zip(first, second, strict=True)]
        prefixes = tuple(_swap_last(b, block) for block in joined)
        size *= 2
    whole = tuple(b.reshape(p, (*outer, extent)) for p in prefixes)
    return tuple(b.transpose(p, _back(len(p.shape), axis)) for p in whole)


def _last(b: Builder, value: Value, axis: int) -> Value:
    """`value` with `axis` moved to the end."""
    rest = (i for i in range(len(value.shape)) if i != axis)
    return b.transpose(value, (*rest, axis))


def _back(rank: int, axis: int) -> tuple[int, ...]:
    """The order that moves the last axis to `axis`."""
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return tuple(order)


def _swap_last(b: Builder, value: Value) -> Value:
    rank = len(value.shape)
    return b.transpose(value, (*range(rank - 2), rank - 1, rank - 2))


def _split(
    b: Builder, values: Elements, shape: tuple[int, ...]
) -> tuple[Elements, Elements]:
    """Both halves of each of `values` in `shape`, whose last extent is 2."""
    halves = [b.split(b.reshape(value, shape)) for value in values]
    return tuple(x for x, _ in halves), tuple(y for _, y in halves)


def _combined(lifter: Lifter, op: MOp, left: Elements, right: Elements) -> Elements:
    """The function in the region of `op`, element by element."""
    region, shape = op.regions[0], left[0].shape
    if len(region.blocks) != 1:
        _refuse(lifter, op, "that branches")
    (block,) = region.blocks
    with lifter.scope():
        for arg, value in zip(block.args, (*left, *right), strict=True):
            lifter.define(arg.name, value)
        for inner in block.ops:
            if inner.name in ("tt.reduce.return", "tt.scan.return"):
                return tuple(lifter.values(inner))
            if inner.name == "tt.call":  # which Triton does not inline
                _refuse(lifter, op, "that returns early, or is `noinline`,")
            if inner.regions:
                _refuse(lifter, op, "that branches")
            if inner.name not in ROWS:
                _refuse(lifter, op, "that is more than elementwise")
            _lift_wide(lifter, inner, shape)
    _refuse(lifter, op, "that returns nothing")


def _lift_wide(lifter: Lifter, op: MOp, shape: tuple[int, ...]) -> None:
    """Lifts an op on scalars as the same one on tensors of `shape`."""
    lifter.builder.loc = op.loc
    check_attributes(lifter, op)
    _widen(lifter, op, op.operands, shape)  # constants may stand outside of the region
    wide = replace(
        op,
        operand_types=_widened(op.operand_types, shape),
        result_types=_widened(op.result_types, shape),
    )
    ROWS[op.name](lifter, wide)
    _widen(lifter, op, op.results, shape)


def _widen(
    lifter: Lifter, op: MOp, names: Sequence[str], shape: tuple[int, ...]
) -> None:
    for name in names:
        value = lifter.value(name, op)
        lifter.define(name, lifter.builder.broadcast(value, shape))


def _widened(types: Sequence[MType], shape: tuple[int, ...]) -> tuple[MType, ...]:
    return tuple(replace(type, shape=shape) for type in types)


def _refuse(lifter: Lifter, op: MOp, kind: str) -> NoReturn:
    name = "tl.reduce" if op.name == "tt.reduce" else "tl.associative_scan"
    lifter.refuse(
        op,
        f"`{name}` with a function {kind} is not supported",
        why="it is applied to all elements at once",
        hint="write it with elementwise operations, `tl.where` among them",
    )
