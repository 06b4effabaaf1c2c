"""Where the time of a training step goes, under the PyTorch profiler."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from rich.table import Table
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from undertow.demo.faces import Batch
from undertow.demo.losses import BoxLoss, score_loss
from undertow.demo.model import FaceNet

PARTS = ("copy data", "forward", "calc loss", "backward")


@dataclass(frozen=True)
class PartTime:
    """Mean milliseconds of one part of a step.

    Attributes:
        wall: from entering the part until the device has finished it.
        kernels: sum of the GPU kernels' own times; None without a GPU.
    """

    wall: float
    kernels: float | None


def measure(
    net: FaceNet,
    host_batch: Batch,
    box_loss: BoxLoss,
    *,
    warm_up: int = 3,
    active: int = 5,
) -> dict[str, PartTime]:
    """Times the parts of a training step; the net's weights stay as they are.

    Args:
        net: the net, on the device to measure.
        host_batch: a batch in host memory.
        box_loss: the box loss to measure.
        warm_up: steps before measuring, for compilation and caches.
        active: steps to average over.
    """
    device = next(net.parameters()).device
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    else:
        # Without a GPU Kineto reports the missing driver as an error on every start.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    for _ in range(warm_up):
        _step(net, host_batch, box_loss, device)
    plan = schedule(wait=1, warmup=1, active=active, repeat=1)
    with profile(activities=activities, schedule=plan, acc_events=True) as profiler:
        for _ in range(active + 2):
            _step(net, host_batch, box_loss, device)
            profiler.step()
    net.zero_grad()
    return summarise(
        list(profiler.events() or []), active, on_gpu=device.type == "cuda"
    )


def _step(
    net: FaceNet, host_batch: Batch, box_loss: BoxLoss, device: torch.device
) -> None:
    net.zero_grad()
    with record_function("copy data"):
        batch = host_batch.to(device, copy=True)
        _wait(device)
    with record_function("forward"):
        found = net(batch.images)
        _wait(device)
    with record_function("calc loss"):
        boxes = box_loss(found.boxes, batch.boxes, batch.mask)
        loss = boxes + score_loss(found.scores, batch.mask)
        _wait(device)
    with record_function("backward"):
        loss.backward()
        _wait(device)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def summarise(
    events: list[FunctionEvent], steps: int, *, on_gpu: bool
) -> dict[str, PartTime]:
    """Mean times of the parts from the profiler's events.

    As every part waits for the device, a kernel belongs to the part within whose time
    it starts. The profiler's own attribution misses kernels that autograd's thread
    launches.
    """
    on_host = [e for e in events if e.device_type.name == "CPU"]
    kernels = [
        e for e in events if e.device_type.name != "CPU" and not _is_region(e.name)
    ]
    times: dict[str, PartTime] = {}
    for name in PARTS:
        spans = [e.time_range for e in on_host if e.name == name]
        wall = sum(span.elapsed_us() for span in spans)
        inside = sum(
            kernel.time_range.elapsed_us()
            for kernel in kernels
            for span in spans
            if span.start <= kernel.time_range.start < span.end
        )
        times[name] = PartTime(
            wall=wall / steps / 1e3, kernels=inside / steps / 1e3 if on_gpu else None
        )
    return times


def _is_region(name: str) -> bool:
    """Whether an event is a region of ours or of the profiler, not a kernel."""
    return name in PARTS or name.startswith("ProfilerStep")


def table(results: Mapping[str, Mapping[str, PartTime]], device: str) -> Table:
    """A table with one row a part and one column a loss.

    Args:
        results: for each loss's name the times of its step.
        device: what it ran on, for the title.
    """
    shown = Table(title=f"One training step on {device}, milliseconds", min_width=60)
    shown.add_column("part")
    for name in results:
        shown.add_column(name, justify="right")
    for part in PARTS:
        shown.add_row(part, *(_cell(times[part]) for times in results.values()))
    totals = [
        PartTime(
            wall=sum(t.wall for t in times.values()),
            kernels=_sum_kernels(times),
        )
        for times in results.values()
    ]
    shown.add_section()
    shown.add_row("step", *map(_cell, totals))
    return shown


def _sum_kernels(times: Mapping[str, PartTime]) -> float | None:
    kernels = [t.kernels for t in times.values() if t.kernels is not None]
    return sum(kernels) if kernels else None


def _cell(time: PartTime) -> str:
    if time.kernels is None:
        return f"{time.wall:.2f}"
    return f"{time.wall:.2f} (kernels {time.kernels:.3f})"
