"""Memory for what loops carry, between the two sweeps of a backward.

A tape lives as long as its launch. One that would take more than a share of the memory
that is free is refused with its size; the share is `UNDERTOW_TAPE_SHARE`, by default
half.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from undertow.errors import LaunchError
from undertow.evaluate.launch import Grid
from undertow.runtime.plan import Plan, TapePlan
from undertow.runtime.specialisation import run_on_cpu
from undertow.transform.differentiate import Backward

SMALL = 1 << 26
"""Tapes below 64 MiB in all are not worth asking the driver how much is free."""


def allocate(
    plans: Sequence[TapePlan], device: torch.device, backward: Backward
) -> list[Tensor]:
    """Buffers for the tapes of one launch.

    Raises:
        LaunchError: they would take too much of the memory that is free.
    """
    wanted = sum(plan.bytes for plan in plans)
    if wanted > SMALL:
        _refuse_large(wanted, device, backward)
    return [torch.empty(p.numel, dtype=p.dtype, device=device) for p in plans]


def count_turns(
    plan: Plan, arguments: tuple[Any, ...], grid: Grid, device: torch.device
) -> list[int]:
    """The most turns that any program makes of each loop whose turns are counted.

    On a GPU this waits for the count: the size of a tape has to be known on the host.
    """
    derivation = plan.derivation
    kernel, loops = derivation.backward.counter, len(derivation.backward.counted)
    assert kernel is not None
    turns = torch.zeros((math.prod(grid), loops), dtype=torch.int32, device=device)
    if not turns.numel():
        return [0] * loops
    if device.type == "cuda":
        options = derivation.counter_constexprs
        with torch.cuda.device(device):
            derivation.counter.run(
                turns, *arguments, grid=grid, warmup=False, **options
            )
    else:
        names = [p.name for p in kernel.params]
        run_on_cpu(kernel, dict(zip(names, (turns, *arguments), strict=True)), grid)
    return turns.amax(0).clamp(min=0).tolist()


def _refuse_large(wanted: int, device: torch.device, backward: Backward) -> None:
    share = float(os.environ.get("UNDERTOW_TAPE_SHARE", "0.5"))
    free = _free(device)
    if wanted <= share * free:
        return
    kernel = backward.forward.name
    raise LaunchError(
        f"the backward of `{kernel}` needs a tape of {_gib(wanted)}",
        loc=backward.tapes[0].loop.loc,
        kernel=kernel,
        why=f"{_gib(free)} are free, and a tape may take {share:.0%} of that",
        hint="use fewer programs or turns a launch, or set UNDERTOW_TAPE_SHARE",
    )


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + idle
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
