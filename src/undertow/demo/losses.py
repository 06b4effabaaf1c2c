"""The loss: 1 − GIoU over the cells that hold a face, and a score for every cell."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

BoxLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(predicted (B, N, 4), true (B, N, 4), mask (B, N)) → mean of 1 − GIoU, a scalar."""


def giou(pred: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """GIoU and IoU of boxes x1 y1 x2 y2, as eager PyTorch (arXiv:1902.09630).

    Sides are clamped at zero: a box whose corners are swapped is empty. A union or an
    enclosing box without area makes its quotient zero.

    Args:
        pred: (..., 4).
        target: (..., 4).

    Returns:
        GIoU and IoU, both (...).
    """
    px1, py1, px2, py2 = pred.unbind(-1)
    tx1, ty1, tx2, ty2 = target.unbind(-1)
    overlap = _area(
        torch.minimum(px2, tx2) - torch.maximum(px1, tx1),
        torch.minimum(py2, ty2) - torch.maximum(py1, ty1),
    )
    union = _area(px2 - px1, py2 - py1) + _area(tx2 - tx1, ty2 - ty1) - overlap
    hull = _area(
        torch.maximum(px2, tx2) - torch.minimum(px1, tx1),
        torch.maximum(py2, ty2) - torch.minimum(py1, ty1),
    )
    iou = overlap / torch.where(union > 0, union, 1.0)
    gap = (hull - union) / torch.where(hull > 0, hull, 1.0)
    return iou - gap, iou


def _area(width: Tensor, height: Tensor) -> Tensor:
    return width.clamp(min=0) * height.clamp(min=0)


def eager_loss(pred: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Mean of 1 − GIoU over valid slots in eager PyTorch; 0 without a valid slot."""
    loss = torch.where(mask, 1 - giou(pred, target)[0], 0.0)
    return loss.sum() / mask.sum().clamp(min=1)


def kernel_loss(pred: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """The same mean by `giou_kernel`; the gradient comes from the derived backward."""
    import triton

    from undertow.demo.kernel import differentiable_giou

    n_images, n_boxes = mask.shape
    loss = torch.empty(n_images, device=pred.device, dtype=torch.float32)
    differentiable_giou()[(n_images,)](
        pred,
        target,
        mask,
        loss,
        pred.stride(0),
        target.stride(0),
        mask.stride(0),
        n_boxes,
        BLOCK=triton.next_power_of_2(n_boxes),
    )
    return loss.sum() / mask.sum().clamp(min=1)


def score_loss(scores: Tensor, mask: Tensor) -> Tensor:
    """Binary cross entropy summed over all cells, per face.

    Args:
        scores: (B, 256), logits.
        mask: (B, 256), whether the cell holds the centre of a face.
    """
    total = F.binary_cross_entropy_with_logits(
        scores, mask.to(scores.dtype), reduction="sum"
    )
    return total / mask.sum().clamp(min=1)


def gradient_error(
    box_loss: BoxLoss, pred: Tensor, target: Tensor, mask: Tensor
) -> float:
    """Relative L2 distance of a loss's box gradient from eager PyTorch's in float64."""
    leaf = pred.detach().clone().requires_grad_()
    exact_leaf = pred.detach().double().requires_grad_()
    (got,) = torch.autograd.grad(box_loss(leaf, target, mask), leaf)
    (want,) = torch.autograd.grad(
        eager_loss(exact_leaf, target.double(), mask), exact_leaf
    )
    return float((got.double() - want).norm() / want.norm())
