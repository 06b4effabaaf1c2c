"""The same cotangent in the layouts that autograd is known to pass on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Layout = Callable[[Tensor], Tensor | None]
"""Gives a tensor of the same shape in another layout, or None where there is none."""


def sliced(g: Tensor) -> Tensor | None:
    """Every second element along the last axis of a wider tensor."""
    if not g.dim():
        return None
    wide = g.new_full((*g.shape[:-1], 2 * g.shape[-1]), torch.nan)
    wide[..., ::2] = g
    return wide[..., ::2]


def expanded(g: Tensor) -> Tensor | None:
    """One number for all elements, as `sum` gives it."""
    return g.new_full((), 0.75).expand(g.shape)


def expanded_rows(g: Tensor) -> Tensor | None:
    """One row for all of them."""
    return g[:1].expand(g.shape) if g.dim() > 1 else None


def transposed(g: Tensor) -> Tensor | None:
    """The last two axes the other way round in memory."""
    if g.dim() < 2:
        return None
    return g.transpose(-1, -2).contiguous().transpose(-1, -2)


def cat(g: Tensor) -> Tensor | None:
    """A part of a wider tensor, as the gradient of `torch.cat` is."""
    if not g.dim():
        return None
    wide = g.new_full((*g.shape[:-1], g.shape[-1] + 3), torch.nan)
    part = wide.narrow(-1, 1, g.shape[-1])
    return part.copy_(g)


LAYOUTS: Mapping[str, Layout] = {
    "sliced": sliced,
    "expanded": expanded,
    "rows expanded": expanded_rows,
    "transposed": transposed,
    "cat": cat,
}
