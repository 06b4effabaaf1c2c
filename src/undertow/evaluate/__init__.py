"""Executes the IR on torch tensors: oracle, sanitizer, and what runs on CPU tensors."""

from undertow.evaluate.compiler import compile_kernel
from undertow.evaluate.differences import (
    TOLERANCES,
    Tolerance,
    directional_difference,
    finite_differences,
)
from undertow.evaluate.execute import run
from undertow.evaluate.program import Program
from undertow.evaluate.trace import OutOfBounds, Race, Report, Undefined

__all__ = [
    "TOLERANCES",
    "OutOfBounds",
    "Program",
    "Race",
    "Report",
    "Tolerance",
    "Undefined",
    "compile_kernel",
    "directional_difference",
    "finite_differences",
    "run",
]
