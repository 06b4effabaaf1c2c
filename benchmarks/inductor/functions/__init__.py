"""Ordinary PyTorch functions, by ``group/name``."""

from __future__ import annotations

from benchmarks.inductor.functions import (
    activations,
    losses,
    norms,
    pointwise,
    reductions,
    shapes,
)
from benchmarks.inductor.functions.table import Function

GROUPS: dict[str, tuple[Function, ...]] = {
    "pointwise": pointwise.FUNCTIONS,
    "activations": activations.FUNCTIONS,
    "norms": norms.FUNCTIONS,
    "losses": losses.FUNCTIONS,
    "reductions": reductions.FUNCTIONS,
    "shapes": shapes.FUNCTIONS,
}

FUNCTIONS = {f"{group}/{f.name}": f for group, own in GROUPS.items() for f in own}
assert len(FUNCTIONS) == sum(map(len, GROUPS.values()))  # no name occurs twice
