"""The founding kernel: GIoU of padded boxes, one program per image."""

from __future__ import annotations

import functools
from typing import Any

import triton
import triton.language as tl


@triton.jit
def giou_kernel(
    pred_ptr,
    target_ptr,
    mask_ptr,
    loss_ptr,
    pred_stride,
    target_stride,
    mask_stride,
    n_boxes,
    BLOCK: tl.constexpr,
):
    """Sums 1 - GIoU over the valid boxes of one image."""
    image = tl.program_id(0)
    box = tl.arange(0, BLOCK)
    flag = mask_ptr + image * mask_stride + box
    valid = tl.load(flag, mask=box < n_boxes, other=0) != 0

    pred = pred_ptr + image * pred_stride + box * 4
    px1 = tl.load(pred + 0, mask=valid, other=0.0)
    py1 = tl.load(pred + 1, mask=valid, other=0.0)
    px2 = tl.load(pred + 2, mask=valid, other=0.0)
    py2 = tl.load(pred + 3, mask=valid, other=0.0)

    target = target_ptr + image * target_stride + box * 4
    tx1 = tl.load(target + 0, mask=valid, other=0.0)
    ty1 = tl.load(target + 1, mask=valid, other=0.0)
    tx2 = tl.load(target + 2, mask=valid, other=0.0)
    ty2 = tl.load(target + 3, mask=valid, other=0.0)

    overlap_w = tl.maximum(tl.minimum(px2, tx2) - tl.maximum(px1, tx1), 0.0)
    overlap_h = tl.maximum(tl.minimum(py2, ty2) - tl.maximum(py1, ty1), 0.0)
    overlap = overlap_w * overlap_h

    pred_area = tl.maximum(px2 - px1, 0.0) * tl.maximum(py2 - py1, 0.0)
    target_area = tl.maximum(tx2 - tx1, 0.0) * tl.maximum(ty2 - ty1, 0.0)
    union = pred_area + target_area - overlap

    hull_w = tl.maximum(tl.maximum(px2, tx2) - tl.minimum(px1, tx1), 0.0)
    hull_h = tl.maximum(tl.maximum(py2, ty2) - tl.minimum(py1, ty1), 0.0)
    hull = hull_w * hull_h

    iou = overlap / tl.where(union > 0.0, union, 1.0)
    gap = (hull - union) / tl.where(hull > 0.0, hull, 1.0)
    loss = tl.where(valid, 1.0 - (iou - gap), 0.0)
    tl.store(loss_ptr + image, tl.sum(loss, axis=0))


GIOU_SIGNATURE = {
    "pred_ptr": "*fp32",
    "target_ptr": "*fp32",
    "mask_ptr": "*i1",
    "loss_ptr": "*fp32",
    "pred_stride": "i32",
    "target_stride": "i32",
    "mask_stride": "i32",
    "n_boxes": "i32",
}
GIOU_CONSTEXPRS = {"BLOCK": 256}
"""The types and constexprs of the demo's launches."""


def example(n: int = 61) -> tuple[Any, ...]:
    """A launch on three images of `n` slots, about half of them filled."""
    import torch

    corners = torch.rand(2, 3, n, 2, 2).cumsum(-2)  # (x1, y1) below (x2, y2)
    pred, target = corners.reshape(2, 3, n, 4) * 100.0
    valid = torch.rand(3, n) < 0.5
    strides = {
        "pred_stride": pred.stride(0),
        "target_stride": target.stride(0),
        "mask_stride": valid.stride(0),
    }
    tensors = {
        "pred_ptr": pred,
        "target_ptr": target,
        "mask_ptr": valid,
        "loss_ptr": torch.empty(3),
    }
    return (3,), {**tensors, **strides, "n_boxes": n, "BLOCK": 256}


@functools.cache
def differentiable_giou() -> Any:
    """`giou_kernel` with its derived backward; its launches record gradients."""
    import undertow

    return undertow.differentiable(giou_kernel)
