"""Executes loops for all programs at once, also where their bounds differ.

A program that has made its turns waits for the others: it is not active, touches no
memory, and keeps what it carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.errors import LaunchError
from undertow.evaluate.launch import Launch
from undertow.evaluate.program import Env, Step
from undertow.ir import Loc


@dataclass(frozen=True, slots=True)
class Loop:
    """A compiled `for`: slots of what it reads and writes, and the steps of its body.

    `bounds` are lower, upper and step; `carried` the block's arguments without the
    variable.
    """

    bounds: tuple[int, int, int]
    initial: Sequence[int]
    variable: int
    carried: Sequence[int]
    yields: Sequence[int]
    outs: Sequence[int]
    body: Sequence[Step]
    loc: Loc

    def __call__(self, env: Env, launch: Launch) -> None:
        lower, upper, step = self._bounds(env, launch)
        state = [env[i] for i in self.initial]
        trips = _trips(lower, upper, step)
        least, most = _extremes(trips, launch.active)
        kind, outer = env[self.bounds[0]].dtype, launch.active
        for turn in range(most):
            env[self.variable] = (lower + turn * step).to(kind)
            if turn < least:
                state = self._turn(env, launch, state)
                continue
            running = trips > turn
            launch.active = running if outer is None else running & outer
            after = self._turn(env, launch, state)
            state = [_chosen(running, *pair) for pair in zip(after, state, strict=True)]
        launch.active = outer
        for out, value in zip(self.outs, state, strict=True):
            env[out] = value

    def _bounds(self, env: Env, launch: Launch) -> tuple[Tensor, Tensor, Tensor]:
        """The bounds in 64 bits; a program that takes no part may have any."""
        lower, upper, step = (env[i].to(torch.int64) for i in self.bounds)
        still = step == 0
        if still.any():
            if launch.active is None or (still & launch.active).any():
                raise LaunchError(
                    "a loop has a step of 0", loc=self.loc, kernel=launch.kernel.name
                )
            step = step.masked_fill(still, 1)
        return lower, upper, step

    def _turn(self, env: Env, launch: Launch, state: list[Tensor]) -> list[Tensor]:
        return _turn(env, launch, self, state)


@dataclass(frozen=True, slots=True)
class While:
    """A compiled `while`.

    A program that ends while others go on keeps what it carries.
    """

    condition: int
    initial: Sequence[int]
    carried: Sequence[int]
    again: int
    yields: Sequence[int]
    outs: Sequence[int]
    body: Sequence[Step]

    def __call__(self, env: Env, launch: Launch) -> None:
        outer, running = launch.active, env[self.condition]
        state = [env[i] for i in self.initial]
        while True:
            running = running if outer is None else running & outer
            if not running.any():
                break
            launch.active = None if running.all() else running
            after = _turn(env, launch, self, state)
            state = [_chosen(running, *pair) for pair in zip(after, state, strict=True)]
            running = env[self.again] & running
        launch.active = outer
        for out, value in zip(self.outs, state, strict=True):
            env[out] = value


def _turn(
    env: Env, launch: Launch, loop: Loop | While, state: list[Tensor]
) -> list[Tensor]:
    for slot, value in zip(loop.carried, state, strict=True):
        env[slot] = value
    for step in loop.body:
        step(env, launch)
    return [env[i] for i in loop.yields]


def _trips(lower: Tensor, upper: Tensor, step: Tensor) -> Tensor:
    """How many turns each program makes: one number if it is the same for all."""
    trips = -torch.div(lower - upper, step, rounding_mode="floor")
    return trips.clamp(min=0)


def _extremes(trips: Tensor, active: Tensor | None) -> tuple[int, int]:
    """The fewest and the most turns of a program that takes part."""
    if active is not None:
        trips, active = torch.broadcast_tensors(trips, active)
        trips = trips[active]
    least, most = trips.aminmax()
    return int(least), int(most)


def _chosen(running: Tensor, after: Tensor, before: Tensor) -> Tensor:
    return torch.where(running.view(-1, *(1,) * (after.dim() - 1)), after, before)
