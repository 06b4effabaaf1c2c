"""The meaning of integer ops, one row an op.

Integers are signless: a tensor holds the signed reading, and an op that reads its
operands as unsigned does so here. Results wrap at the width. Where C leaves a result
undefined (division by zero, a shift past the width) the result is some integer, never a
trap: lanes that are masked off compute such things all the time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.evaluate.dtypes import Fn


def flipped(x: Tensor) -> Tensor:
    """`x` with its sign bit flipped: signed order of it is unsigned order of `x`."""
    return x ^ torch.iinfo(x.dtype).min


def unsigned(x: Tensor) -> Tensor:
    """The unsigned reading of `x` in int64; for int64 the bits as they are."""
    bits = x.dtype.itemsize * 8
    return x if bits == 64 else x.to(torch.int64) & ((1 << bits) - 1)


def _sdiv(a: Tensor, b: Tensor) -> Tensor:
    # The processor traps on x / 0 and on min / -1.
    divisor = torch.where((b == 0) | (b == -1), 1, b)
    quotient = torch.div(a, divisor, rounding_mode="trunc")
    return torch.where(b == -1, -a, quotient)


def _srem(a: Tensor, b: Tensor) -> Tensor:
    return torch.fmod(a, torch.where((b == 0) | (b == -1), 1, b))


def _udiv64(a: Tensor, b: Tensor) -> Tensor:
    # Hacker's Delight, 9-3: halve the dividend, divide, double, correct by at most one.
    divisor = torch.where(b <= 0, 1, b)
    quotient = torch.div(_ushr64(a, 1), divisor, rounding_mode="trunc") * 2
    remainder = a - quotient * divisor
    quotient = quotient + (flipped(remainder) >= flipped(divisor)).to(a.dtype)
    return torch.where(b < 0, (flipped(a) >= flipped(b)).to(a.dtype), quotient)


def _udiv(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == torch.int64:
        return _udiv64(a, b)
    return _sdiv(unsigned(a), unsigned(b)).to(a.dtype)


def _urem(a: Tensor, b: Tensor) -> Tensor:
    return a - _udiv(a, b) * b


def _ushr64(a: Tensor, amount: int | Tensor) -> Tensor:
    # An arithmetic shift, with the copies of the sign it brought in taken out again.
    keep = torch.iinfo(torch.int64).max
    if isinstance(amount, int):
        return (a >> amount) & (keep >> (amount - 1))
    logical = ((a >> 1) & keep) >> (amount - 1).clamp(min=0)
    return torch.where(amount == 0, a, logical)


def _ushr(a: Tensor, amount: Tensor) -> Tensor:
    if a.dtype == torch.int64:
        return _ushr64(a, amount)
    return (unsigned(a) >> amount).to(a.dtype)


def _umulhi64(a: Tensor, b: Tensor) -> Tensor:
    low = 0xFFFFFFFF
    a0, a1, b0, b1 = a & low, _ushr64(a, 32), b & low, _ushr64(b, 32)
    middle = a1 * b0 + _ushr64(a0 * b0, 32)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + _ushr64(middle, 32) + _ushr64(other, 32)


def _umulhi(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == torch.int64:
        return _umulhi64(a, b)
    # The product of two 32-bit numbers may set the sign bit; the bits kept are right.
    return ((unsigned(a) * unsigned(b)) >> (a.dtype.itemsize * 8)).to(a.dtype)


INT: dict[str, Fn] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "neg": torch.neg,
    "sdiv": _sdiv,
    "udiv": _udiv,
    "srem": _srem,
    "urem": _urem,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "shl": torch.bitwise_left_shift,
    "sshr": torch.bitwise_right_shift,
    "ushr": _ushr,
    "smax": torch.maximum,
    "smin": torch.minimum,
    "umax": lambda a, b: torch.where(flipped(a) > flipped(b), a, b),
    "umin": lambda a, b: torch.where(flipped(a) < flipped(b), a, b),
    "umulhi": _umulhi,
}

INT_COMPARE: dict[str, Fn] = {
    "eq": torch.eq,
    "ne": torch.ne,
    "slt": torch.lt,
    "sle": torch.le,
    "sgt": torch.gt,
    "sge": torch.ge,
    "ult": lambda a, b: flipped(a) < flipped(b),
    "ule": lambda a, b: flipped(a) <= flipped(b),
    "ugt": lambda a, b: flipped(a) > flipped(b),
    "uge": lambda a, b: flipped(a) >= flipped(b),
}

DIRECT_ON_I1 = frozenset({"and", "or", "xor", "eq", "ne"})
"""Ops that torch does on bool tensors with the meaning of one-bit integers."""


def by_constant(opcode: str, divisor: int) -> Fn | None:
    """A cheaper `sdiv` or `srem` for a divisor known to trap nowhere, or None."""
    if divisor in (0, -1):
        return None
    table: dict[str, Fn] = {
        "sdiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        "srem": torch.fmod,
    }
    return table.get(opcode)


def on_i1(fn: Fn) -> Fn:
    """`fn` for one-bit integers: done on 0 and -1, of which the lowest bit is kept."""

    def narrow(*operands: Tensor) -> Tensor:
        result = fn(*(-x.to(torch.int8) for x in operands))
        return result if result.dtype == torch.bool else (result & 1).to(torch.bool)

    return narrow


# -- conversions -----------------------------------------------------------------------


def to_float(x: Tensor, dtype: torch.dtype, *, signed: bool) -> Tensor:
    """Integers as floats; truth values are 0 and 1."""
    if signed or x.dtype == torch.bool:
        return x.to(dtype)
    if x.dtype != torch.int64:
        return unsigned(x).to(dtype)
    # Half of it is positive; the lost bit sticks, so that rounding happens once.
    halved = (_ushr64(x, 1) | (x & 1)).to(dtype) * 2
    return torch.where(x < 0, halved, x.to(dtype))


def to_int(x: Tensor, dtype: torch.dtype, *, signed: bool) -> Tensor:
    """Integers or floats as integers: floats truncate, integers wrap or extend."""
    if dtype == torch.bool:
        return x != 0 if x.is_floating_point() else (x & 1).to(torch.bool)
    if not x.is_floating_point():
        widens = (
            not signed and x.dtype != torch.bool and dtype.itemsize > x.dtype.itemsize
        )
        return (unsigned(x) if widens else x).to(dtype)
    if signed:
        return x.to(dtype)
    if dtype != torch.int64:
        return x.to(torch.int64).to(dtype)
    return torch.where(x >= 2.0**63, flipped((x - 2.0**63).to(dtype)), x.to(dtype))
