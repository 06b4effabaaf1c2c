"""Central differences in float64, and how closely each dtype is compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.evaluate.compiler import compile_kernel
from undertow.evaluate.copies import copied
from undertow.evaluate.launch import Argument, Constants
from undertow.evaluate.program import Program
from undertow.ir import Kernel, walk

STEP = 6e-6
"""The cube root of float64's precision, where truncation and rounding errors meet."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far from the oracle a result may be: atol + rtol * |expected|, and why."""

    rtol: float
    atol: float
    reason: str


TOLERANCES: dict[str, Tolerance] = {
    "f64": Tolerance(1e-9, 1e-10, "both sides are float64; sums may be reordered"),
    "f32": Tolerance(
        1e-4, 1e-5, "approximate exp, log and division cost about 2^-21 each"
    ),
    "f16": Tolerance(
        4e-3, 2e-3, "rounding to 11 bits, a few times between load and store"
    ),
    "bf16": Tolerance(
        3e-2, 1e-2, "rounding to 8 bits, a few times between load and store"
    ),
    "f8e4m3": Tolerance(0.15, 0.05, "one rounding to 4 bits"),
    "f8e5m2": Tolerance(0.3, 0.1, "one rounding to 3 bits"),
    "difference": Tolerance(
        1e-6, 1e-7, "central differences lose a third of the digits"
    ),
}
"""By the dtype of the tensor compared, for cotangents of order one."""


def finite_differences(
    kernel: Kernel,
    args: Mapping[str, Argument],
    grid: tuple[int, ...],
    wrt: Sequence[str],
    cotangents: Mapping[str, Tensor],
    *,
    step: float = STEP,
) -> dict[str, Tensor]:
    """Derivatives of L = sum of <cotangent, output> by the elements of tensors.

    Args:
        kernel: the forward kernel, run twice an element.
        args: its arguments, left as they are; floats are copied to float64.
        grid: its grid.
        wrt: names of pointer parameters of floats.
        cotangents: for each output parameter a tensor of the output's shape.
        step: the relative step; it is absolute for elements below one.

    Returns:
        For each name a contiguous float64 tensor of the argument's shape.
    """
    loss = _Loss.of(kernel, args, grid, cotangents)
    results: dict[str, Tensor] = {}
    for name in wrt:
        point = loss.point(name)
        gradient = torch.zeros(point.shape, dtype=torch.float64, device=point.device)
        for index in _indices(point.shape):
            h = step * max(1.0, abs(float(point[index])))
            direction = torch.zeros_like(gradient)
            direction[index] = 1.0
            gradient[index] = loss.slope({name: direction}, h)
        results[name] = gradient
    return results


def directional_difference(
    kernel: Kernel,
    args: Mapping[str, Argument],
    grid: tuple[int, ...],
    directions: Mapping[str, Tensor],
    cotangents: Mapping[str, Tensor],
    *,
    step: float = STEP,
) -> float:
    """The derivative of L = sum of <cotangent, output> along `directions`."""
    loss = _Loss.of(kernel, args, grid, cotangents)
    return loss.slope(directions, step)


@dataclass(frozen=True, slots=True)
class _Loss:
    program: Program
    args: Mapping[str, Argument]
    grid: tuple[int, ...]
    cotangents: Mapping[str, Tensor]
    constants: Constants

    @staticmethod
    def of(
        kernel: Kernel,
        args: Mapping[str, Argument],
        grid: tuple[int, ...],
        cotangents: Mapping[str, Tensor],
    ) -> _Loss:
        """With what the user said are constants as they are without any step."""
        program, constants = compile_kernel(kernel, torch.float64), Constants()
        if any(op.opcode == "stop" for op in walk(kernel.body)):
            program(copied(args, torch.float64), grid, constants=constants)
        return _Loss(program, args, grid, cotangents, constants)

    def point(self, name: str) -> Tensor:
        argument = self.args[name]
        assert isinstance(argument, Tensor), name
        assert argument.is_floating_point(), name
        return argument.detach()

    def slope(self, directions: Mapping[str, Tensor], h: float) -> float:
        """The slope, from the difference of each element: the sums may be huge.

        An element that does not move has no slope, whatever it is.
        """
        high, low = self.at(directions, h), self.at(directions, -h)
        total = 0.0
        for name, cotangent in self.cotangents.items():
            moved = torch.where(high[name] == low[name], 0.0, high[name] - low[name])
            total += float((moved * cotangent.to(torch.float64)).sum())
        return total / (2 * h)

    def at(self, directions: Mapping[str, Tensor], h: float) -> dict[str, Tensor]:
        """The outputs at a step along `directions`."""
        args = copied(self.args, torch.float64)
        for name, direction in directions.items():
            moved = args[name]
            assert isinstance(moved, Tensor)
            moved.add_(direction, alpha=h)
        self.program(args, self.grid, constants=self.constants.replay())
        outputs: dict[str, Tensor] = {}
        for name in self.cotangents:
            output = args[name]
            assert isinstance(output, Tensor)
            outputs[name] = output
        return outputs


def _indices(shape: torch.Size) -> Iterator[tuple[int, ...]]:
    yield from (tuple(index) for index in torch.ones(shape).nonzero().tolist())
