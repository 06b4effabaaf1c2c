"""Functions that move elements: layouts, indices, padding and resampling."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.coverage.inputs import Inputs
from benchmarks.inductor.functions.table import Draw, Function, normal, one, two

image = normal((2, 4, 9, 7))
cube = normal((5, 7, 6))


def _indexed(*size: int, high: int, picks: tuple[int, ...]) -> Draw:
    """Numbers, and indices below `high`, some of which occur twice."""
    return lambda draw: (draw.normal(*size), draw.integers(high, *picks))


def _scattered(draw: Inputs) -> tuple[Tensor, ...]:
    return draw.normal(13, 7), draw.normal(19, 7), draw.integers(13, 19)


def _permuted(draw: Inputs) -> tuple[Tensor, ...]:
    """A destination, rows, and a different place for each of them."""
    places = torch.randperm(13, generator=torch.Generator().manual_seed(0))
    return draw.normal(13, 7), draw.normal(9, 7), places[:9]


def _heads(draw: Inputs) -> tuple[Tensor, ...]:
    angles = draw.normal(11, 8, grad=False)
    return draw.normal(2, 3, 11, 16), angles.cos(), angles.sin()


def _rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _rope_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


def _windows(x: Tensor) -> Tensor:
    x = x.view(2, 4, 3, 3, 7, 1).permute(0, 2, 4, 3, 5, 1)
    return x.reshape(-1, 3, 4).sin()


def _shuffled(x: Tensor) -> Tensor:
    return x.view(2, 2, 2, 9, 7).transpose(1, 2).reshape(2, 4, 9, 7) * 2


def _corners(x: Tensor) -> Tensor:
    centre, size = x.chunk(2, -1)
    return torch.cat((centre - size / 2, centre + size / 2), -1)


def _quaternions(p: Tensor, q: Tensor) -> Tensor:
    a, b, c, d = p.unbind(-1)
    e, f, g, h = q.unbind(-1)
    return torch.stack(
        (
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        ),
        -1,
    )


def _grid(draw: Inputs) -> tuple[Tensor, ...]:
    return draw.normal(2, 4, 9, 7), draw.uniform(2, 5, 6, 2, low=-0.95, high=0.95)


def _biased(x: Tensor) -> Tensor:
    place = torch.arange(17, device=x.device)
    bias = -0.25 * (place[:, None] - place[None, :]).abs()
    return torch.softmax(x + bias, -1)


def _index_put(x: Tensor, y: Tensor, at: Tensor) -> Tensor:
    return x.sin().index_put((at,), y)


def _segment_sum(x: Tensor, y: Tensor, at: Tensor) -> Tensor:
    return x.index_add(0, at, y)


def _scatter_add(x: Tensor, y: Tensor, at: Tensor) -> Tensor:
    return x.scatter_add(0, at[:, None].expand(-1, 7), y)


FUNCTIONS = (
    Function("transpose", lambda x: x.t().contiguous(), one),
    Function("transposed_add", lambda x, y: x.t() + y.t().sin(), two),
    Function("permute", lambda x: x.permute(2, 0, 1).contiguous(), cube),
    Function(
        "channels_last", lambda x: x.sin().permute(0, 2, 3, 1).contiguous(), image
    ),
    Function("flip", lambda x: x.flip(1), one),
    Function("roll", lambda x: x.roll((2, 5), (0, 1)), one),
    Function("rot90", lambda x: torch.rot90(x), one),
    Function("cat", lambda x, y: torch.cat((x, y), 1), two),
    Function(
        "cat_of_results", lambda x, y: torch.cat((x.sin(), y * x, x[:, :3]), 1), two
    ),
    Function("stack", lambda x, y: torch.stack((x, y.exp()), 1), two),
    Function("repeat", lambda x: x.repeat(2, 3), one),
    Function("repeat_interleave", lambda x: x.repeat_interleave(3, 1), one),
    Function("expand", lambda x, y: x[:, None] * y[None], normal((5, 6), (7, 6))),
    Function(
        "chunk_and_swap", lambda x: torch.cat(x.chunk(2, 1)[::-1], 1), normal((13, 36))
    ),
    Function("slice", lambda x: x[2:11, 1::3] * 2, one),
    Function("narrow", lambda x: x.narrow(1, 4, 20).exp(), one),
    Function("select", lambda x: x[3] * x[7], one),
    Function(
        "slice_scatter",
        lambda x, y: torch.slice_scatter(x, y.sin(), 1, 2, 9),
        normal((13, 37), (13, 7)),
    ),
    Function(
        "select_scatter",
        lambda x, y: torch.select_scatter(x, y, 0, 3),
        normal((13, 37), (37,)),
    ),
    Function(
        "overwrite_slice", lambda x, y: _overwritten(x, y), normal((13, 37), (13, 7))
    ),
    Function("tril", lambda x: x.tril(), one),
    Function("triu", lambda x: x.triu(2), one),
    Function("diagonal", lambda x: x.diagonal(1).exp(), one),
    Function("diag_embed", lambda x: torch.diag_embed(x), normal((5, 7))),
    Function("kron", lambda x, y: torch.kron(x, y), normal((3, 4), (5, 2))),
    Function(
        "meshgrid",
        lambda x, y: _sum_of(torch.meshgrid(x, y, indexing="ij")),
        normal((11,), (13,)),
    ),
    Function("movedim", lambda x: x.movedim(0, 2).cos(), cube),
    Function("unsqueeze_add", lambda x, y: x + y[:, None], normal((13, 37), (13,))),
    Function(
        "gather", lambda x, i: x.gather(1, i), _indexed(13, 37, high=37, picks=(13, 5))
    ),
    Function(
        "take_along_dim",
        lambda x, i: torch.take_along_dim(x, i, 0),
        _indexed(13, 37, high=13, picks=(5, 37)),
    ),
    Function(
        "index_select",
        lambda x, i: x.index_select(0, i),
        _indexed(13, 37, high=13, picks=(21,)),
    ),
    Function(
        "index_columns",
        lambda x, i: x[:, i] * 3,
        _indexed(13, 37, high=37, picks=(21,)),
    ),
    Function(
        "index_pairs", lambda x, i: x[i, i + 1], _indexed(13, 37, high=13, picks=(21,))
    ),
    Function(
        "embedding",
        lambda x, i: F.embedding(i, x),
        _indexed(31, 12, high=31, picks=(3, 9)),
    ),
    Function(
        "embedding_padded",
        lambda x, i: F.embedding(i, x),
        _indexed(31, 12, high=31, picks=(3, 9)),
    ),
    Function(
        "embedding_sum",
        lambda x, i: F.embedding(i, x).sum(1),
        _indexed(31, 12, high=31, picks=(6, 9)),
    ),
    Function(
        "masked_rows",
        lambda x, i: x * (i > 0)[:, None],
        _indexed(13, 37, high=2, picks=(13,)),
    ),
    Function("index_put", _index_put, _permuted),
    Function("index_copy", lambda x, y, i: x.index_copy(0, i, y), _permuted),
    Function("index_add", _segment_sum, _scattered),
    Function("scatter_add", _scatter_add, _scattered),
    Function("pad", lambda x: F.pad(x, (1, 2, 3, 0), value=0.5), image),
    Function("pad_reflect", lambda x: F.pad(x, (2, 1, 3, 2), mode="reflect"), image),
    Function(
        "pad_replicate", lambda x: F.pad(x, (2, 1, 3, 2), mode="replicate"), image
    ),
    Function("pad_circular", lambda x: F.pad(x, (2, 1, 3, 2), mode="circular"), image),
    Function("upsample_nearest", lambda x: F.interpolate(x, scale_factor=2), image),
    Function(
        "upsample_nearest_size",
        lambda x: F.interpolate(x, (13, 11), mode="nearest-exact"),
        image,
    ),
    Function(
        "upsample_bilinear",
        lambda x: F.interpolate(x, (14, 13), mode="bilinear"),
        image,
    ),
    Function(
        "upsample_bicubic", lambda x: F.interpolate(x, (11, 8), mode="bicubic"), image
    ),
    Function(
        "upsample_linear",
        lambda x: F.interpolate(x, 20, mode="linear", align_corners=True),
        cube,
    ),
    Function(
        "grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), _grid
    ),
    Function(
        "grid_sample_nearest",
        lambda x, g: F.grid_sample(x, g, mode="nearest", align_corners=False),
        _grid,
    ),
    Function("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), image),
    Function(
        "pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), normal((2, 3, 8, 6))
    ),
    Function("channel_shuffle", _shuffled, image),
    Function("window_partition", _windows, normal((2, 4, 9, 7))),
    Function("unfold", lambda x: F.unfold(x, 3, padding=1), image),
    Function("fold", lambda x: F.fold(x, (8, 6), 2), normal((2, 12, 35))),
    Function("sliding_windows", lambda x: x.unfold(1, 5, 2).square().sum(-1), one),
    Function("rope", _rope, _heads),
    Function("rope_interleaved", _rope_interleaved, _heads),
    Function("attention_bias", _biased, normal((5, 17, 17))),
    Function("box_corners", _corners, normal((19, 4))),
    Function(
        "cross_product", lambda x, y: torch.linalg.cross(x, y), normal((19, 3), (19, 3))
    ),
    Function("quaternions", _quaternions, normal((19, 4), (19, 4))),
    Function(
        "cdist",
        lambda x, y: (x[:, None] - y).square().sum(-1).sqrt(),
        normal((9, 6), (11, 6)),
    ),
    Function("causal_shift", lambda x: x - F.pad(x, (0, 0, 1, -1)), one),
    Function(
        "luminance", lambda x: 0.3 * x[:, 0] + 0.6 * x[:, 1] + 0.1 * x[:, 2], image
    ),
    Function("sobel", lambda x: (x[..., 2:] - x[..., :-2]).square(), image),
    Function(
        "depthwise_conv", lambda x, w: _depthwise(x, w), normal((2, 5, 31), (5, 3))
    ),
)


def _overwritten(x: Tensor, y: Tensor) -> Tensor:
    x = x.sin()
    x[:, 2:9] = y
    return x


def _sum_of(parts: tuple[Tensor, ...]) -> Tensor:
    return sum(parts[1:], parts[0])


def _depthwise(x: Tensor, w: Tensor) -> Tensor:
    return sum(x[..., k : k + 29] * w[:, k, None] for k in range(3))
