"""How results are compared, and random tensors of order 1."""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = 2e-5
"""Float32 results of order 1: a few roundings, and the GPU's exp and sin."""


def close(
    actual: Tensor | None, expected: Tensor, tolerance: float = TOLERANCE
) -> None:
    assert actual is not None
    torch.testing.assert_close(
        actual, expected, rtol=tolerance, atol=tolerance, check_dtype=False
    )


def leaf(*size: int, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(size, device=device, dtype=dtype, requires_grad=True)
