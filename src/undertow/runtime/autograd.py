"""The autograd node of a kernel launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from undertow.errors import LaunchError
from undertow.runtime.geometry import (
    collapsed,
    gradient_buffer,
    in_layout_of,
    overlap,
    overlaps_itself,
    same_memory,
)
from undertow.runtime.plan import (
    GradientPlan,
    Plan,
    layout_key,
    make_plan,
    refuse_nondeterministic,
)
from undertow.runtime.specialisation import Specialisation, check_stores, run_on_cpu

LAUNCH_OPTIONS = ("num_warps", "num_stages", "maxnreg")
"""Options of the forward's launch that its backward takes over."""


@dataclass(slots=True)
class Call:
    """One launch with gradients.

    Attributes:
        specialisation: the kernel, with aliased parameters made one.
        execute: launches the forward with tensors by parameter.
        tensors: the tensors among the arguments, by parameter.
        scalars: the other run-time arguments.
        grid: three extents.
        wrt: parameters whose gradient is needed.
        outputs: parameters that the kernel stores to.
        options: launch options for the backward.
    """

    specialisation: Specialisation
    execute: Callable[[Mapping[str, Tensor]], None]
    tensors: dict[str, Tensor]
    scalars: dict[str, Any]
    grid: tuple[int, int, int]
    wrt: frozenset[str]
    outputs: tuple[str, ...]
    options: dict[str, Any]
    replace: bool = False
    """Whether outputs go to fresh tensors, which are then copied into the user's."""


def launch(call: Call) -> None:
    """Launches the forward and records it for autograd.

    A dirty output that is a view would lose its gradient, or raise beside another output.
    If one is a view, the kernel writes to fresh tensors and autograd copies them.
    """
    backward = call.specialisation.derivation(call.wrt, frozenset(call.outputs)).backward
    grid = {f"grid{axis}": extent for axis, extent in enumerate(call.grid)}
    numbers = {n: int(v) for n, v in call.scalars.items() if isinstance(v, int)}
    check_stores(backward.forward, backward.stores, {**numbers, **grid})
    names = (*call.outputs, *(n for n in call.tensors if n not in call.outputs))
    tensors = [call.tensors[n] for n in names]
    for name in call.wrt:
        if overlaps_itself(call.tensors[name]):
            raise LaunchError(
                f"elements of `{name}` share memory, so that its gradient is not defined",
                kernel=backward.forward.name,
                hint="pass a contiguous copy",
            )
    if not call.outputs:
        call.execute(call.tensors)
        return
    call.replace = any(call.tensors[n]._is_view() for n in call.outputs)
    results = _Launch.apply(call, names, *tensors)
    if call.replace:
        for tensor, result in zip(tensors, results, strict=False):  # outputs come first
            tensor.copy_(result)


