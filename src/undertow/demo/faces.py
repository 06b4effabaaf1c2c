"""Images with faces at known places, composed from what scikit-image ships.

`skimage.data.lfw_subset` holds 100 crops of faces and 100 of anything else, of 25×25
pixels; photographs of the same package serve as backgrounds. Faces, other crops and
photographs are split before anything is composed, so that a held-out image shares no
pixel with a training image.

An image is 256×256 and divided into 16×16 cells. A face belongs to the cell that holds
its centre. Faces are at least 20 pixels wide and high and never overlap, so two centres
are at least 20 pixels apart along one axis: two faces cannot share a cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

IMAGE = 256
"""Side of an image in pixels."""
CELL = 16
"""Side of a cell in pixels."""
GRID = IMAGE // CELL
"""Cells along a side."""
MAX_FACES = 8
MAX_OTHERS = 4
"""Crops that show no face, pasted the same way: an edge alone must not mean a face."""
SMALLEST, LARGEST = 20, 64
"""Sides of a pasted crop in pixels."""

_CROP = 25
_TRIES = 16
_VARIATION = 0.15
_HELD_OUT_EVERY = 5
_PARTIAL_FACES = (125, 130, 198)
"""Crops listed as "no face" that show a part of one."""
_TRAIN_PHOTOGRAPHS = (
    "astronaut camera cell chelsea clock coins grass gravel hubble_deep_field "
    "immunohistochemistry moon retina text"
).split()
_HELD_OUT_PHOTOGRAPHS = "brick coffee page rocket stereo_motorcycle".split()
_WITHOUT_FACE = {"astronaut": np.s_[200:, :], "camera": np.s_[200:, :]}
"""What is kept of the two photographs that show a person."""


@dataclass(frozen=True)
class Sources:
    """What one side of the split is composed from; grey values in [0, 1].

    Attributes:
        names: names of the photographs.
        face_ids: rows of `lfw_subset` that show a face.
        faces: (F, 25, 25).
        others: (O, 25, 25), crops without a face.
        photographs: grey images of any size.
    """

    names: tuple[str, ...]
    face_ids: tuple[int, ...]
    faces: Tensor
    others: Tensor
    photographs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Batch:
    """Composed images and their boxes, padded: slot k belongs to cell k in row order.

    Attributes:
        images: (B, 1, 256, 256), float32 in [0, 1].
        boxes: (B, 256, 4), float32, x1 y1 x2 y2 in pixels; zeros in empty slots.
        mask: (B, 256), bool, whether the cell holds the centre of a face.
    """

    images: Tensor
    boxes: Tensor
    mask: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device | str, *, copy: bool = False) -> Batch:
        """The same batch on `device`."""
        moved = (t.to(device, copy=copy) for t in (self.images, self.boxes, self.mask))
        return Batch(*moved)

    def part(self, start: int, stop: int) -> Batch:
        """Images `start` to `stop`."""
        keep = slice(start, stop)
        return Batch(self.images[keep], self.boxes[keep], self.mask[keep])


def load_sources(*, held_out: bool) -> Sources:
    """Reads one side of the split; needs no network.

    Raises:
        ImportError: scikit-image is missing.
    """
    from skimage import data

    crops = torch.from_numpy(data.lfw_subset()).float()
    every_fifth = [i % _HELD_OUT_EVERY == _HELD_OUT_EVERY - 1 for i in range(200)]
    ids = [i for i in range(200) if every_fifth[i] == held_out]
    face_ids = [i for i in ids if i < 100]
    other_ids = [i for i in ids if i >= 100 and i not in _PARTIAL_FACES]
    names = _HELD_OUT_PHOTOGRAPHS if held_out else _TRAIN_PHOTOGRAPHS
    return Sources(
        names=tuple(names),
        face_ids=tuple(face_ids),
        faces=crops[face_ids],
        others=crops[other_ids],
        photographs=tuple(_photograph(name) for name in names),
    )


def _photograph(name: str) -> Tensor:
    """One of scikit-image's photographs, grey, its short side at most 512 pixels."""
    from skimage import color, data, util

    image = getattr(data, name)()
    image = image[0] if isinstance(image, tuple) else image
    image = image[_WITHOUT_FACE.get(name, np.s_[:, :])]
    grey = color.rgb2gray(image) if image.ndim == 3 else util.img_as_float(image)
    tensor = torch.from_numpy(np.ascontiguousarray(grey)).float()
    shrink = min(1.0, 512 / min(tensor.shape))
    size = [round(side * shrink) for side in tensor.shape]
    return F.interpolate(
        tensor[None, None], size=size, mode="bilinear", antialias=True
    )[0, 0]


