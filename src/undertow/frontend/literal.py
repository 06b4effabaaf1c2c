"""The literals of `arith.constant`: `5`, `true`, `dense<0xFF800000>`."""

from __future__ import annotations

import math
import struct

from undertow.ir import BF16, F16, F32, F64, I1, DType

_FORMATS = {F16: ("<H", "<e"), F32: ("<I", "<f"), F64: ("<Q", "<d")}


def literal(text: str, dtype: DType) -> int | float | bool | None:
    """The value of a scalar literal, or the value that fills a dense one.

    None if `text` is no such literal, or a dense one whose elements differ. A float
    printed as bits (all that are infinite or NaN) is read by the format of `dtype`; one
    printed in decimals stands for the closest number of `dtype`.
    """
    text = text.strip()
    if text.startswith("dense<") and text.endswith(">"):
        text = text[6:-1]
    if text in ("true", "false"):
        return text == "true" if dtype == I1 else None
    try:
        if not dtype.is_float:
            return bool(int(text, 0)) if dtype == I1 else int(text, 0)
        if text.startswith("0x"):
            return from_bits(int(text, 16), dtype)
        return nearest(float(text), dtype)
    except ValueError:
        return None


def nearest(value: float, dtype: DType) -> float:
    """`value` as float16 or float32 holds it; other dtypes are printed exactly."""
    if dtype not in (F16, F32):
        return value
    real = _FORMATS[dtype][1]
    return float(struct.unpack(real, struct.pack(real, value))[0])


def from_bits(bits: int, dtype: DType) -> float:
    """The float whose representation in `dtype` is `bits`."""
    if dtype == BF16:
        return from_bits(bits << 16, F32)
    if dtype in _FORMATS:
        integer, real = _FORMATS[dtype]
        return float(struct.unpack(real, struct.pack(integer, bits))[0])
    mantissa_bits = {"f8e5m2": 2, "f8e4m3": 3}[dtype.name]
    exponent_bits = 7 - mantissa_bits
    sign = -1.0 if bits >> 7 else 1.0
    exponent, mantissa = (
        bits >> mantissa_bits & (1 << exponent_bits) - 1,
        bits & (1 << mantissa_bits) - 1,
    )
    full = (1 << exponent_bits) - 1
    if dtype.name == "f8e5m2" and exponent == full:
        return sign * math.inf if not mantissa else math.nan
    if dtype.name == "f8e4m3" and bits & 0x7F == 0x7F:
        return math.nan
    bias, scale = full >> 1, 2.0**-mantissa_bits
    if not exponent:
        return sign * mantissa * scale * 2.0 ** (1 - bias)
    return sign * (1 + mantissa * scale) * 2.0 ** (exponent - bias)
