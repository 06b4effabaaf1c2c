"""How good a detector is on images it has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.demo.faces import Batch
from undertow.demo.losses import giou
from undertow.demo.model import Detections, FaceNet

NMS_IOU = 0.45
"""Of two predictions that overlap more than this, only the higher score stays."""


@dataclass(frozen=True)
class Quality:
    """Attributes:
    iou: mean IoU of the boxes predicted by the cells that hold a face.
    ap: average precision at IoU 0.5.
    """

    iou: float
    ap: float


@torch.no_grad()
def predict(net: FaceNet, images: Tensor, chunk: int = 32) -> Detections:
    """Detections for images (B, 1, 256, 256) in evaluation mode, on the CPU."""
    training = net.training
    net.eval()
    device = next(net.parameters()).device
    parts = [net(part.to(device)) for part in images.split(chunk)]
    net.train(training)
    return Detections(
        torch.cat([part.boxes for part in parts]).cpu(),
        torch.cat([part.scores for part in parts]).cpu(),
    )


def evaluate(net: FaceNet, batch: Batch) -> Quality:
    """Quality of `net` on `batch`."""
    found = predict(net, batch.images)
    boxes, mask = batch.boxes.cpu(), batch.mask.cpu()
    return Quality(
        iou=mean_iou(found.boxes, boxes, mask),
        ap=average_precision(found, boxes, mask),
    )


def mean_iou(pred: Tensor, target: Tensor, mask: Tensor) -> float:
    """Mean IoU over valid slots of boxes (B, N, 4)."""
    return float(giou(pred[mask], target[mask])[1].mean())


def suppress(boxes: Tensor, scores: Tensor, threshold: float = NMS_IOU) -> Tensor:
    """Greedy non-maximum suppression of one image.

    Args:
        boxes: (N, 4).
        scores: (N,).
        threshold: IoU above which the lower score goes.

    Returns:
        Indices that stay, by falling score.
    """
    order = scores.argsort(descending=True, stable=True)
    rivals = pairwise_iou(boxes[order], boxes[order]) > threshold
    keep = torch.ones(len(order), dtype=torch.bool)
    for i in range(len(order)):
        if keep[i]:
            keep[i + 1 :] &= ~rivals[i, i + 1 :]
    return order[keep]


def pairwise_iou(a: Tensor, b: Tensor) -> Tensor:
    """IoU (N, M) of boxes a (N, 4) and b (M, 4)."""
    return giou(a[:, None], b[None, :])[1]


def average_precision(
    found: Detections,
    target: Tensor,
    mask: Tensor,
    *,
    at_iou: float = 0.5,
    floor: float = 0.01,
) -> float:
    """Area under the precision-recall curve, after non-maximum suppression.

    Predictions of all images are walked through by falling score. Each takes the true
    box it overlaps most among those still free in its image, and is right if that IoU
    reaches `at_iou`. Precision at a recall is the best one at that recall or above (all
    points, as PASCAL VOC has done since 2010).

    Args:
        found: predictions, boxes (B, N, 4) and score logits (B, N).
        target: (B, N, 4).
        mask: (B, N).
        at_iou: IoU that counts as found.
        floor: predictions with a lower probability are ignored.
    """
    scored: list[tuple[float, bool]] = []
    for boxes, logits, truth in zip(
        found.boxes, found.scores, _valid(target, mask), strict=True
    ):
        likely = (logits.sigmoid() >= floor).nonzero().flatten()
        kept = likely[suppress(boxes[likely], logits[likely])]
        hits = match(pairwise_iou(boxes[kept], truth), at_iou)
        scored += zip(logits[kept].tolist(), hits, strict=True)
    return area_under_curve(scored, int(mask.sum()))


def match(iou: Tensor, at_iou: float) -> list[bool]:
    """Greedy matching: for each row of `iou` (N, M), whether it finds a free column."""
    free = torch.ones(iou.shape[1], dtype=torch.bool)
    hits: list[bool] = []
    for row in iou:
        open_iou = torch.where(free, row, -1.0)
        hit = bool(free.any()) and bool(open_iou.max() >= at_iou)
        if hit:
            free[open_iou.argmax()] = False
        hits.append(hit)
    return hits


def area_under_curve(scored: list[tuple[float, bool]], n_true: int) -> float:
    """Area under precision over recall.

    Args:
        scored: for each prediction its score and whether it is right.
        n_true: how many objects there are to find.
    """
    if not scored or n_true == 0:
        return 0.0
    ordered = sorted(scored, key=lambda pair: -pair[0])
    right = torch.tensor([hit for _, hit in ordered], dtype=torch.float64)
    precision = right.cumsum(0) / torch.arange(1, len(right) + 1)
    best = precision.flip(0).cummax(0).values.flip(0)
    return float((best * right).sum() / n_true)


def _valid(target: Tensor, mask: Tensor) -> list[Tensor]:
    return [boxes[keep] for boxes, keep in zip(target, mask, strict=True)]
