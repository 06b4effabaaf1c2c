"""Reductions, scans and pooling."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.inductor.functions.table import (
    SIZE,
    Function,
    normal,
    one,
    positive,
    two,
)

image = normal((2, 3, 13, 11))
line = normal((2, 3, 31))
volume = normal((1, 2, 7, 6, 5))
cube = normal((5, 7, 11))
long = normal((3, 5001))
flat = normal((20011,))


def _moment(x, n):
    centred = x - x.mean(-1, keepdim=True)
    return (centred**n).mean(-1) / centred.square().mean(-1) ** (n / 2)


FUNCTIONS = (
    Function("sum", lambda x: x.sum(), one),
    Function("sum_rows", lambda x: x.sum(-1), one),
    Function("sum_columns", lambda x: x.sum(0), one),
    Function("sum_middle", lambda x: x.sum(1), cube),
    Function("sum_outer", lambda x: x.sum((0, 2)), cube),
    Function("sum_long_rows", lambda x: x.sin().sum(-1), long),
    Function("sum_split", lambda x: x.square().sum(), flat),
    Function("sum_tall", lambda x: x.exp().sum(0), normal((3001, 5))),
    Function("mean", lambda x: x.mean(), one),
    Function("mean_rows", lambda x: x.mean(-1), one),
    Function("mean_planes", lambda x: x.mean((2, 3)), image),
    Function("weighted_mean", lambda x, w: (x * w).sum() / w.square().sum(), two),
    Function("var", lambda x: x.var(), one),
    Function("var_rows", lambda x: x.var(-1), one),
    Function("var_biased", lambda x: x.var(0, correction=0), one),
    Function("var_mean", lambda x: torch.var_mean(x, -1), one),
    Function("var_long", lambda x: x.var(-1), long),
    Function("std", lambda x: x.std(-1), one),
    Function("skewness", lambda x: _moment(x, 3), one),
    Function("kurtosis", lambda x: _moment(x, 4), one),
    Function("prod", lambda x: x.prod(-1), normal((13, 6))),
    Function("amax", lambda x: x.amax(-1), one),
    Function("amin", lambda x: x.amin(0), one),
    Function("amax_long", lambda x: x.amax(-1), long),
    Function("max", lambda x: x.max(), one),
    Function("max_with_index", lambda x: x.max(-1).values, one),
    Function("min_with_index", lambda x: x.min(0).values, one),
    Function("aminmax", lambda x: x.amax(-1) - x.amin(-1), one),
    Function("max_all_long", lambda x: x.max(), flat),
    Function("argmax_gather", lambda x: x.gather(1, x.argmax(1, keepdim=True)), one),
    Function("logsumexp", lambda x: x.logsumexp(-1), one),
    Function("logsumexp_all", lambda x: x.logsumexp((0, 1)), one),
    Function("logsumexp_long", lambda x: x.logsumexp(-1), long),
    Function("logcumsumexp", lambda x: x.logcumsumexp(-1), one),
    Function("norm", lambda x: x.norm(), one),
    Function("dot", lambda x, y: (x * y).sum(), two),
    Function("dot_rows", lambda x, y: (x * y).sum(-1), two),
    Function(
        "matmul_small",
        lambda x, y: (x[:, :, None] * y[None]).sum(1),
        normal((7, 9), (9, 5)),
    ),
    Function("trace", lambda x: torch.diagonal(x).sum(), normal((13, 13))),
    Function("nansum", lambda x: x.nansum(-1), one),
    Function("count_weighted", lambda x: x.sum(-1) * (x > 0).sum(-1), one),
    Function("geometric_mean", lambda x: x.log().mean(-1).exp(), positive),
    Function("harmonic_mean", lambda x: 1 / (1 / x).mean(-1), positive),
    Function(
        "entropy",
        lambda x: torch.special.entr(x / x.sum(-1, keepdim=True)).sum(-1),
        positive,
    ),
    Function(
        "soft_argmax",
        lambda x: (x.softmax(-1) * torch.arange(37, device=x.device)).sum(-1),
        one,
    ),
    Function(
        "attention_pool",
        lambda x, s: (x * s.softmax(0)[:, None]).sum(0),
        normal(SIZE, (13,)),
    ),
    Function("cumsum", lambda x: x.cumsum(-1), one),
    Function("cumsum_columns", lambda x: x.cumsum(0), one),
    Function("cumprod", lambda x: x.cumprod(-1), normal((13, 9))),
    Function("cummax", lambda x: x.cummax(-1).values, one),
    Function("sort", lambda x: x.sort(-1).values, one),
    Function("topk", lambda x: x.topk(5).values, one),
    Function("median", lambda x: x.median(-1).values, one),
    Function("diff", lambda x: x.diff(dim=-1), one),
    Function("trapezoid", lambda x: torch.trapezoid(x, dx=0.3), one),
    Function("avg_pool1d", lambda x: F.avg_pool1d(x, 4, 3), line),
    Function("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), image),
    Function(
        "avg_pool2d_unpadded",
        lambda x: F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False),
        image,
    ),
    Function("avg_pool3d", lambda x: F.avg_pool3d(x, 2), volume),
    Function("max_pool1d", lambda x: F.max_pool1d(x, 3, 2), line),
    Function("max_pool2d", lambda x: F.max_pool2d(x, 2), image),
    Function("max_pool2d_overlapping", lambda x: F.max_pool2d(x, 3, 2, 1), image),
    Function("max_pool2d_dilated", lambda x: F.max_pool2d(x, 3, 1, dilation=2), image),
    Function(
        "max_pool2d_with_indices",
        lambda x: F.max_pool2d(x, 3, 2, return_indices=True),
        image,
    ),
    Function("max_pool3d", lambda x: F.max_pool3d(x, 2), volume),
    Function("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 7), line),
    Function("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (5, 4)), image),
    Function("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (5, 4)), image),
    Function("lp_pool2d", lambda x: F.lp_pool2d(x.abs() + 0.1, 2.0, 2), image),
    Function("global_max_pool", lambda x: x.amax((2, 3)), image),
    Function(
        "squeeze_excite",
        lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)),
        image,
    ),
)
