"""Compares results with an oracle, by the dtype they were computed in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.evaluate import TOLERANCES, Tolerance

_KEYS = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8e4m3",
    torch.float8_e5m2: "f8e5m2",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """How a tensor compares with what it should be.

    Attributes:
        name: the tensor's parameter.
        wrong: how many elements are further off than their dtype allows.
        worst: the largest error, in units of the largest expected magnitude.
        first: the first wrong element, described; empty if there is none.
    """

    name: str
    wrong: int
    worst: float
    first: str


def tolerance(dtype: torch.dtype) -> Tolerance:
    return TOLERANCES[_KEYS[dtype]]


def difference(name: str, got: Tensor, want: Tensor, dtype: torch.dtype) -> Difference:
    """Compares `got`, computed in `dtype`, with `want`.

    An element may be off by rtol times itself, plus atol times the largest element (of
    at least 1): sums that cancel are no more exact than their terms.
    """
    allowed = tolerance(dtype)
    got, want = got.detach().cpu().double(), want.detach().cpu().double()
    if not got.numel():
        return Difference(name, 0, 0.0, "")
    finite = want[want.isfinite()].abs()
    scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
    error = (got - want).abs()
    same = (got == want) | (got.isnan() & want.isnan())
    wrong = ~((error <= allowed.atol * scale + allowed.rtol * want.abs()) | same)
    worst = error[~same].max() if (~same).any() else torch.zeros(())
    first = ""
    if wrong.any():
        index = tuple(wrong.nonzero()[0].tolist())
        pair = float(got[index]), float(want[index])
        first = f"element {index}: got {pair[0]:.6g}, want {pair[1]:.6g}"
    return Difference(name, int(wrong.sum()), float(worst) / scale, first)


def differences(
    got: Mapping[str, Tensor],
    want: Mapping[str, Tensor],
    dtypes: Mapping[str, torch.dtype],
) -> list[Difference]:
    return [difference(n, got[n], want[n], dtypes[n]) for n in got]


def described(found: Difference) -> str:
    """A wrong tensor in one line."""
    many = "element is" if found.wrong == 1 else "elements are"
    return f"{found.name}: {found.wrong} {many} wrong; {found.first}"


def bound(found: list[Difference]) -> str:
    """The largest error as a power of ten that it does not pass."""
    worst = max((d.worst for d in found), default=0.0)
    if worst == 0.0:
        return "no error"
    return f"error ≤ 1e{math.ceil(math.log10(worst)):+03d}"
