# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of kernels in the style of Triton's tutorials, of any size."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import tutorials
from kernels.case import Case, blocks, case, single
from kernels.draw import Draw

LOG2_E = single(1.44269504)


@case("one_program", rows=3, cols=16, programs=1)
@case("padded", rows=7, cols=45, programs=3)
@case("idle", rows=2, cols=5, programs=4)
def persistent_softmax(
    draw: Draw, rows: int, cols: int, programs: int, block: int = 64
) -> Case:
    return Case(
        tutorials.persistent_softmax,
        (programs,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(cols + 3, 1)),
            y_ptr=draw.output(rows, cols),
            x_stride=cols + 3,
            y_stride=cols,
            n_rows=rows,
            n_cols=cols,
        ),
        dict(BLOCK=block, STAGES=2),
        ("y_ptr",),
        lambda x: x.softmax(-1),
    )


@case("odd", n=150, seed=123)
@case("small", n=5, seed=7)
def dropout(draw: Draw, n: int, seed: int, block: int = 64) -> Case:
    p = 0.25
    return Case(
        tutorials.dropout,
        (blocks(n, block),),
        dict(x_ptr=draw.normal(n), y_ptr=draw.output(n), n=n, p=p, seed=seed),
        dict(BLOCK=block),
        ("y_ptr",),
        lambda x: dropped(x, torch.arange(n, device=x.device), p, seed),
    )


def dropped(x: Tensor, at: Tensor, p: float, seed: int) -> Tensor:
    """What `dropout` makes of the elements `at`."""
    return torch.where(uniform(seed, at) > p, x / (1 - p), 0.0)


def uniform(seed: int, at: Tensor) -> Tensor:
    """What `tl.rand(seed, at)` draws: ten rounds of Philox 4x32."""
    whole = 2**32 - 1
    zero = torch.zeros_like(at)
    counters = [at, zero, zero, zero]
    keys = [seed, 0]

    def products(factor: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """The upper and lower half of a product of two 32-bit numbers."""
        upper, lower = factor * (x >> 16), factor * (x & 0xFFFF)
        middle = (upper & 0xFFFF) * 2**16 + lower
        return (upper >> 16) + (middle >> 32), middle & whole

    for _ in range(10):
        high_0, low_0 = products(0xD2511F53, counters[0])
        high_1, low_1 = products(0xCD9E8D57, counters[2])
        counters = [
            high_1 ^ counters[1] ^ keys[0],
            low_1,
            high_0 ^ counters[3] ^ keys[1],
            low_0,
        ]
        keys = [(keys[0] + 0x9E3779B9) & whole, (keys[1] + 0xBB67AE85) & whole]
    signed = (counters[0] + 2**31) % 2**32 - 2**31
    return torch.where(signed < 0, -signed - 1, signed) * single(4.6566127342e-10)


@case("odd", m=37, n=29, k=45, kind="silu")
@case("small", m=5, n=3, k=2, kind="relu")
@case("plain", m=32, n=16, k=16, kind="none")
def linear(
    draw: Draw,
    m: int,
    n: int,
    k: int,
    kind: str,
    tile: tuple[int, int, int] = (16, 16, 16),
    precision: str = "ieee",
) -> Case:
    bm, bn, bk = tile
    activations = {"silu": F.silu, "relu": F.relu, "none": lambda x: x}

    def reference(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
        return activations[kind](x @ w.T + b) + r

    return Case(
        tutorials.linear,
        (blocks(m, bm) * blocks(n, bn),),
        dict(
            x_ptr=draw.uniform(m, k, low=-0.5, high=0.5),
            w_ptr=draw.uniform(n, k, low=-0.5, high=0.5),
            b_ptr=draw.normal(n),
            r_ptr=draw.normal(m, n),
            y_ptr=draw.output(m, n),
            M=m,
            N=n,
            K=k,
            x_stride=k,
            w_stride=k,
            y_stride=n,
        ),
        dict(BM=bm, BN=bn, BK=bk, GROUP=2, KIND=kind, PRECISION=precision),
        ("y_ptr",),
        reference,
    )


@case("full", length=37, causal=False)
@case("causal", length=37, causal=True)
@case("causal_even", length=32, causal=True)
@case("causal_small", length=5, causal=True)
def staged_attention(
    draw: Draw,
    length: int,
    causal: bool,
    heads: int = 2,
    dim: int = 16,
    tile: tuple[int, int] = (16, 16),
    precision: str = "ieee",
) -> Case:
    scale = dim**-0.5
    bm, bn = tile

    def reference(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        scores = q @ k.mT * (scale * LOG2_E * math.log(2))
        if causal:
            later = torch.ones(length, length, dtype=torch.bool, device=q.device)
            scores = scores.masked_fill(later.triu(1), -torch.inf)
        return scores.softmax(-1) @ v, scores.logsumexp(-1) / math.log(2)

    return Case(
        tutorials.staged_attention,
        (blocks(length, bm), heads),
        dict(
            q_ptr=draw.normal(heads, length, dim),
            k_ptr=draw.normal(heads, length, dim),
            v_ptr=draw.normal(heads, length, dim),
            o_ptr=draw.output(heads, length, dim),
            lse_ptr=draw.output(heads, length),
            T=length,
            scale=scale,
        ),
        dict(CAUSAL=causal, BM=bm, BN=bn, D=dim, PRECISION=precision),
        ("o_ptr", "lse_ptr"),
        reference,
    )
