"""Mean IoU, suppression, matching and average precision on cases by hand."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.demo.evaluation import (
    area_under_curve,
    average_precision,
    match,
    mean_iou,
    pairwise_iou,
    suppress,
)
from undertow.demo.model import Detections

BOXES = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30], [50, 50, 70, 70]])


def found(boxes: Tensor, scores: list[float]) -> Detections:
    return Detections(boxes[None], torch.tensor([scores]))


def all_true(n: int) -> Tensor:
    return torch.ones(1, n, dtype=torch.bool)


def test_mean_iou_looks_at_valid_slots_only() -> None:
    pred = BOXES.clone()
    pred[1] += torch.tensor([0.0, 0, 10, 0])  # twice as wide: IoU 1/2
    pred[2] = 0
    mask = torch.tensor([[True, True, False]])
    assert math.isclose(mean_iou(pred[None], BOXES[None], mask), 0.75, rel_tol=1e-6)


def test_suppression_keeps_the_best_of_a_cluster() -> None:
    boxes = torch.cat([BOXES, BOXES[:1] + 1])
    kept = suppress(boxes, torch.tensor([1.0, 3.0, 2.0, 4.0]))
    assert kept.tolist() == [3, 1, 2]


def test_a_suppressed_box_suppresses_nothing() -> None:
    chain = torch.tensor([[0.0, 0, 10, 10], [4, 0, 14, 10], [8, 0, 18, 10]])
    assert suppress(chain, torch.tensor([3.0, 2.0, 1.0]), 0.4).tolist() == [0, 2]


def test_matching_gives_each_true_box_once() -> None:
    iou = torch.tensor([[0.9, 0.6], [0.8, 0.6], [0.7, 0.6]])
    assert match(iou, 0.5) == [True, True, False]
    assert match(iou, 0.85) == [True, False, False]
    assert match(torch.zeros(2, 0), 0.5) == [False, False]


def test_perfect_predictions_have_precision_one() -> None:
    ap = average_precision(found(BOXES, [1.0, 2, 3]), BOXES[None], all_true(3))
    assert ap == 1.0


def test_a_miss_limits_the_recall() -> None:
    ap = average_precision(found(BOXES[:2], [1.0, 2]), BOXES[None], all_true(3))
    assert math.isclose(ap, 2 / 3)


def test_area_of_a_curve_by_hand() -> None:
    # precision 1, 1/2, 2/3, 1/2, 3/5; at recall 1/3 it is 1, from there on 2/3 and 3/5
    scored = [(0.9, True), (0.8, False), (0.7, True), (0.6, False), (0.5, True)]
    assert math.isclose(area_under_curve(scored, 3), (1 + 2 / 3 + 3 / 5) / 3)
    assert math.isclose(area_under_curve(scored[::-1], 3), (1 + 2 / 3 + 3 / 5) / 3)


def test_precision_never_rises_with_recall_in_the_curve() -> None:
    scored = [(0.9, False), (0.8, True), (0.7, True)]
    assert math.isclose(area_under_curve(scored, 2), 2 / 3)


def test_false_alarms_of_another_image_count() -> None:
    both = Detections(torch.stack([BOXES[:1], BOXES[:1]]), torch.tensor([[1.0], [2.0]]))
    mask = torch.tensor([[True], [False]])
    target = torch.stack([BOXES[:1], torch.zeros(1, 4)])
    assert math.isclose(average_precision(both, target, mask), 0.5)


def test_nothing_found_is_zero() -> None:
    assert average_precision(found(BOXES, [-9.0] * 3), BOXES[None], all_true(3)) == 0


def test_pairwise_iou() -> None:
    iou = pairwise_iou(BOXES, BOXES[:2])
    torch.testing.assert_close(iou, torch.tensor([[1.0, 0], [0, 1], [0, 0]]))
