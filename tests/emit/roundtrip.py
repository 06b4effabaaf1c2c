"""Emits a kernel, captures what was emitted, and compares the two in the evaluator."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels.draw import converted
from undertow import evaluate, frontend
from undertow.emit.source import constexpr_extents
from undertow.ir import (
    DTYPES,
    Access,
    Builder,
    Kernel,
    PointerType,
    TensorType,
    Value,
    scalar,
    verify,
)

TRITON = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}
TORCH = {
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
LANES = 16

_counter = itertools.count()


def build(params: Mapping[str, str], body: Callable[..., None]) -> Kernel:
    """A kernel whose parameters have types such as `*f32` or `i32`."""
    values = [
        Value(PointerType(DTYPES[t[1:]]) if t[0] == "*" else scalar(DTYPES[t]), name)
        for name, t in params.items()
    ]
    builder = Builder()
    body(builder, *values)
    return verify(Kernel("kernel", tuple(values), builder.block))


def vector(dtype: str) -> TensorType:
    return TensorType(DTYPES[dtype], (LANES,))


def loaded(b: Builder, pointer: Value, *, lanes: bool = True) -> Value:
    """What `pointer` points to: a vector, or its first element."""
    assert isinstance(pointer.type, PointerType)
    offsets = (_range(b),) if lanes else ()
    type = TensorType(pointer.type.element, (LANES,) if lanes else ())
    return b.load(Access(pointer, offsets, None, None, None), type)


def stored(b: Builder, pointer: Value, value: Value) -> None:
    offsets = (_range(b),) if value.shape else ()
    b.store(Access(pointer, offsets, value, None, None))


def _range(b: Builder) -> Value:
    return b.pure("range", (), vector("i32"), {"start": 0, "end": LANES})


def load_function(source: str, name: str, folder: Path) -> Any:
    """The function `name` of a module with this source."""
    path = folder / f"emitted_{next(_counter)}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def recaptured(
    kernel: Kernel, source: str, folder: Path, *, ones: bool = False
) -> Kernel:
    """`source`, which is `kernel` emitted, compiled to TTIR and lifted.

    With `ones`, integer parameters are folded to 1, as a launch does where they are 1.
    """
    used = constexpr_extents(kernel).values()
    constexprs: dict[str, object] = {n: kernel.constexprs[n] for n in used}
    signature: dict[str, str] = {}
    for param in kernel.params:
        pointer = isinstance(param.type, PointerType)
        of = param.type.element if pointer else param.tensor_type.dtype
        if ones and not pointer and of.is_int:
            constexprs[param.name] = 1
        else:
            signature[param.name] = "*" * pointer + TRITON.get(of.name, of.name)
    function = load_function(source, kernel.name, folder)
    return frontend.capture(function, signature, constexprs)


def run(
    kernel: Kernel,
    args: Mapping[str, object],
    grid: tuple[int, ...] = (1,),
    float_dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:
    """The tensors after a run on copies of `args`, those of the kernel's parameters."""
    copies = {
        p.name: converted(a, a.dtype) if isinstance(a := args[p.name], Tensor) else a
        for p in kernel.params
    }
    evaluate.run(kernel, copies, grid, float_dtype=float_dtype)  # type: ignore[arg-type]
    return {n: a for n, a in copies.items() if isinstance(a, Tensor)}


def same(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Asserts equal numbers, NaN where NaN is."""
    for name in found:
        torch.testing.assert_close(
            found[name], wanted[name], rtol=0, atol=0, equal_nan=True
        )


def ruff(path: Path, *options: str) -> None:
    """Asserts that neither `ruff format` nor `ruff check` would change a thing."""
    pytest.importorskip("ruff", reason="ruff is not installed")
    for command in (["format", "--diff"], ["check"]):
        words = [sys.executable, "-m", "ruff", *command, "-q", "--no-cache", *options]
        done = subprocess.run([*words, path], capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
