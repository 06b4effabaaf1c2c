# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of normalisations and losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import norms
from kernels.case import Case, case
from kernels.draw import Draw
from undertow.demo.kernel import giou_kernel


@case("padded", rows=5, cols=37, x_stride=50, y_stride=41)
@case("full", rows=3, cols=64, x_stride=64, y_stride=64)
def softmax(draw: Draw, rows: int, cols: int, x_stride: int, y_stride: int) -> Case:
    return Case(
        norms.softmax,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(x_stride, 1)),
            y_ptr=draw.output(rows, cols, stride=(y_stride, 1)),
            x_stride=x_stride,
            y_stride=y_stride,
            n_cols=cols,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x: x.softmax(-1),
    )


@case("padded", rows=5, cols=37, stride=41)
@case("full", rows=4, cols=64, stride=64)
@case("column", rows=3, cols=1, stride=1)
def rms_norm(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    eps = 1e-3
    return Case(
        norms.rms_norm,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            w_ptr=draw.normal(cols),
            y_ptr=draw.output(rows, cols, stride=(stride, 1)),
            stride=stride,
            n_cols=cols,
            eps=eps,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x, w: x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * w,
    )


@case("padded", rows=5, cols=37, x_stride=40, y_stride=53)
@case("full", rows=2, cols=64, x_stride=64, y_stride=64)
def layer_norm(draw: Draw, rows: int, cols: int, x_stride: int, y_stride: int) -> Case:
    eps = 1e-3

    def reference(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        mean, var = x.mean(-1), x.var(-1, correction=0)
        return F.layer_norm(x, (cols,), w, b, eps), mean, (var + eps).rsqrt()

    return Case(
        norms.layer_norm,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(x_stride, 1)),
            w_ptr=draw.normal(cols),
            b_ptr=draw.normal(cols),
            y_ptr=draw.output(rows, cols, stride=(y_stride, 1)),
            mean_ptr=draw.output(rows),
            rstd_ptr=draw.output(rows),
            x_stride=x_stride,
            y_stride=y_stride,
            n_cols=cols,
            eps=eps,
        ),
        dict(BLOCK=64),
        ("y_ptr", "mean_ptr", "rstd_ptr"),
        reference,
    )


@case("odd", rows=5, cols=37)
def l2_norm(draw: Draw, rows: int, cols: int) -> Case:
    return Case(
        norms.l2_norm,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols),
            y_ptr=draw.output(rows, cols),
            n_cols=cols,
            eps=1e-6,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x: F.normalize(x, dim=-1, eps=1e-6),
    )


@case("padded", tokens=7, classes=29, stride=40)
def weighted_loss(draw: Draw, tokens: int, classes: int, stride: int) -> Case:
    return Case(
        norms.weighted_loss,
        (tokens,),
        dict(
            logits_ptr=draw.normal(tokens, classes, stride=(stride, 1)),
            labels_ptr=draw.integers(tokens, high=classes),
            weights_ptr=draw.normal(tokens),
            loss_ptr=draw.output(tokens),
            stride=stride,
            n_classes=classes,
        ),
        dict(BLOCK=32),
        ("loss_ptr",),
        lambda logits, labels, weights: (
            weights * F.cross_entropy(logits, labels, reduction="none")
        ),
    )


@case("padded", rows=4, cols=50, stride=57)
def kl_divergence(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    return Case(
        norms.kl_divergence,
        (rows,),
        dict(
            p_ptr=draw.uniform(rows, cols, low=0.0625, stride=(stride, 1)),
            log_q_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            loss_ptr=draw.output(rows),
            stride=stride,
            n_cols=cols,
            eps=1e-6,
        ),
        dict(BLOCK=64),
        ("loss_ptr",),
        lambda p, log_q: (p * (p.log() - log_q)).sum(-1),
    )


@case("padded", images=3, boxes=21)
@case("full", images=2, boxes=32)
def giou(draw: Draw, images: int, boxes: int) -> Case:
    def corners() -> Tensor:
        start = draw.uniform(images, boxes, 2)
        return torch.cat([start, start + draw.uniform(images, boxes, 2, low=0.25)], -1)

    def area(low: Tensor, high: Tensor) -> Tensor:
        return (high - low).clamp(min=0).prod(-1)

    def reference(pred: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        (a, b), (c, d) = pred.split(2, -1), target.split(2, -1)
        overlap = area(torch.maximum(a, c), torch.minimum(b, d))
        union = area(a, b) + area(c, d) - overlap
        hull = area(torch.minimum(a, c), torch.maximum(b, d))
        loss = 1 - overlap / union + (hull - union) / hull
        return torch.where(mask != 0, loss, 0.0).sum(-1)

    return Case(
        giou_kernel,
        (images,),
        dict(
            pred_ptr=corners(),
            target_ptr=corners(),
            mask_ptr=draw.integers(images, boxes, high=2) != 0,
            loss_ptr=draw.output(images),
            pred_stride=4 * boxes,
            target_stride=4 * boxes,
            mask_stride=boxes,
            n_boxes=boxes,
        ),
        dict(BLOCK=32),
        ("loss_ptr",),
        reference,
        precise=True,
    )
