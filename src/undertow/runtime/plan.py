"""What a backward launch does, decided once for each geometry.

Everything here depends on sizes, strides, integer arguments and the grid, never on data,
so a training loop decides once and then looks the plan up.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from undertow.analysis.launch import Launch
from undertow.analysis.exclusive import Exclusive
from undertow.errors import LaunchError
from undertow.runtime.derivation import Derivation
from undertow.runtime.geometry import own_strides, span
from undertow.runtime.specialisation import TORCH, Specialisation
from undertow.transform.differentiate import Gradient

Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Sizes and strides."""


@dataclass(frozen=True, slots=True)
class CotangentPlan:
    """Where one cotangent goes: read by its own strides, or first copied."""

    of: str
    name: str
    materialise: bool


@dataclass(frozen=True, slots=True)
class GradientPlan:
    """How one gradient buffer starts, and what becomes of it.

    `start` is ``empty`` where every element is written, ``zero`` otherwise, and
    ``cotangent`` where the forward overwrote the buffer.
    """

    of: str
    name: str
    dtype: torch.dtype
    start: str
    cotangent: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A backward launch: the derivation, and what to do with each buffer."""

    derivation: Derivation
    cotangents: tuple[CotangentPlan, ...]
    gradients: tuple[GradientPlan, ...]
    numbers: Mapping[str, Any]
    """Scalar arguments of the backward, by name."""
    primals: tuple[str, ...]
    """Pointers of the forward that the backward reads."""
    atomic: bool


def make_plan(
    specialisation: Specialisation,
    wrt: frozenset[str],
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Any],
    grid: tuple[int, int, int],
    layouts: Mapping[str, Layout],
) -> Plan:
    """Plans the backward of one launch.

    Args:
        specialisation: the forward.
        wrt: inputs that need a gradient.
        tensors: the forward's tensors by parameter.
        scalars: its other arguments.
        grid: its grid.
        layouts: sizes and strides of the cotangents there are, by output.
    """
    outputs = frozenset(layouts)
    launch: Launch = {
        **{n: int(v) for n, v in scalars.items() if isinstance(v, int)},
        **{f"grid{axis}": extent for axis, extent in enumerate(grid)},
    }
    derivation = specialisation.derivation(wrt, outputs)
    atomic = frozenset(
        g.of
        for g in derivation.backward.gradients
        if isinstance(g.placement.finding, Exclusive) and not g.placement.finding.holds(launch)
    )
    if atomic:
        derivation = specialisation.derivation(wrt, outputs, atomic)
    return _decide(derivation, tensors, scalars, launch, layouts)


def _decide(
    derivation: Derivation,
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Any],
    launch: Launch,
    layouts: Mapping[str, Layout],
) -> Plan:
    backward = derivation.backward
    numbers: dict[str, Any] = dict(scalars)
    cotangents: list[CotangentPlan] = []
    for ct in backward.cotangents:
        output = tensors[ct.of]
        laid = tuple(output.shape), output.stride()
        values = own_strides(ct, laid, layouts[ct.of][1], launch)
        cotangents.append(CotangentPlan(ct.of, ct.name, values is None))
        if values is None:
            values = own_strides(ct, laid, laid[1], launch)
        assert values is not None
        numbers.update(zip((s.name for s in ct.strides), values, strict=False))
    names = {p.name for p in backward.kernel.params}
    by_output = {ct.of: ct.name for ct in backward.cotangents}
    return Plan(
        derivation,
        tuple(cotangents),
        tuple(_gradient(g, tensors[g.of], launch, by_output) for g in backward.gradients),
        {n: v for n, v in numbers.items() if n in names},
        tuple(n for n in tensors if n in names),
        any(not isinstance(g.placement.finding, Exclusive) for g in backward.gradients),
    )


def _gradient(
    gradient: Gradient, tensor: Tensor, launch: Launch, cotangents: Mapping[str, str]
) -> GradientPlan:
    dtype = TORCH[gradient.dtype.name]
    if gradient.in_place:
        cotangent = cotangents.get(gradient.of, "")
        return GradientPlan(gradient.of, gradient.name, dtype, "cotangent", cotangent)
    finding = gradient.placement.finding
    length = span(tensor)
    covered = (
        isinstance(finding, Exclusive)
        and length == tensor.numel()
        and finding.covers(length, launch)
    )
    return GradientPlan(gradient.of, gradient.name, dtype, "empty" if covered else "zero")


def refuse_nondeterministic(plan: Plan, kernel: str) -> None:
    """Follows `torch.use_deterministic_algorithms`: raises, or warns in warn-only mode."""
    names = [g.of for g in plan.derivation.backward.gradients
             if not isinstance(g.placement.finding, Exclusive)]  # fmt: skip
    fact = (
        f"the gradient of `{names[0]}` in `{kernel}` is summed by atomic_add, "
        "whose order is not deterministic"
    )
    if torch.is_deterministic_algorithms_warn_only_enabled():
        warnings.warn(fact, stacklevel=2)
        return
    raise LaunchError(
        fact,
        kernel=kernel,
        hint="use torch.use_deterministic_algorithms(True, warn_only=True) to allow it",
    )


def layout_key(layouts: Sequence[Tensor | None]) -> tuple[object, ...]:
    """Sizes and strides of tensors, as a key."""
    return tuple(None if t is None else (t.shape, t.stride()) for t in layouts)
