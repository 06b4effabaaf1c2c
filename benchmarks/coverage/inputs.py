"""Inputs of a workload: random, small, of odd sizes."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Inputs:
    """Draws the same tensors whenever it is made anew.

    Attributes:
        leaves: those whose gradient is compared, in the order in which they were drawn.
    """

    seed: int = 0
    leaves: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._generator = torch.Generator().manual_seed(self.seed)

    def normal(
        self, *size: int, scale: float = 1.0, shift: float = 0.0, grad: bool = True
    ) -> Tensor:
        drawn = torch.randn(size, generator=self._generator) * scale + shift
        return self.leaf(drawn) if grad else drawn

    def uniform(
        self, *size: int, low: float = 0.0, high: float = 1.0, grad: bool = True
    ) -> Tensor:
        drawn = torch.rand(size, generator=self._generator) * (high - low) + low
        return self.leaf(drawn) if grad else drawn

    def integers(self, high: int, *size: int) -> Tensor:
        return torch.randint(0, high, size, generator=self._generator)

    def leaf(self, tensor: Tensor) -> Tensor:
        """A tensor that needs a gradient and may be overwritten."""
        self.leaves.append(tensor.detach().requires_grad_())
        return self.leaves[-1].clone()

    def cotangent(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self._generator).to(like.dtype)
