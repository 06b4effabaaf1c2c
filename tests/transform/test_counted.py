"""Which `while` loops are found to count, and what stands for them."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from undertow import evaluate, frontend
from undertow.ir import Kernel, verify, walk
from undertow.transform.counted import counted
from undertow.transform.induction import induction


@triton.jit
def up_to(x_ptr, y_ptr, n, step):
    i, s = 0, 0.0
    while i < n:
        s += tl.load(x_ptr + i)
        i += 3
    tl.store(y_ptr, s + i)


@triton.jit
def inclusive(x_ptr, y_ptr, n, step):
    i, s = 2, 0.0
    while n >= i:
        s += tl.load(x_ptr + i) * i
        i += step
    tl.store(y_ptr, s)


@triton.jit
def moving_bound(x_ptr, y_ptr, n, step):
    i, s = 0, 0.0
    while i < n:
        s += tl.load(x_ptr + i)
        i += 1
        n -= 1
    tl.store(y_ptr, s)


@triton.jit
def growing_step(x_ptr, y_ptr, n, step):
    i, s = 1, 0.0
    while i < n:
        s += tl.load(x_ptr + i)
        i += i
    tl.store(y_ptr, s)


@triton.jit
def two_conditions(x_ptr, y_ptr, n, step):
    i, s = 0, 0.0
    while (i < n) & (s < 2.0):
        s += tl.load(x_ptr + i)
        i += 1
    tl.store(y_ptr, s)


@triton.jit
def downwards(x_ptr, y_ptr, n, step):
    i, s = n, 0.0
    while i > 0:
        s += tl.load(x_ptr + i)
        i -= 1
    tl.store(y_ptr, s)


TYPES = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "step": "i32"}
COUNTS = [up_to, inclusive]
OTHERS = [moving_bound, growing_step, two_conditions, downwards]


def captured(fn: object) -> Kernel:
    return frontend.capture(fn, TYPES, {})


@pytest.mark.parametrize("fn", COUNTS)
def test_a_while_that_counts_is_a_for(fn: object) -> None:
    kernel = induction(captured(fn))
    (loop,) = (op for op in walk(kernel.body) if op.is_loop)
    assert loop.opcode == "for"
    assert len(loop.results) == 1, "what is counted is not carried"


@pytest.mark.parametrize("fn", OTHERS)
def test_another_while_stays_one(fn: object) -> None:
    kernel = counted(captured(fn))
    assert [op.opcode for op in walk(kernel.body) if op.is_loop] == ["while"]


@pytest.mark.parametrize("fn", [*COUNTS, *OTHERS])
@pytest.mark.parametrize("n", [-1, 0, 1, 2, 7, 8])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_the_value_stays(fn: object, n: int, step: int) -> None:
    found: list[torch.Tensor] = []
    kernel = captured(fn)
    for form in (kernel, verify(induction(kernel))):
        x, y = torch.arange(1.0, 20.0) / 8, torch.full((1,), torch.nan)
        evaluate.run(form, {"x_ptr": x, "y_ptr": y, "n": n, "step": step}, (1,))
        found.append(y)
    assert torch.equal(*found)
