"""Deriving takes time in proportion to the kernel, however deep its expressions are."""

from __future__ import annotations

import gc
import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from undertow import frontend
from undertow.emit import emit_backward
from undertow.evaluate import run
from undertow.ir import Kernel, walk
from undertow.transform.differentiate import differentiate

PATH = Path(__file__).parent.parent / "benchmarks" / "unrolled.py"
SMALL, LARGE = 600, 2400


def _unrolled() -> Any:
    spec = importlib.util.spec_from_file_location("unrolled", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclass looks for names
    spec.loader.exec_module(module)
    return module


UNROLLED = _unrolled().UNROLLED


def _captured(name: str, ops: int) -> Kernel:
    of = UNROLLED[name]
    return frontend.capture(of.kernel, of.signature, of.constexprs(ops))


def _seconds(kernel: Kernel) -> float:
    """The shorter of two derivations, so that a pause of the machine does not count."""
    found: list[float] = []
    for _ in range(2):
        gc.collect()
        begin = time.process_time()
        emit_backward(differentiate(kernel))
        found.append(time.process_time() - begin)
    return min(found)


@pytest.mark.parametrize("name", UNROLLED)
def test_time_grows_in_proportion(name: str) -> None:
    small, large = _captured(name, SMALL), _captured(name, LARGE)
    ratio = len(list(walk(large.body))) / len(list(walk(small.body)))
    assert _seconds(large) < 2.2 * ratio * _seconds(small)  # 4 times as much: quadratic


@pytest.mark.parametrize("name", ["pointwise_chain", "walking_pointer", "reductions"])
def test_ten_thousand_ops_are_not_too_deep(name: str) -> None:
    kernel = _captured(name, 10_000)
    backward = differentiate(kernel)
    assert emit_backward(backward).count("\n") > 1000
    n = 64
    args = {p.name: torch.rand(4 * n * 3000) for p in kernel.pointers}
    args |= {p.name: n for p in kernel.params if p not in kernel.pointers}
    run(kernel, args, (1,), float_dtype=torch.float64)
