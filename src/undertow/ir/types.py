"""Types of values: scalars, tensors of scalars, and pointers to scalars.

Shapes are static, as they are in Triton. Integers are signless, as they are in TTIR;
an operation that depends on the sign says so itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """Element type: its name (``f32``), its kind, and its width in bits.

    There is one object for each, so they compare by identity.
    """

    name: str
    kind: Literal["int", "float"]
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        return self.kind == "int"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        """A copy is the object itself: its name in this module."""
        return self.name.upper()


I1 = DType("i1", "int", 1)
I8 = DType("i8", "int", 8)
I16 = DType("i16", "int", 16)
I32 = DType("i32", "int", 32)
I64 = DType("i64", "int", 64)
F8E4M3 = DType("f8e4m3", "float", 8)
F8E5M2 = DType("f8e5m2", "float", 8)
F16 = DType("f16", "float", 16)
BF16 = DType("bf16", "float", 16)
F32 = DType("f32", "float", 32)
F64 = DType("f64", "float", 64)

DTYPES: dict[str, DType] = {
    d.name: d for d in (I1, I8, I16, I32, I64, F8E4M3, F8E5M2, F16, BF16, F32, F64)
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor of `shape`; the empty shape is a scalar."""

    dtype: DType
    shape: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements (lanes)."""
        return math.prod(self.shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape)

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        return TensorType(self.dtype, shape)

    def __str__(self) -> str:
        dims = ",".join(map(str, self.shape))
        return f"{self.dtype}[{dims}]" if self.shape else str(self.dtype)


@dataclass(frozen=True, slots=True)
class PointerType:
    """A pointer to elements of one dtype. Only kernel parameters are pointers."""

    element: DType

    def __str__(self) -> str:
        return f"ptr<{self.element}>"


Type = TensorType | PointerType


def scalar(dtype: DType) -> TensorType:
    """The scalar type of `dtype`."""
    return TensorType(dtype)


def cotangent_dtype(dtype: DType) -> DType:
    """Dtype in which the cotangent of a value is carried: f32, or f64 for f64."""
    return F64 if dtype is F64 else F32
