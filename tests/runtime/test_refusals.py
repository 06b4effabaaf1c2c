"""Arguments that no kernel can take, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.tools.tensor_descriptor import TensorDescriptor

from undertow import LaunchError, UndertowError, derive, differentiable
from undertow.runtime.arguments import launch_options

from .comparison import close, leaf

N = 4


@differentiable
@triton.jit
def scaled(x_ptr, y_ptr, factor, BLOCK: tl.constexpr, RELU: tl.constexpr = False):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs).to(tl.float32)
    if RELU:
        x = tl.maximum(x, 0.0)
    tl.store(y_ptr + offs, x * factor)


@differentiable
@triton.jit
def squared(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, x * x)


@differentiable
@triton.jit
def described(x_desc, y_desc, BLOCK: tl.constexpr):
    y_desc.store([0, 0], x_desc.load([0, 0]) * 2.0)


@differentiable
@triton.jit
def of_pair(pair, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(pair[0] + offs) * tl.load(pair[1] + offs))


@differentiable
@triton.jit
def shifted(x_ptr, n_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    n = (tl.load(n_ptr + offs) >> 1).to(tl.float64)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs) * n)


def test_keywords_that_are_no_parameters():
    x, y = leaf(N), torch.zeros(N)
    for given in (x, x.detach()):
        with pytest.raises(LaunchError, match="has no parameter `RELUE`") as caught:
            scaled[(1,)](given, y, 2.0, BLOCK=N, RELUE=True)
        assert caught.value.hint == "did you mean `RELU`?"
        with pytest.raises(LaunchError, match="has no parameter `zzz`"):
            scaled[(1,)](given, y, 2.0, BLOCK=N, zzz=True)
    scaled[(1,)](x, y, 2.0, BLOCK=N, num_warps=2, num_ctas=1, debug=False, maxnreg=64)
    y.sum().backward()
    assert {"waves_per_eu", "launch_pdl", "enable_reflect_ftz"} & launch_options()


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.empty(N, device="meta"), "on the meta device"),
        (lambda: torch.eye(N).to_sparse(), "of layout torch.sparse_coo"),
        (lambda: torch.eye(N).to_sparse_csr(), "of layout torch.sparse_csr"),
    ],
)
def test_tensors_without_memory(make: Callable[[], Tensor], words: str, grad: bool):
    for _ in range(2):
        x = make().requires_grad_(grad)
        y = torch.empty(N, device=x.device)
        with pytest.raises(LaunchError, match=words):
            scaled[(1,)](x, y, 1.5, BLOCK=N)


def test_meta_tensors_of_a_known_geometry():
    x, y = leaf(N), torch.zeros(N)
    scaled[(1,)](x, y, 1.25, BLOCK=N)
    meta = torch.empty(N, device="meta", requires_grad=True)
    with pytest.raises(LaunchError, match="on the meta device"):
        scaled[(1,)](meta, torch.empty(N, device="meta"), 1.25, BLOCK=N)


@pytest.mark.parametrize("grad", [True, False])
def test_fake_tensors(grad: bool):
    with FakeTensorMode():
        x, y = torch.ones(N, requires_grad=grad), torch.zeros(N)
    with pytest.raises(LaunchError, match="FakeTensorMode made"):
        scaled[(1,)](x, y, 1.25, BLOCK=N)


def test_zeros_that_are_nowhere_in_memory():
    zeros = torch._efficientzerotensor((N,))
    with pytest.raises(LaunchError, match="of zeros that are nowhere in memory"):
        scaled[(1,)](leaf(N), zeros, 1.25, BLOCK=N)


@pytest.mark.parametrize("known", [True, False])
def test_tensors_that_are_negated_lazily(known: bool):
    """A kernel reads their memory, where they have the other sign."""
    x = leaf(1, dtype=torch.complex64)
    plain, negated = x.imag, x.conj().imag
    assert negated.is_neg()
    if known:  # the geometry
        scaled[(1,)](plain, torch.zeros(1), 1.25, BLOCK=1)
    with pytest.raises(LaunchError, match="`x_ptr` is negated lazily") as caught:
        scaled[(1,)](negated, torch.zeros(1), 1.25, BLOCK=1)
    assert caught.value.hint == "pass its `resolve_neg()`"
    y = torch.zeros(1)
    scaled[(1,)](negated.resolve_neg(), y, 1.25, BLOCK=1)
    close(torch.autograd.grad(y.sum(), x)[0].imag, torch.tensor([-1.25]))


def test_fp8_inputs_that_require_a_gradient():
    x = torch.ones(N).to(torch.float8_e4m3fn).requires_grad_()
    with pytest.raises(LaunchError, match="float8_e4m3fn requires a gradient"):
        scaled[(1,)](x, torch.zeros(N), 1.5, BLOCK=N)


@pytest.mark.parametrize("factor", [1e300, -1e39])
def test_floats_beyond_float32(factor: float):
    with pytest.raises(LaunchError, match="does not fit"):
        scaled[(1,)](leaf(N), torch.zeros(N), factor, BLOCK=N)


def test_infinite_floats():
    x, y = leaf(N), torch.zeros(N)
    scaled[(1,)](x, y, float("inf"), BLOCK=N)
    assert y.isinf().all()


def test_derive_takes_what_differentiable_made():
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32"}
    found = derive(squared, types, {"BLOCK": N})
    assert found.source == derive(squared.fn, types, {"BLOCK": N}).source


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_unsigned_integers(bits: int):
    dtype = getattr(torch, f"uint{bits}", None)
    if dtype is None:
        pytest.skip("this torch has no such dtype")
    top = (1 << bits) - 1
    n = torch.tensor([-1, 2, 3, 4], dtype=getattr(torch, f"int{bits}")).view(dtype)
    if bits == 8:
        n = torch.tensor([255, 2, 3, 4], dtype=torch.uint8)
    x, y = leaf(N).double(), torch.zeros(N, dtype=torch.float64)
    x = x.detach().requires_grad_()
    shifted[(1,)](x, n, y, BLOCK=N)
    y.sum().backward()
    want = torch.tensor([float(top >> 1), 1.0, 1.0, 2.0], dtype=torch.float64)
    assert x.grad is not None
    close(x.grad, want)


def test_aliases_are_named():
    x = leaf(N) * 1
    with pytest.raises(UndertowError, match="same memory") as caught:
        squared[(1,)](x, x, BLOCK=N)
    assert "`y_ptr` and `x_ptr` are the same memory" in str(caught.value)
    base = leaf(2 * N) * 1
    with pytest.raises(LaunchError, match="same memory") as caught:
        squared[(1,)](base[:N], base[1 : N + 1], BLOCK=N)
    assert "`y_ptr`" in str(caught.value)
    assert "`x_ptr`" in str(caught.value)


@differentiable
@triton.jit
def strided_turns(x_ptr, y_ptr, T, step, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32) + 0.25
    for turn in range(T, 0, step):
        acc = tl.cos(acc) * tl.load(x_ptr + turn * BLOCK + offs)
    tl.store(y_ptr + offs, acc)


@pytest.mark.parametrize("step", [-2, 0])
def test_a_step_that_is_an_argument_counts_upwards(step: int):
    x, y = leaf(3 * N), torch.full((N,), -1.0)
    with pytest.raises(LaunchError, match=f"a loop has a step of {step}") as caught:
        strided_turns[(1,)](x, y, 2, step, BLOCK=N)
    assert "range(T, 0, step)" in str(caught.value)
    assert y.eq(-1).all()  # nothing was launched


def test_tensors_inside_of_arguments():
    """Their gradients would be lost without a word."""
    x, y = torch.ones(N, N), torch.zeros(N, N)
    for grad in (False, True):  # a kernel of CPU tensors is never left to Triton
        x.requires_grad_(grad)
        pair = [TensorDescriptor.from_tensor(t, [N, N]) for t in (x, y)]
        with pytest.raises(LaunchError, match="cannot take `x_desc` of type `TensorDe"):
            described[(1,)](*pair, BLOCK=N)
        with pytest.raises(LaunchError, match="takes no tuple at run time"):
            of_pair[(1,)]((x, x), y, BLOCK=N)
        with pytest.raises(LaunchError, match="cannot take `x_ptr` of type `TensorWr"):
            squared[(1,)](triton.reinterpret(x, tl.int32), y, BLOCK=N)
