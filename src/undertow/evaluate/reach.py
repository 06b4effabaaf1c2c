"""What a pointer can reach: from a tensor's first element to its last."""

from __future__ import annotations

from torch import Tensor


def extent(tensor: Tensor) -> int:
    """Elements from the first to the last one that `tensor` reaches in its storage."""
    if tensor.numel() == 0:
        return 0
    if tensor.is_contiguous():
        return tensor.numel()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((size - 1) * stride for size, stride in pairs)


def flat(tensor: Tensor) -> Tensor:
    """The reach of `tensor` as a vector that shares its memory."""
    return tensor.as_strided((extent(tensor),), (1,))
