"""Loops and products: forward mode against reverse mode, and what is refused."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from acceptance.launches import Expected, Oracle
from derived import check
from kernels.cases import CASES
from kernels.draw import Draw, laid_out
from undertow import UnsupportedError, evaluate, frontend
from undertow.ir import walk
from undertow.transform.differentiate import differentiate
from undertow.transform.forward import push_forward

LOOPS = [
    name
    for name in CASES
    if name.split("-")[0]
    in {
        "matmul",
        "layer_norm_in_loops",
        "online_softmax",
        "attention",
        "recurrence",
        "nested",
        "loop_in_branch",
        "relax",
        "ragged",
        "counting",
        "nested_while",
    }
]


@pytest.mark.parametrize("name", LOOPS)
def test_forward_mode_is_the_transpose_of_reverse_mode(name: str) -> None:
    case = CASES[name]()
    oracle, expected = Oracle(case), Expected.of(case)
    draw = Draw(3)
    pushed = push_forward(oracle.derivation.forward, wrt=case.wrt)
    args = oracle.arguments(torch.float64)
    directions = {n: draw.normal(*case.tensors[n].shape) for n in case.wrt}
    for param, tangent in pushed.tangents.items():
        like = args[param]
        assert isinstance(like, Tensor)
        held = laid_out(like.shape, like.stride(), torch.float64)
        args[tangent] = held.copy_(directions.get(param, torch.zeros(like.shape)))
    given = {p.name: args[p.name] for p in pushed.kernel.params}
    evaluate.run(pushed.kernel, given, case.grid, float_dtype=torch.float64)  # type: ignore[arg-type]
    reached = {n: args[pushed.tangents[n]] for n in case.outputs}
    left = sum((expected.cotangents[n] * t).sum() for n, t in reached.items())
    right = sum((expected.gradients[n] * directions[n]).sum() for n in case.wrt)
    torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


def derived(fn: object, **types: str) -> list[str]:
    """The tapes of the backward of a kernel with one block of 16."""
    kernel = frontend.capture(fn, types, {"BLOCK": 16})
    return [tape.of for tape in differentiate(kernel).tapes]


P = {"x_ptr": "*fp32", "y_ptr": "*fp32"}


@triton.jit
def product(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    acc = tl.full((BLOCK,), 1.0, tl.float32)
    for i in range(n):
        acc = acc * tl.load(x_ptr + i * BLOCK + tl.arange(0, BLOCK))
    tl.store(y_ptr + tl.arange(0, BLOCK), acc)


@triton.jit
def total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        acc += tl.exp(tl.load(x_ptr + i * BLOCK + tl.arange(0, BLOCK)))
    tl.store(y_ptr + tl.arange(0, BLOCK), acc)


def test_a_product_keeps_a_tape_and_a_sum_does_not() -> None:
    assert derived(product, **P, n="i32") == ["acc"]
    assert derived(total, **P, n="i32") == []


def test_a_sum_turns_in_the_users_order() -> None:
    backward = differentiate(frontend.capture(total, {**P, "n": "i32"}, {"BLOCK": 16}))
    (loop,) = (op for op in walk(backward.kernel.body) if op.opcode == "for")
    assert loop.operands[1].name == "n"
    assert not loop.results


@pytest.mark.parametrize(
    "name", ["online_softmax-full", "attention-full", "attention-causal"]
)
def test_a_running_maximum_needs_no_tape(name: str) -> None:
    assert not Oracle(CASES[name]()).derivation.backward.tapes


@triton.jit
def data_dependent(x_ptr, y_ptr, n_ptr, BLOCK: tl.constexpr):
    acc = tl.full((BLOCK,), 1.0, tl.float32)
    for i in range(tl.load(n_ptr)):
        acc = tl.sin(acc * tl.load(x_ptr + i * BLOCK + tl.arange(0, BLOCK)))
    tl.store(y_ptr + tl.arange(0, BLOCK), acc)


def test_turns_that_data_decide_are_counted() -> None:
    types = {**P, "n_ptr": "*i32"}
    backward = differentiate(frontend.capture(data_dependent, types, {"BLOCK": 16}))
    assert backward.counted == ("i_turns",)
    assert backward.counter is not None
    assert [p.name for p in backward.counter.params] == ["turns_ptr", "n_ptr"]


@triton.jit
def scratch(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    for i in range(n):
        y = tl.load(y_ptr + cols)
        tl.store(y_ptr + cols, y * tl.load(x_ptr + i * BLOCK + cols))


@triton.jit
def last_wins(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    for i in range(n):
        tl.store(y_ptr + cols, tl.load(x_ptr + i * BLOCK + cols))


@pytest.mark.parametrize(
    ("fn", "types", "words"),
    [
        (scratch, {"n": "i32"}, "is read and written in one loop"),
        (last_wins, {"n": "i32"}, "is stored to several times"),
    ],
)
def test_refusals(fn: object, types: dict[str, str], words: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        derived(fn, **P, **types)
    assert words in str(caught.value)
    assert "test_loops.py" in str(caught.value)


# -- what random programs found ------------------------------------------------------


@triton.jit
def last_row(x_ptr, y_ptr, n, w, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < w
    row = tl.load(x_ptr + lanes, mask=mask, other=0.0)
    for i in range(1, n):
        row = tl.load(x_ptr + i * BLOCK + lanes, mask=mask, other=0.0)
    tl.store(y_ptr + lanes, row, mask=mask)


@triton.jit
def row_before(x_ptr, y_ptr, n, w, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < w
    row = tl.load(x_ptr + lanes, mask=mask, other=0.0)
    before = tl.zeros((BLOCK,), tl.float32)
    for i in range(1, n):
        before = row
        row = tl.load(x_ptr + i * BLOCK + lanes, mask=mask, other=0.0) * 2.0
    tl.store(y_ptr + lanes, before, mask=mask)


@triton.jit
def undefined_start(x_ptr, s_ptr, y_ptr, n, w, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < w
    state = tl.load(x_ptr + lanes, mask=mask) * tl.load(s_ptr)
    for _ in range(n):
        state = tl.sin(state)
    tl.store(y_ptr + lanes, state, mask=mask)


@triton.jit
def undefined_outside(x_ptr, s_ptr, y_ptr, n, w, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < w
    scaled = tl.load(x_ptr + lanes, mask=mask) * tl.load(s_ptr)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        total += tl.where(mask, scaled, 0.0) * tl.load(x_ptr + i)
    tl.store(y_ptr + lanes, total)


@triton.jit
def undefined_in_a_branch(x_ptr, s_ptr, y_ptr, n, w, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < w
    scaled = tl.load(x_ptr + lanes, mask=mask) * tl.load(s_ptr)
    for i in range(n):
        if i >= 1:  # noqa: SIM102 - a branch in a branch is what is tested
            if w > i:
                tl.store(y_ptr + i * BLOCK + lanes, tl.sin(scaled), mask=mask)


@triton.jit
def undefined_and_unseen(x_ptr, s_ptr, y_ptr, n, w, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    mask = lanes < w
    state = tl.load(x_ptr + lanes, mask=mask) * tl.load(s_ptr)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(n):
        total = tl.sin(total + tl.where(mask, state, 0.0))
        state = state * 0.5
    tl.store(y_ptr + lanes, total)


UNDEFINED = (
    undefined_start,
    undefined_outside,
    undefined_in_a_branch,
    undefined_and_unseen,
)


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
@pytest.mark.parametrize("fn", [last_row, row_before])
def test_a_carried_value_that_no_turn_looks_at(fn: object, turns: int) -> None:
    """Its cotangent is that of the result, and goes to where the last turn took it."""
    types = {**P, "n": "i32", "w": "i32"}
    kernel = frontend.capture(fn, types, {"BLOCK": 16})
    args = {"x_ptr": Draw(1).normal(96), "y_ptr": torch.zeros(16).double()}
    found = check(kernel, {**args, "n": turns, "w": 11}, (1,))
    reached = found["x_ptr"].view(6, 16).count_nonzero(1).nonzero().flatten().tolist()
    row = max(turns, 1) - 1 if fn is last_row else turns - 2
    assert reached == ([row] if row >= 0 else [])


@pytest.mark.parametrize("turns", [0, 3])
@pytest.mark.parametrize("fn", UNDEFINED)
def test_undefined_lanes_do_not_meet_what_a_loop_gives(fn: object, turns: int) -> None:
    types = {"x_ptr": "*fp32", "s_ptr": "*fp32", "y_ptr": "*fp32"}
    kernel = frontend.capture(fn, {**types, "n": "i32", "w": "i32"}, {"BLOCK": 16})
    args = {"x_ptr": Draw(1).normal(16), "s_ptr": Draw(2).normal(1)}
    args["y_ptr"] = torch.zeros(48).double()
    check(kernel, {**args, "n": turns, "w": 11}, (1,))
