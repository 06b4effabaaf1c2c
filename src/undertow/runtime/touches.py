"""Which elements a launch touches, found by running its addresses and nothing else.

It is asked where the analysis has no proof: once for each geometry, or at every launch
where addresses depend on loaded data. A kernel is built that counts at the addresses of
some accesses, under their masks and branches, and the evaluator runs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from undertow import evaluate
from undertow.errors import LaunchError
from undertow.ir import (
    I32,
    Access,
    Builder,
    Kernel,
    Op,
    PointerType,
    TensorType,
    Value,
    walk,
)
from undertow.runtime.specialisation import EVALUATING
from undertow.transform.rebuild import Env, Handler, copy, rebuild, remove_dead

MAX_LANES = {"cpu": 1 << 28, "cuda": 1 << 32}
"""How many lanes are run; beyond, a launch is refused."""


def touched(
    kernel: Kernel,
    accesses: tuple[Op, ...],
    argument: Callable[[str], Any],
    grid: tuple[int, int, int],
    span: int,
    device: torch.device,
    with_data: bool = False,
) -> Tensor | None:
    """How often each element is touched by some accesses to one buffer.

    Args:
        kernel: the kernel that they are part of.
        accesses: loads and stores, all of one parameter.
        argument: the scalars and tensors that addresses depend on, by name.
        grid: three extents.
        span: elements of the buffer.
        device: where to count.
        with_data: whether tensors may be read.

    Returns:
        One count an element; None if addresses or masks depend on loaded data and
        tensors may not be read.

    Raises:
        LaunchError: an access is out of bounds, or there are too many to follow, or
            where they go depends on the buffer itself.
    """
    base = accesses[0].operands[0]
    counting = _counting(kernel, accesses)
    loads = [op for op in walk(counting.body) if op.opcode == "load"]
    if loads and not with_data:
        return None
    for op in loads:
        if op.operands[0].name == base.name:
            raise LaunchError(
                f"where `{base.name}` is stored to depends on what it holds",
                loc=accesses[0].loc,
                kernel=kernel.name,
                why="so it is not known whether an element is written several times",
                hint="load from a copy",
            )
    lanes = math.prod(grid) * sum(math.prod(_lanes(op)) for op in accesses)
    if lanes > MAX_LANES.get(device.type, 1 << 28):
        raise LaunchError(
            f"the launch is too large to find out which elements of `{base.name}` it "
            "touches",
            loc=accesses[0].loc,
            kernel=kernel.name,
            why=f"there are {lanes} lanes, and no proof covers their addresses",
            hint="pass contiguous tensors, and addresses that differ between programs "
            "without minimum or modulo",
        )
    counts = torch.zeros(span, dtype=torch.int32, device=device)
    if lanes == 0:
        return counts
    arguments = {
        p.name: counts if p.name == base.name else argument(p.name)
        for p in counting.params
    }
    with EVALUATING, torch.no_grad():
        evaluate.run(counting, arguments, grid)
    return counts


def _lanes(op: Op) -> tuple[int, ...]:
    value = op.result if op.opcode == "load" else Access.of(op).value
    assert value is not None
    return value.shape


@lru_cache(maxsize=256)
def _counting(kernel: Kernel, accesses: tuple[Op, ...]) -> Kernel:
    """A kernel that counts where `accesses` go, with what that depends on."""
    b = Builder()
    base = accesses[0].operands[0]
    counts = Value(PointerType(I32), base.name)

    def visit(op: Op, env: Env) -> None:
        if op in accesses:
            access = Access.of(op)
            b.atomic_add(
                Access(
                    counts,
                    tuple(env[v] for v in access.offsets),
                    b.const(1, TensorType(I32, _lanes(op))),
                    None if access.mask is None else env[access.mask],
                    None,
                ),
                counts=op.opcode,  # what it is called out of bounds
            )
        if op.opcode == "load":  # stays only if addresses depend on what it loads
            copy(b, op, env)

    handlers: dict[str, Handler] = {}
    for opcode in ("load", "store", "atomic_add"):
        handlers[opcode] = visit
    env: Env = {p: p for p in kernel.params}
    rebuild(b, kernel.body.ops, env, handlers)
    body = remove_dead(b.block)
    used: set[Value] = {v for op in walk(body) for v in op.operands}
    params = tuple(p for p in (counts, *kernel.params) if p in used)
    return replace(kernel, params=params, body=body)
