"""Normalisations, alone and with what stands around them, and distances."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.coverage.inputs import Inputs
from benchmarks.inductor.functions.table import Function, normal, one, two

ROWS, COLS = 13, 37
affine = normal((ROWS, COLS), (COLS,), (COLS,))
scaled = normal((ROWS, COLS), (COLS,))
image = normal((3, 6, 7, 5))
image_affine = normal((3, 6, 7, 5), (6,), (6,))


def _running(draw: Inputs) -> tuple[Tensor, ...]:
    x, w, b = image_affine(draw)
    mean = draw.normal(6, grad=False)
    return x, w, b, mean, draw.uniform(6, low=0.5, high=2.0, grad=False)


def _rms(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


def _layer(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (COLS,), w, b)


def _add_and_norm(x: Tensor, residual: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    total = x + residual
    return _rms(total, w), total


def _modulated(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return F.layer_norm(x, (COLS,)) * (1 + scale[:, None]) + shift[:, None]


def _channels_first(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    mean = x.mean(1, keepdim=True)
    variance = (x - mean).square().mean(1, keepdim=True)
    x = (x - mean) * torch.rsqrt(variance + 1e-6)
    return x * w[:, None, None] + b[:, None, None]


def _response(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """ConvNeXt V2's global response normalisation."""
    size = x.square().sum((1, 2), keepdim=True).sqrt()
    return x * (1 + gamma * size / (size.mean(-1, keepdim=True) + 1e-6)) + beta


def _standardised(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)


FUNCTIONS = (
    Function("layer_norm", _layer, affine),
    Function("layer_norm_plain", lambda x: F.layer_norm(x, (COLS,)), one),
    Function(
        "layer_norm_long",
        lambda x, w, b: F.layer_norm(x, (2500,), w, b),
        normal((5, 2500), (2500,), (2500,)),
    ),
    Function("layer_norm_of_planes", lambda x: F.layer_norm(x, (7, 5)), image),
    Function("layer_norm_gelu", lambda x, w, b: F.gelu(_layer(x, w, b)), affine),
    Function("layer_norm_dyt", lambda x, w, b: torch.tanh(0.5 * x) * w + b, affine),
    Function("layer_norm_channels_first", _channels_first, image_affine),
    Function("ada_layer_norm", _modulated, normal((4, 9, COLS), (4, COLS), (4, COLS))),
    Function("rms_norm", lambda x, w: F.rms_norm(x, (COLS,), w), scaled),
    Function("rms_norm_by_hand", _rms, scaled),
    Function(
        "rms_norm_long",
        lambda x, w: F.rms_norm(x, (3000,), w),
        normal((4, 3000), (3000,)),
    ),
    Function("rms_norm_gemma", lambda x, w: _rms(x, 1 + w), scaled),
    Function(
        "rms_norm_gated",
        lambda x, w, g: _rms(x, w) * F.silu(g),
        normal((ROWS, COLS), (COLS,), (ROWS, COLS)),
    ),
    Function(
        "add_rms_norm", _add_and_norm, normal((ROWS, COLS), (ROWS, COLS), (COLS,))
    ),
    Function("qk_norm", _rms, normal((2, 3, 11, 16), (16,))),
    Function("group_norm", lambda x, w, b: F.group_norm(x, 3, w, b), image_affine),
    Function(
        "group_norm_silu",
        lambda x, w, b: F.silu(F.group_norm(x, 2, w, b)),
        image_affine,
    ),
    Function("instance_norm", lambda x: F.instance_norm(x), image),
    Function(
        "batch_norm",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        image_affine,
    ),
    Function(
        "batch_norm_eval",
        lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b),
        _running,
    ),
    Function(
        "batch_norm_relu",
        lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, training=True)),
        image_affine,
    ),
    Function("local_response_norm", lambda x: F.local_response_norm(x, 3), image),
    Function("global_response_norm", _response, normal((3, 5, 7, 6), (6,), (6,))),
    Function("standardise", _standardised, one),
    Function("whiten_rows", lambda x: x - x.mean(0, keepdim=True), one),
    Function("normalize", lambda x: F.normalize(x, dim=-1), one),
    Function("normalize_l1", lambda x: F.normalize(x, p=1.0, dim=0), one),
    Function(
        "weight_norm",
        lambda v, g: torch._weight_norm(v, g, 0),
        normal((ROWS, COLS), (ROWS, 1)),
    ),
    Function(
        "weight_standardise",
        lambda w: (
            (w - w.mean((1, 2, 3), keepdim=True))
            / (w.var((1, 2, 3), keepdim=True) + 1e-5).sqrt()
        ),
        image,
    ),
    Function("norm_2", lambda x: torch.linalg.vector_norm(x, dim=-1), one),
    Function("norm_1", lambda x: torch.linalg.vector_norm(x, 1, dim=-1), one),
    Function("norm_3", lambda x: torch.linalg.vector_norm(x, 3, dim=-1), one),
    Function(
        "norm_inf", lambda x: torch.linalg.vector_norm(x, float("inf"), dim=-1), one
    ),
    Function("norm_frobenius", lambda x: torch.linalg.matrix_norm(x), one),
    Function("clip_by_norm", lambda x: x * (2.0 / x.norm()).clamp(max=1.0), one),
    Function("cosine_similarity", lambda x, y: F.cosine_similarity(x, y), two),
    Function("pairwise_distance", lambda x, y: F.pairwise_distance(x, y), two),
    Function(
        "distances",
        lambda x, y: (x[:, None] - y[None]).square().sum(-1),
        normal((9, 6), (11, 6)),
    ),
    Function("rms", lambda x: x.square().mean(-1).sqrt(), one),
)
