"""A compiled kernel: a list of steps, executed for all programs at once.

Values live in numbered slots. What depends on neither the launch nor memory (constants,
ranges, and all that is computed from them) is evaluated once for each device and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from undertow.evaluate.launch import (
    EMPTY,
    Argument,
    Constants,
    Launch,
    Poison,
    bind,
    full_grid,
)
from undertow.evaluate.trace import Trace
from undertow.ir import Kernel

Env = list[Tensor]
"""The values by slot; `EMPTY` before a value's definition and after its last use."""

Step = Callable[[Env, Launch], None]

LANES_ON_CPU, LANES = 1 << 16, 1 << 24
"""Lanes of the widest value that are worked on at once: as many as caches hold on the
CPU (twice as fast as 2^20 with one thread), and as memory holds elsewhere."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled kernel."""

    kernel: Kernel
    float_dtype: torch.dtype | None
    steps: tuple[Step, ...]
    fixed: tuple[Step, ...]
    slots: int
    widest: int
    presets: dict[torch.device, Env] = field(
        default_factory=lambda: dict[torch.device, Env]()
    )

    def __call__(
        self,
        args: Mapping[str, Argument],
        grid: tuple[int, ...],
        *,
        poison: Poison | None = None,
        trace: Trace | None = None,
        lanes: int | None = None,
        constants: Constants | None = None,
    ) -> None:
        """Runs every program of `grid`; tensors in `args` are updated in place.

        Raises:
            LaunchError: the arguments do not fit, or an access is out of bounds.
        """
        extents = full_grid(grid, self.kernel)
        with torch.no_grad():
            device, buffers, scalars = bind(self.kernel, args, self.float_dtype)
            total = extents[0] * extents[1] * extents[2]
            if lanes is None:
                lanes = LANES_ON_CPU if device.type == "cpu" else LANES
            size = max(1, lanes // self.widest)
            for start in range(0, total, size):
                count = min(size, total - start)
                launch = Launch(
                    self.kernel, extents, start, count, device, buffers, poison, trace,
                    constants=constants,
                )  # fmt: skip
                env = self._preset(launch).copy()
                env[: len(scalars)] = scalars
                for step in self.steps:
                    step(env, launch)

    def _preset(self, launch: Launch) -> Env:
        env = self.presets.get(launch.device)
        if env is None:
            env = [EMPTY] * self.slots
            for step in self.fixed:
                step(env, launch)
            self.presets[launch.device] = env  # whole, should another thread look
        return env
