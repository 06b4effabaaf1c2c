"""A launch: arguments bound to parameters, and the programs being executed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from undertow.errors import LaunchError
from undertow.evaluate.dtypes import torch_dtype, wrapped
from undertow.evaluate.reach import flat
from undertow.evaluate.trace import Trace
from undertow.ir import DType, Kernel, PointerType, Value

EMPTY = torch.empty(0)
"""Stands where there is no value."""

Argument = Tensor | int | float | bool
Grid = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Poison:
    """What undefined lanes of a load hold; `only` limits it to one load (by number)."""

    number: float = float("nan")
    integer: int = 0x5BD1E995
    only: int | None = None


@dataclass(frozen=True, slots=True)
class Buffer:
    """What a pointer can reach: the elements of a tensor from its first to its last."""

    tensor: Tensor
    flat: Tensor

    @property
    def extent(self) -> int:
        return self.flat.shape[0]


@dataclass(slots=True)
class Constants:
    """What the user said are constants, as one run of a kernel found them.

    The first run writes them down, in the order in which it comes to them; later ones,
    which differ from it too little to take other branches, read them again.
    """

    values: list[Tensor] = field(default_factory=lambda: list[Tensor]())
    position: int | None = None

    def take(self, value: Tensor) -> Tensor:
        if self.position is None:
            self.values.append(value)
            return value
        self.position += 1
        return self.values[self.position - 1]

    def replay(self) -> Constants:
        """The same constants, for another run."""
        return Constants(self.values, 0)


@dataclass(slots=True)
class Launch:
    """A chunk of programs under execution.

    `active` says which of them take part: one bool a program, or None for all.
    """

    kernel: Kernel
    grid: Grid
    start: int
    count: int
    device: torch.device
    buffers: Mapping[str, Buffer]
    poison: Poison | None = None
    trace: Trace | None = None
    active: Tensor | None = None
    constants: Constants | None = None

    def constant(self, value: Tensor) -> Tensor:
        """What `value` was in the run that is held constant, if there is one."""
        return value if self.constants is None else self.constants.take(value)

    def program_id(self, axis: int) -> Tensor:
        return _program_id(self.grid, axis, self.start, self.count, self.device)


@lru_cache(maxsize=256)
def _program_id(
    grid: Grid, axis: int, start: int, count: int, device: torch.device
) -> Tensor:
    if grid[axis] == 1:
        return torch.zeros(1, dtype=torch.int32, device=device)
    linear = torch.arange(start, start + count, device=device)
    for extent in grid[:axis]:
        linear = linear.div(extent, rounding_mode="floor")
    return (linear % grid[axis]).to(torch.int32)


def coordinates(program: int, grid: Grid) -> Grid:
    """The program ids of a program's number; x counts fastest."""
    x, rest = program % grid[0], program // grid[0]
    return x, rest % grid[1], rest // grid[1]


def full_grid(grid: tuple[int, ...], kernel: Kernel) -> Grid:
    """`grid` with three extents; LaunchError if it is not one to three integers."""
    extents = tuple(int(extent) for extent in grid)
    if not 1 <= len(extents) <= 3 or min(extents) < 0:
        raise LaunchError(
            f"a grid has one to three extents, got {grid}", kernel=kernel.name
        )
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


# -- arguments -------------------------------------------------------------------------


def bind(
    kernel: Kernel, args: Mapping[str, Argument], float_dtype: torch.dtype | None
) -> tuple[torch.device, dict[str, Buffer], list[Tensor]]:
    """The device, a buffer for each pointer, and a tensor for each other parameter.

    Raises:
        LaunchError: an argument is missing, unknown, or does not fit its parameter.
    """
    names = [p.name for p in kernel.params]
    if len(args) != len(names) or any(name not in args for name in names):
        _refuse_names(kernel, set(names), set(args))
    devices = {a.device for a in args.values() if isinstance(a, Tensor)}
    if len(devices) > 1:
        listed = ", ".join(sorted(map(str, devices)))
        raise LaunchError(
            f"the arguments are on several devices: {listed}", kernel=kernel.name
        )
    device = next(iter(devices), torch.device("cpu"))
    buffers: dict[str, Buffer] = {}
    scalars: list[Tensor] = []
    for param in kernel.params:
        argument = args[param.name]
        if isinstance(param.type, PointerType):
            buffers[param.name] = _buffer(kernel, param, argument, float_dtype)
            scalars.append(EMPTY)
        else:
            scalars.append(_scalar(kernel, param, argument, float_dtype, device))
    return device, buffers, scalars


