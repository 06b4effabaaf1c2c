"""Undertow's typed SSA: the form every stage reads and writes."""

from undertow.ir.builder import Builder
from undertow.ir.core import (
    UNKNOWN,
    Access,
    Attr,
    Block,
    Kernel,
    Loc,
    Op,
    Value,
    postorder,
    walk,
)
from undertow.ir.ops import OPS, SCANS, OpDef
from undertow.ir.parser import parse
from undertow.ir.printer import print_kernel
from undertow.ir.types import (
    BF16,
    DTYPES,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    DType,
    PointerType,
    TensorType,
    Type,
    cotangent_dtype,
    scalar,
)
from undertow.ir.verify import verify

__all__ = [
    "BF16",
    "DTYPES",
    "F16",
    "F32",
    "F64",
    "I1",
    "I16",
    "I32",
    "I64",
    "I8",
    "OPS",
    "SCANS",
    "UNKNOWN",
    "Access",
    "Attr",
    "Block",
    "Builder",
    "DType",
    "Kernel",
    "Loc",
    "Op",
    "OpDef",
    "PointerType",
    "TensorType",
    "Type",
    "Value",
    "cotangent_dtype",
    "parse",
    "postorder",
    "print_kernel",
    "scalar",
    "verify",
    "walk",
]
