"""Digits and addresses that a backward by hand lost."""

from __future__ import annotations

import re

import pytest
import torch
import triton
import triton.language as tl

from undertow import derive, differentiable
from undertow.runtime import recording
from undertow.runtime.geometry import Layout

from ..comparison import close, leaf
from ..kernels import launch_rows
from .test_layouts import numbers

# -- rounding --


@differentiable
@triton.jit
def cross_entropy(x_ptr, label_ptr, loss_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
    x = x.to(tl.float32)
    label = tl.load(label_ptr + row)
    highest = tl.max(x, axis=0)
    total = tl.log(tl.sum(tl.exp(x - highest), axis=0)) + highest
    hit = tl.sum(tl.where(cols == label, x, 0.0), axis=0)
    tl.store(loss_ptr + row, total - hit)


def test_rounding_before_the_subtraction(device: str):
    """Liger-Kernel PR 1329: probability 0.999 of the true class, in bf16.

    0.999 is 1 in bf16, and 1 - 1 is off by 100 %.
    """
    x = torch.tensor([[6.9, 0.0]], dtype=torch.bfloat16, device=device)
    x.requires_grad_()
    label = torch.zeros(1, dtype=torch.int64, device=device)
    loss = torch.empty(1, device=device)
    cross_entropy[(1,)](x, label, loss, 2, 2, BLOCK=2)
    loss.backward()
    exact = torch.softmax(x.detach().double(), 1) - torch.tensor([[1.0, 0.0]]).to(x)
    assert exact[0, 0].abs() < 1.1e-3  # the probability is 0.999
    close(x.grad, exact, 2**-8)
    assert x.grad is not None
    assert ((x.grad.double() - exact) / exact).abs().max() < 2**-8


def test_weight_gradient_summed_in_bf16(device: str):
    """Liger-Kernel PR 950, ml-cross-entropy#14: a sum over 8,192 rows of bf16.

    Added one by one in bf16, numbers of order 1 would stop at 256.
    """
    half = {"dtype": torch.bfloat16, "device": device}
    x, w = torch.rand(8192, 4, **half), torch.randn(4, **half).requires_grad_()
    ct = torch.rand(8192, 4, **half)
    launch_rows(x, w, torch.empty(8192, 4, **half)).backward(ct)
    exact = (ct.double() * x.double().sin()).sum(0)
    assert w.grad is not None
    assert w.grad.dtype == torch.bfloat16
    assert ((w.grad.double() - exact) / exact).abs().max() < 2**-8


# -- products --


@differentiable
@triton.jit
def product(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i
    a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
    tl.store(c_ptr + at, tl.dot(a, b, input_precision=PRECISION))


@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3"])
def test_tf32_where_the_forward_was_ieee(precision: str):
    """triton_docs_tutorials#6: an fp32 dot, whose backward fell back to the default."""
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32")
    source = derive(product, types, {"SIZE": 64, "PRECISION": precision}).source
    assert source.count("tl.dot(") == 2
    found = re.findall(r'input_precision="(\w+)"', source)
    assert found == ([] if precision == "tf32" else [precision] * 2)  # tf32 is default


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3"])
def test_products_have_the_forwards_precision(precision: str):
    """triton_docs_tutorials#6: tf32 leaves 11 bits, which the error shows."""
    a, b = leaf(64, 64, device="cuda"), leaf(64, 64, device="cuda")
    c, ct = torch.empty(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    product[(1,)](a, b, c, SIZE=64, PRECISION=precision)
    found = torch.autograd.grad(c, (a, b), ct)
    exact = ct.double() @ b.detach().double().T, a.detach().double().T @ ct.double()
    for actual, expected in zip(found, exact, strict=True):
        error = float((actual - expected).norm() / expected.norm())
        low, high = (1e-5, 2e-3) if precision == "tf32" else (0.0, 2e-6)
        assert low < error < high


# -- offsets past 2^31 --


@differentiable
@triton.jit
def wide_rows(x_ptr, y_ptr, x_row, y_row, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row + cols, mask=mask)
    tl.store(y_ptr + row * y_row + cols, x * x, mask=mask)


@differentiable
@triton.jit
def repeated_sine(h_ptr, y_ptr, turns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.load(h_ptr + at)
    for _ in range(turns):
        h = h + tl.sin(h) * 0.015625
    tl.store(y_ptr + at, h)


def test_a_cotangent_past_32_bits_is_copied():
    """Narrow offsets are the forward's: a wider cotangent must not be read by them."""
    x, w = leaf(3, 4), leaf(4)
    y = launch_rows(x, w, torch.empty(3, 4))
    assert y.grad_fn is not None
    found, scalars, _ = y.grad_fn.launch
    assert isinstance(found, recording.Recording)
    assert found.layouts[0] == Layout((3, 4), (4, 1), torch.float32)
    for step, copied in ((2**30 - 4, False), (2**30, True)):
        plan = found.plan((False, True, True), [(step, 1)], scalars)
        assert (plan.cotangents[0].strides == (4, 1)) is copied
        assert (step in plan.numbers) is not copied


@pytest.mark.gpu
@pytest.mark.usefixtures("frees_memory")
def test_offsets_past_2_to_31():
    """Liger-Kernel#1246, flash-linear-attention#1080: 4.3 GB of bf16 and gradient.

    The forward's offsets are 64 bits wide, and so are the gradient's.
    """
    row = 2**30 + 8
    x = torch.zeros(3 * row, dtype=torch.bfloat16, device="cuda")
    x = x.view(3, row)[:, :8].copy_(numbers(3, 8)).requires_grad_()
    y = torch.empty(3, 8, dtype=torch.bfloat16, device="cuda")
    wide_rows[(3,)](x, y, x.stride(0), y.stride(0), 8, BLOCK=8)
    (d_x,) = torch.autograd.grad(y.float().sum(), x)
    close(d_x.float(), 2 * x.detach().float(), 2**-7)


@pytest.mark.gpu
@pytest.mark.usefixtures("frees_memory")
def test_a_cotangent_past_32_bits():
    """The same kind: the forward's offsets are narrow, its cotangent's are not."""
    x, w = leaf(3, 4, device="cuda"), torch.ones(4, device="cuda")
    y = launch_rows(x, w, torch.empty(3, 4, device="cuda"))
    far = torch.empty(3, 2**30 + 8, dtype=torch.float32, device="cuda")
    ct = far[:, :4].copy_(numbers(3, 4))
    y.backward(ct)
    close(x.grad, ct * x.detach().cos())


@pytest.mark.usefixtures("frees_memory")
@pytest.mark.parametrize(
    ("device", "programs", "turns"),
    [("cpu", 3, 5), pytest.param("cuda", 4099, 513, marks=pytest.mark.gpu)],
)
def test_a_tape_past_2_to_31(device: str, programs: int, turns: int):
    """Liger-Kernel#1246's kind: the forward's buffers below the limit, a tape above it.

    2,153,304,064 states of four bytes are kept for outputs of 17 MB.
    """
    h = leaf(programs, 1024, device=device)
    y, ct = torch.empty_like(h, requires_grad=False), torch.randn_like(h)
    repeated_sine[(programs,)](h, y, turns, BLOCK=1024)
    (d_h,) = torch.autograd.grad(y, h, ct)
    exact, slope = h.detach().double(), ct.double()
    for _ in range(turns):
        slope = slope * (1 + exact.cos() / 64)
        exact = exact + exact.sin() / 64
    close(y.detach() / exact, torch.ones_like(exact), 1e-4)
    close(d_h / slope, torch.ones_like(slope), 1e-3)
