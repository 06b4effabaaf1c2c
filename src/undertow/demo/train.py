"""Training within a given time: AdamW, one cycle of the learning rate."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor

from undertow.demo.faces import Batch, Composer
from undertow.demo.losses import BoxLoss, giou, score_loss
from undertow.demo.model import Channels, FaceNet

_WARM_UP = 0.15
_REFRESH = 0.25
"""Seconds between two looks at the loss; each waits for the GPU."""


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Attributes:
        seconds: time after which training ends.
        batch: images a step.
        channels: of the net's four blocks.
        max_steps: steps after which training ends even if time is left.
        rate: the highest learning rate.
        decay: AdamW's weight decay.
        box_weight: weight of the box loss; the score loss has weight 1.
    """

    seconds: float
    batch: int
    channels: Channels
    max_steps: int | None = None
    rate: float = 1e-2
    decay: float = 0.1
    box_weight: float = 3.0


CPU = Recipe(seconds=90.0, batch=8, channels=(8, 16, 64, 128))
GPU = Recipe(seconds=30.0, batch=64, channels=(32, 64, 128, 256))


@dataclass(frozen=True)
class History:
    """What training saw, one entry a step.

    Attributes:
        box_loss: mean of 1 − GIoU.
        score_loss: cross entropy per face.
        iou: mean IoU of the cells that hold a face.
        seconds: the whole training's time.
    """

    box_loss: list[float]
    score_loss: list[float]
    iou: list[float]
    seconds: float


def train(
    net: FaceNet,
    composer: Composer,
    recipe: Recipe,
    box_loss: BoxLoss,
    console: Console | None = None,
) -> History:
    """Trains `net` in place until the time or the steps of `recipe` are over.

    A second thread composes the next batch meanwhile.
    """
    optimizer = torch.optim.AdamW(
        net.parameters(), lr=recipe.rate, weight_decay=recipe.decay
    )
    net.train()
    seen: list[Tensor] = []
    start = time.perf_counter()
    with _progress(console) as progress, ThreadPoolExecutor(1) as composing:
        coming = composing.submit(composer.batch, recipe.batch)
        task = progress.add_task("training", total=1.0, loss=math.nan, iou=math.nan)
        shown = start
        while (done := _done(recipe, len(seen), time.perf_counter() - start)) < 1:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(recipe.rate, done)
            batch = coming.result()
            coming = composing.submit(composer.batch, recipe.batch)
            seen.append(step(net, batch, optimizer, box_loss, recipe.box_weight))
            if time.perf_counter() - shown > _REFRESH:
                loss, _, iou = seen[-1].tolist()
                progress.update(task, completed=done, loss=loss, iou=iou)
                shown = time.perf_counter()
        columns = torch.stack(seen).T.tolist()
        progress.update(task, completed=1.0, loss=columns[0][-1], iou=columns[2][-1])
    return History(*columns, seconds=time.perf_counter() - start)


def step(
    net: FaceNet,
    batch: Batch,
    optimizer: torch.optim.Optimizer,
    box_loss: BoxLoss,
    box_weight: float,
) -> Tensor:
    """One step; box loss, score loss and mean IoU, (3,) and still on the device."""
    found = net(batch.images)
    boxes = box_loss(found.boxes, batch.boxes, batch.mask)
    scores = score_loss(found.scores, batch.mask)
    optimizer.zero_grad()
    (box_weight * boxes + scores).backward()
    optimizer.step()
    with torch.no_grad():
        iou = torch.where(batch.mask, giou(found.boxes, batch.boxes)[1], 0.0)
        mean_iou = iou.sum() / batch.mask.sum().clamp(min=1)
    return torch.stack([boxes.detach(), scores.detach(), mean_iou])


def learning_rate(highest: float, done: float) -> float:
    """One cycle: a short rise, then a cosine down to nearly nothing.

    Args:
        highest: the rate at the top.
        done: the share of training that is over. A share of time, not of steps: a slow
            machine then ends with a small rate as well.
    """
    if done < _WARM_UP:
        low, high, at = highest / 25, highest, 1 - done / _WARM_UP
    else:
        low, high, at = highest / 1000, highest, (done - _WARM_UP) / (1 - _WARM_UP)
    return low + (high - low) * (1 + math.cos(math.pi * at)) / 2


def _done(recipe: Recipe, steps: int, seconds: float) -> float:
    """The share of training that is over; the first step always takes place."""
    if steps == 0:
        return 0.0
    if seconds >= recipe.seconds:
        return 1.0
    by_steps = steps / recipe.max_steps if recipe.max_steps else 0.0
    return max(seconds / recipe.seconds, by_steps)


def _progress(console: Console | None) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TextColumn("IoU {task.fields[iou]:.3f}"),
        TimeElapsedColumn(),
        console=console,
        disable=console is None,
    )
