"""The net's shapes and the decoding of its outputs."""

from __future__ import annotations

import math

import torch

from undertow.demo.faces import CELL, GRID
from undertow.demo.model import TYPICAL_SIDE, FaceNet, decode, make_net

CPU = torch.device("cpu")


def test_zero_outputs_are_typical_boxes_in_the_middle_of_each_cell() -> None:
    boxes = decode(torch.zeros(1, GRID * GRID, 4))[0]
    row, column = 3, 5
    x, y = (column + 0.5) * CELL, (row + 0.5) * CELL
    half = TYPICAL_SIDE / 2
    want = torch.tensor([x - half, y - half, x + half, y + half])
    torch.testing.assert_close(boxes[row * GRID + column], want)


def test_decoding_inverts_the_parameters_of_a_box() -> None:
    outputs = torch.zeros(1, GRID * GRID, 4)
    outputs[0, 0] = torch.tensor([0.25, -0.5, math.log(0.5), math.log(1.5)])
    x1, y1, x2, y2 = decode(outputs)[0, 0].tolist()
    assert math.isclose((x1 + x2) / 2, 0.75 * CELL, abs_tol=1e-4)
    assert math.isclose((y1 + y2) / 2, 0.0, abs_tol=1e-4)
    assert math.isclose(x2 - x1, 0.5 * TYPICAL_SIDE, abs_tol=1e-4)
    assert math.isclose(y2 - y1, 1.5 * TYPICAL_SIDE, abs_tol=1e-4)


def test_decoded_boxes_are_never_inside_out() -> None:
    boxes = decode(torch.randn(2, GRID * GRID, 4) * 100)
    assert bool((boxes[..., 2:] > boxes[..., :2]).all())
    assert bool(boxes.isfinite().all())


def test_each_cell_has_one_box_and_one_score() -> None:
    boxes, scores = FaceNet((2, 2, 2, 2))(torch.rand(3, 1, 256, 256))
    assert boxes.shape == (3, GRID * GRID, 4)
    assert boxes.is_contiguous()
    assert scores.shape == (3, GRID * GRID)


def test_blocks_stand_in_the_stated_order() -> None:
    names = [type(layer).__name__ for layer in FaceNet().blocks[0]]
    assert names == ["Conv2d", "BatchNorm2d", "MaxPool2d", "ReLU"]
    assert len(FaceNet().blocks) == 4


def test_the_same_seed_makes_the_same_net_and_leaves_the_global_state() -> None:
    state = torch.get_rng_state()
    first, second = (make_net((2, 2, 2, 2), 1, CPU).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), state)
