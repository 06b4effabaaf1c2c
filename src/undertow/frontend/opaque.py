"""Rows of the lift for what only a GPU knows the meaning of: assembly, and functions of
CUDA's library that have no rule. They have no derivative, but for one of the user's."""

from __future__ import annotations

from undertow.frontend import libdevice
from undertow.frontend.context import Lifter, Row
from undertow.frontend.location import unquote
from undertow.frontend.structure import int_attr
from undertow.frontend.ttir import MOp
from undertow.ir import F32, Attr


def _inline_asm(lifter: Lifter, op: MOp) -> None:
    _check_pure(lifter, op, "inline assembly", "pass `is_pure=True`")
    text = op.body[: op.body.rindex('"') + 1]
    attrs: dict[str, Attr] = {
        "asm": unquote(text),
        "constraints": unquote(op.attrs["constraints"]),
        "pack": int_attr(op, "packed_element"),
    }
    _bind(lifter, op, "inline_asm", attrs)


def extern(lifter: Lifter, op: MOp) -> None:
    """A call of a function that is known by its name only."""
    symbol, values = unquote(op.attrs["symbol"]), lifter.values(op)
    single = any(v.tensor_type.dtype == F32 for v in values)
    name = libdevice.unknown(symbol, single=single)
    if name is None:
        lifter.refuse(
            op,
            f"the external function `{symbol}` is not supported",
            why="its derivative is not known",
            hint="write it in Triton's own operations",
        )
    _check_pure(lifter, op, f"the external function `{symbol}`", "declare it pure")
    _bind(lifter, op, "extern", {"function": name})


def _check_pure(lifter: Lifter, op: MOp, what: str, hint: str) -> None:
    if op.attrs.get("pure") != "true":
        lifter.refuse(
            op,
            f"{what} with side effects is not supported",
            why="a backward computes values again, and would repeat them",
            hint=f"{hint} if it only computes its result",
        )


def _bind(lifter: Lifter, op: MOp, opcode: str, attrs: dict[str, Attr]) -> None:
    types = [lifter.tensor(op, type) for type in op.result_types]
    values = lifter.values(op)
    pure = lifter.builder.pure
    results = [
        pure(opcode, values, types[0], dict(attrs), index=i, types=types)
        for i in range(len(types))
    ]
    lifter.bind(op, *results)


ROWS: dict[str, Row] = {"tt.elementwise_inline_asm": _inline_asm}
