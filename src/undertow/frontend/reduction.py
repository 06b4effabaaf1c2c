"""Rows of the lift for `tt.reduce` and `tt.scan`: which one it is, told by its region.

Triton keeps no name: `tl.sum` is a region that adds two elements, `tl.argmax` one that
compares two pairs. A region is read into an expression tree and compared with the known
ones; any other function is applied as it stands, see `combine`.
"""

from __future__ import annotations

from typing import TypeAlias

from undertow.frontend import combine
from undertow.frontend.context import Lifter, Row
from undertow.frontend.structure import int_attr
from undertow.frontend.ttir import MOp
from undertow.ir import F32, F64, I1, I8, I32, I64, SCANS, Value

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

_COMMUTATIVE = frozenset(
    (
        "arith.andi", "arith.ori", "arith.addf", "arith.mulf",
        "arith.cmpf oeq", "arith.cmpi eq",
    )
)  # fmt: skip

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
    b, axis, values = lifter.builder, int_attr(op, "axis"), lifter.values(op)
    args, trees = _read_region(op)
    kind = _kind(args, trees)
    if kind is not None:
        if values[0].tensor_type.dtype == I1:
            kind = _BOOL_KINDS.get(kind, kind)
        lifter.bind(op, b.reduce(values[0], kind, axis))
        return
    kinds = _arg_kinds(args, trees)
    if kinds is None or not _counts_along(values[1], axis):
        lifter.bind(op, *combine.reduced(lifter, op))
        return
    index_kind, value_kind = kinds
    value = b.reduce(values[0], value_kind, axis)
    ordered = _signed(lifter, values[0]) if value_kind[0] == "u" else values[0]
    lifter.bind(op, value, b.reduce(ordered, index_kind, axis))


def _signed(lifter: Lifter, value: Value) -> Value:
    """`value` in an order that signed comparison sees: argmax and argmin are signed."""
    b, type = lifter.builder, value.tensor_type
    if type.dtype == I1:
        return b.cast(value, I8, signed=False)
    return b.pointwise("xor", value, b.const(-1 << type.dtype.bits - 1, type))


def _read_region(op: MOp) -> tuple[tuple[str, ...], list[Tree]]:
    """The names of the region's arguments, and what it returns as trees over them.

    No trees where the region branches.
    """
    blocks = op.regions[0].blocks
    args = tuple(arg.name for arg in blocks[0].args)
    known: dict[str, Tree] = {name: name for name in args}
    for inner in blocks[0].ops:
        operands = tuple(known.get(name, "outside") for name in inner.operands)
        if inner.name in ("tt.reduce.return", "tt.scan.return"):
            return args, list(operands)
        head = inner.name
        if inner.name.startswith("arith.cmp"):
            head = f"{inner.name} {inner.words[0]}"
        elif inner.name == "arith.constant":
            head = f"{inner.name} {inner.body}"
        if head in _COMMUTATIVE:
            operands = tuple(sorted(operands, key=repr))
        for name in inner.results if len(inner.results) == 1 else ():
            known[name] = (head, *operands)
    return args, []


def _kind(args: tuple[str, ...], trees: list[Tree]) -> str | None:
    """The kind of a reduction by one op, or by a selection that passes a NaN on."""
    if len(args) != 2 or len(trees) != 1:
        return None
    tree = trees[0]
    if isinstance(tree, tuple) and len(tree) == 3 and set(tree[1:]) == set(args):
        return KINDS.get(str(tree[0]))
    for first, second in (args, args[::-1]):
        nan: Tree = ("arith.cmpf une", first, first)
        for greater, kind in (("arith.cmpf ogt", "max"), ("arith.cmpf olt", "min")):
            wins = _sorted("arith.ori", (greater, first, second), nan)
            if tree == ("arith.select", wins, first, second):
                return kind
    return None


def _arg_kinds(args: tuple[str, ...], trees: list[Tree]) -> tuple[str, str] | None:
    """Kinds of index and value if the region is that of `tl.argmax` or `tl.argmin`."""
    if len(args) != 4 or len(trees) != 2:
        return None
    v1, i1, v2, i2 = args
    for greater, (index_kind, value_kind, equal) in _GREATER.items():
        wins: Tree = (greater, v1, v2)
        tie = _sorted("arith.andi", _sorted(equal, v1, v2), ("arith.cmpi slt", i1, i2))
        for condition in (wins, _sorted("arith.ori", wins, tie)):
            chosen: Tree = ("arith.select", condition, v1, v2)
            if trees[1] == ("arith.select", condition, i1, i2) and (
                trees[0] == chosen or _kind((v1, v2), trees[:1]) == value_kind
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
    b, axis, values = lifter.builder, int_attr(op, "axis"), lifter.values(op)
    args, trees = _read_region(op)
    kind, gain = _kind(args, trees), _gain(args, trees)
    reverse = op.attrs["reverse"] == "true"
    if kind in SCANS and values[0].tensor_type.dtype in (F32, F64, I32, I64):
        lifter.bind(op, b.scan(values[0], kind, axis, reverse=reverse))
    elif gain is not None and values[0].type == values[1].type:
        a, x = values[gain], values[1 - gain]
        both = [
            b.scan(a, "prod", axis, reverse=reverse),
            b.recurrence(a, x, axis, reverse=reverse),
        ]
        lifter.bind(op, *(both if gain == 0 else both[::-1]))
    else:
        lifter.bind(op, *combine.scanned(lifter, op))


def _gain(args: tuple[str, ...], trees: list[Tree]) -> int | None:
    """The place of `a` in a region that combines pairs of a and x: a1 a2, x1 a2 + x2.

    Scanned, it is the recurrence h = a h + x.
    """
    if len(args) != 4 or len(trees) != 2:
        return None
    for place in (0, 1):
        a1, a2 = args[place], args[place + 2]
        x1, x2 = args[1 - place], args[3 - place]
        scaled = _sorted("arith.mulf", x1, a2)
        sums = (
            _sorted("arith.addf", scaled, x2),
            ("math.fma", x1, a2, x2),
            ("math.fma", a2, x1, x2),
        )
        if trees[place] == _sorted("arith.mulf", a1, a2) and trees[1 - place] in sums:
            return place
    return None


ROWS: dict[str, Row] = {"tt.reduce": _reduce, "tt.scan": _scan}
