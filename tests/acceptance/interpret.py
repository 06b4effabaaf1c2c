"""Runs emitted kernels in Triton's interpreter: `python interpret.py JOBS RESULTS`.

JOBS holds a list of (source file, kernel, grid, arguments by name); RESULTS then holds
for each the arguments as the kernel left them, or the error as text. Needs
``TRITON_INTERPRET=1`` and nothing of Undertow. The interpreter has no libdevice: what
kernels use of it is written in `tl`.
"""

from __future__ import annotations

import importlib.util
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


def main(jobs: str, results: str) -> None:
    libdevice.tanh = lambda x: 2.0 * tl.sigmoid(2.0 * x) - 1.0
    done: list[Any] = []
    for path, name, grid, args in torch.load(jobs, weights_only=False):
        try:
            load(path, name)[grid](**args)
        except Exception as error:
            done.append(f"{type(error).__name__}: {error}")
        else:
            done.append(args)
    assert "undertow" not in sys.modules
    torch.save(done, results)


if __name__ == "__main__":
    main(*sys.argv[1:])
