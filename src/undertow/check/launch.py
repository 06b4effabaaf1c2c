"""Launches of a kernel that the checks make: as it is, and all in float64."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from undertow import frontend
from undertow.check.arguments import bind, types
from undertow.check.example import Example
from undertow.errors import CheckError, UndertowError
from undertow.frontend import NO_PROMISES, Promises
from undertow.ir import Kernel, parse, print_kernel
from undertow.runtime.arguments import grid_extents
from undertow.runtime.derivation import capture
from undertow.runtime.differentiable import Differentiable
from undertow.runtime.specialisation import Specialisation
from undertow.transform.differentiate import Roles, roles
from undertow.transform.roles import refuse_no_indices

_FLOAT_TYPE = re.compile(r"(?<![%\w\"])(f16|bf16|f32|f8e4m3|f8e5m2)\b")


class Exact(Differentiable):
    """The kernel with every float a float64."""

    def __init__(self, fn: Any, forward: Kernel, promises: Promises) -> None:
        super().__init__(fn, promises)
        wide, names = in_float64(forward), self._binder.names
        self._exact = Specialisation(wide, names, promises.unique)

    def _specialise(self, *_: object) -> Specialisation:
        return self._exact


def in_float64(kernel: Kernel) -> Kernel:
    """`kernel` with every type of floats replaced by f64."""
    wide = parse(_FLOAT_TYPE.sub("f64", print_kernel(kernel)))
    return replace(wide, loc=kernel.loc, constexprs=kernel.constexprs)


@dataclass(frozen=True)
class Subject:
    """A kernel on one example.

    Attributes:
        fn: the kernel.
        forward: its IR for the example's types.
        example: grid and arguments as they were given.
        values: the arguments by parameter.
        grid: three extents.
        inputs: float tensors that are loaded, and get a gradient.
        outputs: float tensors that are stored to, and get a cotangent.
        roles: what is done with each pointer.
        promises: what is promised of it.
    """

    fn: Any
    forward: Kernel
    example: Example
    values: dict[str, Any]
    grid: tuple[int, int, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    roles: Roles
    promises: Promises = NO_PROMISES

    @property
    def args(self) -> dict[str, Any]:
        """The arguments that the IR has parameters for."""
        return {p.name: self.values[p.name] for p in self.forward.params}

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {n: v for n, v in self.args.items() if isinstance(v, Tensor)}

    def own(self) -> Differentiable:
        """The kernel as users launch it."""
        return Differentiable(self.fn, self.promises)

    def exact(self) -> Differentiable:
        """The kernel in float64."""
        return Exact(self.fn, self.forward, self.promises)

    def launch(self, launcher: Differentiable, values: Mapping[str, Any]) -> None:
        """Launches with other values for the example's arguments."""
        names = (p.name for p in frontend.parameters(self.fn))
        example = self.example
        args = [values[n] for n, _ in zip(names, example.args, strict=False)]
        kwargs = {n: values.get(n, a) for n, a in example.kwargs.items()}
        launcher[example.grid](*args, **kwargs)


def subject(
    fn: Any,
    example: Example,
    wrt: Collection[str] = (),
    outputs: Collection[str] = (),
    promises: Promises = NO_PROMISES,
) -> Subject:
    """Binds an example to a kernel and captures it.

    Raises:
        CheckError: the example does not fit the kernel's parameters, or what is written
            shares memory with another argument.
        CaptureError: Triton does not compile the kernel.
        UnsupportedError: promised to be unique is what is no pointer to integers.
    """
    values = bind(fn, example)
    forward = capture(fn, *types(fn, values), promises)
    refuse_no_indices(forward, promises.unique)
    found = roles(forward)
    tensors = {n: v for n, v in values.items() if isinstance(v, Tensor)}
    floats = [n for n, t in tensors.items() if t.is_floating_point()]
    _refuse_shared(forward.name, tensors, found.stored)
    return Subject(
        fn,
        forward,
        example,
        values,
        _grid(example.grid, values),
        tuple(n for n in floats if n in found.loaded and (not wrt or n in wrt)),
        tuple(n for n in floats if n in found.stored and (not outputs or n in outputs)),
        found,
        promises,
    )


