# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of the kernels, each with a PyTorch reference in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import control, indexing, norms, pointwise
from kernels.draw import Draw
from undertow.demo.kernel import giou_kernel

Reference = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True)
class Case:
    """One launch of a kernel.

    Attributes:
        kernel: the jit function.
        grid: its grid.
        args: run-time arguments by parameter: float64 tensors, integers, numbers, None.
        constexprs: the others.
        outputs: what it stores to, in the order in which `reference` returns it.
        reference: takes the input tensors by name without `_ptr`.
        in_place: outputs that are also inputs.
        fixed: inputs of floats that are not differentiated.
        precise: the kernel computes in the dtype of its inputs, and loses too much in
            half precision for a comparison.
    """

    kernel: Any
    grid: tuple[int, ...]
    args: Mapping[str, Tensor | int | float | None]
    constexprs: Mapping[str, object]
    outputs: tuple[str, ...]
    reference: Reference
    in_place: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    precise: bool = False

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {n: a for n, a in self.args.items() if isinstance(a, Tensor)}

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Tensors that the kernel reads."""
        pure = set(self.outputs) - set(self.in_place)
        return {n: t for n, t in self.tensors.items() if n not in pure}

    @property
    def wrt(self) -> tuple[str, ...]:
        floats = (n for n, t in self.inputs.items() if t.is_floating_point())
        return tuple(n for n in floats if n not in self.fixed)


CASES: dict[str, Callable[[], Case]] = {}
"""Makers of the cases by name, `kernel-geometry`."""


def case(geometry: str, **sizes: Any) -> Callable[[Any], Any]:
    """Registers a function of a `Draw` and sizes under its name and `geometry`."""

    def register(make: Callable[..., Case]) -> Callable[..., Case]:
        name = f"{make.__name__}-{geometry}"
        CASES[name] = lambda: make(Draw(len(name)), **sizes)
        return make

    return register


def blocks(n: int, block: int) -> int:
    return -(-n // block)


def single(number: float) -> float:
    """`number` as a literal in a kernel: rounded to float32."""
    return float(torch.tensor(number, dtype=torch.float32))


ROOT_HALF, ROOT_TWO_OVER_PI = single(0.7071067811865476), single(0.7978845608028654)


def gelu_erf(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x * ROOT_HALF))


def gelu_tanh(x: Tensor) -> Tensor:
    inner = ROOT_TWO_OVER_PI * (x + single(0.044715) * x**3)
    return 0.5 * x * (1 + inner.tanh())


# -- normalisations --------------------------------------------------------------------


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


# -- losses ----------------------------------------------------------------------------


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


# -- elementwise -----------------------------------------------------------------------


@case("odd", n=150)
@case("block", n=128)
@case("one", n=1)
def scale(draw: Draw, n: int) -> Case:
    return Case(
        pointwise.scale,
        (blocks(n, 64),),
        dict(
            x_ptr=draw.normal(n),
            w_ptr=draw.normal(n),
            y_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x, w: x.exp() * w,
        precise=True,
    )


@case("padded", rows=4, cols=37, stride=45)
def swiglu(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    return Case(
        pointwise.swiglu,
        (rows,),
        dict(
            a_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            b_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            c_ptr=draw.output(rows, cols, stride=(stride, 1)),
            stride=stride,
            n_cols=cols,
        ),
        dict(BLOCK=64),
        ("c_ptr",),
        lambda a, b: F.silu(a) * b,
    )


def _geglu(kernel: Any, draw: Draw, n: int, gelu: Callable[[Tensor], Tensor]) -> Case:
    return Case(
        kernel,
        (blocks(n, 64),),
        dict(
            a_ptr=draw.normal(n),
            b_ptr=draw.normal(n),
            c_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=64),
        ("c_ptr",),
        lambda a, b: gelu(a) * b,
    )


@case("odd", n=99)
def geglu_tanh(draw: Draw, n: int) -> Case:
    return _geglu(pointwise.geglu_tanh, draw, n, gelu_tanh)


@case("odd", n=99)
def geglu_erf(draw: Draw, n: int) -> Case:
    return _geglu(pointwise.geglu_erf, draw, n, gelu_erf)


@case("odd", rows=5, cols=27)
@case("column", rows=5, cols=1)
def bias_gelu(draw: Draw, rows: int, cols: int) -> Case:
    n = rows * cols
    return Case(
        pointwise.bias_gelu,
        (blocks(n, 64),),
        dict(
            x_ptr=draw.normal(rows, cols),
            bias_ptr=draw.normal(cols),
            y_ptr=draw.output(rows, cols),
            n=n,
            n_cols=cols,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x, bias: gelu_erf(x + bias),
    )


@case("padded", rows=5, cols=37, stride=38)
def dyt(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    return Case(
        pointwise.dyt,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            alpha_ptr=draw.uniform(1, low=0.5),
            w_ptr=draw.normal(cols),
            b_ptr=draw.normal(cols),
            y_ptr=draw.output(rows, cols, stride=(stride, 1)),
            stride=stride,
            n_cols=cols,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        lambda x, alpha, w, b: (alpha * x).tanh() * w + b,
    )


@case("padded", rows=4, pairs=11, stride=25)
@case("full", rows=4, pairs=16, stride=32)
def rope_pairs(draw: Draw, rows: int, pairs: int, stride: int) -> Case:
    def reference(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = x[:, 0::2], x[:, 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(1)

    return Case(
        pointwise.rope_pairs,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, 2 * pairs, stride=(stride, 1)),
            cos_ptr=draw.normal(rows, pairs),
            sin_ptr=draw.normal(rows, pairs),
            y_ptr=draw.output(rows, 2 * pairs, stride=(stride, 1)),
            stride=stride,
            n_pairs=pairs,
        ),
        dict(PAIRS=16),
        ("y_ptr",),
        reference,
    )


@case("odd", rows=5, half=21, stride=42)
@case("full", rows=3, half=32, stride=64)
def rope_halves(draw: Draw, rows: int, half: int, stride: int) -> Case:
    angle = draw.normal(half)
    return Case(
        pointwise.rope_halves,
        (rows,),
        dict(
            q_ptr=draw.normal(rows, 2 * half, stride=(stride, 1)),
            cos_ptr=angle.cos().to(torch.bfloat16).double(),
            sin_ptr=angle.sin().to(torch.bfloat16).double(),
            stride=stride,
            half=half,
        ),
        dict(BLOCK=32),
        ("q_ptr",),
        lambda q, cos, sin: torch.cat(
            [
                q[:, :half] * cos - q[:, half:] * sin,
                q[:, half:] * cos + q[:, :half] * sin,
            ],
            -1,
        ),
        in_place=("q_ptr",),
        fixed=("cos_ptr", "sin_ptr"),
    )


@case("odd", n=150)
def extremes(draw: Draw, n: int) -> Case:
    low, high = -0.7, 0.8

    def reference(a: Tensor, b: Tensor) -> Tensor:
        narrow = torch.minimum(torch.maximum(a, b), a * b + 1)
        return torch.where(a > b, a.clamp(low, high) * b, narrow) + (a - b).abs()

    return Case(
        pointwise.extremes,
        (blocks(n, 64),),
        dict(
            a_ptr=draw.normal(n),
            b_ptr=draw.normal(n),
            y_ptr=draw.output(n),
            n=n,
            low=low,
            high=high,
        ),
        dict(BLOCK=64),
        ("y_ptr",),
        reference,
        precise=True,
    )


# -- addresses -------------------------------------------------------------------------


@case("repeated", tokens=9, rows=4, dim=27)
def embedding(draw: Draw, tokens: int, rows: int, dim: int) -> Case:
    return Case(
        indexing.embedding,
        (tokens,),
        dict(
            weight_ptr=draw.normal(rows, dim),
            index_ptr=draw.integers(tokens, high=rows),
            out_ptr=draw.output(tokens, dim),
            dim=dim,
        ),
        dict(BLOCK=32),
        ("out_ptr",),
        lambda weight, index: weight[index],
    )


@case("contiguous", rows=13, cols=21, x_stride=(21, 1), y_stride=(13, 1))
@case("strided", rows=13, cols=21, x_stride=(1, 15), y_stride=(30, 2))
def transposed_scale(
    draw: Draw,
    rows: int,
    cols: int,
    x_stride: tuple[int, int],
    y_stride: tuple[int, int],
) -> Case:
    return Case(
        indexing.transposed_scale,
        (blocks(rows, 8), blocks(cols, 16)),
        dict(
            x_ptr=draw.normal(rows, cols, stride=x_stride),
            y_ptr=draw.output(cols, rows, stride=y_stride),
            rows=rows,
            cols=cols,
            x_stride_row=x_stride[0],
            x_stride_col=x_stride[1],
            y_stride_row=y_stride[0],
            y_stride_col=y_stride[1],
            factor=1.75,
        ),
        dict(TILE_R=8, TILE_C=16),
        ("y_ptr",),
        lambda x: 1.75 * x.T,
    )


@case("padded", rows=7, cols=11, x_stride=(12, 1), y_stride=(1, 9))
@case("strided", rows=5, cols=13, x_stride=(2, 11), y_stride=(13, 1))
def strided_square(
    draw: Draw,
    rows: int,
    cols: int,
    x_stride: tuple[int, int],
    y_stride: tuple[int, int],
) -> Case:
    return Case(
        indexing.strided_square,
        (blocks(rows * cols, 32),),
        dict(
            x_ptr=draw.normal(rows, cols, stride=x_stride),
            y_ptr=draw.output(rows, cols, stride=y_stride),
            n=rows * cols,
            n_cols=cols,
            x_stride_0=x_stride[0],
            x_stride_1=x_stride[1],
            y_stride_0=y_stride[0],
            y_stride_1=y_stride[1],
        ),
        dict(BLOCK=32),
        ("y_ptr",),
        lambda x: x.square(),
    )


@case("contiguous", batch=2, heads=3, size=37, stride=(111, 37, 1))
@case("permuted", batch=2, heads=3, size=20, stride=(1, 2, 6))
def grid_scale(
    draw: Draw, batch: int, heads: int, size: int, stride: tuple[int, int, int]
) -> Case:
    return Case(
        indexing.grid_scale,
        (blocks(size, 16), heads, batch),
        dict(
            x_ptr=draw.normal(batch, heads, size, stride=stride),
            s_ptr=draw.normal(batch, heads),
            y_ptr=draw.output(batch, heads, size, stride=stride),
            stride_b=stride[0],
            stride_h=stride[1],
            stride_m=stride[2],
            heads=heads,
            size=size,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        lambda x, s: x * s[..., None],
    )


@case("odd", rows=5, cols=27)
def row_maximum(draw: Draw, rows: int, cols: int) -> Case:
    def reference(x: Tensor, w: Tensor) -> Tensor:
        return x.amax(-1) * w[x.argmax(-1)]

    x = torch.stack(
        [torch.randperm(cols, generator=draw.generator) for _ in range(rows)]
    )
    return Case(
        indexing.row_maximum,
        (rows,),
        dict(
            x_ptr=(x.double() - cols / 2) / 8,
            w_ptr=draw.normal(cols),
            y_ptr=draw.output(rows),
            n_cols=cols,
        ),
        dict(BLOCK=32),
        ("y_ptr",),
        reference,
    )


# -- control ---------------------------------------------------------------------------


@case("ragged", rows=6, cols=13, stride=20)
def early_return(draw: Draw, rows: int, cols: int, stride: int) -> Case:
    lengths = draw.integers(rows, high=cols + 1).to(torch.int32)
    lengths[2] = 0

    def reference(x: Tensor, lengths: Tensor) -> Tensor:
        inside = torch.arange(cols) < lengths[:, None]
        mean = torch.where(inside, x, 0.0).sum(-1) / lengths.clamp(min=1)
        return torch.where(inside, x * mean[:, None], torch.nan)

    return Case(
        control.early_return,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(stride, 1)),
            lengths_ptr=lengths,
            y_ptr=draw.output(rows, cols, stride=(stride, 1)),
            stride=stride,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )


@case("squared", n=100, squared=9)
@case("sine", n=100, squared=0)
@case("both", n=100, squared=2)
def runtime_branch(draw: Draw, n: int, squared: int) -> Case:
    return Case(
        control.runtime_branch,
        (blocks(n, 32),),
        dict(
            x_ptr=draw.normal(n),
            y_ptr=draw.output(n),
            n=n,
            squared=squared,
        ),
        dict(BLOCK=32),
        ("y_ptr",),
        lambda x: torch.where(torch.arange(n) // 32 < squared, x.square(), x.sin() + x),
        precise=True,
    )


@case("biased", rows=5, cols=27, biased=True)
@case("plain", rows=5, cols=27, biased=False)
def affine(draw: Draw, rows: int, cols: int, biased: bool) -> Case:
    return Case(
        control.affine,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols),
            w_ptr=draw.normal(cols),
            b_ptr=draw.normal(cols) if biased else None,
            y_ptr=draw.output(rows, cols),
            n_cols=cols,
        ),
        dict(BLOCK=32, HAS_BIAS=biased),
        ("y_ptr",),
        lambda x, w, b=0.0: x * w + b,
    )


@case("odd", n=77)
def unit_vectors(draw: Draw, n: int) -> Case:
    def reference(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        radius = torch.hypot(a, b)
        return a / radius * radius.log(), b / radius

    return Case(
        control.unit_vectors,
        (blocks(n, 32),),
        dict(
            a_ptr=draw.normal(n),
            b_ptr=draw.normal(n),
            u_ptr=draw.output(n),
            v_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=32),
        ("u_ptr", "v_ptr"),
        reference,
        precise=True,
    )


@case("odd", rows=5, cols=7)
def row_product(draw: Draw, rows: int, cols: int) -> Case:
    return Case(
        control.row_product,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols),
            y_ptr=draw.output(rows),
            n_cols=cols,
        ),
        dict(BLOCK=8),
        ("y_ptr",),
        lambda x: x.prod(-1),
        precise=True,
    )


@case("odd", n=50)
def kept_square(draw: Draw, n: int) -> Case:
    return Case(
        control.kept_square,
        (blocks(n, 32),),
        dict(
            x_ptr=draw.normal(n),
            keep_ptr=draw.integers(n, high=2) != 0,
            y_ptr=draw.output(n),
            n=n,
        ),
        dict(BLOCK=32),
        ("y_ptr",),
        lambda x, keep: torch.where(keep, x.square(), 0.0),
    )
