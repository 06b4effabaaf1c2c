"""Eager GIoU against values by hand and float64; the kernel against eager."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from undertow.demo.losses import eager_loss, giou, gradient_error, score_loss

BY_HAND = [
    # pred, target, IoU, GIoU
    ((0, 0, 2, 2), (0, 0, 2, 2), 1.0, 1.0),
    ((0, 0, 2, 2), (1, 1, 3, 3), 1 / 7, 1 / 7 - 2 / 9),
    ((0, 0, 1, 1), (2, 0, 3, 1), 0.0, -1 / 3),
    ((0, 0, 4, 4), (1, 1, 3, 3), 1 / 4, 1 / 4),
    ((2, 2, 0, 0), (0, 0, 2, 2), 0.0, 0.0),
    ((1, 1, 1, 1), (1, 1, 1, 1), 0.0, 0.0),
]


def random_boxes(*shape: int, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    corner = torch.rand(*shape, 2, generator=random) * 100
    side = torch.rand(*shape, 2, generator=random) * 60 + 5
    return torch.cat([corner, corner + side], dim=-1)


@pytest.mark.parametrize(("pred", "target", "iou", "score"), BY_HAND)
def test_values_by_hand(
    pred: tuple[int, ...], target: tuple[int, ...], iou: float, score: float
) -> None:
    boxes = torch.tensor([pred, target], dtype=torch.float64)
    got_score, got_iou = giou(boxes[0], boxes[1])
    assert math.isclose(float(got_iou), iou, abs_tol=1e-15)
    assert math.isclose(float(got_score), score, abs_tol=1e-15)


def test_fp32_value_and_gradient_agree_with_float64() -> None:
    pred, target = random_boxes(4, 64, seed=0), random_boxes(4, 64, seed=1)
    mask = torch.rand(4, 64, generator=torch.Generator().manual_seed(2)) < 0.3
    exact = eager_loss(pred.double(), target.double(), mask)
    assert math.isclose(
        eager_loss(pred, target, mask).item(), exact.item(), rel_tol=1e-6
    )
    assert gradient_error(eager_loss, pred, target, mask) < 1e-6


def test_gradient_agrees_with_finite_differences() -> None:
    pred, target = random_boxes(2, 6, seed=3), random_boxes(2, 6, seed=4)
    mask = torch.tensor([[True] * 4 + [False] * 2, [False] * 6])
    leaf = pred.double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda boxes: eager_loss(boxes, target.double(), mask), (leaf,)
    )


def test_padded_slots_count_nothing() -> None:
    pred, target = random_boxes(1, 4, seed=5), random_boxes(1, 4, seed=6)
    mask = torch.tensor([[True, False, True, False]])
    kept = eager_loss(pred[:, ::2], target[:, ::2], mask[:, ::2])
    torch.testing.assert_close(eager_loss(pred, target, mask), kept)
    leaf = pred.clone().requires_grad_()
    eager_loss(leaf, target, mask).backward()
    assert leaf.grad is not None
    assert not leaf.grad[~mask].any()


def test_without_a_valid_slot_the_loss_is_zero() -> None:
    boxes = random_boxes(2, 3, seed=7)
    mask = torch.zeros(2, 3, dtype=torch.bool)
    assert eager_loss(boxes, boxes, mask).item() == 0
    assert score_loss(torch.zeros(2, 3), mask).item() > 0


def test_score_loss_is_the_cross_entropy_per_face() -> None:
    scores = torch.tensor([[0.0, 2.0, -1.0]])
    mask = torch.tensor([[True, True, False]])
    terms = (math.log(2), math.log1p(math.exp(-2)), math.log1p(math.exp(-1)))
    assert math.isclose(score_loss(scores, mask).item(), sum(terms) / 2, rel_tol=1e-6)


def test_gradient_error_can_be_large() -> None:
    pred, target = random_boxes(1, 8, seed=8), random_boxes(1, 8, seed=9)
    mask = torch.ones(1, 8, dtype=torch.bool)
    halved = gradient_error(lambda *a: eager_loss(*a) / 2, pred, target, mask)
    assert math.isclose(halved, 0.5, rel_tol=1e-5)
