"""Launches of a size that fills a GPU: odd, smaller than a block, past 32 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

import undertow
from acceptance.launches import Expected, label, launch
from kernels.case import Case
from kernels.draw import Draw
from kernels.loop_cases import layer_norm_in_loops, matmul
from kernels.tutorial_cases import dropout, linear, persistent_softmax, staged_attention

CLOSE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 8e-3}
"""The largest relative error in the Euclidean norm, for sums of a thousand terms."""

MAKERS: dict[str, Callable[[Draw], Case]] = {
    "softmax-odd": lambda d: persistent_softmax(d, 1823, 781, 132, block=1024),
    "softmax-short": lambda d: persistent_softmax(d, 5, 3, 2, block=1024),
    "dropout-odd": lambda d: dropout(d, 98_433, seed=2**31 - 1, block=1024),
    "dropout-short": lambda d: dropout(d, 3, seed=1, block=1024),
    "matmul-odd": lambda d: matmul(d, 777, 513, 1030, tile=(64, 64, 32)),
    "matmul-short": lambda d: matmul(d, 7, 3, 5, tile=(64, 64, 32)),
    "linear-odd": lambda d: linear(d, 777, 513, 1030, "silu", (64, 64, 32)),
    "linear-short": lambda d: linear(d, 7, 3, 5, "silu", (64, 64, 32)),
    "linear-even": lambda d: linear(d, 512, 256, 1024, "relu", (64, 64, 64)),
    "linear-skinny": lambda d: linear(d, 4097, 17, 65, "none", (128, 32, 32)),
    "layer_norm-odd": lambda d: layer_norm_in_loops(d, 1151, 8191, block=1024),
    "layer_norm-short": lambda d: layer_norm_in_loops(d, 3, 5, block=1024),
    "attention-odd": lambda d: attention(d, 1001, causal=False),
    "attention-causal": lambda d: attention(d, 1001, causal=True),
    "attention-causal_even": lambda d: attention(d, 1024, causal=True),
    "attention-causal_short": lambda d: attention(d, 17, causal=True),
}


def attention(draw: Draw, length: int, causal: bool) -> Case:
    return staged_attention(draw, length, causal, heads=3, dim=64, tile=(64, 32))


def agree(
    found: Mapping[str, Tensor], expected: Mapping[str, Tensor], error: float
) -> None:
    """Close in the norm of each tensor, and each element to its largest one."""
    for name, want in expected.items():
        difference = found[name].cpu().double() - want.double()
        assert difference.norm() <= error * want.norm(), name
        assert difference.abs().max() <= 4 * error * want.abs().max(), name


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", CLOSE, ids=label)
@pytest.mark.parametrize("name", MAKERS)
def test_kernels_of_the_tutorials(name: str, dtype: torch.dtype) -> None:
    case = MAKERS[name](Draw(len(name)))
    expected = Expected.of(case)
    outputs, gradients = launch(case, dtype, expected.cotangents, "cuda")
    agree(outputs, expected.outputs, CLOSE[dtype])
    agree(gradients, expected.gradients, CLOSE[dtype])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["linear", "attention"])
def test_products_in_tf32(name: str) -> None:
    """Triton's default: factors of 11 bits, in the backward as in the forward."""
    draw = Draw(3)
    if name == "linear":
        case = linear(draw, 300, 200, 500, "silu", (64, 64, 32), precision="tf32")
    else:
        case = staged_attention(
            draw, 300, True, heads=2, dim=64, tile=(64, 32), precision="tf32"
        )
    expected = Expected.of(case)
    outputs, gradients = launch(case, torch.float32, expected.cotangents, "cuda")
    agree(outputs, expected.outputs, CLOSE[torch.float16])
    agree(gradients, expected.gradients, CLOSE[torch.float16])


# -- past 2**31 bytes, and past 2**31 elements --


@undertow.differentiable
@triton.jit
def silu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Offsets of 32 bits."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(y_ptr + offs, x * tl.sigmoid(x), mask=mask)


@undertow.differentiable
@triton.jit
def far_silu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Offsets of 64 bits."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(y_ptr + offs, x * tl.sigmoid(x), mask=mask)


@undertow.differentiable
@triton.jit
def far_rms_norm(x_ptr, w_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 0.0009765625)
    tl.store(y_ptr + row * stride + cols, x * rstd * w, mask=mask)


def on_gpu(*sizes: object) -> object:
    return pytest.param("cuda", *sizes, marks=pytest.mark.gpu)


def near(found: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    """Two roundings of a result that is exact to float32."""
    slack = 2**-7 if dtype == torch.bfloat16 else 1e-5
    assert found.dtype == dtype
    assert torch.allclose(found.float(), wanted, rtol=slack, atol=slack)


@pytest.mark.parametrize(
    ("device", "kernel", "n", "dtype"),
    [
        ("cpu", silu, 1001, torch.float32),
        ("cpu", far_silu, 1001, torch.bfloat16),
        on_gpu(silu, 2**30 + 77, torch.float32),
        on_gpu(far_silu, 2**31 + 77, torch.bfloat16),
    ],
    ids=["small", "far_small", "bytes", "elements"],
)
def test_elements_past_32_bits(
    device: str, kernel: undertow.Differentiable, n: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(1)
    x = torch.randn(n, dtype=dtype, device=device).requires_grad_()
    ct = torch.randn(n, dtype=dtype, device=device)
    y = torch.empty_like(x, requires_grad=False).fill_(torch.nan)
    kernel[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
    (d_x,) = torch.autograd.grad(y, x, ct)
    pieces = [t.detach().split(2**27) for t in (x, ct, y, d_x)]
    for own, its_ct, its_y, its_d_x in zip(*pieces, strict=True):
        leaf = own.float().requires_grad_()
        value = torch.nn.functional.silu(leaf)
        near(its_y, value.detach(), dtype)
        near(its_d_x, torch.autograd.grad(value, leaf, its_ct.float())[0], dtype)


@pytest.mark.parametrize(
    ("device", "rows", "cols", "dtype"),
    [
        ("cpu", 5, 37, torch.float32),
        on_gpu(70_000, 8_200, torch.float32),
        on_gpu(262_200, 8_200, torch.bfloat16),
    ],
    ids=["small", "bytes", "elements"],
)
def test_rows_past_32_bits(
    device: str, rows: int, cols: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(1)
    x = torch.randn(rows, cols, dtype=dtype, device=device).requires_grad_()
    w = torch.randn(cols, dtype=dtype, device=device).requires_grad_()
    ct = torch.randn(rows, cols, dtype=dtype, device=device)
    y = torch.empty_like(x, requires_grad=False).fill_(torch.nan)
    block = triton.next_power_of_2(cols)
    far_rms_norm[(rows,)](x, w, y, x.stride(0), cols, BLOCK=block)
    d_x, d_w = torch.autograd.grad(y, (x, w), ct)
    d_w_wanted = torch.zeros(cols, dtype=torch.float64, device=device)
    weight = w.detach().float().requires_grad_()
    pieces = [t.detach().split(2**14) for t in (x, ct, y, d_x)]
    for own, its_ct, its_y, its_d_x in zip(*pieces, strict=True):
        leaf = own.float().requires_grad_()
        rstd = (leaf.square().mean(1, keepdim=True) + 2**-10).rsqrt()
        value = leaf * rstd * weight
        near(its_y, value.detach(), dtype)
        wanted = torch.autograd.grad(value, (leaf, weight), its_ct.float())
        near(its_d_x, wanted[0], dtype)
        d_w_wanted += wanted[1].double()
    agree({"w": d_w}, {"w": d_w_wanted.cpu()}, CLOSE[dtype])
