"""Compiles a function as `torch.compile` does, and lets autograd see its kernels.

Inductor lowers the forward alone: no input needs a gradient while it does. What it
generates is then called with tensors that do, and each launch of a generated kernel
goes through `undertow.differentiable`, with the launch's own grid and arguments and the
first of the configurations that Inductor would try.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch._dynamo
from torch import Tensor
from torch._dynamo.device_interface import CpuInterface
from torch._inductor import compile_fx, config
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

import undertow
from benchmarks.coverage.machine import driven

_guards: Any = torch._C._dynamo.guards  # pyright: ignore[reportAttributeAccessIssue]


@dataclass
class Lowered:
    """One call of a compiled function.

    Attributes:
        inputs: the graph's, as leaves.
        given: the tensors that they stand for.
        outputs: the graph's, with the graph that leads back to `inputs`.
        kernels: the names of the kernels that were launched.
    """

    inputs: list[Tensor] = field(default_factory=list)
    given: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)

    def leaf(self, tensor: Tensor) -> Tensor | None:
        """What stands for an argument; nothing if the graph does not look at it."""
        for given, leaf in zip(self.given, self.inputs, strict=True):
            if given.data_ptr() == tensor.data_ptr():
                return leaf
        return None

    def call(self, made: Callable[[list[Any]], Sequence[Any]], args: list[Any]) -> Any:
        """Calls what Inductor made, with leaves in place of its inputs."""
        self.given = list(args)
        self.inputs = [
            a.detach().requires_grad_(a.is_floating_point()) for a in self.given
        ]
        args.clear()
        with torch.enable_grad():
            self.outputs = list(made(list(self.inputs)))
        return [output.detach() for output in self.outputs]

    def launch(self, tuner: CachingAutotuner, *args: Any, **_: Any) -> None:
        """In place of Inductor's own launch."""
        fn: Any = tuner.fn
        self.kernels.append(fn.__name__)
        chosen = tuner.configs[0]
        args, grid = tuner._interpret_args_grid(args, chosen)
        names = [p.name for p in fn.params if not p.is_constexpr]
        values = dict(zip(names, args, strict=True)) | chosen.kwargs
        options = {"num_warps": chosen.num_warps, "num_stages": chosen.num_stages}
        undertow.differentiable(fn)[grid](**values, **options)


def lower(f: Callable[..., Any], args: Sequence[Tensor], found: Lowered) -> None:
    """Compiles `f`, and calls it once.

    Args:
        f: gives tensors.
        args: need no gradients.
        found: is told of the call.

    Raises:
        UndertowError: a kernel has no derivative.
    """

    def inner(graph: Any, examples: Any, **options: Any) -> Any:
        made = compile_fx.compile_fx_inner(graph, examples, **options)

        def call(given: list[Any]) -> Any:
            return found.call(made, given)

        call._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
        return call

    def backend(graph: Any, examples: Any) -> Any:
        return compile_fx.compile_fx(graph, examples, inner_compile=inner)

    def called(*args: Tensor) -> Any:  # Dynamo takes no builtin function
        return f(*args)

    torch._dynamo.reset()
    with _followed(found, cpu=not args[0].is_cuda):
        torch.compile(called, backend=backend, fullgraph=True)(*args)


@contextlib.contextmanager
def _followed(found: Lowered, cpu: bool) -> Iterator[None]:
    def run(tuner: CachingAutotuner, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("stream", None)
        found.launch(tuner, *args, **kwargs)

    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (CachingAutotuner, "run", run),
            (CachingAutotuner, "precompile", lambda *_, **__: None),
            (_guards, "_reinterpret_tensor", _viewed),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        if cpu:
            stack.enter_context(driven())
            built = mock.patch.object(
                CpuInterface, "raise_if_triton_unavailable", lambda *_: None
            )
            stack.enter_context(built)
        stack.enter_context(
            config.patch(
                cpu_backend="triton",
                compile_threads=1,
                force_disable_caches=True,
                allow_buffer_reuse=False,  # autograd would call it an overwrite
                inplace_buffers=False,
            )
        )
        yield


def _viewed(
    tensor: Tensor, size: Sequence[int], stride: Sequence[int], offset: int = 0
) -> Tensor:
    """Inductor's own view is one that autograd does not see."""
    return tensor.as_strided(size, stride, tensor.storage_offset() + offset)
