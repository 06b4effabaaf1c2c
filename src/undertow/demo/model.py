"""A small face detector: one box and one score for each of 16×16 cells."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from undertow.demo.faces import CELL, GRID

Channels = tuple[int, int, int, int]

TYPICAL_SIDE = 36.0
"""Side in pixels of a box whose size outputs are zero."""
_SIZE_LIMIT = 2.0
"""Limit of the logarithm of size; keeps the first steps from overflowing."""
_FIRST_LOGIT = -4.0
"""Score of every cell at first: about one cell in 60 holds a face."""
_DILATIONS = (1, 1, 2, 2)


class Detections(NamedTuple):
    """What the net says of each cell, in row order.

    Attributes:
        boxes: (B, 256, 4), x1 y1 x2 y2 in pixels.
        scores: (B, 256), logits of "this cell holds the centre of a face".
    """

    boxes: Tensor
    scores: Tensor


class FaceNet(nn.Module):
    """Four blocks of conv 3×3, batch norm, max-pool, ReLU, and a 1×1 head.

    The last two convolutions are dilated: an output then sees 82 pixels of the image
    instead of 46, more than the largest face.

    Args:
        channels: of the four blocks.
    """

    def __init__(self, channels: Channels = (8, 16, 64, 128)) -> None:
        super().__init__()
        before = (1, *channels[:-1])
        self.blocks = nn.Sequential(*map(block, before, channels, _DILATIONS))
        self.head = nn.Conv2d(channels[-1], 5, kernel_size=1)
        with torch.no_grad():
            self.head.weight[4] = 0.0
            assert self.head.bias is not None
            self.head.bias[4] = _FIRST_LOGIT

    def forward(self, images: Tensor) -> Detections:
        """Detects faces in images (B, 1, 256, 256) with grey values in [0, 1]."""
        head = self.head(self.blocks(images - 0.5)).flatten(2).transpose(1, 2)
        return Detections(decode(head[..., :4]), head[..., 4])


def make_net(channels: Channels, seed: int, device: torch.device) -> FaceNet:
    """A fresh net; the same seed gives the same weights on every device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = FaceNet(channels)
    # A CPU pools few channels several times faster in this layout.
    return net.to(device).to(memory_format=torch.channels_last)


def block(before: int, after: int, dilation: int) -> nn.Sequential:
    """Conv 3×3, batch norm, max-pool, ReLU; halves the sides."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=dilation, dilation=dilation, bias=False),
        nn.BatchNorm2d(after),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
    )


def decode(outputs: Tensor) -> Tensor:
    """Boxes in pixels from the head's four numbers a cell.

    The centre is an offset from the middle of the cell in cells, the size a logarithm:
    equal steps of an output change large and small boxes by the same share.

    Args:
        outputs: (B, 256, 4): offset right and down, log width and log height.

    Returns:
        (B, 256, 4), x1 y1 x2 y2.
    """
    cell = torch.arange(GRID * GRID, device=outputs.device)
    corner = torch.stack([cell % GRID, cell // GRID], dim=1)
    centre = (corner + 0.5 + outputs[..., :2]) * CELL
    half = TYPICAL_SIDE / 2 * outputs[..., 2:].clamp(-_SIZE_LIMIT, _SIZE_LIMIT).exp()
    return torch.cat([centre - half, centre + half], dim=-1)
