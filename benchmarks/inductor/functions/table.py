"""What a function of the corpus is, and the inputs that many of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from benchmarks.coverage.inputs import Inputs

Draw = Callable[[Inputs], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Function:
    """A function of tensors that `torch.compile` takes.

    Attributes:
        name: within its group.
        f: gives a tensor or several.
        inputs: draws its arguments, away from ties and poles. Those that require a
            gradient are differentiated.
    """

    name: str
    f: Callable[..., Any]
    inputs: Draw


def named(
    inputs: Draw, functions: Iterable[Callable[..., Any]]
) -> tuple[Function, ...]:
    """Functions called by their own names."""
    return tuple(Function(f.__name__, f, inputs) for f in functions)


# -- inputs --


def normal(*sizes: tuple[int, ...], scale: float = 1.0) -> Draw:
    """Any numbers."""
    return lambda draw: tuple(draw.normal(*size, scale=scale) for size in sizes)


def uniform(*sizes: tuple[int, ...], low: float = 0.1, high: float = 0.9) -> Draw:
    """Numbers between bounds."""
    return lambda draw: tuple(draw.uniform(*s, low=low, high=high) for s in sizes)


SIZE = (13, 37)

one = normal(SIZE)
two = normal(SIZE, SIZE)
three = normal(SIZE, SIZE, SIZE)
positive = uniform(SIZE, low=0.2, high=3.0)
positives = uniform(SIZE, SIZE, low=0.2, high=3.0)
unit = uniform(SIZE)
