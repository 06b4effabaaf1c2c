"""From a pure op to a function of tensors: one row an opcode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from undertow.errors import UnsupportedError
from undertow.evaluate.dtypes import Fn, is_small_float, torch_dtype
from undertow.evaluate.floats import FLOAT, FLOAT_COMPARE, clamp, clamp_nan
from undertow.evaluate.integers import (
    DIRECT_ON_I1,
    INT,
    INT_COMPARE,
    by_constant,
    on_i1,
    to_float,
    to_int,
)
from undertow.evaluate.structure import STRUCTURE, dot, recurrence, reduction, scan
from undertow.ir import I1, Op, Value

Meaning = Callable[[Op, torch.dtype | None], Fn]
"""Gives the function of an op; floats are evaluated in a dtype, or (None) their own."""


def _widened(fn: Fn, dtype: torch.dtype) -> Fn:
    """`fn` on half floats: done in float32, and float results rounded to `dtype`."""

    def widened(*operands: Tensor) -> Tensor:
        result = fn(*(x.to(torch.float32) for x in operands))
        return result.to(dtype) if result.is_floating_point() else result

    return widened


def _for_floats(fn: Fn, op: Op, float_dtype: torch.dtype | None) -> Fn:
    dtype = torch_dtype(op.operands[-1].tensor_type.dtype, float_dtype)
    return _widened(fn, dtype) if is_small_float(dtype) else fn


def _for_ints(fn: Fn, name: str, op: Op) -> Fn:
    on_bits = op.operands[-1].tensor_type.dtype == I1 and name not in DIRECT_ON_I1
    return on_i1(fn) if on_bits else fn


def _constant(value: Value) -> object:
    """The number that `value` holds in every lane, or None if it is not a constant."""
    op = value.op
    while op is not None and op.opcode in ("broadcast", "expand_dims", "reshape"):
        op = op.operands[0].op
    return op.attrs["value"] if op is not None and op.opcode == "const" else None


def _arithmetic(op: Op, float_dtype: torch.dtype | None) -> Fn:
    if op.operands[-1].is_float:
        return _for_floats(FLOAT[op.opcode], op, float_dtype)
    fn = INT[op.opcode]
    divisor = _constant(op.operands[-1])
    if isinstance(divisor, int) and not isinstance(divisor, bool):
        fn = by_constant(op.opcode, divisor) or fn
    return _for_ints(fn, op.opcode, op)


def _clamp(op: Op, float_dtype: torch.dtype | None) -> Fn:
    return _for_floats(clamp_nan if op.attrs.get("nan") else clamp, op, float_dtype)


def _cmp(op: Op, float_dtype: torch.dtype | None) -> Fn:
    predicate = op.str_attr("predicate")
    if op.operands[0].is_float:
        return _for_floats(FLOAT_COMPARE[predicate], op, float_dtype)
    return _for_ints(INT_COMPARE[predicate], predicate, op)


def _cast(op: Op, float_dtype: torch.dtype | None) -> Fn:
    source, target = op.operands[0].tensor_type.dtype, op.result.tensor_type.dtype
    dtype = torch_dtype(target, float_dtype)
    signed = bool(op.attrs.get("signed", True))
    if target.is_int:
        return partial(to_int, dtype=dtype, signed=signed)
    if source.is_int:
        return partial(to_float, dtype=dtype, signed=signed)
    return lambda x: x.to(dtype)


def _bitcast(op: Op, float_dtype: torch.dtype | None) -> Fn:
    source, target = op.operands[0].tensor_type.dtype, op.result.tensor_type.dtype
    if source == target:
        return lambda x: x
    if float_dtype is not None:
        raise UnsupportedError(
            f"a bitcast from {source} to {target} has no meaning when floats are "
            f"evaluated in {str(float_dtype).removeprefix('torch.')}",
            loc=op.loc,
            hint="evaluate with float_dtype=None, each value in its own dtype",
        )
    dtype = torch_dtype(target, None)
    return lambda x: x.view(dtype)


def _structure(op: Op, float_dtype: torch.dtype | None) -> Fn:
    return STRUCTURE[op.opcode](op)


PURE: dict[str, Meaning] = {
    **dict.fromkeys([*FLOAT, *INT], _arithmetic),
    **dict.fromkeys(STRUCTURE, _structure),
    "clamp": _clamp,
    "cmp": _cmp,
    "select": lambda op, float_dtype: torch.where,
    "cast": _cast,
    "bitcast": _bitcast,
    "reduce": lambda op, float_dtype: reduction(op),
    "scan": lambda op, float_dtype: scan(op),
    "recurrence": lambda op, float_dtype: recurrence(op),
    "dot": dot,
}
