"""The meaning of structural ops, reductions and `dot`, one row an op or a kind.

A value of shape S is held as a tensor of rank 1 + len(S): programs first. An extent of
1 stands for any extent (a value that is the same for all programs, or along an axis),
so a `broadcast` costs nothing, and only ops that move or combine elements expand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

from undertow.evaluate.dtypes import Fn, is_small_float, torch_dtype
from undertow.evaluate.integers import flipped
from undertow.ir import Op

Reduction = Callable[[Tensor, int], Tensor]


def _broadcast(op: Op) -> Fn:
    if op.operands[0].tensor_type.rank:
        return lambda x: x
    ones = (1,) * op.result.tensor_type.rank
    return lambda x: x.reshape(-1, *ones)


def _expand_dims(op: Op) -> Fn:
    axis = op.int_attr("axis") + 1
    return lambda x: x.unsqueeze(axis)


def _reshape(op: Op) -> Fn:
    source, target = op.operands[0].shape, op.result.shape
    ones = (1,) * len(target)

    def reshape(x: Tensor) -> Tensor:
        programs = x.shape[0]
        if x.numel() == programs:
            return x.reshape(programs, *ones)
        return x.expand(programs, *source).reshape(programs, *target)

    return reshape


def _transpose(op: Op) -> Fn:
    order = (0, *(axis + 1 for axis in op.tuple_attr("order")))
    return lambda x: x.permute(order)


def _join(op: Op) -> Fn:
    return lambda a, b: torch.stack(torch.broadcast_tensors(a, b), dim=-1)


def _split(op: Op) -> Fn:
    # -1 is the second half, and the first again where both halves are held as one.
    return lambda x: (x.select(-1, 0), x.select(-1, -1))


def _flip(op: Op) -> Fn:
    axis = op.int_attr("axis") + 1
    return lambda x: x.flip(axis)


def _gather(op: Op) -> Fn:
    """An index out of range, which Triton leaves open, takes the nearest element."""
    axis, source = op.int_attr("axis"), op.operands[0].shape
    target = op.result.shape

    def gather(x: Tensor, index: Tensor) -> Tensor:
        programs = max(x.shape[0], index.shape[0])
        index = index.clamp(0, source[axis] - 1).expand(programs, *target)
        return x.expand(programs, *source).gather(axis + 1, index.long())

    return gather


STRUCTURE: dict[str, Callable[[Op], Fn]] = {
    "broadcast": _broadcast,
    "expand_dims": _expand_dims,
    "reshape": _reshape,
    "transpose": _transpose,
    "join": _join,
    "split": _split,
    "flip": _flip,
    "gather": _gather,
}


# -- reductions ------------------------------------------------------------------------


def _extreme(find: Fn, worst: float) -> Reduction:
    """max or min; a NaN loses against every number, as in `tl.max` and `tl.min`."""

    def extreme(x: Tensor, dim: int) -> Tensor:
        if not x.is_floating_point():
            return find(x, dim=dim)
        absent = x.isnan()
        found = find(x.masked_fill(absent, worst), dim=dim)
        return found.masked_fill(absent.all(dim=dim), torch.nan)

    return extreme


def _arg(find: Fn, worst: float) -> Reduction:
    """The first index of the extreme; a NaN loses against every number."""

    def arg(x: Tensor, dim: int) -> Tensor:
        if x.is_floating_point():
            x = x.masked_fill(x.isnan(), worst)
        return find(x, dim=dim).to(torch.int32)

    return arg


def _folded(combine: Fn) -> Reduction:
    return lambda x, dim: reduce(combine, x.unbind(dim))


REDUCE: dict[str, Reduction] = {
    "sum": lambda x, dim: torch.sum(x, dim=dim, dtype=x.dtype),
    "prod": lambda x, dim: torch.prod(x, dim=dim, dtype=x.dtype),
    "max": _extreme(torch.amax, -torch.inf),
    "min": _extreme(torch.amin, torch.inf),
    "smax": lambda x, dim: torch.amax(x, dim=dim),
    "smin": lambda x, dim: torch.amin(x, dim=dim),
    "umax": lambda x, dim: flipped(torch.amax(flipped(x), dim=dim)),
    "umin": lambda x, dim: flipped(torch.amin(flipped(x), dim=dim)),
    "and": _folded(torch.bitwise_and),
    "or": _folded(torch.bitwise_or),
    "xor": _folded(torch.bitwise_xor),
    "argmax": _arg(torch.argmax, -torch.inf),
    "argmin": _arg(torch.argmin, torch.inf),
}


def reduction(op: Op) -> Fn:
    """The reduction of `op`; half types accumulate in float32 and round once."""
    axis = op.int_attr("axis")
    dim, extent = axis + 1, op.operands[0].shape[axis]
    kind = op.str_attr("kind")
    combine, is_index = REDUCE[kind], kind.startswith("arg")

    def reduced(x: Tensor) -> Tensor:
        shape = list(x.shape)
        shape[dim] = extent
        x, dtype = x.expand(shape), x.dtype
        if dtype == torch.bool:
            # One-bit integers as 0 and -1; the lowest bit is the result.
            result = combine(-x.to(torch.int8), dim)
            return result if is_index else (result & 1).to(torch.bool)
        if not is_small_float(dtype):
            return combine(x, dim)
        result = combine(x.to(torch.float32), dim)
        return result if is_index else result.to(dtype)

    return reduced


SCAN: dict[str, Callable[[Tensor, int], Tensor]] = {
    "sum": lambda x, dim: torch.cumsum(x, dim=dim, dtype=x.dtype),
    "prod": lambda x, dim: torch.cumprod(x, dim=dim, dtype=x.dtype),
}


def scan(op: Op) -> Fn:
    """What `op` makes of each prefix, or suffix."""
    combine = SCAN[op.str_attr("kind")]
    return _along(op, lambda dim, x: combine(x, dim))


def recurrence(op: Op) -> Fn:
    """h[t] = a[t] * h[t - 1] + b[t], one element after the other."""

    def states(dim: int, a: Tensor, b: Tensor) -> Tensor:
        found = [b.select(dim, 0)]
        for t in range(1, b.shape[dim]):
            found.append(a.select(dim, t) * found[-1] + b.select(dim, t))
        return torch.stack(found, dim)

    return _along(op, states)


def _along(op: Op, function: Callable[..., Tensor]) -> Fn:
    """`function` of a dimension and the operands, reversed along it if `op` is."""
    dim, shape = op.int_attr("axis") + 1, op.result.shape
    reverse = bool(op.attrs["reverse"])

    def scanned(*operands: Tensor) -> Tensor:
        whole = [x.expand(-1, *shape) for x in torch.broadcast_tensors(*operands)]
        if reverse:
            return function(dim, *(x.flip(dim) for x in whole)).flip(dim)
        return function(dim, *whole)

    return scanned


# -- products of matrices --------------------------------------------------------------


def dot(op: Op, float_dtype: torch.dtype | None) -> Fn:
    """a @ b + c, summed in c's dtype; half types in float32, and rounded once.

    `precision` is not modelled: operands keep all their digits.
    """
    extent = op.operands[0].shape[-1]
    dtype = torch_dtype(op.result.tensor_type.dtype, float_dtype)
    wide = torch.float32 if is_small_float(dtype) else dtype

    def product(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        a = a.to(wide).expand(*a.shape[:-1], extent)
        b = b.to(wide).expand(*b.shape[:-2], extent, b.shape[-1])
        return (torch.matmul(a, b) + c.to(wide)).to(dtype)

    return product