class _Launch(torch.autograd.Function):
    """Outputs come first among the tensors, as `mark_dirty` requires."""

    @staticmethod
    def forward(ctx: Any, call: Call, names: tuple[str, ...], *tensors: Tensor) -> Any:
        given = dict(zip(names, tensors, strict=True))
        if call.replace:
            for name in call.outputs:
                fresh = gradient_buffer(given[name], given[name].dtype, zero=False)
                given[name] = fresh.copy_(given[name])
        call.execute(given)
        outputs = tuple(given[name] for name in call.outputs)
        if not call.replace:
            ctx.mark_dirty(*outputs)
        needed = call.specialisation.derivation(call.wrt, frozenset(call.outputs))
        params = {p.name for p in needed.backward.kernel.params}
        saved = [n for n in names if n in params and n not in call.outputs]
        ctx.save_for_backward(*(given[n] for n in saved))
        ctx.set_materialize_grads(False)
        ctx.call, ctx.names, ctx.saved = call, names, saved
        ctx.layouts = {n: _Layout.of(given[n]) for n in names if n not in saved}
        call.tensors = {}  # what is needed is saved; the node must not keep the rest alive
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        call: Call = ctx.call
        given = {n: ct for n, ct in zip(call.outputs, cotangents, strict=True) if ct is not None}
        nothing = (None,) * (len(ctx.names) + 2)
        if not given:
            return nothing
        tensors = dict(zip(ctx.saved, ctx.saved_tensors, strict=True))
        wanted = {n for n, need in zip(ctx.names, ctx.needs_input_grad[2:], strict=True) if need}
        wrt = frozenset(wanted & call.wrt)
        gradients = run_backward(call, wrt, {**tensors, **ctx.layouts}, given)
        return (None, None, *(gradients.get(name) for name in ctx.names))


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the backward must know of a tensor that it does not read."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(tensor: Tensor) -> _Layout:
        return _Layout(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def numel(self) -> int:
        return self.shape.numel()


def run_backward(
    call: Call, wrt: frozenset[str], tensors: dict[str, Any], cotangents: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Gradients by parameter, given the cotangents of some outputs."""
    plan = _plan(call, wrt, tensors, cotangents)
    if plan.atomic and torch.are_deterministic_algorithms_enabled():
        refuse_nondeterministic(plan, call.specialisation.forward.name)
    values: dict[str, Any] = {**plan.numbers, **{n: tensors[n] for n in plan.primals}}
    for ct in plan.cotangents:
        given, output = cotangents[ct.of], tensors[ct.of]
        if ct.materialise:
            given = in_layout_of(given, output.shape, output.stride())
        values[ct.name] = given
    buffers = {g.of: _buffer(g, tensors[g.of], cotangents) for g in plan.gradients}
    values.update((g.name, buffers[g.of]) for g in plan.gradients)
    _execute(plan, values, call)
    gradients = {n: _finish(buffer, tensors[n].dtype) for n, buffer in buffers.items()}
    for name in plan.derivation.backward.zeros:
        gradients[name] = _zero(tensors[name], cotangents.get(name))
    return gradients


def _plan(
    call: Call, wrt: frozenset[str], tensors: dict[str, Any], cotangents: dict[str, Tensor]
) -> Plan:
    spec = call.specialisation
    key = (
        wrt,
        tuple(cotangents),
        layout_key(list(tensors.values())),
        layout_key(list(cotangents.values())),
        tuple(call.scalars.values()),
        call.grid,
    )
    found = spec.plans.get(key)
    if found is None:
        layouts = {n: (tuple(t.shape), t.stride()) for n, t in cotangents.items()}
        plan = make_plan(spec, wrt, tensors, call.scalars, call.grid, layouts)
        found = spec.remember(key, plan)
    return found


def _buffer(plan: GradientPlan, tensor: Any, cotangents: Mapping[str, Tensor]) -> Tensor:
    if plan.start != "cotangent":
        return gradient_buffer(tensor, plan.dtype, zero=plan.start == "zero")
    buffer = gradient_buffer(tensor, plan.dtype, zero=plan.of not in cotangents)
    return buffer.copy_(cotangents[plan.of]) if plan.of in cotangents else buffer


def _finish(buffer: Tensor, dtype: torch.dtype) -> Tensor:
    return collapsed(buffer).to(dtype)


def _zero(tensor: Any, cotangent: Tensor | None) -> Tensor:
    """The gradient of an input that no output depends on."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _execute(plan: Plan, values: dict[str, Any], call: Call) -> None:
    kernel = plan.derivation.backward.kernel
    if 0 in call.grid or not kernel.params:
        return
    pointer = next(v for v in values.values() if isinstance(v, Tensor))
    if not pointer.is_cuda:
        run_on_cpu(kernel, values, call.grid)
        return
    arguments = [values[p.name] for p in kernel.params]
    options = {**plan.derivation.constexprs, **call.options}
    if torch.cuda.current_device() == pointer.device.index:
        plan.derivation.function[call.grid](*arguments, **options)
    else:
        with torch.cuda.device(pointer.device):
            plan.derivation.function[call.grid](*arguments, **options)


def aliases(
    kernel: str, tensors: Mapping[str, Tensor], stored: frozenset[str]
) -> tuple[tuple[str, str], ...]:
    """Pairs (parameter, other) that are one and the same memory.

    Raises:
        LaunchError: an argument that is written shares memory with another one otherwise.
    """
    pairs: dict[str, str] = {}
    names = list(tensors)
    for index, a in enumerate(names):
        for b in names[:index]:
            if a in pairs or b in pairs or not (a in stored or b in stored):
                continue
            if same_memory(tensors[a], tensors[b]):
                pairs[a] = b
            elif overlap(tensors[a], tensors[b]):
                raise LaunchError(
                    f"`{a}` and `{b}` share memory, and one of them is written",
                    kernel=kernel,
                    why="what is read may have been overwritten by another program",
                    hint="pass a copy of one of them",
                )
    return tuple(pairs.items())
