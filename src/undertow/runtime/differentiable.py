"""`undertow.differentiable`: a jit kernel whose launches autograd can follow."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor
from torch.autograd import forward_ad

from undertow import frontend
from undertow.errors import IRError, LaunchError, UndertowError
from undertow.frontend import NO_PROMISES, Promises
from undertow.runtime import autograd
from undertow.runtime.arguments import (
    Binder,
    Grid,
    Key,
    Values,
    grid_extents,
    tensors_in,
)
from undertow.runtime.call import Call
from undertow.runtime.derivation import capture
from undertow.runtime.specialisation import LOCK, Specialisation, run_on_cpu
from undertow.runtime.tuning import Layers
from undertow.transform.roles import refuse_no_indices

_increment_version: Any = torch._C._increment_version


class Differentiable:
    """A Triton kernel with gradients; made by `undertow.differentiable`.

    Launches look as before: ``kernel[grid](*args, **kwargs)``. Where gradients are
    recorded and an argument requires one, the launch becomes a node of the autograd
    graph, and its backward runs a derived kernel. CUDA tensors are launched by Triton,
    CPU tensors are worked on by the evaluator.
    """

    def __init__(self, fn: Any, promises: Promises = NO_PROMISES) -> None:
        self.fn = fn
        self.promises = promises
        self._layers = Layers(fn)
        self._wrapped = bool(self._layers)
        self._interpreted = self._layers.interpreted
        self._specialisations: dict[object, Specialisation | UndertowError] = {}
        functools.update_wrapper(self, self._layers.inner.fn, updated=())
        if not self._interpreted:
            self._binder = Binder(fn)  # otherwise there is nothing to bind to

    def __getitem__(self, grid: Grid) -> partial[Any]:
        return partial(self._launch, grid)

    def run(self, *args: Any, grid: Grid, warmup: bool = False, **kwargs: Any) -> Any:
        """What Triton calls a launch by."""
        if warmup:
            return self.fn.run(*args, grid=grid, warmup=True, **kwargs)
        return self._launch(grid, *args, **kwargs)

    def warmup(self, *args: Any, **kwargs: Any) -> Any:
        """Compiles the forward without launching it."""
        return self.fn.warmup(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"a kernel is launched with a grid: {self.__name__}[grid](...)"
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a differentiable kernel has no `{name}`; what it wraps is its `fn`. "
            "Decorators such as `triton.autotune` go below `undertow.differentiable`."
        )

    def __repr__(self) -> str:
        return f"undertow.differentiable({self.__name__})"

    def __reduce__(self) -> str:
        """Pickled by name and copied as itself, like a function."""
        return str(self.__qualname__)

    # -- one launch --------------------------------------------------------------------

    def _launch(self, grid: Grid, /, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return _outside_of_graph(self, grid, args, kwargs)
        if self._interpreted:
            return self._interpret(grid, args, kwargs)
        binder, total = self._binder, kwargs
        if self._wrapped:
            total = self._layers.keywords(binder.names, args, kwargs)
        values, key = binder.bind(args, total)
        try:
            found = self._specialisations.get(key)
        except TypeError:  # a constexpr that has no hash
            key = (repr(key),)
            found = self._specialisations.get(key)
        if found is None:
            found = self._specialise(binder, values, key)
        if isinstance(found, UndertowError):
            return self._without(found, grid, args, kwargs, values)
        tensors = found.take_tensors(values)
        if (
            torch._C._are_functorch_transforms_active()
            or forward_ad._current_level >= 0
        ):
            refuse_transforms(binder.kernel, tensors)
        if torch.is_grad_enabled():
            for tensor in tensors:
                if tensor.requires_grad:
                    call = Call(self, grid, args, kwargs)
                    call.bind(found, key, values, total)
                    if self._layers.tuned:
                        self._layers.refuse_repeated(call.specialisation, call.tensors)
                    return autograd.launch(call)
        result = self.launch_plainly(found, grid, args, kwargs, values, tensors)
        _increment_version(found.take_stored(values))
        return result

    def _specialise(
        self, binder: Binder, values: Values, key: Key
    ) -> Specialisation | UndertowError:
        with LOCK:
            if key in self._specialisations:
                return self._specialisations[key]
            try:
                types, constexprs = binder.types(values)
                forward = capture(self.fn, types, constexprs, self.promises)
                unique = self.promises.unique
                refuse_no_indices(forward, unique)
                found = Specialisation(forward, binder.names, unique)
            except UndertowError as error:
                found = error.with_traceback(None)
            except Exception as error:  # a launch without gradients must not fail by it
                found = IRError(
                    f"`{binder.kernel}` could not be read: {error!r}",
                    hint="this is a fault of Undertow; please report it",
                )
            self._specialisations[key] = found
        return found

    def launch_plainly(
        self,
        found: Specialisation,
        grid: Grid,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        values: Values,
        tensors: Sequence[Tensor],
    ) -> Any:
        """Runs the forward, wherever the tensors are."""
        if _on_gpu(values, tensors):
            return self.fn.run(*args, grid=grid, warmup=False, **kwargs)
        named = dict(zip(found.names, values, strict=True))
        return run_on_cpu(found.forward, named, grid_extents(grid, found.names, values))

    # -- launches that cannot have gradients -------------------------------------------

    def _without(
        self,
        error: UndertowError,
        grid: Grid,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        values: Values,
    ) -> Any:
        """Launches a kernel that was not captured, if no gradient is needed."""
        tensors = list(tensors_in(values))
        if _recording(tensors) or not _on_gpu(values, tensors):
            raise copy.copy(error)  # the one kept must not hold this call's frames
        return self.fn.run(*args, grid=grid, warmup=False, **kwargs)

    def _interpret(
        self, grid: Grid, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Launches in Triton's interpreter."""
        arguments = (*args, *kwargs.values())
        if _recording(list(tensors_in(arguments))):
            frontend.unwrap(self.fn)  # raises, and says why there is nothing to derive
        return self.fn.run(*args, grid=grid, warmup=False, **kwargs)

    # -- launches with gradients -------------------------------------------------------

    def execute(self, call: Call) -> None:
        """Launches the forward of a recorded call."""
        args, kwargs, values = call.args, call.kwargs, call.values
        swapped = call.swapped
        if swapped:
            args = tuple([swapped.get(id(v), v) for v in args])
            kwargs = {n: swapped.get(id(v), v) for n, v in kwargs.items()}
            values = tuple([swapped.get(id(v), v) for v in values])
        grid = call.grid if self._wrapped else call.extents
        call.result = self.launch_plainly(
            call.specialisation, grid, args, kwargs, values, call.tensors
        )
        if self._layers.tuned:
            self._settle(call)

    def _settle(self, call: Call) -> None:
        """Lets the backward use the configuration that the tuner launched."""
        binder = self._binder
        total = self._layers.keywords(binder.names, call.args, call.kwargs)
        values, key = binder.bind(call.args, total)
        found = call.specialisation
        if key != call.key:
            found = self._specialise(binder, values, key)
            if isinstance(found, UndertowError):
                raise copy.copy(found)
        call.settle(found, key, values, total)
        self._layers.refuse_repeated(call.specialisation, call.tensors)


