"""A launch of a kernel with a PyTorch reference in float64, and the list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernels.draw import Draw

Reference = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True)
class Case:
    """One launch of a kernel.

    Attributes:
        kernel: the jit function.
        grid: its grid.
        args: run-time arguments by parameter: float64 tensors, integers, numbers, None.
        constexprs: the others.
        outputs: what it stores to, in the order in which `reference` returns it.
        reference: takes the input tensors by name without `_ptr`.
        in_place: outputs that are also inputs.
        fixed: inputs of floats that are not differentiated.
        precise: the kernel computes in the dtype of its inputs, and loses too much in
            half precision for a comparison.
    """

    kernel: Any
    grid: tuple[int, ...]
    args: Mapping[str, Tensor | int | float | None]
    constexprs: Mapping[str, object]
    outputs: tuple[str, ...]
    reference: Reference
    in_place: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    precise: bool = False

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {n: a for n, a in self.args.items() if isinstance(a, Tensor)}

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Tensors that the kernel reads."""
        pure = set(self.outputs) - set(self.in_place)
        return {n: t for n, t in self.tensors.items() if n not in pure}

    @property
    def wrt(self) -> tuple[str, ...]:
        floats = (n for n, t in self.inputs.items() if t.is_floating_point())
        return tuple(n for n in floats if n not in self.fixed)


CASES: dict[str, Callable[[], Case]] = {}
"""Makers of the cases by name, `kernel-geometry`."""


def case(geometry: str, **sizes: Any) -> Callable[[Any], Any]:
    """Registers a function of a `Draw` and sizes under its name and `geometry`."""

    def register(make: Callable[..., Case]) -> Callable[..., Case]:
        name = f"{make.__name__}-{geometry}"
        CASES[name] = lambda: make(Draw(len(name)), **sizes)
        return make

    return register


def blocks(n: int, block: int) -> int:
    return -(-n // block)


def single(number: float) -> float:
    """`number` as a literal in a kernel: rounded to float32."""
    return float(torch.tensor(number, dtype=torch.float32))


ROOT_HALF, ROOT_TWO_OVER_PI = single(0.7071067811865476), single(0.7978845608028654)


def gelu_erf(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x * ROOT_HALF))


def gelu_tanh(x: Tensor) -> Tensor:
    inner = ROOT_TWO_OVER_PI * (x + single(0.044715) * x**3)
    return 0.5 * x * (1 + inner.tanh())