def _grid(grid: Any, values: Mapping[str, Any]) -> tuple[int, int, int]:
    try:
        return grid_extents(grid, tuple(values), tuple(values.values()))
    except UndertowError:
        raise
    except Exception as error:  # the grid is the user's function
        raise CheckError(
            f"the grid of the example raises {type(error).__name__}: {error}",
            hint="a function of a grid is given the arguments by name",
        ) from error


def _refuse_shared(
    kernel: str, tensors: Mapping[str, Tensor], stored: Collection[str]
) -> None:
    for a, b in itertools.combinations(tensors, 2):
        one, other = (tensors[n].untyped_storage() for n in (a, b))
        if one.nbytes() and one.data_ptr() == other.data_ptr() and {a, b} & {*stored}:
            raise CheckError(
                f"`{a}` and `{b}` of `{kernel}` share memory in the example",
                why="one of them is written, and the checks compare separate copies",
                hint="pass a copy of one of them",
            )


# -- copies --


def copies(
    values: Mapping[str, Any],
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> dict[str, Any]:
    """Copies of the tensors in `values`, floats as `dtype`; layouts stay."""
    storages: dict[tuple[int, torch.dtype], Tensor] = {}
    found = dict(values)
    for name, value in values.items():
        if not isinstance(value, Tensor):
            continue
        value = value.detach()
        storage = value.untyped_storage()
        key = storage.data_ptr(), value.dtype
        if key not in storages:
            whole = torch.empty(0, dtype=value.dtype, device=value.device)
            whole.set_(storage, 0, (storage.nbytes() // value.dtype.itemsize,), (1,))
            wanted = dtype if value.is_floating_point() else None
            storages[key] = whole.to(device, wanted or value.dtype, copy=True)
        found[name] = storages[key].as_strided(
            value.shape, value.stride(), value.storage_offset()
        )
    return found


def apart(values: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of the tensors in `values`, each with memory of its own."""
    return {n: copies({n: value})[n] for n, value in values.items()}


def _buffer(tensor: Tensor) -> Tensor:
    """A copy of `tensor` in its layout that is no view."""
    fresh = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return fresh.copy_(tensor)


# -- gradients --


def gradients(
    launcher: Differentiable,
    subject: Subject,
    cotangents: Mapping[str, Tensor],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Outputs and gradients of one launch through autograd.

    Args:
        launcher: what to launch.
        subject: the arguments and what is differentiated.
        cotangents: by output; they are passed with the strides they have.
        dtype: what floats are converted to, if anything.
        device: where to launch.
    """
    values = copies(subject.values, dtype, device)
    leaves: dict[str, Tensor] = {}
    for name in subject.inputs:
        leaf = leaves[name] = _memory(values[name]).requires_grad_()
        values[name] = leaf if leaf is values[name] else leaf.expand(values[name].shape)
    for name in subject.roles.stored:
        if _distinct(values[name]):
            values[name] = _buffer(values[name])
    subject.launch(launcher, values)
    results = {n: values[n] for n in subject.outputs}
    active = [n for n, y in results.items() if y.requires_grad]
    found: tuple[Tensor | None, ...] = (None,) * len(leaves)
    if active and leaves:
        found = torch.autograd.grad(
            [results[n] for n in active],
            list(leaves.values()),
            [cotangents[n] for n in active],
            allow_unused=True,
        )
    return {n: y.detach() for n, y in results.items()}, {
        n: torch.zeros_like(leaf) if g is None else g
        for (n, leaf), g in zip(leaves.items(), found, strict=True)
    }


def _memory(tensor: Tensor) -> Tensor:
    """What `tensor` was expanded from; itself if it was not."""
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    first = tuple(slice(0, 1) if n > 1 and not s else slice(None) for s, n in pairs)
    return tensor[first].detach() if slice(0, 1) in first else tensor


def _distinct(tensor: Tensor) -> bool:
    """Whether no two elements share memory by expansion."""
    return all(s or n <= 1 for s, n in zip(tensor.stride(), tensor.shape, strict=True))
