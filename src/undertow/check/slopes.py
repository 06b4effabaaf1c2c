"""Derived gradients against central differences of the forward, both in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from undertow import evaluate
from undertow.check.launch import Subject, apart
from undertow.check.outcomes import ALL_NAN, Check, undefined

Tensors = Mapping[str, Tensor]

NAME = "finite differences"
ELEMENTS = 64
"""Inputs with more elements are differentiated along random directions."""
DIRECTIONS = 4
MOVED = 256
"""Elements that one direction moves: with all of them, some would cross a kink."""


def finite_differences(
    subject: Subject,
    gradients: Tensors,
    values: Tensors,
    cotangents: Tensors,
    seed: int,
) -> Check:
    """Compares the `gradients` of a kernel that gives `values`, for `cotangents`."""
    inputs = [n for n in subject.inputs if _moves(subject.tensors[n])]
    if not inputs:
        return Check(NAME, None, "inputs are empty, or their elements share memory")
    names = ", ".join(inputs)
    if all(undefined(values[n]) for n in subject.outputs):
        return Check(NAME, None, f"{names}: {ALL_NAN}")
    if sum(subject.tensors[n].numel() for n in inputs) > ELEMENTS:
        generator = torch.Generator().manual_seed(seed + 2)
        wrong = list(_directions(subject, inputs, gradients, cotangents, generator))
        return Check(NAME, not wrong, f"{names} along random directions", tuple(wrong))
    want = evaluate.finite_differences(
        subject.forward, apart(subject.args), subject.grid, inputs, cotangents
    )
    if all(want[n].isnan().all() for n in inputs):
        return Check(NAME, None, f"{names}: {ALL_NAN}")
    wrong = list(_elements(inputs, gradients, want))
    return Check(NAME, not wrong, f"{names} by every element", tuple(wrong))


def _elements(
    inputs: Sequence[str], gradients: Tensors, want: Tensors
) -> Iterator[str]:
    allowed = evaluate.TOLERANCES["difference"]
    for name in inputs:
        known = ~want[name].isnan()
        error = (gradients[name] - want[name]).abs()[known]
        size = want[name][want[name].isfinite()].abs()
        bound = allowed.atol + allowed.rtol * (size.max() if size.numel() else 0.0)
        if not (error <= bound).all():
            worst = float(error.max())
            yield f"{name}: derived and measured gradients differ by {worst:.2g}"


def _directions(
    subject: Subject,
    inputs: Sequence[str],
    gradients: Tensors,
    cotangents: Tensors,
    generator: torch.Generator,
) -> Iterator[str]:
    """Slopes along random directions, one input at a time."""
    args, allowed = apart(subject.args), evaluate.TOLERANCES["difference"]
    for name in inputs:
        for _ in range(DIRECTIONS):
            direction = _direction(subject.tensors[name].shape, generator)
            terms = gradients[name] * direction
            slope = evaluate.directional_difference(
                subject.forward, args, subject.grid, {name: direction}, cotangents
            )
            got, size = float(terms.sum()), float(terms.norm())
            if not abs(got - slope) <= allowed.atol + allowed.rtol * size:
                yield (
                    f"{name}: slope {got:.9g} by the derived gradient, {slope:.9g} "
                    "by differences"
                )
                break


def _moves(tensor: Tensor) -> bool:
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    return tensor.numel() > 0 and all(s or n <= 1 for s, n in pairs)


def _direction(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Random numbers at random elements, zero at the others."""
    direction = torch.zeros(shape.numel(), dtype=torch.float64)
    chosen = torch.randperm(shape.numel(), generator=generator)[:MOVED]
    direction[chosen] = torch.randn(
        len(chosen), generator=generator, dtype=torch.float64
    )
    return direction.view(shape)
