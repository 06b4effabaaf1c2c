"""Drop-in launches: plain ones, ones with gradients, and what cannot be followed."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import forward_ad

from undertow import CaptureError, LaunchError, UndertowError, differentiable
from undertow.runtime import differentiable as launching

from .comparison import close, leaf
from .kernels import assembly, launch_scale, options, scale

N = 10


def launch_options(*args: Any, **kwargs: Any) -> None:
    options[(1,)](*args, **kwargs)


# -- arguments --


def test_numbers_and_flags(device: str):
    x, w, ct = (leaf(N, device=device), leaf(N, device=device),
                torch.randn(N, device=device))  # fmt: skip
    for factor, doubled in ((2.5, True), (3, False), (2**31 + 5, False)):
        y = torch.zeros(N, device=device)
        launch_options(x, w, y, N, factor, doubled)
        (d_x,) = torch.autograd.grad(y, x, ct)
        total = factor * (1 + doubled)
        close(d_x / total, ct * w.detach())


def test_no_weight_positional_constexprs_and_options(device: str):
    x, ct = leaf(N, device=device), torch.randn(N, device=device)
    for args, kwargs in (((1.0, 16), {}), ((), {"SHIFT": 1.0, "num_warps": 2})):
        y = torch.zeros(N, device=device)
        launch_options(x, None, y, N, 2.5, False, *args, **kwargs)
        close(y.detach(), 2.5 * x.detach() + 1)
        (d_x,) = torch.autograd.grad(y, x, ct)
        close(d_x, 2.5 * ct)


def test_gradients_have_the_dtypes_of_their_inputs(device: str):
    x = leaf(N, device=device, dtype=torch.bfloat16)
    w, ct = leaf(N, device=device), torch.randn(N, device=device)
    y = torch.zeros(N, device=device)
    launch_options(x, w, y, N, 2.0, False)
    y.backward(ct)
    assert x.grad is not None
    assert w.grad is not None
    assert (x.grad.dtype, w.grad.dtype) == (torch.bfloat16, torch.float32)
    close(x.grad, (2 * ct * w.detach()).bfloat16(), 2**-8)
    close(w.grad, 2 * ct * x.detach().float())


def test_float64(device: str):
    wide = {"device": device, "dtype": torch.float64}
    x, w, ct = leaf(N, **wide), leaf(N, **wide), torch.randn(N, **wide)
    y = launch_scale(x, w, torch.zeros(N, **wide))
    y.backward(ct)
    close(x.grad, ct * (w + x.exp()).detach(), 1e-12)


def test_a_number_that_changes_every_launch_is_not_decided_anew():
    x, w = leaf(N), leaf(N)
    for factor in range(10, 20):
        y = torch.zeros(N)
        launch_options(x, w, y, N, factor, False, BLOCK=16)
        y.sum().backward()
    spec = y.grad_fn.launch[0].specialisation  # type: ignore[union-attr]
    assert len(spec.kept) == 2
    assert spec.numbers((N, 11, False)) == (N,)


# -- plain launches --


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: Any, device: str):
    x, w = leaf(N, device=device), leaf(N, device=device)
    with mode():
        y = launch_scale(x, w, torch.zeros(N, device=device))
    assert not y.requires_grad
    close(y, (x * w + x.exp()).detach())


@differentiable
@triton.jit
def copy_first(x_ptr, unused_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@differentiable
@triton.jit
def signs(x_ptr, sign_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Two float outputs, of which one is piecewise constant."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(sign_ptr + offs, tl.where(x > 0, 1.0, -1.0), mask=offs < n)
    tl.store(y_ptr + offs, 2 * x, mask=offs < n)


def test_nothing_that_is_used_requires_a_gradient():
    y = torch.zeros(N)
    copy_first[(1,)](torch.ones(N), leaf(N), y, N, BLOCK=16)
    assert not y.requires_grad


def test_an_output_that_depends_on_no_input_that_needs_a_gradient():
    x, a, b = leaf(N), torch.zeros(N), torch.zeros(N)
    with torch.enable_grad():
        signs[(1,)](x, a, b, N, BLOCK=16)
    assert (a.requires_grad, b.requires_grad) == (False, True)
    b.sum().backward()
    close(x.grad, torch.full((N,), 2.0))


def test_a_kernel_without_derivative_writes_nothing(device: str):
    y = torch.zeros(16, device=device)
    with pytest.raises(UndertowError, match="is not supported"):
        assembly[(1,)](leaf(16, device=device), y, 16, BLOCK=16)
    assert not y.any()


@pytest.mark.gpu
def test_a_kernel_that_is_not_captured_launches_plainly():
    x, y = torch.rand(16, device="cuda"), torch.zeros(16, device="cuda")
    assembly[(1,)](x, y, 16, BLOCK=16)
    close(y, x)


def test_a_fault_of_ours_does_not_break_a_plain_launch(monkeypatch: pytest.MonkeyPatch):
    def broken(*args: object) -> None:
        raise KeyError("oops")

    launched: list[object] = []
    kernel = differentiable(scale.fn)
    monkeypatch.setattr(launching, "capture", broken)
    monkeypatch.setattr(type(scale.fn), "run", lambda *a, **k: launched.append(a))
    monkeypatch.setattr(launching, "_on_gpu", lambda values, tensors: True)
    x = leaf(N)
    kernel[(1,)](x.detach(), x.detach(), torch.zeros(N), N, BLOCK=16)
    assert len(launched) == 1
    with pytest.raises(UndertowError, match=r"`scale` could not be read: KeyError"):
        kernel[(1,)](x, x, torch.zeros(N), N, BLOCK=16)
    assert len(launched) == 1


# -- what PyTorch does to tensors --


def sum_of(x: Tensor, w: Tensor) -> Tensor:
    return launch_scale(x, w, torch.zeros(N)).sum()


def test_torch_func_is_refused():
    w = torch.randn(N)
    with pytest.raises(LaunchError, match=r"a tensor of a torch\.func transform"):
        torch.func.grad(sum_of)(torch.randn(N), w)
    with pytest.raises(LaunchError, match=r"a tensor of a torch\.func transform"):
        torch.func.vmap(sum_of, (0, None))(torch.randn(3, N), w)


def test_tangents_are_refused():
    x, w = torch.randn(N), torch.randn(N)
    with forward_ad.dual_level():
        sum_of(x, w)
        with pytest.raises(LaunchError, match="no forward-mode derivative"):
            sum_of(forward_ad.make_dual(x, w), w)


def test_inference_tensors():
    with torch.inference_mode():
        kept = torch.zeros(N)
    with pytest.raises(RuntimeError, match="update to inference tensor"):
        launch_scale(leaf(N), leaf(N), kept)
    y = torch.zeros(N)
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        launch_scale(kept, leaf(N), y)
    assert not kept.any()
    assert not y.any()


@pytest.mark.filterwarnings("ignore")
def test_torch_compile_breaks_the_graph():
    torch.compiler.reset()
    x, w = leaf(N), leaf(N)
    compiled = torch.compile(lambda a, b: 3 * sum_of(2 * a, b), backend="eager")
    compiled(x, w).backward()
    close(x.grad, 6 * (w + (2 * x).exp()).detach())
    torch.compiler.reset()
    whole = torch.compile(sum_of, backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        whole(x, w)


def test_threads():
    found: list[tuple[Tensor, Tensor]] = []

    def work(block: int) -> None:
        x, w = leaf(N), leaf(N)
        launch_scale(x, w, torch.zeros(N), block).sum().backward()
        assert x.grad is not None
        found.append((x.grad, (w + x.exp()).detach()))

    threads = [threading.Thread(target=work, args=(b,)) for b in (16, 64, 128, 16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for actual, expected in found:
        close(actual, expected)


# -- the object --


def test_it_is_copied_and_pickled_as_itself():
    assert copy.deepcopy(scale) is scale
    assert copy.copy(scale) is scale
    assert pickle.loads(pickle.dumps(scale)) is scale


def test_it_looks_like_the_kernel():
    assert repr(scale) == "undertow.differentiable(scale)"
    assert scale.__name__ == "scale"
    assert differentiable(scale) is scale
    with pytest.raises(RuntimeError, match="launched with a grid"):
        scale(1, 2)
    with pytest.raises(AttributeError, match=r"go below `undertow\.differentiable`"):
        triton.autotune([], key=[])(scale)


def test_a_launch_by_run_has_gradients_too():
    x, w, y = leaf(N), leaf(N), torch.zeros(N)
    scale.run(x, w, y, N, grid=(1,), warmup=False, BLOCK=16)
    assert y.requires_grad


def test_something_that_is_no_kernel():
    with pytest.raises(CaptureError, match=r"decorated with `triton\.jit`"):
        differentiable(len)


def test_under_tritons_interpreter():
    """Plain launches are interpreted; one with gradients says why it cannot be."""
    script = """
import torch
from runtime.kernels import launch_scale
x = torch.ones(4)
print(launch_scale(x, x, torch.zeros(4)).sum().item())
try:
    launch_scale(x.requires_grad_(), x, torch.zeros(4))
except Exception as error:
    print(error)
"""
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "src"), str(root / "tests")])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "TRITON_INTERPRET=1 was set" in done.stdout, done.stderr
    assert done.stdout.startswith("14.87"), done.stdout
