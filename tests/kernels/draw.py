"""Random tensors in any layout, the same numbers in every dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def laid_out(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
    device: str | torch.device = "cpu",
) -> Tensor:
    """A tensor of NaN (of -1 if it holds integers), its gaps included; no view."""
    tensor = torch.empty_strided(size, stride, dtype=dtype, device=device)
    reach = tensor.untyped_storage().nbytes() // tensor.element_size()
    hole = math.nan if dtype.is_floating_point else -1
    tensor.as_strided((reach,), (1,)).fill_(hole)
    return tensor


def converted(
    tensor: Tensor,
    dtype: torch.dtype,
    device: str | torch.device = "cpu",
    layout: Tensor | None = None,
) -> Tensor:
    """A copy of floats in `dtype`, in the same or another's layout; gaps are NaN."""
    wanted = dtype if tensor.is_floating_point() else tensor.dtype
    stride = (tensor if layout is None else layout).stride()
    copy = laid_out(tensor.shape, stride, wanted, device)
    return copy.copy_(tensor)


class Draw:
    """Draws float64 tensors whose numbers bfloat16 and float16 hold exactly."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *size: int, stride: Sequence[int] | None = None) -> Tensor:
        """Numbers of order one, between 1/16 and 4 in magnitude."""
        x = torch.randn(size, generator=self.generator, dtype=torch.float64)
        x = torch.where(x < 0, -1.0, 1.0) * x.abs().clamp(1 / 16, 4)
        return self._laid(x, stride)

    def uniform(
        self,
        *size: int,
        low: float = 0.0,
        high: float = 1.0,
        stride: Sequence[int] | None = None,
    ) -> Tensor:
        x = torch.rand(size, generator=self.generator, dtype=torch.float64)
        return self._laid(low + (high - low) * x, stride)

    def distinct(self, rows: int, cols: int) -> Tensor:
        """Rows of numbers that are an eighth apart, in random order."""
        order = torch.rand(rows, cols, generator=self.generator).argsort(-1)
        return (order.double() - cols / 2) / 8 + 1 / 16

    def integers(self, *size: int, high: int) -> Tensor:
        return torch.randint(high, size, generator=self.generator)

    def output(self, *size: int, stride: Sequence[int] | None = None) -> Tensor:
        """Somewhere to store to, full of NaN."""
        blank = torch.empty(size, device="meta")
        return laid_out(size, stride or blank.stride(), torch.float64)

    def zeros(self, *size: int, stride: Sequence[int] | None = None) -> Tensor:
        """Somewhere to add to; what lies in its gaps is NaN."""
        return self.output(*size, stride=stride).zero_()

    def _laid(self, x: Tensor, stride: Sequence[int] | None) -> Tensor:
        exact = x.to(torch.bfloat16).to(torch.float64)
        if stride is None:
            return exact
        return laid_out(exact.shape, stride, torch.float64).copy_(exact)
