"""The demo's two pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from undertow.demo.evaluation import Quality, mean_iou, suppress
from undertow.demo.faces import Batch
from undertow.demo.model import Detections
from undertow.demo.train import History

TRUE_COLOUR = "#39d98a"
FOUND_COLOUR = "#ff8a1f"
_SHOWN = 8
_LEAST_FACES = 3
_SMOOTH = 25


def _pyplot() -> Any:
    """Matplotlib's pyplot, drawing to files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def draw_loss(history: History, before: Quality, after: Quality, path: Path) -> None:
    """Loss and IoU over the steps, and the held-out IoU at both ends."""
    plt = _pyplot()
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    steps = range(1, len(history.iou) + 1)
    for values, name, colour in (
        (history.box_loss, "1 − GIoU", "#2563eb"),
        (history.score_loss, "score loss", "#9333ea"),
    ):
        left.plot(steps, values, color=colour, alpha=0.2, linewidth=0.8)
        left.plot(steps, smooth(values), color=colour, label=name)
    left.set(xlabel="step", ylabel="loss", yscale="log", title="Training loss")
    left.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    left.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    left.yaxis.set_minor_formatter(NullFormatter())
    left.legend(frameon=False)
    right.plot(steps, history.iou, color=FOUND_COLOUR, alpha=0.2, linewidth=0.8)
    right.plot(steps, smooth(history.iou), color=FOUND_COLOUR, label="training")
    ends = ([0, len(history.iou)], [before.iou, after.iou])
    right.plot(*ends, "o", color="#0f766e", label="held out, before and after")
    right.set(xlabel="step", ylabel="mean IoU", ylim=(0, 1))
    right.set_title(f"Held-out IoU {before.iou:.3f} → {after.iou:.3f}")
    right.legend(frameon=False, loc="lower right")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def smooth(values: list[float], window: int = _SMOOTH) -> list[float]:
    """Means over the last `window` values."""
    sums = torch.tensor([0.0, *values], dtype=torch.float64).cumsum(0)
    stop = torch.arange(1, len(values) + 1)
    start = (stop - window).clamp(min=0)
    return ((sums[stop] - sums[start]) / (stop - start)).tolist()


def draw_faces(batch: Batch, found: Detections, path: Path) -> None:
    """The first eight images with at least three faces, true and predicted boxes."""
    plt = _pyplot()
    counts = batch.mask.sum(dim=1)
    rows = [i for i, n in enumerate(counts.tolist()) if n >= _LEAST_FACES][:_SHOWN]
    figure, axes = plt.subplots(2, 4, figsize=(13, 7.1), layout="constrained")
    for panel in axes.flat:
        panel.axis("off")
    for row, panel in zip(rows, axes.flat, strict=False):
        panel.imshow(batch.images[row, 0].numpy(), cmap="gray", vmin=0, vmax=1)
        boxes, keep = batch.boxes[row], batch.mask[row]
        for box in boxes[keep].tolist():
            _draw_box(plt, panel, box, TRUE_COLOUR, dashed=True)
        for box, score in likely_faces(found.boxes[row], found.scores[row]):
            _draw_box(plt, panel, box, FOUND_COLOUR)
            _draw_score(panel, box, score)
        iou = mean_iou(found.boxes[row], boxes, keep)
        panel.set_title(f"{int(keep.sum())} faces, mean IoU {iou:.2f}", fontsize=10)
    handles = [
        plt.Line2D([], [], color=TRUE_COLOUR, linestyle="--", label="true box"),
        plt.Line2D([], [], color=FOUND_COLOUR, label="predicted box and score"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=110, bbox_inches="tight", pad_inches=0.1)
    plt.close(figure)


def likely_faces(
    boxes: Tensor, logits: Tensor, least: float = 0.5
) -> list[tuple[list[float], float]]:
    """Boxes (x1, y1, x2, y2) of one image with a probability of at least `least`."""
    likely = (logits.sigmoid() >= least).nonzero().flatten()
    kept = likely[suppress(boxes[likely], logits[likely])]
    return list(zip(boxes[kept].tolist(), logits[kept].sigmoid().tolist(), strict=True))


def _draw_box(
    plt: Any, panel: Any, box: list[float], colour: str, *, dashed: bool = False
) -> None:
    x1, y1, x2, y2 = box
    # A pixel's centre is at a whole number in `imshow`, its corner half a pixel before.
    rectangle = plt.Rectangle(
        (x1 - 0.5, y1 - 0.5),
        x2 - x1,
        y2 - y1,
        fill=False,
        edgecolor=colour,
        linewidth=1.6,
        linestyle="--" if dashed else "-",
    )
    panel.add_patch(rectangle)


def _draw_score(panel: Any, box: list[float], score: float) -> None:
    panel.text(
        box[0],
        box[1] - 2,
        f"{score:.2f}",
        fontsize=7,
        color="black",
        va="bottom",
        clip_on=True,
        bbox={"facecolor": FOUND_COLOUR, "edgecolor": "none", "pad": 1},
    )
