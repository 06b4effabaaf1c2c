"""Layouts at launch: overlap of arguments, cotangents, gradient buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from undertow.analysis.launch import Launch, at_launch
from undertow.errors import LaunchError
from undertow.transform.cotangent_layout import StridedCotangent

MAX_OFFSET = 1 << 31
"""Offsets in emitted kernels are computed in 32 bits where the forward's are."""

MAX_WORK = 100_000
"""Steps for deciding whether two sliced tensors meet; beyond, they are said to."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes, strides and dtype of a tensor."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def of(tensor: Tensor) -> Layout:
        return Layout(tuple(tensor.shape), tensor.stride(), tensor.dtype)

    @property
    def span(self) -> int:
        """Elements of storage from the first to the last one."""
        return span(self.size, self.stride)

    @property
    def numel(self) -> int:
        return int(np.prod(self.size, dtype=object))


def span(size: Sequence[int], stride: Sequence[int]) -> int:
    """Elements of storage from the first element to the last one."""
    if 0 in size:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))


# -- overlap ---------------------------------------------------------------------------


def repeats(layout: Layout) -> bool:
    """Whether elements of a tensor share memory with one another."""
    pairs = zip(layout.size, layout.stride, strict=True)
    expanded = any(n > 1 and step == 0 for n, step in pairs)
    return meets_itself(layout) or (expanded and 0 not in layout.size)


def meets_itself(layout: Layout) -> bool:
    """Whether elements share memory otherwise than by expansion."""
    if 0 in layout.size:
        return False
    reach = 1
    pairs = zip(layout.stride, layout.size, strict=True)
    for step, extent in sorted((s, n) for s, n in pairs if n != 1 and s != 0):
        if step < reach:
            return True
        reach += step * (extent - 1)
    return False


def near(tensors: Sequence[Tensor], reach: Sequence[int], written: int) -> bool:
    """Whether the address range of one of the first `written` tensors meets another's.

    Args:
        tensors: the tensors.
        reach: bytes from each one's first element to behind its last one.
        written: how many of them the kernel stores to.
    """
    starts = [t.data_ptr() for t in tensors]
    for i in range(written):
        start = starts[i]
        end = start + reach[i]
        for j in range(i + 1, len(starts)):
            other = starts[j]
            if other < end and start < other + reach[j]:
                return True
    return False


def aliases(
    kernel: str, names: Sequence[str], tensors: Sequence[Tensor], written: int
) -> dict[str, str]:
    """Arguments that are one tensor: for each but the first, the first one's name.

    Args:
        kernel: the kernel's name, for the message.
        names: parameters, those first that are stored to.
        tensors: their arguments.
        written: how many of them are stored to.

    Raises:
        LaunchError: an argument that is written shares memory with another one in any
            other way.
    """
    pairs: dict[str, str] = {}
    for j, b in enumerate(names):
        for i, a in enumerate(names[: min(j, written)]):
            if a in pairs or b in pairs:
                continue
            if tensors[i] is tensors[j]:
                pairs[b] = a
            elif overlap(tensors[i], tensors[j]):
                raise LaunchError(
                    f"`{a}` is written, and shares memory with `{b}`: some of their "
                    "elements are the same memory",
                    kernel=kernel,
                    why="what is read may be overwritten by another program, and "
                    "autograd does not know that both are one",
                    hint="pass a copy of one of them, or one and the same tensor twice",
                )
    return pairs


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors share an element of memory."""
    if a.numel() == 0 or b.numel() == 0:
        return False
    if not near((a, b), [Layout.of(t).span * t.element_size() for t in (a, b)], 1):
        return False
    shares: Any = np.shares_memory
    try:
        return bool(shares(_ghost(a), _ghost(b), max_work=MAX_WORK))
    except np.exceptions.TooHardError:
        return True


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


# -- cotangents ------------------------------------------------------------------------


def own_strides(
    plan: StridedCotangent, output: Layout, strides: Sequence[int], launch: Launch
) -> tuple[int, ...] | None:
    """Values of the stride parameters with which the kernel reads this cotangent.

    Args:
        plan: how the backward addresses the cotangent.
        output: the layout of the output.
        strides: strides of the cotangent, which has the output's sizes.
        launch: integer arguments and grid.

    Returns:
        The values, or None if the cotangent must be copied into the output's layout.
    """
    sizes, laid = output.size, output.stride
    dims = [d for d in range(len(sizes)) if sizes[d] > 1]
    if all(laid[d] == strides[d] for d in dims):
        return outputs_strides(plan, launch)
    if not plan.strides or span(sizes, strides) >= MAX_OFFSET:
        return None
    coefficients = outputs_strides(plan, launch)
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
        stride = _stride_of(coefficient, highest, dims, output, strides, used)
        if stride is None:
            return None
        values.append(stride)
    return tuple(values)


def outputs_strides(plan: StridedCotangent, launch: Launch) -> tuple[int, ...]:
    """Values with which the kernel reads a cotangent laid out like the output."""
    return tuple(1 if c is None else at_launch(c, launch) for c in plan.coefficients)


def _stride_of(
    coefficient: int,
    highest: int,
    dims: Sequence[int],
    output: Layout,
    strides: Sequence[int],
    used: set[int],
) -> int | None:
    """The cotangent's stride where the output's is `coefficient`.

    Where an index runs past that dimension, neighbouring outer dimensions are joined to
    it if both tensors step evenly from one to the next.
    """
    sizes, laid = output.size, output.stride
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


# -- buffers ---------------------------------------------------------------------------


def is_dense(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a layout has neither gaps nor overlaps."""
    expected = 1
    pairs = zip(stride, size, strict=True)
    for step, extent in sorted((s, n) for s, n in pairs if n != 1):
        if step != expected:
            return False
        expected *= extent
    return True


def buffer(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    *,
    zero: bool = False,
) -> Tensor:
    """A tensor of the given strides, whose storage holds what lies in between too.

    That is zero in any case: a kernel may read it.
    """
    if is_dense(size, stride) or 0 in size:
        dense = torch.empty_strided(size, stride, dtype=dtype, device=device)
        return dense.zero_() if zero else dense
    flat = torch.zeros(span(size, stride), dtype=dtype, device=device)
    return flat.as_strided(size, stride)


def in_layout_of(tensor: Tensor, stride: Sequence[int]) -> Tensor:
    """A copy of `tensor` with the given strides."""
    copy = buffer(tensor.shape, stride, tensor.dtype, tensor.device)
    return copy.copy_(tensor)


def collapsed(gradient: Tensor) -> Tensor:
    """The gradient of an expanded tensor from that of its memory.

    Elements that share memory share one gradient. It is given to the first of them and
    zero to the others, so that summing over the expanded axes gives it back.
    """
    strides = gradient.stride()
    first = tuple(
        slice(0, 1) if step == 0 and n > 1 else slice(None)
        for n, step in zip(gradient.shape, strides, strict=True)
    )
    result = torch.zeros(gradient.shape, dtype=gradient.dtype, device=gradient.device)
    result[first] = gradient[first]
    return result
