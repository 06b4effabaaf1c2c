"""What docs/limits.md says is refused: by which words, and on which line.

Only what no other test of its subject asks for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

from undertow import CaptureError, UndertowError, differentiable

from .comparison import leaf

N = 16


@triton.jit
def returning(x_ptr, y_ptr, n):
    for i in range(n):
        x = tl.load(x_ptr + i)
        if x > 2.0:  # here
            return
        tl.store(y_ptr + i, x * x)


@triton.jit
def breaking(x_ptr, y_ptr, n):
    i = 0
    while i < n:
        x = tl.load(x_ptr + i)
        tl.store(y_ptr + i, x * x)
        if x > 2.0:
            break  # here
        i += 1


@triton.jit
def _early(a, b):
    if a > b:
        return a * b
    return a + b


@triton.jit
def reduced(x_ptr, y_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(y_ptr, tl.reduce(x, 0, _early))  # here


@triton.jit
def gathered(x_ptr, y_ptr, n):
    at = tl.arange(0, 2048)
    x = tl.load(x_ptr + at % n, mask=at < n)
    tl.store(y_ptr + at, tl.gather(x, at // 2, 0), mask=at < n)  # here


@triton.jit
def gamma(x_ptr, y_ptr, n):
    at = tl.arange(0, 16)
    tl.store(y_ptr + at, libdevice.lgamma(tl.load(x_ptr + at)))  # here


@triton.jit
def narrow(x_ptr, y_ptr, n):
    at = tl.arange(0, 16)
    x = tl.load(x_ptr + at).to(tl.float8e5)  # here
    tl.store(y_ptr + at, x.to(tl.float32))


def line(kernel: Any) -> str:
    """The line of a kernel that ends in `# here`."""
    source, first = inspect.getsourcelines(kernel.fn)
    (at,) = (i for i, text in enumerate(source) if text.endswith("# here\n"))
    return f":{first + at}, in kernel `{kernel.fn.__name__}`"


@pytest.mark.parametrize(
    ("kernel", "fact", "hint"),
    [
        (
            reduced,
            "`tl.reduce` with a function that returns early, or is `noinline`, is not",
            "write it with elementwise operations",
        ),
        (
            gathered,
            "no derivative rule for `tl.gather`",
            "gather from a smaller block, or load at the indices",
        ),
        (
            gamma,
            "no derivative rule for `libdevice.lgamma`",
            "call it in a helper function that has a rule",
        ),
        (narrow, "fp8 numbers are not differentiated", "cast to `tl.bfloat16`"),
        (returning, "Triton does not compile `returning`: Cannot have `return`", ""),
        (breaking, "Triton does not compile `breaking`: unsupported AST node", ""),
    ],
)
def test_refusals_name_the_line(kernel: Any, fact: str, hint: str) -> None:
    with pytest.raises(UndertowError) as error:
        differentiable(kernel)[(1,)](leaf(N), torch.zeros(N), N)
    assert error.value.fact.startswith(fact)
    assert line(kernel) in str(error.value)
    assert error.value.hint.startswith(hint)
    assert hint or not error.value.hint
    assert isinstance(error.value, CaptureError) == fact.startswith("Triton")


@triton.jit
def recurrence(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    state = tl.load(x_ptr + at)
    for _ in range(n):  # here
        state = tl.exp(-state)
    tl.store(y_ptr + at, state)


def refused(act: Callable[[], object]) -> UndertowError:
    with pytest.raises(UndertowError) as error:
        act()
    return error.value


def test_a_tape_that_takes_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERTOW_TAPE_SHARE", "1e-9")
    x, y = leaf(1 << 18), torch.zeros(1 << 18)
    kernel = differentiable(recurrence)
    kernel[(1,)](x, y, 68, BLOCK=1 << 18)
    error = refused(y.sum().backward)
    assert error.fact == "the backward of `recurrence` needs a tape of 0.07 GiB"
    assert line(recurrence) in str(error)
    assert "UNDERTOW_TAPE_SHARE" in error.hint
    y = torch.zeros(1 << 18)
    kernel[(1,)](x, y, 4, BLOCK=1 << 18)  # too small to ask
    y.sum().backward()


@triton.jit
def weighted(x_ptr, w_ptr, y_ptr):
    at = tl.arange(0, 16)
    x = tl.load(x_ptr + tl.program_id(0) * 16 + at)
    w = tl.load(w_ptr + at)  # here
    tl.store(y_ptr + tl.program_id(0) * 16 + at, x * w)


def test_an_order_that_is_not_deterministic(device: str) -> None:
    y = torch.zeros(4, N, device=device)
    differentiable(weighted)[(4,)](leaf(4, N, device=device), leaf(N, device=device), y)
    try:
        torch.use_deterministic_algorithms(True)
        error = refused(y.sum().backward)
    finally:
        torch.use_deterministic_algorithms(False)
    assert line(weighted) in str(error)
    assert error.why == ("shared along program axis 0",)


@triton.jit
def described(x_desc, y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, BLOCK), x_desc.load([0]) * 2.0)


def test_a_descriptor_made_on_the_host() -> None:
    x = TensorDescriptor.from_tensor(torch.ones(N), [N])
    kernel = differentiable(described)
    error = refused(lambda: kernel[(1,)](x, torch.zeros(N), BLOCK=N))
    assert error.fact == "`described` cannot take `x_desc` of type `TensorDescriptor`"
    assert error.hint.endswith("make the descriptor in the kernel: "
                               "tl.make_tensor_descriptor")  # fmt: skip


@triton.jit
def strided(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride + at, mask=at < n)
    tl.store(y_ptr + tl.program_id(0) * n + at, x * x, mask=at < n)


def test_a_leaf_whose_elements_overlap() -> None:
    def launch(x: Tensor) -> Tensor:
        y = torch.zeros(4, 8)
        differentiable(strided)[(4,)](x, y, x.stride(0), 8, BLOCK=8)
        return y

    for stride in (0, 3):
        x = torch.rand(40).as_strided((4, 8), (stride, 1)).requires_grad_()
        error = refused(lambda x=x: launch(x).sum().backward())
        assert "share memory" in error.fact
    row = leaf(8)
    launch(row.expand(4, 8)).sum().backward()
    torch.testing.assert_close(row.grad, 8 * row.detach())
