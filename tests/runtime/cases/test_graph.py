"""Autograd around a launch: gradients that were missing, doubled or of old values."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from undertow import LaunchError, UnsupportedError, differentiable

from ..comparison import close, leaf
from ..kernels import launch_scale, rms_norm, rms_reference, rope


@pytest.mark.parametrize("frozen", ["none", "x", "w"])
def test_weight_gradient_is_missing(frozen: str, device: str):
    """unsloth#4533: full fine-tuning through RMSNorm, whose backward had none for w.

    Each input that requires a gradient gets one, whether or not the other one does.
    """
    inputs = {"x": leaf(6, 5, device=device), "w": leaf(5, device=device)}
    if frozen in inputs:
        inputs[frozen].requires_grad_(False)
    x, w = inputs.values()
    y, ct = torch.empty(6, 5, device=device), torch.randn(6, 5, device=device)
    rms_norm[(6,)](x, w, y, 5, 5, 1e-5, BLOCK=8)
    wanted = [t for t in inputs.values() if t.requires_grad]
    expected = torch.autograd.grad(rms_reference(x, w), wanted, ct)
    for a, e in zip(torch.autograd.grad(y, wanted, ct), expected, strict=True):
        close(a, e)


@triton.jit
def sum_of_products(x_ptr, w_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(y_ptr, tl.sum(x * tl.load(w_ptr)))


def blocks(meta: dict[str, int]) -> tuple[int]:
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def test_tuning_runs_accumulate(device: str):
    """triton#4217: an autotuned kernel with atomics, n = 120, the first call.

    Each tuning run added to the same number. A kernel that does so is refused until the
    tuner puts the number back. The derived kernel adds to the gradient of w, and is
    launched once.
    """
    configs = [triton.Config({"BLOCK": block}) for block in (256, 128, 64, 32)]
    x, w, n = torch.rand(120, device=device), leaf(1, device=device), 120
    y = torch.zeros(1, device=device)
    careless = differentiable(triton.autotune(configs, key=["n"])(sum_of_products))
    with pytest.raises(LaunchError, match="several times on `y_ptr`"):
        careless[blocks](x, w, y, n)
    assert not y.any()
    tuner = triton.autotune(configs, key=["n"], restore_value=["y_ptr"])
    kernel = differentiable(tuner(sum_of_products))
    for _ in range(3):
        y, w.grad = torch.zeros(1, device=device), None
        kernel[blocks](x, w, y, n)
        y.backward()
        close(y.detach(), x.sum() * w.detach())
        close(w.grad, x.sum()[None])


def test_input_overwritten_by_the_kernel(device: str):
    """Liger-Kernel#272, unsloth#5002: `p = softmax(x)`, and a kernel in place on p.

    The softmax's backward needs p as it was; autograd sees the new version and raises.
    """
    x = leaf(4, 10, device=device)
    p = x.softmax(1)
    c, s = torch.randn(2, 5, device=device)
    rope[(4,)](p, c, s, 10, 5, BLOCK=8)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        p.sum().backward()


@differentiable
@triton.jit
def fused_cross_entropy(
    x_ptr, label_ptr, loss_ptr, n_cols, HAS_GRADIENTS: tl.constexpr, BLOCK: tl.constexpr
):
    """Writes the gradient over the logits, in passing."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"))
    top = tl.max(x, axis=0)
    e = tl.exp(x - top)
    total = tl.sum(e, axis=0)
    hit = cols == tl.load(label_ptr + row)
    if HAS_GRADIENTS:
        gradient = e / total - hit.to(tl.float32)
        tl.store(x_ptr + row * n_cols + cols, gradient, mask=mask)
    chosen = tl.sum(tl.where(hit, x, 0.0), axis=0)
    tl.store(loss_ptr + row, top + tl.log(total) - chosen)


def test_forward_overwrites_its_own_input_with_the_gradient(device: str):
    """Liger-Kernel's cross entropy: kernels with `HAS_GRADIENTS`, logits of (3, 5).

    Their backward would start from what is no longer there: refused, with the reason,
    before anything is written. Without the gradient in passing they are derived.
    """
    leaf_of_logits = leaf(3, 5, device=device)
    logits = leaf_of_logits * 1
    before = logits.detach().clone()
    labels = torch.tensor([0, 4, 2], device=device)
    loss = torch.zeros(3, device=device)
    with pytest.raises(UnsupportedError) as caught:
        fused_cross_entropy[(3,)](logits, labels, loss, 5, HAS_GRADIENTS=True, BLOCK=8)
    text = str(caught.value)
    assert "`x_ptr` is overwritten, and its old value is needed" in text
    assert "x = tl.load(x_ptr + row * n_cols + cols" in text
    assert torch.equal(logits.detach(), before)
    assert not loss.any()
    fused_cross_entropy[(3,)](logits, labels, loss, 5, HAS_GRADIENTS=False, BLOCK=8)
    ct = torch.randn(3, device=device)
    (found,) = torch.autograd.grad(loss, leaf_of_logits, ct)
    one_hot = torch.nn.functional.one_hot(labels, 5)
    close(found, ct[:, None] * (before.softmax(1) - one_hot))


def test_double_backward_with_retain_graph(device: str):
    """triton#4004: two calls of backward give the same; a third has nothing left."""
    x, w = leaf(100, device=device), leaf(100, device=device)
    y = launch_scale(x, w, torch.empty(100, device=device))
    ct = torch.randn(100, device=device)
    first = torch.autograd.grad(y, (x, w), ct, retain_graph=True)
    second = torch.autograd.grad(y, (x, w), ct)
    close(first[0], ct * (w + x.exp()).detach())
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward(ct)


# -- threads and devices --


def test_first_gpu_work_in_a_thread(device: str):
    """pytorch#124565: a thread whose first work is the backward."""
    x, w = leaf(100, device=device), leaf(100, device=device)
    y = launch_scale(x, w, torch.empty(100, device=device))
    thread = threading.Thread(target=lambda: y.sum().backward())
    thread.start()
    thread.join()
    close(x.grad, w.detach() + x.detach().exp())


FIRST_WORK = """
import torch
from runtime.kernels import launch_scale
x, w, ct = (torch.randn(100, device="cuda") for _ in range(3))
y = launch_scale(x.requires_grad_(), w, torch.empty(100, device="cuda"))
y.backward(ct)
torch.testing.assert_close(x.grad, ct * (w + x.detach().exp()), rtol=2e-5, atol=2e-5)
print("right")
"""


@pytest.mark.gpu
def test_first_gpu_work_in_the_autograd_thread():
    """pytorch#124565: in a fresh process a derived kernel is autograd's first launch.

    The driver knows of no device in that thread yet.
    """
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root / "src"), str(root / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", FIRST_WORK],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "right\n", done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_backward_on_a_device_that_is_not_the_current_one():
    """pytorch#124565: the backward runs where the tensors are."""
    x, w = leaf(100, device="cuda:1"), leaf(100, device="cuda:1")
    with torch.cuda.device(1):
        y = launch_scale(x, w, torch.empty(100, device="cuda:1"))
    with torch.cuda.device(0):
        y.backward(torch.ones_like(y))
    close(x.grad, w.detach() + x.detach().exp())
