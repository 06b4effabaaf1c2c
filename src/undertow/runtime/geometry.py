"""Layouts at launch: overlap of arguments, cotangents, gradient buffers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from undertow.analysis.launch import Launch, at_launch
from undertow.transform.cotangent_layout import StridedCotangent

MAX_OFFSET = 2**31
"""Offsets in emitted kernels are computed in 32 bits where the forward's are."""


def span(tensor: Tensor) -> int:
    """Elements of storage from the tensor's first to its last."""
    if tensor.numel() == 0:
        return 0
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((size - 1) * stride for size, stride in pairs)


def same_memory(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same elements in the same order."""
    return (
        a.data_ptr() == b.data_ptr()
        and a.dtype == b.dtype
        and a.shape == b.shape
        and a.stride() == b.stride()
    )


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors share an element of memory."""
    if a.numel() == 0 or b.numel() == 0:
        return False
    start_a, start_b = a.data_ptr(), b.data_ptr()
    end_a = start_a + span(a) * a.element_size()
    end_b = start_b + span(b) * b.element_size()
    if end_a <= start_b or end_b <= start_a:
        return False
    if a.is_contiguous() and b.is_contiguous():
        return True
    return bool(np.shares_memory(_ghost(a), _ghost(b)))


class _Memory:
    """Describes memory to numpy, which compares addresses and never looks inside."""

    def __init__(self, tensor: Tensor) -> None:
        size = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{size}",
            "data": (tensor.data_ptr(), True),
            "shape": tuple(tensor.shape),
            "strides": tuple(s * size for s in tensor.stride()),
        }


def _ghost(tensor: Tensor) -> np.ndarray:
    return np.asarray(_Memory(tensor))


# -- cotangents ----------------------------------------------------------------------


def own_strides(
    plan: StridedCotangent,
    output: tuple[Sequence[int], Sequence[int]],
    strides: Sequence[int],
    launch: Launch,
) -> tuple[int, ...] | None:
    """Values of the stride parameters with which the kernel reads this cotangent.

    Args:
        plan: how the backward addresses the cotangent.
        output: sizes and strides of the output.
        strides: strides of the cotangent, which has the output's sizes.
        launch: integer arguments and grid.

    Returns:
        The values, or None if the cotangent must be copied into the output's layout first.
    """
    coefficients = tuple(1 if c is None else at_launch(c, launch) for c in plan.coefficients)
    sizes, laid = output
    dims = [d for d in range(len(sizes)) if sizes[d] > 1]
    if all(laid[d] == strides[d] for d in dims):
        return coefficients
    if not plan.strides or sum((sizes[d] - 1) * abs(strides[d]) for d in dims) >= MAX_OFFSET:
        return None
    used: set[int] = set()
    values: list[int] = []
    for coefficient, indices in zip(coefficients, plan.indices, strict=True):
        ranges = [index.range(launch) for index in indices]
        if any(r is None or r[0] < 0 for r in ranges):
            return None
        highest = max(r[1] for r in ranges if r is not None)
        if highest <= 0:
            values.append(0)
            continue
        stride = _stride_of(coefficient, highest, dims, sizes, laid, strides, used)
        if stride is None:
            return None
        values.append(stride)
    return tuple(values)


def _stride_of(
    coefficient: int,
    highest: int,
    dims: Sequence[int],
    sizes: Sequence[int],
    laid: Sequence[int],
    strides: Sequence[int],
    used: set[int],
) -> int | None:
    """The cotangent's stride along the dimension that the output steps by `coefficient`.

    Where an index runs past that dimension, neighbouring outer dimensions are joined to it
    if both tensors step evenly from one to the next.
    """
    inner = [d for d in dims if laid[d] == coefficient and d not in used]
    if len(inner) != 1:
        return None
    last = inner[0]
    used.add(last)
    extent, stride = sizes[last], strides[last]
    while highest >= extent:
        outer = [d for d in dims if laid[d] == coefficient * extent and d not in used]
        if len(outer) != 1 or strides[outer[0]] != stride * extent:
            return None
        used.add(outer[0])
        extent *= sizes[outer[0]]
    return stride


def in_layout_of(cotangent: Tensor, output_size: Sequence[int], output_stride: Sequence[int]) -> Tensor:
    """A copy of `cotangent` with the given strides."""
    copy = _strided(output_size, output_stride, cotangent.dtype, cotangent.device, zero=False)
    return copy.copy_(cotangent)


# -- gradients --------------------------------------------------------------------------


def is_dense(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a layout has neither gaps nor overlaps."""
    expected = 1
    for step, extent in sorted((s, n) for s, n in zip(stride, size, strict=True) if n != 1):
        if step != expected:
            return False
        expected *= extent
    return True


def _strided(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device, *, zero: bool
) -> Tensor:
    if 0 in size:
        return torch.empty(tuple(size), dtype=dtype, device=device)
    length = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    make = torch.zeros if zero else torch.empty
    return make(length, dtype=dtype, device=device).as_strided(tuple(size), tuple(stride))


def gradient_buffer(like: Tensor, dtype: torch.dtype, *, zero: bool) -> Tensor:
    """A buffer in the layout of `like`, so that the forward's addresses serve."""
    size, stride = like.shape, like.stride()
    if is_dense(size, stride):
        buffer = torch.empty_strided(size, stride, dtype=dtype, device=like.device)
        return buffer.zero_() if zero else buffer
    return _strided(size, stride, dtype, like.device, zero=zero)


def collapsed(buffer: Tensor) -> Tensor:
    """The gradient of an expanded tensor from that of its memory.

    Elements that share memory share one gradient. It is given to the first of them and
    zero to the others, so that summing over the expanded axes gives it back.
    """
    expanded = [d for d in range(buffer.dim()) if buffer.stride(d) == 0 and buffer.size(d) > 1]
    if not expanded:
        return buffer
    result = torch.zeros(buffer.shape, dtype=buffer.dtype, device=buffer.device)
    first = tuple(slice(0, 1) if d in expanded else slice(None) for d in range(buffer.dim()))
    result[first] = buffer[first]
    return result


def overlaps_itself(tensor: Tensor) -> bool:
    """Whether elements share memory otherwise than by expansion."""
    reach = 1
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    for step, extent in sorted((s, n) for s, n in pairs if n != 1 and s != 0):
        if step < reach:
            return True
        reach += step * (extent - 1)
    return False
