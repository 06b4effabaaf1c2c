"""Judges one function: the gradients of its kernels against autograd in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage.inputs import Inputs
from benchmarks.coverage.verdict import CRASH, REFUSED, RIGHT, WRONG, first_line
from benchmarks.inductor.functions import FUNCTIONS
from benchmarks.inductor.functions.table import Function
from benchmarks.inductor.lowering import Lowered, lower
from undertow.check.compare import described, difference
from undertow.errors import UndertowError

NO_KERNEL = "no kernel"
"""Of a function that Inductor lowers to calls of other libraries: it does not count."""


@dataclass(frozen=True)
class Row:
    """One function.

    Attributes:
        group: what kind of function it is.
        function: its name.
        verdict: `RIGHT`, `REFUSED`, `WRONG`, `CRASH` or `NO_KERNEL`.
        reason: why it is refused, or what is wrong.
        kernels: how many launches its forward makes.
    """

    group: str
    function: str
    verdict: str
    reason: str
    kernels: int


def row(name: str, verdict: str, reason: str = "", kernels: int = 0) -> Row:
    group, _, function = name.partition("/")
    return Row(group, function, verdict, reason, kernels)


def judged(name: str, device: str) -> Row:
    """The verdict on a function of the corpus."""
    found = Lowered()
    try:
        wrong = _wrong(FUNCTIONS[name], device, found)
    except UndertowError as error:
        return row(name, REFUSED, error.fact, len(found.kernels))
    except Exception as error:
        return row(name, CRASH, first_line(error), len(found.kernels))
    if not found.kernels:
        return row(name, NO_KERNEL)
    return row(name, WRONG if wrong else RIGHT, wrong, len(found.kernels))


def _wrong(function: Function, device: str, found: Lowered) -> str:
    """What is wrong, if anything is."""
    inputs = Inputs()
    drawn = function.inputs(inputs)
    args = [t.detach().to(device) for t in drawn]
    exact = [a.double() if a.is_floating_point() else a for a in args]
    for leaf, tensor in zip(exact, drawn, strict=True):
        leaf.requires_grad_(tensor.requires_grad)
    wanted = _tensors(function.f(*exact))
    cotangents = [inputs.cotangent(t).to(t) for t in wanted]
    wrt = [n for n, t in enumerate(drawn) if t.requires_grad]
    gradients = _gradients(wanted, [exact[n] for n in wrt], cotangents)

    lower(function.f, args, found)
    if len(found.outputs) != len(wanted):
        return f"the graph has {len(found.outputs)} outputs, not {len(wanted)}"
    leaves = [found.leaf(args[n]) for n in wrt]
    used = [leaf for leaf in leaves if leaf is not None]
    own = iter(_gradients(found.outputs, used, cotangents))
    pairs = [
        (f"output {n}", a, b)
        for n, (a, b) in enumerate(zip(found.outputs, wanted, strict=True))
    ]
    for n, leaf, want in zip(wrt, leaves, gradients, strict=True):
        got = torch.zeros_like(want) if leaf is None else next(own)
        pairs.append((f"gradient of input {n}", got, want))
    for what, got, want in pairs:
        compared = difference(what, got, want, torch.float32)
        if compared.wrong:
            return described(compared)
    return ""


def _gradients(
    outputs: list[Tensor], leaves: list[Tensor], cotangents: list[Tensor]
) -> list[Tensor]:
    active = [
        (y, c.to(y.dtype))
        for y, c in zip(outputs, cotangents, strict=True)
        if y.requires_grad
    ]
    if not (active and leaves):
        return [torch.zeros_like(leaf) for leaf in leaves]
    made, given = zip(*active, strict=True)
    found = torch.autograd.grad(made, leaves, given, allow_unused=True)
    return [
        torch.zeros_like(leaf) if gradient is None else gradient
        for leaf, gradient in zip(leaves, found, strict=True)
    ]


def _tensors(made: Any) -> list[Tensor]:
    return [made] if isinstance(made, Tensor) else list(made)