class Composer:
    """Composes batches; the same seed and device give the same sequence of batches.

    All work is vectorised over the batch, so that it keeps up with a GPU as well.

    Args:
        sources: what to compose from.
        seed: of the random numbers.
        device: where to compose.
        backgrounds: how many backgrounds to cut out in advance.
        augment: whether to vary brightness and contrast.
    """

    def __init__(
        self,
        sources: Sources,
        seed: int,
        *,
        device: torch.device | str = "cpu",
        backgrounds: int = 512,
        augment: bool = True,
    ) -> None:
        self._device = torch.device(device)
        self._random = torch.Generator(self._device).manual_seed(seed)
        self._faces = sources.faces.to(self._device)
        self._others = sources.others.to(self._device)
        self._augment = augment
        self._backgrounds = self._cut_backgrounds(sources.photographs, backgrounds)

    def batch(self, size: int) -> Batch:
        """Composes the next `size` images."""
        corners, is_face, placed = self._place(size)
        crops = torch.where(
            is_face[:, :, None, None],
            self._pick(self._faces, (size, corners.shape[1])),
            self._pick(self._others, (size, corners.shape[1])),
        )
        images = self._pick(self._backgrounds, (size,))
        images = torch.where(self._coin(size, 1, 1), images, images.flip(2))
        if self._augment:
            crops, images = self._vary(crops), self._vary(images)
        flipped = self._coin(size, corners.shape[1])
        images = paste(images, crops, corners, placed, flipped)
        boxes, mask = pad_by_cell(corners, is_face & placed)
        return Batch(images[:, None], boxes, mask)

    def _place(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Places without overlap: corners (B, S, 4), is_face (B, S), placed (B, S).

        Each slot has 16 tries; the first that is free of all earlier slots is taken,
        and a slot whose tries all fail stays empty.
        """
        slots = MAX_FACES + MAX_OTHERS
        tries = self._propose(size, slots)
        n_faces = self._integers(0, MAX_FACES + 1, (size, 1))
        n_others = self._integers(0, MAX_OTHERS + 1, (size, 1))
        slot = torch.arange(slots, device=self._device)
        is_face = (slot < MAX_FACES).expand(size, slots)
        wanted = torch.where(is_face, slot < n_faces, slot - MAX_FACES < n_others)
        corners = torch.zeros(size, slots, 4, device=self._device)
        placed = torch.zeros(size, slots, dtype=torch.bool, device=self._device)
        image = torch.arange(size, device=self._device)
        for s in range(slots):
            taken = _overlaps(tries[:, s], corners[:, :s]) & placed[:, None, :s]
            free = ~taken.any(dim=2)
            first = free.to(torch.uint8).argmax(dim=1)
            corners[:, s] = tries[image, s, first]
            placed[:, s] = free.any(dim=1) & wanted[:, s]
        return corners, is_face, placed

    def _propose(self, size: int, slots: int) -> Tensor:
        """Random boxes on whole pixels inside the image, (B, S, 16, 4)."""
        shape = (size, slots, _TRIES)
        side = self._uniform(SMALLEST, LARGEST, shape)
        stretch = torch.exp(self._uniform(-0.1, 0.1, shape))
        width = (side * stretch).round().clamp(SMALLEST, LARGEST)
        height = (side / stretch).round().clamp(SMALLEST, LARGEST)
        left = (self._uniform(0, 1, shape) * (IMAGE - width)).round()
        top = (self._uniform(0, 1, shape) * (IMAGE - height)).round()
        return torch.stack([left, top, left + width, top + height], dim=-1)

    def _cut_backgrounds(self, photographs: tuple[Tensor, ...], count: int) -> Tensor:
        """Cuts (P, 256, 256) from the photographs, turned, zoomed and mirrored."""
        cuts: list[Tensor] = []
        for i, photograph in enumerate(photographs):
            n = len(range(i, count, len(photographs)))
            height, width = photograph.shape
            side = min(height, width) * self._uniform(0.5, 1.0, (n,))
            angle = self._uniform(-math.pi / 8, math.pi / 8, (n,))
            shift = self._uniform(-1, 1, (n, 2)) * 0.5
            mirror = torch.where(self._coin(n), 1.0, -1.0)
            cos, sin = angle.cos() * side, angle.sin() * side
            rows = [
                torch.stack([mirror * cos / width, -sin / width, shift[:, 0]], 1),
                torch.stack([mirror * sin / height, cos / height, shift[:, 1]], 1),
            ]
            grid = F.affine_grid(
                torch.stack(rows, 1), [n, 1, IMAGE, IMAGE], align_corners=False
            )
            source = photograph.to(self._device).expand(n, 1, height, width)
            cuts.append(
                F.grid_sample(
                    source, grid, padding_mode="reflection", align_corners=False
                )
            )
        return torch.cat(cuts)[:, 0]

    def _vary(self, images: Tensor) -> Tensor:
        """Changes the contrast about the mean and the brightness of each image."""
        shape = (*images.shape[:-2], 1, 1)
        contrast = self._uniform(1 - 2 * _VARIATION, 1 + _VARIATION, shape)
        shift = self._uniform(-_VARIATION, _VARIATION, shape)
        mean = images.mean(dim=(-2, -1), keepdim=True)
        return ((images - mean) * contrast + mean + shift).clamp(0, 1)

    def _pick(self, bank: Tensor, shape: tuple[int, ...]) -> Tensor:
        return bank[self._integers(0, len(bank), shape)]

    def _uniform(self, low: float, high: float, shape: tuple[int, ...]) -> Tensor:
        drawn = torch.rand(shape, generator=self._random, device=self._device)
        return low + (high - low) * drawn

    def _integers(self, low: int, high: int, shape: tuple[int, ...]) -> Tensor:
        return torch.randint(
            low, high, shape, generator=self._random, device=self._device
        )

    def _coin(self, *shape: int) -> Tensor:
        return self._integers(0, 2, shape) == 1


def paste(
    images: Tensor, crops: Tensor, corners: Tensor, placed: Tensor, flipped: Tensor
) -> Tensor:
    """Resizes each crop bilinearly to its box and puts it into its image.

    A bilinear resize is a matrix on either side of the crop, zero outside the box. As
    boxes do not overlap, all crops of an image add up, and their sum over slots is one
    matrix product of (256, S·25) with (S·25, 256).

    Args:
        images: (B, 256, 256).
        crops: (B, S, 25, 25).
        corners: (B, S, 4), whole pixels.
        placed: (B, S), whether the slot is used.
        flipped: (B, S), whether to mirror the crop.

    Returns:
        The images with the crops, (B, 256, 256).
    """
    rows = _resize_matrix(corners[..., 1], corners[..., 3], placed)
    columns = _resize_matrix(corners[..., 0], corners[..., 2], placed)
    crops = torch.where(flipped[:, :, None, None], crops.flip(3), crops)
    wide = torch.einsum("bsij,bsxj->bsix", crops, columns).flatten(1, 2)
    pasted = rows.permute(0, 2, 1, 3).flatten(2) @ wide
    covered = rows.sum(-1).transpose(1, 2) @ columns.sum(-1)
    return torch.where(covered > 0.5, pasted, images)


def _resize_matrix(start: Tensor, stop: Tensor, placed: Tensor) -> Tensor:
    """Bilinear weights (B, S, 256, 25) from a crop's samples to pixels `start:stop`."""
    pixel = torch.arange(IMAGE, device=start.device)
    sample = torch.arange(_CROP, device=start.device)
    start, stop = start[..., None], stop[..., None]
    inside = (pixel >= start) & (pixel < stop) & placed[..., None]
    length = (stop - start).clamp(min=1)
    position = ((pixel + 0.5 - start) * _CROP / length - 0.5).clamp(0, _CROP - 1)
    weights = (1 - (position[..., None] - sample).abs()).clamp(min=0)
    return weights * inside[..., None]


def pad_by_cell(corners: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Moves boxes to the slots of the cells that hold their centres.

    Args:
        corners: (B, S, 4), at most one valid box a cell.
        valid: (B, S).

    Returns:
        Boxes (B, 256, 4), zeros in empty slots, and the mask (B, 256).
    """
    centre = (corners[..., :2] + corners[..., 2:]) / 2
    cell = (centre / CELL).long().clamp(max=GRID - 1)
    image, slot = valid.nonzero(as_tuple=True)
    index = (cell[..., 1] * GRID + cell[..., 0])[image, slot]
    boxes = corners.new_zeros(len(corners), GRID * GRID, 4)
    mask = torch.zeros(boxes.shape[:2], dtype=torch.bool, device=boxes.device)
    boxes[image, index] = corners[image, slot]
    mask[image, index] = True
    return boxes, mask


def _overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Whether boxes a (B, N, 4) and b (B, M, 4) overlap, (B, N, M)."""
    low = torch.maximum(a[:, :, None, :2], b[:, None, :, :2])
    high = torch.minimum(a[:, :, None, 2:], b[:, None, :, 2:])
    return (high > low).all(dim=-1)
