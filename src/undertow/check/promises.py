"""Whether the arguments of a launch keep what the user promised of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor


def broken(tensors: Mapping[str, Tensor], unique: Collection[str]) -> list[str]:
    """A line for each of `unique` in which a number stands twice."""
    found = ((name, _repeated(tensors[name])) for name in unique)
    return [f"{name}: {text}" for name, text in found if text]


def _repeated(tensor: Tensor) -> str:
    """A number that stands twice, and where; of several the one that does so first."""
    numbers, order = tensor.detach().flatten().sort(stable=True)
    again = (numbers[1:] == numbers[:-1]).nonzero().flatten()
    if not again.numel():
        return ""
    second = order[again + 1].argmin()
    at = again[second]
    places = [_place(tensor.shape, int(order[at + k])) for k in (0, 1)]
    return f"{int(numbers[at])} stands at {places[0]} and at {places[1]}"


def _place(shape: torch.Size, element: int) -> str:
    place: list[int] = []
    for extent in reversed(shape):
        element, index = divmod(element, extent)
        place.insert(0, index)
    return f"[{', '.join(map(str, place))}]"
