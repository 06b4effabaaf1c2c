"""Rows of the lift for `tt.reduce` and `tt.scan`: which one it is, told by its region.

Triton keeps no name: `tl.sum` is a region that adds two elements, `tl.argmax` one that
compares two pairs. A region is read into an expression tree and compared with the known
ones.
"""

from __future__ import annotations

from typing import NoReturn, TypeAlias

from undertow.frontend.context import Lifter, Row
from undertow.frontend.structure import int_attr
from undertow.frontend.ttir import MOp
from undertow.ir import F32, F64, I1, I8, I32, I64, Value

Tree: TypeAlias = "str | tuple[Tree, ...]"

KINDS: dict[str, str] = {
    "arith.addf": "sum", "arith.addi": "sum",
    "arith.mulf": "prod", "arith.muli": "prod",
    "arith.maxnumf": "max", "arith.maximumf": "max",
    "arith.minnumf": "min", "arith.minimumf": "min",
    "arith.maxsi": "smax", "arith.maxui": "umax",
    "arith.minsi": "smin", "arith.minui": "umin",
    "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor",
}  # fmt: skip
"""Reductions whose region is one op of the two elements."""

_BOOL_KINDS = {"sum": "xor", "prod": "and"}
"""Arithmetic on one bit wraps around."""

_COMMUTATIVE = frozenset(("arith.andi", "arith.ori", "arith.cmpf oeq", "arith.cmpi eq"))

_GREATER = {
    "arith.cmpf ogt": ("argmax", "max", "arith.cmpf oeq"),
    "arith.cmpf olt": ("argmin", "min", "arith.cmpf oeq"),
    "arith.cmpi sgt": ("argmax", "smax", "arith.cmpi eq"),
    "arith.cmpi slt": ("argmin", "smin", "arith.cmpi eq"),
    "arith.cmpi ugt": ("argmax", "umax", "arith.cmpi eq"),
    "arith.cmpi ult": ("argmin", "umin", "arith.cmpi eq"),
}
"""The comparison by which the first element wins: kinds of index and value, tie."""


def _reduce(lifter: Lifter, op: MOp) -> None:
    axis = int_attr(op, "axis")
    args, trees = _read_region(lifter, op)
    values = lifter.values(op)
    if len(values) == 1:
        kind = _kind(args, trees[0])
        if kind is None:
            _refuse_custom(lifter, op)
        if values[0].tensor_type.dtype == I1:
            kind = _BOOL_KINDS.get(kind, kind)
        lifter.bind(op, lifter.builder.reduce(values[0], kind, axis))
        return
    kinds = _arg_kinds(args, trees) if len(values) == 2 else None
    if kinds is None:
        _refuse_custom(lifter, op)
    if not _counts_along(values[1], axis):
        lifter.refuse(
            op,
            "a reduction of pairs other than value and position is not supported",
            why="it selects from the second tensor where the first is extreme",
            hint="compare `tl.argmax` with the positions, and sum under that mask",
        )
    index_kind, value_kind = kinds
    value = lifter.builder.reduce(values[0], value_kind, axis)
    ordered = _signed(lifter, values[0]) if value_kind[0] == "u" else values[0]
    lifter.bind(op, value, lifter.builder.reduce(ordered, index_kind, axis))


def _signed(lifter: Lifter, value: Value) -> Value:
    """`value` in an order that signed comparison sees: argmax and argmin are signed."""
    b, type = lifter.builder, value.tensor_type
    if type.dtype == I1:
        return b.cast(value, I8, signed=False)
    return b.pointwise("xor", value, b.const(-1 << type.dtype.bits - 1, type))


def _refuse_custom(lifter: Lifter, op: MOp) -> NoReturn:
    function = "tl.reduce" if op.name == "tt.reduce" else "tl.associative_scan"
    lifter.refuse(
        op,
        f"`{function}` with a custom function is not supported",
        why="only sums, products, extremes, their positions, and bits are known",
        hint="write it with `tl.sum`, `tl.max` and elementwise operations",
    )


