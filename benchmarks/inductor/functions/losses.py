"""Losses, of PyTorch and of papers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.coverage.inputs import Inputs
from benchmarks.inductor.functions.table import Draw, Function, normal, two, uniform

ROWS, CLASSES = 17, 23


def _targets(
    *sizes: tuple[int, ...], high: int = CLASSES, ignored: bool = False
) -> Draw:
    """Logits of `sizes`, and a class for each row."""

    def draw(inputs: Inputs) -> tuple[Tensor, ...]:
        logits = [inputs.normal(*size) for size in sizes]
        classes = inputs.integers(high, ROWS)
        if ignored:
            classes[::3] = -100
        return *logits, classes

    return draw


labelled = _targets((ROWS, CLASSES))
ignoring = _targets((ROWS, CLASSES), ignored=True)


def _weighted(inputs: Inputs) -> tuple[Tensor, ...]:
    return *labelled(inputs), inputs.uniform(CLASSES, low=0.5, high=2.0, grad=False)


def _signs(*sizes: tuple[int, ...]) -> Draw:
    """Numbers, and −1 or 1 for each."""

    def draw(inputs: Inputs) -> tuple[Tensor, ...]:
        drawn = [inputs.normal(*size) for size in sizes]
        return *drawn, inputs.integers(2, sizes[0][0]) * 2.0 - 1.0

    return draw


def _binary(inputs: Inputs) -> tuple[Tensor, ...]:
    return inputs.normal(ROWS, CLASSES), inputs.integers(2, ROWS, CLASSES).float()


def _probable(inputs: Inputs) -> tuple[Tensor, ...]:
    p = inputs.uniform(ROWS, CLASSES, low=0.1, high=0.9)
    return p, inputs.integers(2, ROWS, CLASSES).float()


def _boxes(inputs: Inputs) -> tuple[Tensor, ...]:
    corner = inputs.uniform(29, 2, low=0.0, high=1.0)
    other = inputs.uniform(29, 2, low=0.0, high=1.0)
    size = inputs.uniform(29, 2, low=0.5, high=1.5)
    another = inputs.uniform(29, 2, low=0.5, high=1.5)
    return corner, size, other, another


def _areas(a: Tensor, s: Tensor, b: Tensor, t: Tensor):
    low, high = torch.maximum(a, b), torch.minimum(a + s, b + t)
    inner = (high - low).clamp(min=0).prod(-1)
    union = s.prod(-1) + t.prod(-1) - inner
    outer = torch.maximum(a + s, b + t) - torch.minimum(a, b)
    return inner, union, outer


def _iou(a: Tensor, s: Tensor, b: Tensor, t: Tensor) -> Tensor:
    inner, union, _ = _areas(a, s, b, t)
    return (1 - inner / union).mean()


def _giou(a: Tensor, s: Tensor, b: Tensor, t: Tensor) -> Tensor:
    inner, union, outer = _areas(a, s, b, t)
    hull = outer.prod(-1)
    return (1 - inner / union + (hull - union) / hull).mean()


def _diou(a: Tensor, s: Tensor, b: Tensor, t: Tensor) -> Tensor:
    inner, union, outer = _areas(a, s, b, t)
    apart = (a + s / 2 - b - t / 2).square().sum(-1)
    return (1 - inner / union + apart / outer.square().sum(-1)).mean()


def _ciou(a: Tensor, s: Tensor, b: Tensor, t: Tensor) -> Tensor:
    inner, union, outer = _areas(a, s, b, t)
    apart = (a + s / 2 - b - t / 2).square().sum(-1) / outer.square().sum(-1)
    angle = torch.atan(s[:, 0] / s[:, 1]) - torch.atan(t[:, 0] / t[:, 1])
    v = 0.405 * angle.square()
    iou = inner / union
    alpha = v / (1 - iou + v)
    return (1 - iou + apart + alpha * v).mean()


def _focal(x: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(x)
    right = p * y + (1 - p) * (1 - y)
    weight = 0.25 * y + 0.75 * (1 - y)
    loss = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    return (weight * (1 - right).square() * loss).mean()


def _dice(x: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(x)
    both = 2 * (p * y).sum(-1) + 1
    return 1 - (both / (p.sum(-1) + y.sum(-1) + 1)).mean()


def _tversky(x: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(x)
    hit, false, missed = (p * y).sum(), (p * (1 - y)).sum(), ((1 - p) * y).sum()
    return 1 - hit / (hit + 0.3 * false + 0.7 * missed + 1.0)


def _wing(x: Tensor, y: Tensor) -> Tensor:
    gap = (x - y).abs()
    return torch.where(
        gap < 1.5, 1.5 * torch.log1p(gap / 0.5), gap - 1.5 + 2.0794
    ).mean()


def _pinball(x: Tensor, y: Tensor) -> Tensor:
    gap = y - x
    return torch.maximum(0.9 * gap, -0.1 * gap).mean()


def _barron(x: Tensor, y: Tensor) -> Tensor:
    return (((x - y).square() / 0.5 + 1).pow(0.75) - 1).mean()


def _ppo(new: Tensor, old: Tensor, gain: Tensor) -> Tensor:
    ratio = torch.exp(new - old)
    clipped = ratio.clamp(0.8, 1.2)
    return -torch.minimum(ratio * gain, clipped * gain).mean()


def _dpo(a: Tensor, b: Tensor) -> Tensor:
    return -F.logsigmoid(0.1 * (a.sum(-1) - b.sum(-1))).mean()


def _z_loss(x: Tensor, y: Tensor) -> Tensor:
    z = torch.logsumexp(x, -1)
    return (z - x.gather(1, y[:, None])[:, 0] + 1e-2 * z.square()).mean()


def _total_variation(x: Tensor) -> Tensor:
    down = (x[:, 1:] - x[:, :-1]).square().mean()
    return down + (x[:, :, 1:] - x[:, :, :-1]).square().mean()


def _vae(mean: Tensor, logvar: Tensor) -> Tensor:
    return -0.5 * (1 + logvar - mean.square() - logvar.exp()).sum(-1).mean()


def _js(x: Tensor, y: Tensor) -> Tensor:
    p, q = torch.softmax(x, -1), torch.softmax(y, -1)
    m = ((p + q) / 2).log()
    return ((p * (p.log() - m)).sum(-1) + (q * (q.log() - m)).sum(-1)).mean() / 2


def _distilled(x: Tensor, y: Tensor) -> Tensor:
    student = F.log_softmax(x / 2.0, -1)
    teacher = F.log_softmax(y / 2.0, -1)
    return F.kl_div(student, teacher, log_target=True, reduction="batchmean") * 4


def _bce_weighted(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(x, y, pos_weight=w)


FUNCTIONS = (
    Function("mse", lambda x, y: F.mse_loss(x, y), two),
    Function("mse_sum", lambda x, y: F.mse_loss(x, y, reduction="sum"), two),
    Function("mse_none", lambda x, y: F.mse_loss(x, y, reduction="none"), two),
    Function("mse_long", lambda x, y: F.mse_loss(x, y), normal((90, 301), (90, 301))),
    Function("l1", lambda x, y: F.l1_loss(x, y), two),
    Function("smooth_l1", lambda x, y: F.smooth_l1_loss(x, y, beta=0.7), two),
    Function("huber", lambda x, y: F.huber_loss(x, y, delta=0.6), two),
    Function("log_cosh", lambda x, y: torch.log(torch.cosh(x - y)).mean(), two),
    Function("charbonnier", lambda x, y: ((x - y).square() + 1e-3).sqrt().mean(), two),
    Function("cauchy", lambda x, y: torch.log1p((x - y).square() / 2).mean(), two),
    Function("barron", _barron, two),
    Function("wing", _wing, two),
    Function("pinball", _pinball, two),
    Function("bce", lambda x, y: F.binary_cross_entropy(x, y), _probable),
    Function(
        "bce_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y), _binary
    ),
    Function(
        "bce_logits_weighted",
        _bce_weighted,
        lambda i: (*_binary(i), i.uniform(CLASSES, grad=False) + 0.5),
    ),
    Function("cross_entropy", lambda x, y: F.cross_entropy(x, y), labelled),
    Function(
        "cross_entropy_sum",
        lambda x, y: F.cross_entropy(x, y, reduction="sum"),
        labelled,
    ),
    Function("cross_entropy_ignoring", lambda x, y: F.cross_entropy(x, y), ignoring),
    Function(
        "cross_entropy_smoothed",
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
        labelled,
    ),
    Function(
        "cross_entropy_weighted", lambda x, y, w: F.cross_entropy(x, y, w), _weighted
    ),
    Function(
        "cross_entropy_of_distributions",
        lambda x, y: F.cross_entropy(x, torch.softmax(y, -1)),
        normal((ROWS, CLASSES), (ROWS, CLASSES)),
    ),
    Function(
        "cross_entropy_long",
        lambda x, y: F.cross_entropy(x, y),
        _targets((ROWS, 2111), high=2111),
    ),
    Function("nll", lambda x, y: F.nll_loss(F.log_softmax(x, 1), y), labelled),
    Function(
        "kl_div",
        lambda x, y: F.kl_div(x, y, reduction="batchmean"),
        uniform((ROWS, CLASSES), (ROWS, CLASSES)),
    ),
    Function("kl_div_of_logits", _distilled, two),
    Function("js_div", _js, two),
    Function("poisson_nll", lambda x, y: F.poisson_nll_loss(x, y.exp()), two),
    Function(
        "gaussian_nll",
        lambda x, y, v: 0.5 * (v.log() + (x - y).square() / v).mean(),
        uniform((9, 31), (9, 31), (9, 31), low=0.3, high=2.0),
    ),
    Function(
        "hinge_embedding", lambda x, y: F.hinge_embedding_loss(x, y), _signs((91,))
    ),
    Function(
        "margin_ranking",
        lambda x, y, s: F.margin_ranking_loss(x, y, s, margin=0.3),
        _signs((91,), (91,)),
    ),
    Function("soft_margin", lambda x, y: F.soft_margin_loss(x, y), _signs((91,))),
    Function("multi_margin", lambda x, y: F.multi_margin_loss(x, y), labelled),
    Function(
        "multilabel_soft_margin",
        lambda x, y: F.multilabel_soft_margin_loss(x, y),
        _binary,
    ),
    Function(
        "cosine_embedding",
        lambda x, y, s: F.cosine_embedding_loss(x, y, s, margin=0.1),
        _signs((19, 29), (19, 29)),
    ),
    Function(
        "triplet_margin",
        lambda x, y, z: F.triplet_margin_loss(x, y, z),
        normal((19, 29), (19, 29), (19, 29)),
    ),
    Function("focal", _focal, _binary),
    Function("dice", _dice, _binary),
    Function("tversky", _tversky, _binary),
    Function("iou", _iou, _boxes),
    Function("giou", _giou, _boxes),
    Function("diou", _diou, _boxes),
    Function("ciou", _ciou, _boxes),
    Function(
        "ppo",
        _ppo,
        normal((ROWS, CLASSES), (ROWS, CLASSES), (ROWS, CLASSES), scale=0.3),
    ),
    Function("dpo", _dpo, two),
    Function("z_loss", _z_loss, labelled),
    Function(
        "entropy",
        lambda x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1).mean(),
        normal((ROWS, CLASSES)),
    ),
    Function("vae_kl", _vae, two),
    Function("total_variation", _total_variation, normal((5, 13, 17))),
    Function("bradley_terry", lambda x, y: F.softplus(y - x).mean(), two),
    Function("psnr", lambda x, y: -10 * torch.log10(F.mse_loss(x, y)), two),
)
