"""Layouts of cotangents, outputs and inputs that a backward by hand forgot."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from undertow import differentiable
from undertow.runtime import autograd

from ..comparison import close, leaf
from ..kernels import launch_rows, rms_norm, rms_reference


def normalised(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
    block = triton.next_power_of_2(x.shape[1])
    rms_norm[(x.shape[0],)](x, w, y, x.stride(0), x.shape[1], 1e-5, BLOCK=block)
    return y


def check_cotangent(
    loss: Callable[[Tensor], Tensor],
    shape: tuple[int, int],
    strides: tuple[int, int],
    device: str,
) -> None:
    """Compares gradients of a loss that sends a cotangent with these strides."""
    x, w = leaf(*shape, device=device), leaf(shape[1], device=device)
    actual = normalised(x, w, torch.empty(shape, device=device))
    given: list[tuple[int, ...]] = []
    actual.register_hook(lambda ct: given.append(ct.stride()))
    found = torch.autograd.grad(loss(actual), (x, w))
    assert given == [strides]
    expected = torch.autograd.grad(loss(rms_reference(x, w)), (x, w))
    for a, e in zip(found, expected, strict=True):
        close(a, e, 1e-4)


def numbers(*size: int) -> Tensor:
    """Weights that all differ, of order 1."""
    count = torch.Size(size).numel()
    return torch.linspace(-1, 2, count).reshape(size)


def test_cotangent_read_with_the_inputs_strides(device: str):
    """pytorch#194719: `torch.cat([y, z])` of a (2, 3) result, then backward."""
    z, weights = torch.ones(2, 3, device=device), numbers(2, 6).to(device)
    check_cotangent(
        lambda y: (torch.cat([y, z], 1) * weights).sum(), (2, 3), (6, 1), device
    )


def test_sliced_cotangent(device: str):
    """unsloth PR 10617: the gradient arrives as `g[..., ::2]`, here of (4, 16)."""
    z, weights = torch.ones(4, 8, device=device), numbers(4, 8, 2).to(device)
    check_cotangent(
        lambda y: (torch.stack([y, z], -1) * weights).sum(), (4, 8), (16, 2), device
    )


def test_expanded_cotangent(device: str):
    """quack#88, TransformerEngine (ROCm) PR 623: `y.sum()` of a (64, 2) result.

    Its gradient has strides (0, 0) and one number in memory; the evaluator raises at a
    read behind it.
    """
    check_cotangent(lambda y: y.sum(), (64, 2), (0, 0), device)
    weights = numbers(6).to(device)
    check_cotangent(lambda y: (y.sum(1) * weights).sum(), (6, 7), (1, 0), device)


def test_transposed_cotangent(device: str):
    """The same kind, with strides (1, 3)."""
    weights = numbers(5, 3).to(device)
    check_cotangent(lambda y: (y.t() * weights).sum(), (3, 5), (1, 3), device)


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


@differentiable
@triton.jit
def cross_entropy(x_ptr, label_ptr, loss_ptr, n_cols, BLOCK: tl.constexpr):
    """The loss of one token a program."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
    label = tl.load(label_ptr + row)
    top = tl.max(x, axis=0)
    total = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
    tl.store(loss_ptr + row, total - tl.sum(tl.where(cols == label, x, 0.0), axis=0))


def test_scalar_read_for_a_vector(device: str):
    """Liger-Kernel#968: weights that differ by token, logits of (2, 4, 10, 15)."""
    x = leaf(2, 4, 10, 15, device=device)
    labels = torch.randint(15, (2, 4, 10), device=device)
    weights = numbers(2, 4, 10).to(device)
    loss = torch.empty(2, 4, 10, device=device)
    cross_entropy[(80,)](x, labels, loss, 15, BLOCK=16)
    (loss * weights).sum().backward()
    exact = x.detach().double().requires_grad_()
    wanted = F.cross_entropy(exact.flatten(0, 2), labels.flatten(), reduction="none")
    (wanted * weights.double().flatten()).sum().backward()
    assert exact.grad is not None
    close(x.grad, exact.grad)


# -- outputs --


@pytest.mark.parametrize("which", ["step", "part", "view"])
def test_output_is_a_view(which: str, device: str):
    """Dirty outputs of the autograd function: `buf[::2]`, `empty(8)[:4]`, `.view`.

    There a gradient was None without a word.
    """
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
    """Triton-distributed PR 185: any two rows; row r's gradient lands in row r."""
    x, w = leaf(2, 4, device=device), torch.ones(4, device=device)
    y = launch_rows(x, w, torch.empty(2, 4, device=device))
    y[1].sum().backward()
    close(x.grad, torch.stack([torch.zeros(4, device=device), x.detach()[1].cos()]))


# -- dimensions --


@differentiable
@triton.jit
def group_norm(
    x_ptr, w_ptr, b_ptr, y_ptr, channels, each, pixels, eps, BLOCK: tl.constexpr
):
    """A group of `each` channels a program, of images of `pixels` in any dimensions."""
    group = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < each * pixels
    first = tl.program_id(1) * channels + group * each
    x = tl.load(x_ptr + first * pixels + at, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / (each * pixels)
    centred = tl.where(mask, x - mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / (each * pixels)
    channel = group * each + at // pixels
    w = tl.load(w_ptr + channel, mask=mask)
    b = tl.load(b_ptr + channel, mask=mask)
    y = centred * tl.rsqrt(var + eps) * w + b
    tl.store(y_ptr + first * pixels + at, y, mask=mask)


@pytest.mark.parametrize("image", [(7,), (3, 5), (2, 3, 2)], ids=["1d", "2d", "3d"])
def test_shape_assumed_2d_or_3d(image: tuple[int, ...], device: str):
    """Liger-Kernel#1375: GroupNorm on (N, C, H, W), whose backward took W for H·W.

    Its gradient was allocated too small and written past the end; the evaluator raises
    at such a store.
    """
    batch, channels, groups = 2, 6, 3
    x = leaf(batch, channels, *image, device=device)
    w, b = leaf(channels, device=device), leaf(channels, device=device)
    y, pixels = torch.empty_like(x, requires_grad=False), torch.Size(image).numel()
    group_norm[(groups, batch)](
        x, w, b, y, channels, channels // groups, pixels, 1e-5, BLOCK=32
    )
    ct = torch.randn(y.movedim(1, -1).shape, device=device).movedim(-1, 1)
    found = torch.autograd.grad(y, (x, w, b), ct)
    exact = [t.detach().double().requires_grad_() for t in (x, w, b)]
    wanted = F.group_norm(exact[0], groups, exact[1], exact[2], 1e-5)
    close(y.detach(), wanted.detach())
    for a, e in zip(
        found, torch.autograd.grad(wanted, exact, ct.double()), strict=True
    ):
        close(a, e)


def test_no_elements_share_no_memory(device: str):
    """Every second column of a matrix that has none."""
    x, w = leaf(3, 0, device=device), leaf(0, device=device)
    columns, y = x.as_strided((3, 0), (1, 2)), torch.empty(3, 0, device=device)
    rms_norm[(3,)](columns, w, y, 2, 0, 1e-5, BLOCK=4)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (3, 0)