def _read_region(lifter: Lifter, op: MOp) -> tuple[tuple[str, ...], list[Tree]]:
    """The names of the region's arguments, and what it returns as trees over them."""
    region = op.regions[0]
    if len(region.blocks) != 1:
        _refuse_custom(lifter, op)
    block = region.blocks[0]
    args = tuple(arg.name for arg in block.args)
    known: dict[str, Tree] = {name: name for name in args}
    for inner in block.ops:
        operands = tuple(known.get(name, "outside") for name in inner.operands)
        if inner.name in ("tt.reduce.return", "tt.scan.return"):
            return args, list(operands)
        if len(inner.results) != 1:
            _refuse_custom(lifter, op)
        head = inner.name
        if inner.name.startswith("arith.cmp"):
            head = f"{inner.name} {inner.words[0]}"
        elif inner.name == "arith.constant":
            head = f"{inner.name} {inner.body}"
        if head in _COMMUTATIVE:
            operands = tuple(sorted(operands, key=repr))
        known[inner.results[0]] = (head, *operands)
    _refuse_custom(lifter, op)


def _kind(args: tuple[str, ...], tree: Tree) -> str | None:
    if isinstance(tree, tuple) and len(tree) == 3 and set(tree[1:]) == set(args):
        return KINDS.get(str(tree[0]))
    return None


def _arg_kinds(args: tuple[str, ...], trees: list[Tree]) -> tuple[str, str] | None:
    """Kinds of index and value if the region is that of `tl.argmax` or `tl.argmin`."""
    v1, i1, v2, i2 = args
    for greater, (index_kind, value_kind, equal) in _GREATER.items():
        wins: Tree = (greater, v1, v2)
        tie = _sorted("arith.andi", _sorted(equal, v1, v2), ("arith.cmpi slt", i1, i2))
        for condition in (wins, _sorted("arith.ori", wins, tie)):
            chosen: Tree = ("arith.select", condition, v1, v2)
            if trees[1] == ("arith.select", condition, i1, i2) and (
                trees[0] == chosen or _kind((v1, v2), trees[0]) == value_kind
            ):
                return index_kind, value_kind
    return None


def _sorted(head: str, *operands: Tree) -> Tree:
    return (head, *sorted(operands, key=repr))


def _counts_along(value: Value, axis: int) -> bool:
    """Whether `value` is the position along `axis`: a range from 0, broadcast."""
    extent = value.shape[axis]
    while value.op is not None and value.op.opcode in ("broadcast", "expand_dims"):
        if value.op.opcode == "expand_dims":
            new = value.op.int_attr("axis")
            if new == axis:
                return False
            axis -= new < axis
        value = value.op.operands[0]
        if not value.shape:
            return False
    if extent == 1:
        return (
            value.op is not None
            and value.op.opcode == "const"
            and not value.op.attrs["value"]
        )
    return (
        value.op is not None
        and value.op.opcode == "range"
        and value.op.attrs == {"start": 0, "end": extent}
    )


def _scan(lifter: Lifter, op: MOp) -> None:
    args, trees = _read_region(lifter, op)
    values = lifter.values(op)
    if len(values) != 1 or _kind(args, trees[0]) != "sum":
        lifter.refuse(
            op,
            "`tl.associative_scan` and `tl.cumprod` are not supported yet",
            why="only sums of prefixes, `tl.cumsum`, are known",
            hint="a product of positive numbers is the exponential of a sum",
        )
    (value,) = values
    if value.tensor_type.dtype not in (F32, F64, I32, I64):
        lifter.refuse(
            op,
            f"a scan of values of type `{op.type.element}` is not supported",
            hint="convert them to `tl.float32` or `tl.int32` first",
        )
    reverse = op.attrs["reverse"] == "true"
    axis = int_attr(op, "axis")
    lifter.bind(op, lifter.builder.scan(value, "sum", axis, reverse=reverse))


ROWS: dict[str, Row] = {"tt.reduce": _reduce, "tt.scan": _scan}
