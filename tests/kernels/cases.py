"""All the launches."""

from kernels import (
    addition_cases,
    call_cases,
    combine_cases,
    loop_cases,
    maximum_cases,
    other_cases,
    override_cases,
    pointwise_cases,
    row_cases,
    shuffle_cases,
    stored_cases,
    tutorial_cases,
    while_cases,
)
from kernels.case import CASES, Case, gelu_tanh

__all__ = [
    "CASES",
    "Case",
    "addition_cases",
    "call_cases",
    "combine_cases",
    "gelu_tanh",
    "loop_cases",
    "maximum_cases",
    "other_cases",
    "override_cases",
    "pointwise_cases",
    "row_cases",
    "shuffle_cases",
    "stored_cases",
    "tutorial_cases",
    "while_cases",
]
