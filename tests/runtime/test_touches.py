"""Launches that are followed: stores that meet, and accesses between elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from undertow import (
    LaunchError,
    UndertowError,
    UnsupportedError,
    derive,
    differentiable,
)
from undertow.runtime import recording, touches
from undertow.runtime.geometry import buffer, in_layout_of

from .comparison import close, leaf
from .kernels import fill, rows, scale

N = 8


@differentiable
@triton.jit
def overlapping(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The last block is moved back until it fits."""
    start = tl.minimum(tl.program_id(0) * BLOCK, n - BLOCK)
    offs = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, x * x)


@differentiable
@triton.jit
def pitched(x_ptr, y_ptr, pitch, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * pitch + cols, tl.load(x_ptr + row * BLOCK + cols))


@differentiable
@triton.jit
def square(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, x * x, mask=offs < n)


@differentiable
@triton.jit
def scattered(x_ptr, index_ptr, y_ptr):
    program = tl.program_id(0)
    tl.store(y_ptr + tl.load(index_ptr + program), tl.load(x_ptr + program))


@differentiable
@triton.jit
def ranked(x_ptr, flag_ptr, y_ptr):
    """The first two programs share an element, and a flag says which of them has it."""
    program = tl.program_id(0)
    x = tl.load(x_ptr + program)
    tl.store(y_ptr + program // 2, x, mask=tl.load(flag_ptr + program))


@differentiable
@triton.jit
def masked(x_ptr, y_ptr, limit, BLOCK: tl.constexpr):
    """Only some programs store, as a float argument says."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, 2 * x, mask=(tl.program_id(0) + 0.5) * offs < limit * offs)


@differentiable
@triton.jit
def peeled(x_ptr, y_ptr, n, overlap, BLOCK: tl.constexpr):
    """The last block is stored first, under a mask, and then the others."""
    whole = (n - 1) // BLOCK * BLOCK
    offs = whole - overlap + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, x * x, mask=offs < n)
    for start in range(BLOCK, n, BLOCK):
        offs = whole - start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)
        tl.store(y_ptr + offs, x * x)


@differentiable
@triton.jit
def unrolled(x_ptr, y_ptr, n, MANY: tl.constexpr):
    """A row of n elements a program, each stored by itself."""
    row = tl.program_id(0)
    for i in tl.static_range(MANY):
        if i < n:
            x = tl.load(x_ptr + row * n + i)
            tl.store(y_ptr + row * n + i, x * x)


@differentiable
@triton.jit
def listed(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Blocks go where a list says."""
    lanes = tl.arange(0, BLOCK)
    for i in range(n):
        x = tl.load(x_ptr + i * BLOCK + lanes)
        tl.store(y_ptr + tl.load(index_ptr + i) * BLOCK + lanes, x * x)


@differentiable
@triton.jit
def wrapped(x_ptr, y_ptr, m):
    """Programs behind the m-th begin anew."""
    at = tl.program_id(0) % m
    x = tl.load(x_ptr + tl.program_id(0))
    tl.store(y_ptr + at, x * x)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that are followed from now on."""
    names: list[str] = []

    def note(kernel, *rest):  # type: ignore[no-untyped-def]
        names.append(kernel.name)
        return touches.touched(kernel, *rest)

    monkeypatch.setattr(recording, "touched", note)
    return names


def test_what_is_followed_out_of_bounds_is_called_what_it_is():
    x = torch.ones(1, requires_grad=True).expand(N)
    with pytest.raises(LaunchError, match="reads `x_ptr` out of bounds: offset 1 of 1"):
        square[(1,)](x, torch.zeros(N), N, BLOCK=N)
    out = torch.zeros(2 * N)[::2]
    with pytest.raises(LaunchError, match="writes `y_ptr` out of bounds: offset 15"):
        square[(1,)](leaf(16), out, 16, BLOCK=16)


def test_blocks_that_overlap(device: str):
    x, y = leaf(12, device=device), torch.zeros(12, device=device)
    with pytest.raises(LaunchError, match="written several times") as caught:
        overlapping[(2,)](x, y, 12, BLOCK=8)
    assert "element 4 is written 2 times" in str(caught.value)
    assert "tl.store(y_ptr + offs, x * x)" in str(caught.value)
    assert not y.any()


def test_blocks_that_do_not_overlap_are_followed_once(device: str, followed: list[str]):
    kernel = differentiable(overlapping.fn)  # nothing is decided yet
    for _ in range(3):
        x, y = leaf(18, device=device), torch.zeros(18, device=device)[:16]
        kernel[(2,)](x, y, 16, BLOCK=8)
        y.sum().backward()
        assert x.grad is not None
        close(x.grad[:16], 2 * x.detach()[:16])
        assert not x.grad[16:].any()
    assert followed == ["overlapping"]


@pytest.mark.parametrize("pitch", [1, 3])
def test_rows_that_overlap(pitch: int):
    with pytest.raises(LaunchError, match="written several times"):
        pitched[(2,)](leaf(2, 4), torch.zeros(20), pitch, BLOCK=4)


def test_what_is_proved_is_not_followed(followed: list[str]):
    x, w, y = leaf(30), leaf(30), torch.zeros(30)
    scale[(1,)](x, w, y, 30, BLOCK=32)
    pitched[(2,)](leaf(2, 4), torch.zeros(20), 5, BLOCK=4)
    assert followed == []


def test_indices_that_are_data_are_followed_at_every_launch(
    device: str, followed: list[str]
):
    for index, right in (([2, 0, 1], True), ([2, 0, 2], False), ([1, 0, 2], True)):
        x, y = leaf(3, device=device), torch.zeros(3, device=device)
        indices = torch.tensor(index, device=device)
        if right:
            scattered[(3,)](x, indices, y)
            ct = torch.randn(3, device=device)
            y.backward(ct)
            close(x.grad, ct[indices])
        else:
            with pytest.raises(LaunchError, match="written several times") as caught:
                scattered[(3,)](x, indices, y)
            assert "element 2 is written 2 times" in str(caught.value)
            assert "tl.store(y_ptr + tl.load(index_ptr" in str(caught.value)
            assert not y.any()
    assert followed == ["scattered"] * 4  # the first finds that data decide


def squares(launch: Callable[[Tensor, Tensor], object], n: int) -> None:
    """That a launch stores the squares of n elements, and passes cotangents on."""
    x, y, ct = leaf(n), torch.zeros(n), torch.randn(n)
    launch(x, y)
    y.backward(ct)
    close(y.detach(), x.detach().square())
    assert x.grad is not None
    close(x.grad, 2 * x.detach() * ct)


def test_several_stores_of_one_program_are_followed(followed: list[str]):
    for n in (24, 19, 5):
        squares(lambda x, y, n=n: peeled[(1,)](x, y, n, 0, BLOCK=8), n)
    with pytest.raises(LaunchError, match="element 13 is written 2 times"):
        peeled[(1,)](leaf(19), torch.zeros(19), 19, 3, BLOCK=8)
    squares(lambda x, y: unrolled[(5,)](x, y, 3, MANY=4), 15)
    squares(lambda x, y: wrapped[(3,)](x, y, 7), 3)
    with pytest.raises(LaunchError, match="element 0 is written 2 times"):
        wrapped[(8,)](leaf(8), torch.zeros(8), 7)
    assert set(followed) == {"peeled", "unrolled", "wrapped"}


def test_stores_of_a_loop_whose_places_are_data():
    x, y, ct = leaf(12), torch.zeros(12), torch.randn(12)
    index = torch.tensor([2, 0, 1])
    listed[(1,)](x, index, y, 3, BLOCK=4)
    y.backward(ct)
    moved = torch.cat([ct.view(3, 4)[i] for i in index])
    close(x.grad, 2 * x.detach() * moved)
    with pytest.raises(LaunchError, match="element 8 is written 2 times"):
        listed[(1,)](leaf(12), torch.tensor([2, 0, 2]), torch.zeros(12), 3, BLOCK=4)


def test_stores_are_not_followed_without_a_launch():
    """What is derived ahead of launches must be right in all of them."""
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "overlap": "i32"}
    with pytest.raises(UnsupportedError, match="stored to several times"):
        derive(peeled, types, {"BLOCK": 8})


def test_masks_that_are_data_keep_stores_apart():
    flags = torch.tensor([True, False, True])
    x, y = leaf(3), torch.zeros(2)
    ranked[(3,)](x, flags, y)
    ct = torch.randn(2)
    y.backward(ct)
    close(x.grad, torch.stack([ct[0], torch.tensor(0.0), ct[1]]))
    with pytest.raises(LaunchError, match="element 0 is written 2 times"):
        ranked[(3,)](leaf(3), flags.new_ones(3), torch.zeros(2))


@differentiable
@triton.jit
def own_indices(x_ptr, y_ptr):
    program = tl.program_id(0)
    at = tl.load(y_ptr + program).to(tl.int32)
    tl.store(y_ptr + at, tl.load(x_ptr + program))


def test_an_output_that_says_where_to_store():
    with pytest.raises(UndertowError):
        own_indices[(3,)](leaf(3), torch.arange(3.0))


def test_verdicts_depend_on_the_numbers_that_were_looked_at():
    for limit, right in ((1.0, True), (2.0, False), (1.0, True)):
        x, y = leaf(N), torch.zeros(N)
        if right:
            masked[(2,)](x, y, limit, BLOCK=N)
            y.sum().backward()
            close(x.grad, torch.tensor([0.0] + [2.0] * (N - 1)))
        else:
            with pytest.raises(LaunchError, match="written several times"):
                masked[(2,)](x, y, limit, BLOCK=N)


def test_too_large_to_follow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(touches.MAX_LANES, "cpu", 15)
    with pytest.raises(LaunchError, match="too large to find out"):
        overlapping[(3,)](leaf(24), torch.zeros(24), 24, BLOCK=8)


# -- between elements --


def test_writes_between_elements(device: str):
    base = torch.zeros(2 * N, device=device)
    with pytest.raises(LaunchError, match="accessed between its elements") as caught:
        square[(1,)](leaf(N, device=device), base[::2], N, BLOCK=N)
    assert "tl.store(y_ptr + offs" in str(caught.value)
    assert "pass the tensor that it is a view of" in str(caught.value)
    assert not base.any()


def test_reads_between_elements():
    x = leaf(2 * N)
    with pytest.raises(LaunchError, match="`x_ptr` is accessed between its elements"):
        square[(1,)](x[::2], torch.zeros(N), N, BLOCK=N)
    fixed = torch.randn(2 * N)  # nobody asks for its gradient
    scale[(1,)](leaf(N), fixed[::2], torch.zeros(N), N, BLOCK=N)


@pytest.mark.parametrize("view", [lambda t: t[:, :5], lambda t: t[:, ::2]])
def test_views_that_are_kept_to(view, device: str, followed: list[str]):  # type: ignore[no-untyped-def]
    def given(t: Tensor) -> Tensor:
        return view(t)

    x, w = leaf(3, 10, device=device), leaf(5, device=device)
    y = torch.zeros(3, 10, device=device)
    a, b = given(x), given(y)
    differentiable(rows.fn)[(3,)](a, w, b, *a.stride(), *b.stride(), 5, BLOCK=N)
    y.sum().backward()
    want = torch.zeros(3, 10, device=device)
    given(want).copy_(a.detach().cos() * w.detach())
    close(x.grad, want)
    assert followed == ["rows", "rows"]


def test_gaps_of_buffers_are_zero():
    for _ in range(20):
        junk = torch.full((15,), float("nan"))
        del junk
        made = in_layout_of(torch.ones(N), (2,))
        between = made.as_strided((N - 1,), (2,), 1)
        assert not between.any()
        fresh = buffer((N,), (2,), torch.float32, torch.device("cpu"))
        assert not fresh.as_strided((N - 1,), (2,), 1).any()


def test_part_of_a_view_with_gaps():
    y = torch.zeros(3, 10)[:, :1]
    fill[(1,)](leaf(N), y, 0, 1, BLOCK=N)
    y.sum().backward()
