"""Runs a kernel in Triton's interpreter, for what Undertow's evaluator cannot execute.

The launches behind it can then be judged all the same. The interpreter rewrites
Triton's own modules while it works, so it does that in a process of its own.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction


def interpret(
    fn: JITFunction[Any], grid: tuple[int, ...], values: dict[str, Any]
) -> None:
    """Launches `fn` once; tensors in `values` are updated in place.

    Raises:
        RuntimeError: the interpreter cannot execute it either.
    """
    tensors = {n: v for n, v in values.items() if isinstance(v, Tensor)}
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(_answer(fn, grid, values, tensors))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    found = torch.load(io.BytesIO(answer), weights_only=False)
    if isinstance(found, str):
        raise RuntimeError(found)
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.detach().copy_(found[name])


def _answer(
    fn: JITFunction[Any],
    grid: tuple[int, ...],
    values: dict[str, Any],
    tensors: dict[str, Tensor],
) -> bytes:
    """What the tensors hold afterwards, or why they hold nothing."""
    found: Any
    try:
        with mock.patch.object(JITFunction, "__call__", _called):
            arguments = {n: _plain(v) for n, v in values.items()}
            InterpretedFunction(fn.fn).run(grid=grid, warmup=False, **arguments)
        found = {n: t.detach() for n, t in tensors.items()}
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    buffer = io.BytesIO()
    torch.save(found, buffer, pickle_module=pickle)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _called(self: JITFunction[Any], *args: Any, **kwargs: Any) -> Any:
    return InterpretedFunction(self.fn)(*args, **kwargs)
