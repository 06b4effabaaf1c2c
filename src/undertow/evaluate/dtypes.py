"""How the IR's dtypes are held in torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from undertow.ir import DType

Fn = Callable[..., Any]
"""A pure op on tensors: gives a tensor, or a tuple of them for several results."""

_TORCH: dict[str, torch.dtype] = {
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}


def torch_dtype(dtype: DType, float_dtype: torch.dtype | None) -> torch.dtype:
    """The torch dtype that holds `dtype`; for floats `float_dtype`, if given."""
    if dtype.is_float and float_dtype is not None:
        return float_dtype
    return _TORCH[dtype.name]


def is_small_float(dtype: torch.dtype) -> bool:
    """Whether arithmetic in `dtype` is done in float32 and rounded, as on the GPU."""
    return dtype.is_floating_point and dtype.itemsize < 4


def wrapped(value: int, bits: int) -> int:
    """`value` modulo 2**bits, read as a signed integer of that width."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half
