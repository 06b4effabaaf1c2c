"""Launches on more than 2**31 bytes, and on more than 2**31 elements.

Inputs and outputs are cut into rows that stand alone, so that a float64 reference needs
the memory of a few rows at a time. The same tests run on a few rows on the CPU. On a
GPU one takes up to 18 GiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

import undertow
from acceptance.launches import label
from acceptance.test_sizes import CLOSE, agree
from kernels import loops, tutorials
from kernels.tutorial_cases import dropped

PIECE = 2**24
"""Elements that are compared at a time."""


@dataclass(frozen=True)
class Setting:
    """The size of a launch: `rows` of `cols`, worked on in blocks."""

    rows: int
    cols: int
    dtype: torch.dtype
    device: str

    @property
    def block(self) -> int:
        return 1024 if self.device == "cuda" else 16

    def normal(self, *size: int) -> Tensor:
        made = torch.randn(size, dtype=self.dtype, device=self.device)
        return made.requires_grad_()

    def uniform(self, *size: int) -> Tensor:
        made = torch.rand(size, dtype=self.dtype, device=self.device)
        return made.sub_(0.5).requires_grad_()


@dataclass(frozen=True)
class Tall:
    """A launch whose tensors have many rows.

    Attributes:
        kernel: the jit function.
        grid: its grid.
        constexprs: its constexprs.
        numbers: its other scalars.
        rows: the inputs that are cut into rows as the output is.
        shared: the inputs that all rows share.
        cols: of the output.
        reference: gives some rows of the output from those of the inputs; the number of
            the first row comes first.
    """

    kernel: Any
    grid: tuple[int, ...]
    constexprs: Mapping[str, object]
    numbers: Mapping[str, float]
    rows: Mapping[str, Tensor]
    shared: Mapping[str, Tensor]
    cols: int
    reference: Callable[..., Tensor]

    @property
    def height(self) -> int:
        return next(iter(self.rows.values())).shape[0]


def softmax(at: Setting) -> Tall:
    return Tall(
        tutorials.persistent_softmax,
        (min(at.rows, 1056),),
        {"BLOCK": triton.next_power_of_2(at.cols), "STAGES": 2},
        {
            "x_stride": at.cols,
            "y_stride": at.cols,
            "n_rows": at.rows,
            "n_cols": at.cols,
        },
        {"x": at.normal(at.rows, at.cols)},
        {},
        at.cols,
        lambda first, x: x.softmax(1),
    )


def dropout(at: Setting) -> Tall:
    n, p, seed = at.rows * at.cols, 0.25, 2**31 - 1

    def reference(first: int, x: Tensor) -> Tensor:
        places = torch.arange(x.numel(), device=x.device) + first * at.cols
        return dropped(x, places.view_as(x), p, seed)

    return Tall(
        tutorials.dropout,
        (triton.cdiv(n, at.block),),
        {"BLOCK": at.block},
        {"n": n, "p": p, "seed": seed},
        {"x": at.normal(at.rows, at.cols)},
        {},
        at.cols,
        reference,
    )


def layer_norm(at: Setting) -> Tall:
    eps = 1e-3
    return Tall(
        loops.layer_norm,
        (at.rows,),
        {"BLOCK": at.block},
        {"stride": at.cols, "n_cols": at.cols, "eps": eps},
        {"x": at.normal(at.rows, at.cols)},
        {"w": at.normal(at.cols), "b": at.normal(at.cols)},
        at.cols,
        lambda first, x, w, b: F.layer_norm(x, (at.cols,), w, b, eps),
    )


def linear_out(at: Setting) -> Tall:
    """The output is large."""
    return _linear(at, at.cols, 40)


def linear_in(at: Setting) -> Tall:
    """The input is large."""
    return _linear(at, 24, at.cols)


def _linear(at: Setting, n: int, k: int) -> Tall:
    m, (bm, bn, bk) = at.rows, (64, 64, 32) if at.device == "cuda" else (16, 16, 16)
    return Tall(
        tutorials.linear,
        (triton.cdiv(m, bm) * triton.cdiv(n, bn),),
        {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "KIND": "silu", "PRECISION": "ieee"},
        {"M": m, "N": n, "K": k, "x_stride": k, "w_stride": k, "y_stride": n},
        {"x": at.uniform(m, k), "r": at.normal(m, n)},
        {"w": at.uniform(n, k), "b": at.normal(n)},
        n,
        lambda first, x, r, w, b: F.silu(x @ w.T + b) + r,
    )


# -- kernels of which even the elements are too many for 32 bits --


@triton.jit
def far_silu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(y_ptr + offs, x * tl.sigmoid(x), mask=mask)


@triton.jit
def far_rms_norm(x_ptr, w_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 0.0009765625)
    tl.store(y_ptr + row * stride + cols, x * rstd * w, mask=mask)


def silu(at: Setting) -> Tall:
    n = at.rows * at.cols
    return Tall(
        far_silu,
        (triton.cdiv(n, at.block),),
        {"BLOCK": at.block},
        {"n": n},
        {"x": at.normal(at.rows, at.cols)},
        {},
        at.cols,
        lambda first, x: F.silu(x),
    )


def rms_norm(at: Setting) -> Tall:
    return Tall(
        far_rms_norm,
        (at.rows,),
        {"BLOCK": triton.next_power_of_2(at.cols)},
        {"stride": at.cols, "n_cols": at.cols},
        {"x": at.normal(at.rows, at.cols)},
        {"w": at.normal(at.cols)},
        at.cols,
        lambda first, x, w: F.rms_norm(x, (at.cols,), w, 2**-10),
    )


# -- comparison --


def check(tall: Tall, dtype: torch.dtype, device: str) -> None:
    """Compares output and gradients with float64, piece by piece."""
    y = torch.full((tall.height, tall.cols), torch.nan, dtype=dtype, device=device)
    ct = torch.randn(y.shape, dtype=dtype, device=device)
    inputs = {**tall.rows, **tall.shared}
    pointers = {f"{n}_ptr": t for n, t in inputs.items()}
    kernel = undertow.differentiable(tall.kernel)
    kernel[tall.grid](y_ptr=y, **pointers, **tall.numbers, **tall.constexprs)
    found = dict(
        zip(inputs, torch.autograd.grad(y, list(inputs.values()), ct), strict=True)
    )
    shared = {n: t.detach().double().requires_grad_() for n, t in tall.shared.items()}
    sums = {n: torch.zeros_like(t) for n, t in shared.items()}
    each = max(1, PIECE // max(t.shape[1] for t in (y, *tall.rows.values())))
    for first in range(0, tall.height, each):
        part = slice(first, first + each)
        rows = {n: t.detach()[part].double() for n, t in tall.rows.items()}
        leaves = {**{n: t.requires_grad_() for n, t in rows.items()}, **shared}
        value = tall.reference(first, **leaves)
        wanted = dict(
            zip(
                leaves,
                torch.autograd.grad(value, list(leaves.values()), ct[part].double()),
                strict=True,
            )
        )
        agree({"y": y.detach()[part]}, {"y": value.detach()}, CLOSE[dtype])
        own = {n: found[n][part] for n in rows}
        agree(own, {n: wanted[n] for n in rows}, CLOSE[dtype])
        sums = {n: total + wanted[n] for n, total in sums.items()}
    agree(found, sums, CLOSE[dtype])


def launches(make: Callable[[Setting], Tall], cols: int) -> Iterator[object]:
    """A small launch and one on more than 2**31 bytes, in each dtype."""
    name = make.__name__
    for dtype in CLOSE:
        small = Setting(5, 45, dtype, "cpu")
        yield pytest.param(make, small, id=f"{name}-cpu-{label(dtype)}")
        rows = 2**31 // (cols * dtype.itemsize) + 77
        large = Setting(rows, cols, dtype, "cuda")
        marks = pytest.mark.gpu
        yield pytest.param(make, large, id=f"{name}-cuda-{label(dtype)}", marks=marks)


@pytest.mark.usefixtures("frees_memory")
@pytest.mark.parametrize(
    ("make", "at"),
    [
        *launches(softmax, 1000),
        *launches(dropout, 1024),
        *launches(layer_norm, 8195),
        *launches(linear_out, 16_400),
        *launches(linear_in, 8195),
    ],
)
def test_past_32_bits_of_bytes(make: Callable[[Setting], Tall], at: Setting) -> None:
    torch.manual_seed(1)
    check(make(at), at.dtype, at.device)


@pytest.mark.usefixtures("frees_memory")
@pytest.mark.parametrize(
    ("make", "at"),
    [
        (silu, Setting(5, 45, torch.bfloat16, "cpu")),
        (rms_norm, Setting(5, 45, torch.bfloat16, "cpu")),
        pytest.param(
            silu,
            Setting(2**21 + 77, 1024, torch.bfloat16, "cuda"),
            marks=pytest.mark.gpu,
        ),
        pytest.param(
            rms_norm,
            Setting(262_200, 8_200, torch.bfloat16, "cuda"),
            marks=pytest.mark.gpu,
        ),
    ],
    ids=["silu-cpu", "rms_norm-cpu", "silu-cuda", "rms_norm-cuda"],
)
def test_past_32_bits_of_elements(make: Callable[[Setting], Tall], at: Setting) -> None:
    torch.manual_seed(1)
    check(make(at), at.dtype, at.device)
