"""Composition: places, cells, padding, the split, determinism."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("skimage")

from undertow.demo.faces import (
    CELL,
    GRID,
    IMAGE,
    LARGEST,
    MAX_FACES,
    SMALLEST,
    Batch,
    Composer,
    Sources,
    load_sources,
    pad_by_cell,
    paste,
)


@pytest.fixture(scope="module")
def sources() -> Sources:
    return load_sources(held_out=False)


@pytest.fixture(scope="module")
def batch(sources: Sources) -> Batch:
    return Composer(sources, seed=3, backgrounds=32).batch(64)


def test_shapes_and_types(batch: Batch) -> None:
    assert batch.images.shape == (64, 1, IMAGE, IMAGE)
    assert batch.boxes.shape == (64, GRID * GRID, 4)
    assert batch.mask.shape == (64, GRID * GRID)
    assert batch.images.dtype == batch.boxes.dtype == torch.float32
    assert batch.mask.dtype == torch.bool
    assert float(batch.images.min()) >= 0
    assert float(batch.images.max()) <= 1


def test_counts_range_from_none_to_the_most(batch: Batch) -> None:
    counts = batch.mask.sum(dim=1)
    assert int(counts.min()) == 0
    assert int(counts.max()) == MAX_FACES


def test_boxes_lie_inside_and_have_the_right_sides(batch: Batch) -> None:
    boxes = batch.boxes[batch.mask]
    sides = boxes[:, 2:] - boxes[:, :2]
    assert bool(((boxes >= 0) & (boxes <= IMAGE)).all())
    assert bool(((sides >= SMALLEST) & (sides <= LARGEST)).all())


def test_faces_do_not_overlap(batch: Batch) -> None:
    for boxes, keep in zip(batch.boxes, batch.mask, strict=True):
        a = boxes[keep]
        low = torch.maximum(a[:, None, :2], a[None, :, :2])
        high = torch.minimum(a[:, None, 2:], a[None, :, 2:])
        overlap = (high > low).all(dim=-1).fill_diagonal_(False)
        assert not overlap.any()


def test_a_slot_is_the_cell_of_the_centre(batch: Batch) -> None:
    _, slot = batch.mask.nonzero(as_tuple=True)
    boxes = batch.boxes[batch.mask]
    column, row = ((boxes[:, :2] + boxes[:, 2:]) / 2 / CELL).floor().unbind(1)
    assert torch.equal(slot, (row * GRID + column).long())


def test_no_two_placed_faces_share_a_cell(sources: Sources) -> None:
    composer = Composer(sources, seed=5, backgrounds=13)
    corners, is_face, placed = composer._place(256)
    _, mask = pad_by_cell(corners, is_face & placed)
    assert int(mask.sum()) == int((is_face & placed).sum())


def test_empty_slots_are_zero(batch: Batch) -> None:
    assert not batch.boxes[~batch.mask].any()


def test_the_same_seed_composes_the_same_images(sources: Sources) -> None:
    first, second, other = (
        Composer(sources, seed, backgrounds=13).batch(2) for seed in (7, 7, 8)
    )
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.boxes, second.boxes)
    assert not torch.equal(first.images, other.images)


def test_the_split_is_disjoint(sources: Sources) -> None:
    held_out = load_sources(held_out=True)
    assert not set(sources.names) & set(held_out.names)
    assert not set(sources.face_ids) & set(held_out.face_ids)
    assert len(sources.face_ids) + len(held_out.face_ids) == 100
    # Not only other indices: no held-out crop equals a training crop.
    for mine, theirs in (
        (sources.faces, held_out.faces),
        (sources.others, held_out.others),
    ):
        assert float(torch.cdist(mine.flatten(1), theirs.flatten(1)).min()) > 0


def test_paste_of_the_crop_s_own_size_copies_it() -> None:
    crop = torch.rand(1, 2, 25, 25)
    corners = torch.tensor([[[10.0, 20.0, 35.0, 45.0], [100.0, 0.0, 125.0, 25.0]]])
    images = torch.full((1, IMAGE, IMAGE), 2.0)
    yes = torch.ones(1, 2, dtype=torch.bool)
    flipped = torch.tensor([[False, True]])
    pasted = paste(images, crop, corners, yes, flipped)[0]
    torch.testing.assert_close(pasted[20:45, 10:35], crop[0, 0])
    torch.testing.assert_close(pasted[0:25, 100:125], crop[0, 1].flip(1))
    assert int((pasted == 2).sum()) == IMAGE * IMAGE - 2 * 25 * 25


def test_paste_leaves_unused_slots_out() -> None:
    images = torch.rand(1, IMAGE, IMAGE)
    no = torch.zeros(1, 1, dtype=torch.bool)
    box = torch.tensor([[[10.0, 20.0, 35.0, 45.0]]])
    assert torch.equal(paste(images, torch.rand(1, 1, 25, 25), box, no, no), images)


def test_paste_resizes_like_interpolate() -> None:
    crop = torch.rand(1, 1, 25, 25)
    yes = torch.ones(1, 1, dtype=torch.bool)
    box = torch.tensor([[[8.0, 16.0, 58.0, 76.0]]])
    pasted = paste(torch.zeros(1, IMAGE, IMAGE), crop, box, yes, ~yes)
    want = torch.nn.functional.interpolate(crop, size=(60, 50), mode="bilinear")
    torch.testing.assert_close(pasted[0, 16:76, 8:58], want[0, 0])
