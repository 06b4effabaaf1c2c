"""Faults of hand-written backward kernels that users reported, on small inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from undertow import differentiable, evaluate
from undertow.runtime import autograd, recording
from undertow.runtime.geometry import Layout

from .comparison import close, leaf
from .kernels import launch_rows, launch_scale, rms_norm, rms_reference, rope, softmax


def normalised(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
    block = triton.next_power_of_2(x.shape[1])
    rms_norm[(x.shape[0],)](x, w, y, x.stride(0), x.shape[1], 1e-5, BLOCK=block)
    return y


# -- the cotangent's layout --


def cotangent_of(ct: Callable[[Tensor], Tensor], shape: tuple[int, int], device: str):
    """Gradients with a loss that sends a cotangent of some layout, and PyTorch's."""
    x, w = leaf(*shape, device=device), leaf(shape[1], device=device)
    actual = normalised(x, w, torch.empty(shape, device=device))
    losses = [ct(actual), ct(rms_reference(x, w))]
    return [torch.autograd.grad(loss, (x, w)) for loss in losses]


@pytest.mark.parametrize(
    ("loss", "shape"),
    [
        (lambda y: (torch.cat([y, y], 1) * numbers(2, 6).to(y)).sum(), (2, 3)),
        (lambda y: (numbers(4, 16).to(y)[..., ::2] * y).sum(), (4, 8)),
        (lambda y: y.sum(), (64, 2)),
        (lambda y: (y.t() * numbers(5, 3).to(y)).sum(), (3, 5)),
        (lambda y: (y.sum(1) * numbers(6, 1)[:, 0].to(y)).sum(), (6, 7)),
    ],
    ids=["cat", "sliced", "expanded", "transposed", "scalar read for a vector"],
)
def test_cotangent_read_with_other_strides(
    loss: Callable[[Tensor], Tensor], shape: tuple[int, int], device: str
):
    actual, expected = cotangent_of(loss, shape, device)
    for a, e in zip(actual, expected, strict=True):
        close(a, e, 1e-4)


def numbers(*size: int) -> Tensor:
    """Weights that all differ, of order 1."""
    count = torch.Size(size).numel()
    return torch.linspace(-1, 2, count).reshape(size)


