"""The founding kernel with its derived backward, against eager PyTorch in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from undertow.demo.losses import eager_loss, gradient_error, kernel_loss


def padded_boxes(device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Predicted and true boxes (5, 37, 4) and their mask; the last image is empty."""
    random = torch.Generator().manual_seed(0)
    corner = torch.rand(2, 5, 37, 2, generator=random) * 100
    side = torch.rand(2, 5, 37, 2, generator=random) * 60 + 5
    pred, target = torch.cat([corner, corner + side], dim=-1)
    mask = torch.rand(5, 37, generator=random) < 0.4
    mask[4] = False
    return pred.to(device), target.to(device), mask.to(device)


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_value_and_gradient_agree_with_float64(device: str) -> None:
    pred, target, mask = padded_boxes(device)
    want = eager_loss(pred.double(), target.double(), mask).item()
    got = kernel_loss(pred, target, mask).item()
    assert math.isclose(got, want, rel_tol=1e-6)
    assert gradient_error(kernel_loss, pred, target, mask) < 1e-5


@pytest.mark.parametrize("device", DEVICES)
def test_padding_may_hold_anything(device: str) -> None:
    pred, target, mask = padded_boxes(device)
    clean = pred.clone().requires_grad_()
    kernel_loss(clean, target, mask).backward()
    pred[~mask], target[~mask] = math.nan, math.inf
    dirty = pred.clone().requires_grad_()
    kernel_loss(dirty, target, mask).backward()
    assert clean.grad is not None
    assert dirty.grad is not None
    assert torch.equal(dirty.grad, clean.grad)
    assert not dirty.grad[~mask].any()


@pytest.mark.parametrize("device", DEVICES)
def test_boxes_without_area_lose_exactly_one(device: str) -> None:
    boxes = torch.ones(2, 3, 4, device=device)
    mask = torch.ones(2, 3, dtype=torch.bool, device=device)
    leaf = boxes.clone().requires_grad_()
    loss = kernel_loss(leaf, boxes, mask)
    loss.backward()
    assert loss.item() == 1
    assert leaf.grad is not None
    assert bool(leaf.grad.isfinite().all())
