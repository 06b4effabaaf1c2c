"""`undertow.differentiable`: a jit kernel whose launches autograd can follow."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from undertow import frontend
from undertow.errors import UndertowError
from undertow.runtime import autograd
from undertow.runtime.arguments import Binder, Bound, Grid, grid_extents
from undertow.runtime.derivation import capture
from undertow.runtime.specialisation import Specialisation, bump_versions, run_on_cpu


class Differentiable:
    """A Triton kernel with gradients; made by `undertow.differentiable`.

    Launches look as before: ``kernel[grid](*args, **kwargs)``. Where gradients are
    recorded and an argument requires one, the launch becomes a node of the autograd graph,
    and its backward runs a derived kernel. CUDA tensors are launched by Triton, CPU
    tensors are worked on by the evaluator.
    """

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self._binder = Binder(fn)
        self._specialisations: dict[object, Specialisation | UndertowError] = {}
        functools.update_wrapper(self, frontend.unwrap(fn), updated=())

    def __getitem__(self, grid: Grid) -> partial[Any]:
        return partial(self._launch, grid)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"a kernel is launched with a grid: {self._binder.kernel}[grid](...)"
        )

    def __repr__(self) -> str:
        return f"undertow.differentiable({self._binder.kernel})"

    def _launch(self, grid: Grid, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return _outside_of_graph(self, grid, args, kwargs)
        recording = torch.is_grad_enabled() and (
            any(isinstance(a, Tensor) and a.requires_grad for a in args)
            or any(isinstance(a, Tensor) and a.requires_grad for a in kwargs.values())
        )
        return self._run(grid, args, kwargs, recording)

    def _run(
        self, grid: Grid, args: tuple[Any, ...], kwargs: Mapping[str, Any], recording: bool
    ) -> Any:
        bound = self._bind(args, kwargs)
        tensors = {n: v for n, v in bound.values.items() if isinstance(v, Tensor)}
        on_gpu = any(t.is_cuda for t in tensors.values())
        found = self._specialise(bound)
        if isinstance(found, UndertowError):
            if recording or not on_gpu:
                raise found.with_traceback(None)
            return self.fn[grid](*args, **kwargs)
        wrt = self._wanted(found, tensors) if recording else frozenset[str]()
        if wrt:
            return self._record(grid, args, kwargs, bound, tensors, found, wrt, on_gpu)
        if on_gpu:
            result = self.fn[grid](*args, **kwargs)
        else:
            result = run_on_cpu(found.forward, bound.values, grid_extents(grid, bound.values))
        bump_versions([tensors[n] for n in found.roles.stored if n in tensors])
        return result

    # -- one launch ------------------------------------------------------------------------

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
        meta = self._meta(args, kwargs) if self._wrapped else {}
        return self._binder.bind(args, kwargs, meta)

    @functools.cached_property
    def _wrapped(self) -> bool:
        return self.fn is not frontend.unwrap(self.fn)

    def _meta(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The constexprs that autotune and heuristics add.

        Of an autotuned kernel, those of the configuration used last, or of the first one
        before any launch: all of them compute the same values.
        """
        meta: dict[str, Any] = {}
        inner = self.fn
        while inner is not frontend.unwrap(self.fn):
            named = {**dict(zip(self._binder.names, args, strict=False)), **kwargs, **meta}
            if hasattr(inner, "configs"):
                config = getattr(inner, "best_config", None) or inner.configs[0]
                meta.update(config.kwargs)
            else:
                for name, rule in inner.values.items():
                    meta[name] = named[name] = rule(named)
            inner = inner.fn
        return meta

    def _specialise(self, bound: Bound) -> Specialisation | UndertowError:
        found = self._specialisations.get(bound.key)
        if found is None:
            try:
                types, constexprs = self._binder.types(bound.values)
                found = Specialisation.of(capture(self.fn, types, constexprs))
            except UndertowError as error:
                found = error
            self._specialisations[bound.key] = found
        return found

    def _wanted(self, found: Specialisation, tensors: Mapping[str, Tensor]) -> frozenset[str]:
        used = found.roles.loaded | found.roles.stored
        return frozenset(n for n, t in tensors.items() if t.requires_grad and n in used)

    def _record(
        self,
        grid: Grid,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        bound: Bound,
        tensors: dict[str, Tensor],
        found: Specialisation,
        wrt: frozenset[str],
        on_gpu: bool,
    ) -> None:
        forward = found.forward
        pointers = {p.name for p in forward.pointers}
        used = {n: t for n, t in tensors.items() if n in pointers}
        stored = found.roles.stored
        pairs = autograd.aliases(forward.name, used, stored)
        if pairs:
            found = found.with_aliases(pairs)
            merged = dict(pairs)
            wrt = frozenset(merged.get(n, n) for n in wrt)
            used = {n: t for n, t in used.items() if n not in merged}
        extents = grid_extents(grid, bound.values)
        scalars = {p.name: bound.values[p.name] for p in forward.params if p.name not in pointers}
        outputs = tuple(n for n in used if n in found.roles.stored)

        def execute(given: Mapping[str, Tensor]) -> None:
            values = {**bound.values, **given}
            values.update((a, given[b]) for a, b in pairs)
            if not on_gpu:
                run_on_cpu(found.forward, values, extents)
            elif call.replace:
                self.fn[grid](*(values[n] for n in self._passed(args, kwargs)), **bound.options)
            else:
                self.fn[grid](*args, **kwargs)

        options = {n: kwargs[n] for n in autograd.LAUNCH_OPTIONS if n in kwargs}
        call = autograd.Call(found, execute, used, scalars, extents, wrt, outputs, options)
        autograd.launch(call)

    def _passed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
        return [n for i, n in enumerate(self._binder.names) if i < len(args) or n in kwargs]


@torch.compiler.disable
def _outside_of_graph(
    kernel: Differentiable, grid: Grid, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """A launch under `torch.compile`: a graph break, since a traced one loses gradients."""
    return kernel[grid](*args, **kwargs)


def differentiable(fn: Any) -> Differentiable:
    """Makes launches of a Triton kernel differentiable.

    Args:
        fn: a function decorated with `triton.jit`, also under `triton.autotune` or
            `triton.heuristics`.

    Returns:
        An object that is launched like `fn`. Where an argument requires a gradient, the
        tensors that the kernel stores to get a `grad_fn`.

    Raises:
        CaptureError: `fn` is no jit function. What a kernel uses is looked at when it is
            first launched with gradients.
    """
    return fn if isinstance(fn, Differentiable) else Differentiable(fn)
