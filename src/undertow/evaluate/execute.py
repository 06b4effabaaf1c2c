"""Running a kernel: as it is, or with everything watched."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from undertow.evaluate.compiler import compile_kernel
from undertow.evaluate.copies import copied
from undertow.evaluate.launch import Argument, Poison
from undertow.evaluate.program import Program
from undertow.evaluate.trace import Report, Trace, Undefined, races, unwritten
from undertow.ir import Kernel, walk

_POISONS = ((float("nan"), 0x5BD1E995), (12289.0, -0x2545F491), (-12289.0, 0x1234567))
"""A NaN is lost on `maxnum`, and a large number of one sign on `max` or `min`."""


def run(
    kernel: Kernel,
    args: Mapping[str, Argument],
    grid: tuple[int, ...],
    *,
    float_dtype: torch.dtype | None = None,
    sanitize: bool = False,
    poison: bool = False,
    lanes: int | None = None,
) -> Report:
    """Executes `kernel` for every program of `grid`, updating tensors in place.

    Args:
        kernel: what to execute.
        args: for each parameter a number, or for a pointer a tensor: the pointer is its
            first element, and offsets count elements of its storage.
        grid: one to three extents; programs are numbered with the first one fastest.
        float_dtype: the dtype in which every float is evaluated, whatever its own (with
            float64 this is the oracle), or None for each value in its own dtype. Only
            with it may a float tensor differ in dtype from its pointer.
        sanitize: fills the report, and leaves out accesses out of bounds.
        poison: fills lanes that a masked load leaves undefined with NaN or a large odd
            integer, otherwise with zero.
        lanes: how many lanes of the widest value are worked on at once (None: as many
            as suit the device).

    Raises:
        LaunchError: the arguments do not fit, or an access is out of bounds.
        UnsupportedError: floats are bitcast while `float_dtype` is given.
    """
    program = compile_kernel(kernel, float_dtype)
    fill = Poison() if poison else None
    if not sanitize:
        program(args, grid, poison=fill, lanes=lanes)
        return Report()
    before, trace = copied(args), Trace()
    program(args, grid, poison=fill, trace=trace, lanes=lanes)
    tensors = {name: arg for name, arg in args.items() if isinstance(arg, Tensor)}
    return Report(
        races(trace, tensors),
        tuple(trace.out_of_bounds.values()),
        unwritten(trace, tensors, _stored(kernel)),
        _undefined(program, before, grid, trace, lanes),
    )


def _stored(kernel: Kernel) -> list[str]:
    return [op.operands[0].name for op in walk(kernel.body) if op.opcode == "store"]


def _undefined(
    program: Program,
    args: Mapping[str, Argument],
    grid: tuple[int, ...],
    trace: Trace,
    lanes: int | None,
) -> tuple[Undefined, ...]:
    """For each load with undefined lanes, whether these change the outcome."""
    found: list[Undefined] = []
    sites = sorted(trace.undefined.items())
    plain = _outcome(program, args, grid, None, lanes) if sites else []
    for number, site in sites:
        leaks = False
        for value, integer in _POISONS:
            poisoned = _outcome(
                program, args, grid, Poison(value, integer, number), lanes
            )
            leaks = leaks or not all(map(torch.equal, plain, poisoned))
        found.append(Undefined(site.param, site.loc, leaks))
    return tuple(found)


def _outcome(
    program: Program,
    args: Mapping[str, Argument],
    grid: tuple[int, ...],
    poison: Poison | None,
    lanes: int | None,
) -> list[Tensor]:
    """The bytes of all tensors after a run, and counts of lanes out of bounds."""
    copies, trace = copied(args), Trace()
    program(copies, grid, poison=poison, trace=trace, lanes=lanes)
    tensors = [arg for arg in copies.values() if isinstance(arg, Tensor)]
    faults = torch.tensor([fault.count for fault in trace.out_of_bounds.values()])
    return [*(_bytes(t) for t in tensors if t.numel()), faults]


def _bytes(tensor: Tensor) -> Tensor:
    return (
        torch.empty(tensor.numel(), dtype=tensor.dtype)
        .copy_(tensor.reshape(-1))
        .view(torch.uint8)
    )
