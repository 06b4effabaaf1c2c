# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of kernels whose backward reads outputs."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import stored
from kernels.case import Case, blocks, case
from kernels.draw import Draw


@case("padded", rows=5, cols=45)
@case("full", rows=3, cols=32)
def layer_norm_with_statistics(draw: Draw, rows: int, cols: int) -> Case:
    eps = 1e-3

    def reference(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        var, mean = torch.var_mean(x, 1, correction=0)
        return F.layer_norm(x, (cols,), w, eps=eps), mean, (var + eps).rsqrt()

    return Case(
        stored.layer_norm_with_statistics,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols),
            w_ptr=draw.normal(cols),
            y_ptr=draw.output(rows, cols),
            mean_ptr=draw.output(rows),
            rstd_ptr=draw.output(rows),
            n_cols=cols,
            eps=eps,
        ),
        dict(BLOCK=16),
        ("y_ptr", "mean_ptr", "rstd_ptr"),
        reference,
    )


@case("padded", rows=7, cols=21)
@case("full", rows=8, cols=32)
def norms_of_tiles(draw: Draw, rows: int, cols: int) -> Case:
    eps = 1e-3

    def reference(x: Tensor) -> tuple[Tensor, Tensor]:
        rstd = (x.square().mean(1) + eps).rsqrt()
        return x * rstd[:, None], rstd

    return Case(
        stored.norms_of_tiles,
        (blocks(rows, 4),),
        dict(
            x_ptr=draw.normal(rows, cols),
            y_ptr=draw.output(rows, cols),
            rstd_ptr=draw.output(rows),
            n_rows=rows,
            n_cols=cols,
            eps=eps,
        ),
        dict(ROWS=4, COLS=16),
        ("y_ptr", "rstd_ptr"),
        reference,
    )


@case("padded", rows=7, cols=21)
def norm_and_total(draw: Draw, rows: int, cols: int) -> Case:
    def reference(x: Tensor) -> tuple[Tensor, Tensor]:
        norm = (x.square().sum(1) + 4).sqrt()
        beyond = torch.full((-rows % 4,), 2.0, dtype=norm.dtype)
        return torch.cat([norm, beyond]).pow(3).view(-1, 4).sum(1), norm

    return Case(
        stored.norm_and_total,
        (blocks(rows, 4),),
        dict(
            x_ptr=draw.normal(rows, cols),
            total_ptr=draw.output(blocks(rows, 4)),
            norm_ptr=draw.output(rows),
            n_rows=rows,
            n_cols=cols,
        ),
        dict(ROWS=4, COLS=16),
        ("total_ptr", "norm_ptr"),
        reference,
    )


@case("odd", length=21, dim=12, heads=4, group=2)
@case("even", length=32, dim=16, heads=2, group=1)
@case("small", length=3, dim=5, heads=2, group=2)
def attention_base_2(draw: Draw, length: int, dim: int, heads: int, group: int) -> Case:
    scale = 0.25

    def reference(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        k, v = (t.repeat_interleave(group, 0) for t in (k, v))
        to_base_2, to_base_e = torch.tensor([math.log2(math.e), math.log(2)]).double()
        scores = q @ k.mT * scale * to_base_2 * math.log(2)
        lse = scores.logsumexp(-1) / math.log(2) * to_base_e
        return scores.softmax(-1) @ v, lse

    return Case(
        stored.attention_base_2,
        (blocks(length, 16), heads),
        dict(
            q_ptr=draw.normal(heads, length, dim),
            k_ptr=draw.normal(heads // group, length, dim),
            v_ptr=draw.normal(heads // group, length, dim),
            o_ptr=draw.output(heads, length, dim),
            lse_ptr=draw.output(heads, length),
            T=length,
            D=dim,
            scale=scale,
            GROUP=group,
        ),
        dict(BM=16, BN=16, BD=16),
        ("o_ptr", "lse_ptr"),
        reference,
    )


@case("padded", rows=5, cols=45)
@case("full", rows=3, cols=32)
def cross_entropy_with_lse(draw: Draw, rows: int, cols: int) -> Case:
    def reference(x: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        loss = F.cross_entropy(x, label, label_smoothing=0.25, reduction="none")
        return loss, x.logsumexp(1)

    return Case(
        stored.cross_entropy_with_lse,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols),
            label_ptr=draw.integers(rows, high=cols),
            loss_ptr=draw.output(rows),
            lse_ptr=draw.output(rows),
            n_cols=cols,
            smoothing=0.25,
        ),
        dict(BLOCK=16),
        ("loss_ptr", "lse_ptr"),
        reference,
    )


@case("padded", rows=7, cols=21)
def rows_in_turn(draw: Draw, rows: int, cols: int) -> Case:
    def reference(x: Tensor) -> tuple[Tensor, Tensor]:
        norm = (x.square().sum(1) + 1).sqrt()
        return x / norm[:, None], norm

    return Case(
        stored.rows_in_turn,
        (3,),
        dict(
            x_ptr=draw.normal(rows, cols),
            y_ptr=draw.output(rows, cols),
            norm_ptr=draw.output(rows),
            n_rows=rows,
            n_cols=cols,
        ),
        dict(BLOCK=16),
        ("y_ptr", "norm_ptr"),
        reference,
    )
