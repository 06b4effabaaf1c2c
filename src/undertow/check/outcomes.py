"""Outcomes of checks, and how they come of comparisons and of lists of faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.check.compare import bound, described, differences


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check; `ok` is None if it could not be made."""

    name: str
    ok: bool | None
    text: str
    details: tuple[str, ...] = ()


def compared(
    name: str,
    got: Mapping[str, Tensor],
    want: Mapping[str, Tensor],
    dtypes: Mapping[str, torch.dtype],
    wrong: list[str] | None = None,
) -> Check:
    found = differences(got, want, dtypes)
    faults = [*(wrong or []), *(described(d) for d in found if d.wrong)]
    void = [n for n in got if undefined(want[n]) and undefined(got[n])]
    if void and not faults:
        return Check(name, None, f"{', '.join(void)}: {ALL_NAN}")
    text = f"{', '.join(got)} against float64, {bound(found)}"
    return Check(name, not faults, text, tuple(faults))


ALL_NAN = "not compared, every element is NaN"


def undefined(tensor: Tensor) -> bool:
    return tensor.numel() > 0 and bool(tensor.isnan().all())


def free_of(name: str, details: list[str]) -> Check:
    return Check(name, not details, "" if details else "none", tuple(details))