def test_cotangents_with_strides_of_their_own_are_read_in_place():
    x, w = leaf(3, 5), leaf(5)
    y = normalised(x, w, torch.empty(3, 5))
    copies: list[Tensor] = []
    expected = torch.autograd.grad(rms_reference(x, w), (x, w), torch.ones(3, 5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(autograd, "in_layout_of", lambda t, s: copies.append(t) or t)
        actual = torch.autograd.grad(y.sum(), (x, w))
    close(actual[0], expected[0])
    assert not copies


# -- outputs --


@pytest.mark.parametrize("which", ["step", "part", "view"])
def test_output_is_a_view(which: str, device: str):
    shapes = {"step": (8, 4), "part": (8,), "view": (4,)}
    buffer = torch.empty(shapes[which], device=device)
    output = {
        "step": lambda: buffer[::2],
        "part": lambda: buffer[:4].view(1, 4),
        "view": lambda: buffer.view(2, 2),
    }[which]()
    x, w = leaf(*output.shape, device=device), leaf(output.shape[1], device=device)
    ct = torch.randn(output.shape, device=device)
    launch_rows(x, w, output).backward(ct)
    close(x.grad, ct * x.detach().cos() * w.detach())


def test_forgot_to_advance_a_pointer(device: str):
    x, w = leaf(2, 4, device=device), torch.ones(4, device=device)
    y = launch_rows(x, w, torch.empty(2, 4, device=device))
    y[1].sum().backward()
    close(x.grad, torch.stack([torch.zeros(4, device=device), x.detach()[1].cos()]))


def test_weight_gradient_is_missing(device: str):
    x, w = leaf(6, 5, device=device), leaf(5, device=device)
    normalised(x, w, torch.empty(6, 5, device=device)).sum().backward()
    assert x.grad is not None
    assert w.grad is not None
    assert w.grad.abs().min() > 1e-3


def test_input_overwritten_by_the_kernel(device: str):
    x = leaf(4, 10, device=device)
    p = x.softmax(1)
    c, s = torch.randn(2, 5, device=device)
    rope[(4,)](p, c, s, 10, 5, BLOCK=8)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        p.sum().backward()


def test_backward_twice_with_retain_graph(device: str):
    x, w = leaf(100, device=device), leaf(100, device=device)
    y = launch_scale(x, w, torch.empty(100, device=device))
    ct = torch.randn(100, device=device)
    first = torch.autograd.grad(y, (x, w), ct, retain_graph=True)
    second = torch.autograd.grad(y, (x, w), ct)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward(ct)


# -- precision --


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
    """Added one by one in bf16, 8,192 numbers of order 1 would stop at 256."""
    half = {"dtype": torch.bfloat16, "device": device}
    x, w = torch.rand(8192, 4, **half), torch.randn(4, **half).requires_grad_()
    ct = torch.rand(8192, 4, **half)
    launch_rows(x, w, torch.empty(8192, 4, **half)).backward(ct)
    exact = (ct.double() * x.double().sin()).sum(0)
    assert w.grad is not None
    assert w.grad.dtype == torch.bfloat16
    assert ((w.grad.double() - exact) / exact).abs().max() < 2**-8


# -- offsets past 2^31 --


@differentiable
@triton.jit
def wide_rows(x_ptr, y_ptr, x_row, y_row, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_row + cols, mask=mask)
    tl.store(y_ptr + row * y_row + cols, x * x, mask=mask)


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
def test_gradients_past_32_bits():
    """The forward's offsets are 64 bits wide; 4.3 GB of bf16, 8.6 GB of gradient."""
    row = 2**30 + 8
    x = torch.zeros(3 * row, dtype=torch.bfloat16, device="cuda")
    x = x.view(3, row)[:, :8].copy_(numbers(3, 8)).requires_grad_()
    y = torch.empty(3, 8, dtype=torch.bfloat16, device="cuda")
    wide_rows[(3,)](x, y, x.stride(0), y.stride(0), 8, BLOCK=8)
    (d_x,) = torch.autograd.grad(y.float().sum(), x)
    close(d_x.float(), 2 * x.detach().float(), 2**-7)


@pytest.mark.gpu
def test_a_cotangent_past_32_bits():
    x, w = leaf(3, 4, device="cuda"), torch.ones(4, device="cuda")
    y = launch_rows(x, w, torch.empty(3, 4, device="cuda"))
    far = torch.empty(3, 2**30 + 8, dtype=torch.float32, device="cuda")
    ct = far[:, :4].copy_(numbers(3, 4))
    y.backward(ct)
    close(x.grad, ct * x.detach().cos())


# -- lanes --


def test_padded_lanes_contribute_nothing(device: str):
    """`other=-inf`: 5 of 8 lanes are alive, and rows differ in how far they reach."""
    x, ct = leaf(3, 5, device=device), torch.randn(3, 5, device=device)
    y = torch.empty(3, 5, device=device)
    softmax[(3,)](x, y, 5, 5, BLOCK=8)
    y.backward(ct)
    expected = torch.autograd.grad(x.softmax(1), x, ct)[0]
    close(x.grad, expected)


def test_undefined_lanes_are_never_used():
    """Masked loads without `other` leave anything in dead lanes: here NaN."""
    x, w, ct = leaf(3, 5), leaf(5), torch.randn(3, 5)
    expected = torch.autograd.grad(rms_reference(x, w), (x, w), ct)
    plain = evaluate.run

    def poisoned(*args: object, **kwargs: object) -> object:
        return plain(*args, **{**kwargs, "poison": True})  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "run", poisoned)
        y = normalised(x, w, torch.empty(3, 5))
        actual = torch.autograd.grad(y, (x, w), ct)
    for a, e in zip(actual, expected, strict=True):
        close(a, e)


@differentiable
@triton.jit
def larger(p_ptr, q_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    mask = offs < n
    p = tl.load(p_ptr + offs, mask=mask)
    q = tl.load(q_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, tl.maximum(p, q), mask=mask)


def test_ties_are_split_evenly(device: str):
    p = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    q = torch.tensor([1.0, 3.0, 2.0], device=device, requires_grad=True)
    y, ct = torch.empty(3, device=device), torch.tensor([2.0, 5.0, 7.0], device=device)
    larger[(1,)](p, q, y, 3, BLOCK=4)
    y.backward(ct)
    close(p.grad, torch.tensor([1.0, 0.0, 7.0], device=device))
    close(q.grad, torch.tensor([1.0, 5.0, 0.0], device=device))


# -- threads --


def test_the_first_work_of_a_thread_is_a_backward(device: str):
    x, w = leaf(100, device=device), leaf(100, device=device)
    y = launch_scale(x, w, torch.empty(100, device=device))
    thread = threading.Thread(target=lambda: y.sum().backward())
    thread.start()
    thread.join()
    close(x.grad, w.detach() + x.detach().exp())


# -- tests that can fail --


@pytest.mark.parametrize("fault", [0.99, -1.0, 0.0])
def test_a_wrong_backward_is_noticed(fault: float):
    """A gradient that is off by one part in a hundred fails `close`."""
    x, w, ct = leaf(20), leaf(20), torch.randn(20)
    (d_x,) = torch.autograd.grad(launch_scale(x, w, torch.empty(20)), x, ct)
    expected = ct * (w + x.exp()).detach()
    close(d_x, expected)
    with pytest.raises(AssertionError, match="not close"):
        close(fault * d_x, expected)