_FUNCTORCH: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]


def _on_gpu(values: Values, tensors: Sequence[Tensor]) -> bool:
    """Whether Triton launches it; so it does where there is nothing to look at."""
    for tensor in tensors:
        if tensor.is_cuda:
            return True
    others = [v for v in values if isinstance(v, Tensor)]
    return any(t.is_cuda for t in others) or not (others or tensors)


def _recording(tensors: Sequence[Tensor]) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def refuse_transforms(kernel: str, tensors: Sequence[Tensor]) -> None:
    """Refuses tensors of `torch.func`, and tangents of forward mode.

    Raises:
        LaunchError: the derivative of one of them would be lost.
    """
    for tensor in tensors:
        if _FUNCTORCH.is_functorch_wrapped_tensor(tensor):
            raise LaunchError(
                f"`{kernel}` cannot be launched on a tensor of a torch.func transform",
                hint="use torch.autograd.grad, or backward()",
            )
        if forward_ad._current_level >= 0 and (
            forward_ad.unpack_dual(tensor).tangent is not None
        ):
            raise LaunchError(
                f"`{kernel}` has no forward-mode derivative, and one of its arguments "
                "has a tangent",
                hint="use reverse mode",
            )


def _launch(
    kernel: Differentiable, grid: Grid, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A graph break under `torch.compile`: a traced launch loses its gradients."""
    return kernel[grid](*args, **kwargs)


_outside_of_graph: Any = torch.compiler.disable(_launch)


@overload
def differentiable(
    fn: Any,
    *,
    unique: Collection[str] = ...,
    stop_gradient: Collection[str] = ...,
    zero: Collection[str] = ...,
) -> Differentiable: ...
@overload
def differentiable(
    *,
    unique: Collection[str] = ...,
    stop_gradient: Collection[str] = ...,
    zero: Collection[str] = ...,
) -> Callable[[Any], Differentiable]: ...
def differentiable(
    fn: Any = None,
    *,
    unique: Collection[str] = (),
    stop_gradient: Collection[str] = (),
    zero: Collection[str] = (),
) -> Any:
    """Makes launches of a Triton kernel differentiable.

    Args:
        fn: a function decorated with `triton.jit`, also under `triton.autotune` or
            `triton.heuristics`; left out by a decorator with options,
            ``@undertow.differentiable(unique=("index_ptr",))``.
        unique: pointers to integers of which you promise that none stands there twice
            in any launch, so that gradients of what is loaded at them need no atomics.
            `undertow check` tests it on the example.
        stop_gradient: variables of the kernel. What is assigned to them has no
            derivative, as if it had passed through `undertow.stop_gradient`.
        zero: what has derivative zero: pointers that are loaded from, helper functions
            by their names, `"tl.inline_asm_elementwise"`, and functions such as
            `"libdevice.tgamma"`.

    Returns:
        An object that is launched like `fn`. Where an argument requires a gradient, the
        tensors that the kernel stores to get a `grad_fn`.

    Raises:
        CaptureError: `fn` is no jit function. What a kernel uses is looked at when it
            is first launched.
    """
    promises = Promises.of(unique, stop_gradient, zero)
    if fn is None:
        return lambda fn: _with(fn, promises)
    return _with(fn, promises)


def _with(fn: Any, promises: Promises) -> Differentiable:
    if isinstance(fn, Differentiable):
        promises = fn.promises | promises
        return fn if promises == fn.promises else Differentiable(fn.fn, promises)
    return Differentiable(fn, promises)