def _refuse_names(kernel: Kernel, names: set[str], given: set[str]) -> None:
    missing = ", ".join(f"`{n}`" for n in sorted(names - given))
    extra = ", ".join(f"`{n}`" for n in sorted(given - names))
    fact = (
        f"arguments are missing: {missing}"
        if missing
        else f"unknown arguments: {extra}"
    )
    raise LaunchError(fact, kernel=kernel.name)


def _buffer(
    kernel: Kernel, param: Value, argument: Argument, float_dtype: torch.dtype | None
) -> Buffer:
    assert isinstance(param.type, PointerType)
    element = param.type.element
    if not isinstance(argument, Tensor):
        raise LaunchError(
            f"`{param.name}` is a pointer, got {type(argument).__name__}",
            kernel=kernel.name,
        )
    if fault := without_memory(argument):
        raise LaunchError(
            f"`{param.name}` is a tensor {fault}",
            kernel=kernel.name,
            hint="pass a dense tensor that has memory",
        )
    held, wanted = argument.dtype, torch_dtype(element, None)
    if element.is_float and held.is_floating_point:
        fits = held == wanted or float_dtype is not None
    else:  # torch.uint8 and torch.bool tensors are read as the bits they are
        fits = element.is_int and _is_integer(held) and held.itemsize == wanted.itemsize
    if not fits:
        raise LaunchError(
            f"`{param.name}` is a pointer to {element}, got a tensor of {held}",
            kernel=kernel.name,
        )
    elements = flat(argument)
    if element.is_int and held != wanted:
        elements = elements.view(wanted)
    return Buffer(argument, elements)


def without_memory(tensor: Tensor) -> str:
    """Why a kernel cannot work on a tensor, or nothing."""
    if tensor.layout is not torch.strided:
        return f"of layout {tensor.layout}"
    if isinstance(tensor, FakeTensor):
        return "that a FakeTensorMode made, which has no memory"
    if tensor._is_zerotensor():
        return "of zeros that are nowhere in memory"
    return "on the meta device, which has no memory" if tensor.is_meta else ""


def _is_integer(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex


def _scalar(
    kernel: Kernel,
    param: Value,
    argument: Argument,
    float_dtype: torch.dtype | None,
    device: torch.device,
) -> Tensor:
    dtype = param.tensor_type.dtype
    if isinstance(argument, Tensor) or (dtype.is_int and isinstance(argument, float)):
        raise LaunchError(
            f"`{param.name}` is {dtype}, got {type(argument).__name__}",
            kernel=kernel.name,
        )
    held = torch_dtype(dtype, float_dtype)
    if dtype.is_int:
        value = _integer(kernel, param, int(argument), dtype)
    else:
        value = _float(kernel, param, argument, held)
    return torch.full((1,), value, dtype=held, device=device)


def _float(
    kernel: Kernel, param: Value, argument: int | float, held: torch.dtype
) -> float:
    try:
        value = float(argument)
    except OverflowError:  # an integer
        value = sys.float_info.max
    if sys.float_info.max >= abs(value) > torch.finfo(held).max:
        raise LaunchError(
            f"`{param.name}` is {param.tensor_type.dtype}, {argument} does not fit",
            kernel=kernel.name,
            why="Triton takes floats for float32, unless a parameter is annotated",
        )
    return value


def _integer(kernel: Kernel, param: Value, value: int, dtype: DType) -> int:
    if dtype.bits == 1:
        return int(bool(value))
    if not -(1 << (dtype.bits - 1)) <= value < 1 << dtype.bits:
        raise LaunchError(
            f"`{param.name}` is {dtype}, {value} does not fit", kernel=kernel.name
        )
    return wrapped(value, dtype.bits)
