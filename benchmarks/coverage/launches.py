"""Runs what a library launches in Undertow's evaluator, and keeps each launch.

A kernel's launch arrives at `JITFunction.run`, whatever decorates it. With gradients
off, or inside the library's own autograd function, it is executed and no more. To see
the gradients that Undertow derives, a library's `autograd.Function` is entered as if it
were ordinary code: its forward is called with gradients recorded, so that each of its
launches becomes a node of the graph, and its backward is never used.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from triton.runtime.jit import JITFunction

import undertow
from benchmarks.coverage.interpreted import interpret
from benchmarks.coverage.workloads import Workload
from undertow.check.launch import copies
from undertow.errors import UndertowError
from undertow.runtime.arguments import grid_extents

_EMPTY = (
    (torch, "empty"),
    (torch, "empty_like"),
    (torch, "empty_strided"),
    (Tensor, "new_empty"),
)
"""What gives memory with anything in it."""


@dataclass
class Launch:
    """One launch of a kernel.

    Attributes:
        fn: the jit function.
        grid: three extents.
        values: the arguments by parameter, tensors as they were before.
        wrt: tensors that needed a gradient.
        reached: outputs that a cotangent arrived at.
        error: why it has no derivative, if it has none.
        executed: whether it came to its end.
        interpreted: whether Triton's interpreter executed it.
        passive: whether it was made where the library records no gradients.
    """

    fn: Any
    grid: tuple[int, int, int]
    values: dict[str, Any]
    wrt: tuple[str, ...] = ()
    reached: set[str] = field(default_factory=set)
    error: UndertowError | None = None
    executed: bool = False
    interpreted: bool = False
    passive: bool = False

    @property
    def kernel(self) -> str:
        return qualified(self.fn)


def qualified(fn: Any) -> str:
    """The module and name of a kernel; FlagGems writes some into modules of its own."""
    generated = fn.__module__.startswith("_gen_module")
    module = "flag_gems.generated" if generated else fn.__module__
    return f"{module}.{fn.__name__}"


class Recorder:
    """Executes launches, and keeps them.

    Args:
        work: the call.
        derived: whether to enter autograd functions, and derive each launch.
    """

    def __init__(self, work: Workload, derived: bool) -> None:
        self.work, self.derived = work, derived
        self.launches: list[Launch] = []
        self._known: dict[Any, Any] = {}
        self._busy = False

    @contextlib.contextmanager
    def recording(self) -> Iterator[Recorder]:
        recorder = self

        def run(fn: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any):
            recorder.run(fn, grid, args, kwargs)

        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(JITFunction, "run", run))
            for owner, name in _EMPTY:
                empty = self._zeroed(getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, empty))
            if self.derived:
                stack.enter_context(_entered_functions())
            yield self

    def run(
        self, fn: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        values = self._bound(fn, args, kwargs)
        extents = grid_extents(grid, tuple(values), tuple(values.values()))
        if 0 in extents:
            return
        launch = Launch(fn, extents, copies(values))
        self.launches.append(launch)
        kernel = self._known.setdefault(fn, undertow.differentiable(fn))
        launch.passive = not (self.derived and torch.is_grad_enabled())
        self._busy = True
        with mock.patch.object(Tensor, "is_cuda", False):  # it may have been told so
            if launch.passive:
                launch.interpreted = _execute(kernel, extents, values)
            else:
                self._follow(launch, kernel, values)
        self._busy = False
        launch.executed = True

    def _zeroed(self, empty: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """A library's buffers start with zeros, so that two runs are alike."""

        def zeroed(*args: Any, **kwargs: Any) -> Tensor:
            made = empty(*args, **kwargs)
            return made if self._busy else made.zero_()

        return zeroed

    def _follow(self, launch: Launch, kernel: Any, values: dict[str, Any]) -> None:
        tensors = {n: v for n, v in values.items() if isinstance(v, Tensor)}
        launch.wrt = tuple(n for n, t in tensors.items() if t.requires_grad)
        before = {n: t._version for n, t in tensors.items()}
        try:
            kernel[launch.grid](**values)
        except UndertowError as error:
            launch.error = error
            launch.interpreted = _execute(kernel, launch.grid, values)
            for name, tensor in tensors.items():
                if tensor.is_floating_point() and not tensor.requires_grad:
                    _go_on(tensor, launch.values[name])
            return
        for name, tensor in tensors.items():
            if tensor._version != before[name] and tensor.requires_grad:
                _when_reached(tensor, launch, name)

    def _bound(
        self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        values = dict(zip(fn.arg_names, args, strict=False))
        for param in fn.params:
            if param.name in kwargs:
                values[param.name] = kwargs[param.name]
            elif param.name not in values:
                values[param.name] = param.default
        if self.derived:
            values |= {n: v for n, v in self.work.fixed.items() if n in values}
            for name in self.work.apart:
                if name in values:
                    values[name] = torch.empty_like(values[name])
        return {n: _seen(values[n]) for n in fn.arg_names}


def _seen(value: Any) -> Any:
    """A buffer that a library describes by a base, sizes and strides, as a tensor."""
    if type(value).__name__ != "StridedBuffer":
        return value
    base, start = value._base, value._base.storage_offset() + value.offset
    return base.as_strided(value.shape, value._strides, start)


def _execute(kernel: Any, grid: tuple[int, int, int], values: dict[str, Any]) -> bool:
    """Launches without gradients, in Triton's interpreter if there is no other way.

    Returns:
        Whether it was the interpreter.

    Raises:
        UndertowError: that is no way either.
    """
    try:
        with torch.no_grad():
            kernel[grid](**values)
    except UndertowError as error:
        try:
            interpret(kernel.fn, grid, values)
        except RuntimeError as other:
            raise error from other
        return True
    return False


def _go_on(tensor: Tensor, before: Tensor) -> None:
    """Lets what follows see that an output would have needed a gradient."""
    if not torch.equal(tensor, before):
        tensor.add_(torch.zeros((), dtype=tensor.dtype, requires_grad=True))


def _when_reached(tensor: Tensor, launch: Launch, name: str) -> None:
    """A cotangent of a view may arrive at what it is a view of, and there alone."""
    for told in (tensor, tensor._base):
        if told is not None and told.requires_grad:
            told.register_hook(lambda _: launch.reached.add(name))


# -- a library's autograd functions --


class _Context(SimpleNamespace):
    """Takes what a forward keeps for its backward, and forgets it."""

    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        self.saved_tensors = tensors

    def mark_dirty(self, *tensors: Tensor) -> None: ...

    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...

    def set_materialize_grads(self, value: bool) -> None: ...


@contextlib.contextmanager
def _entered_functions() -> Iterator[None]:
    own = inspect.getattr_static(torch.autograd.Function, "apply")

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls.__module__.startswith(("undertow.", "torch.")):
            return own.__get__(None, cls)(*args, **kwargs)
        if cls.setup_context is not torch.autograd.Function.setup_context:
            return cls.forward(*args, **kwargs)
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        return cls.forward(_Context(needs_input_grad=needs), *args, **kwargs)

    with mock.patch.object(torch.autograd.Function, "apply", classmethod(apply)):
        yield
