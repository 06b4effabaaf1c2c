"""Runs emitted kernels without Undertow: `python standalone.py JOBS RESULTS DEVICE`.

JOBS holds a list of (source file, kernel, grid, arguments by name); RESULTS then holds
for each the arguments as the kernel left them, or the error as text. On the CPU this
needs ``TRITON_INTERPRET=1``. The interpreter has no libdevice: there, what the kernels
use of it is written in `tl`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

import torch
import triton.language as tl
from triton.language.extra import libdevice


def load(path: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"emitted_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def moved(value: Any, device: str) -> Any:
    """A tensor on `device` with the same strides; other values as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.numel() == 0:
        return value.to(device)
    pairs = zip(value.shape, value.stride(), strict=True)
    reach = 1 + sum((size - 1) * stride for size, stride in pairs)
    flat = value.as_strided((reach,), (1,)).to(device)
    return flat.as_strided(value.shape, value.stride())


def main(jobs: str, results: str, device: str) -> None:
    if os.environ.get("TRITON_INTERPRET") == "1":
        libdevice.tanh = lambda x: 2.0 * tl.sigmoid(2.0 * x) - 1.0
    done: list[Any] = []
    for path, name, grid, args in torch.load(jobs, weights_only=False):
        given = {n: moved(a, device) for n, a in args.items()}
        try:
            load(path, name)[grid](**given)
        except Exception as error:
            done.append(f"{type(error).__name__}: {error}")
        else:
            done.append({n: moved(a, "cpu") for n, a in given.items()})
    assert "undertow" not in sys.modules
    torch.save(done, results)


if __name__ == "__main__":
    main(*sys.argv[1:])
