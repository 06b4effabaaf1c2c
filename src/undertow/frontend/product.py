"""Row of the lift for `tt.dot`."""

from __future__ import annotations

from undertow.frontend.context import Lifter, Row
from undertow.frontend.ttir import MOp
from undertow.ir import DType

_DEFAULT = "ieee"
"""The precision where none is printed."""


def _dot(lifter: Lifter, op: MOp) -> None:
    a, b, c = lifter.values(op)
    for value in (a, b, c):
        _check(lifter, op, value.tensor_type.dtype)
    if a.tensor_type.dtype != b.tensor_type.dtype:
        lifter.refuse(
            op,
            f"`tl.dot` of `{a.tensor_type.dtype}` by `{b.tensor_type.dtype}`"
            " is not supported",
            hint="convert one of the operands to the type of the other",
        )
    precision = op.attrs.get("inputPrecision", _DEFAULT).lower()
    lifter.bind(op, lifter.builder.dot(a, b, c, precision))


def _check(lifter: Lifter, op: MOp, dtype: DType) -> None:
    if dtype.is_int:
        lifter.refuse(
            op,
            f"`tl.dot` of integers (`{dtype}`) is not supported",
            why="a product of integers has no derivative",
            hint="convert the operands to floats",
        )
    if dtype.bits == 8:
        lifter.refuse(
            op,
            f"`tl.dot` of 8-bit floats (`{dtype}`) is not supported",
            why="a gradient in 8 bits would need scales",
            hint="convert the operands to `tl.float16` or `tl.bfloat16`",
        )


ROWS: dict[str, Row] = {"tt.dot": _dot}
