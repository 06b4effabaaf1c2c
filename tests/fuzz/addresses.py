"""Random addresses, affine or with divisions, and the numbers they come to.

Each index is built twice: as IR, and as a tensor that holds its value in every program
and lane of one launch, in integers too wide to wrap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from undertow.analysis.addresses import Addresses
from undertow.analysis.exclusive import Exclusive, Shared
from undertow.ir import (
    F32,
    I32,
    Access,
    Builder,
    Kernel,
    PointerType,
    TensorType,
    Value,
    print_kernel,
    scalar,
    verify,
)
from undertow.transform.fold import fold
from undertow.transform.place import find, program_axes, visit

INDEX = "index_ptr"
"""A buffer that holds no integer twice."""


@dataclass(frozen=True)
class Index:
    """An integer of each program and lane; numbers has axes (pid 0, pid 1, lanes…)."""

    value: Value
    numbers: Tensor


@dataclass(repr=False)
class Accesses:
    """A kernel that adds to one buffer, a launch, and the addresses it touches."""

    kernel: Kernel
    launch: dict[str, int]
    touched: list[int]

    def finding(self) -> Exclusive | Shared:
        ops = [
            (op, path)
            for op, path in visit(self.kernel.body)
            if op.opcode == "atomic_add"
        ]
        return find(Addresses([INDEX]), ops, program_axes(self.kernel))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        text = print_kernel(self.kernel)
        printer.text(f"{text}{self.launch}\ntouches {sorted(self.touched)}")


@dataclass
class Building:
    """A kernel under construction over one grid."""

    draw: st.DrawFn
    grid: tuple[int, int]
    b: Builder = field(default_factory=lambda: Builder(fold))
    params: list[Value] = field(default_factory=list)
    launch: dict[str, int] = field(default_factory=dict)
    indices: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.launch |= {f"grid{i}": n for i, n in enumerate((*self.grid, 1))}
        self.shuffled = self.draw(st.permutations(range(8)))

    # -- atoms --

    def constant(self, number: int) -> Index:
        return Index(self.b.const(number, scalar(I32)), torch.full((1, 1), number))

    def argument(self, number: int) -> Index:
        """An integer argument; the same number may be passed twice."""
        param = Value(scalar(I32), f"n{len(self.params)}")
        self.params.append(param)
        self.launch[param.name] = number
        return Index(param, torch.full((1, 1), number))

    def known(self, number: int) -> Index:
        """A number the compiler sees, or one only the launch knows."""
        return (self.constant if self.draw(st.booleans()) else self.argument)(number)

    def program(self, axis: int) -> Index:
        shape = [1, 1]
        shape[axis] = self.grid[axis]
        numbers = torch.arange(self.grid[axis]).reshape(shape)
        return Index(self.b.program_id(axis), numbers)

    def lane(self, shape: tuple[int, ...], axis: int) -> Index:
        extent, start = shape[axis], self.draw(st.sampled_from([0, 0, 0, 3]))
        attrs = {"start": start, "end": start + extent}
        value = self.b.pure("range", (), TensorType(I32, (extent,)), attrs)
        for other in range(len(shape)):
            if other != axis:
                value = self.b.expand_dims(value, other)
        numbers = torch.arange(start, start + extent)
        wide = [1, 1, *(extent if i == axis else 1 for i in range(len(shape)))]
        return Index(self.b.broadcast(value, shape), numbers.reshape(wide))

    # -- arithmetic --

    def op(self, opcode: str, x: Index, y: Index) -> Index:
        shape = x.value.shape or y.value.shape
        wide = [self.b.broadcast(v, shape) for v in (x.value, y.value)]
        value = self.b.pointwise(opcode, *wide)
        a, c = (self.lined(v.numbers, shape) for v in (x, y))
        match opcode:
            case "add":
                numbers = a + c
            case "mul":
                numbers = a * c
            case "sdiv":
                numbers = torch.div(a, c, rounding_mode="trunc")
            case _:
                numbers = torch.fmod(a, c)
        return Index(value, numbers)

    def lined(self, numbers: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A scalar of each program beside the lanes."""
        missing = len(shape) + 2 - numbers.dim()
        return numbers.reshape(*numbers.shape, *(1,) * missing)

    def sum(self, *terms: Index) -> Index:
        total = terms[0]
        for term in terms[1:]:
            total = self.op("add", total, term)
        return total

    def below(self, x: Index, high: Index) -> Index:
        shape = x.value.shape
        wide = self.b.broadcast(high.value, shape)
        value = self.b.pointwise("cmp", x.value, wide, predicate="slt")
        return Index(value, x.numbers < self.lined(high.numbers, shape))

    # -- addresses --

    def small(self) -> int:
        return self.draw(st.sampled_from([1, 1, 2, 3, 4, 5, 8, 12, 16, -1, -2, 0]))

    def scaled(self, parts: list[Index]) -> Index:
        """A sum that often tells its parts apart: a weight passes what came before."""
        terms: list[Index] = []
        span = 1
        for x in parts:
            weight = self.small()
            if self.draw(st.integers(0, 3)):
                weight = span + self.draw(st.sampled_from([0, 0, 0, 1, -1]))
            terms.append(self.op("mul", x, self.known(weight)))
            span += abs(weight) * int(x.numbers.abs().max())
        return self.sum(*terms)

    def blocked(self, shape: tuple[int, ...], axis: int, lane: int) -> Index:
        """A program's block of lanes: pid · BLOCK + lane, or something like it."""
        width = shape[lane] + self.draw(st.sampled_from([0, 0, 0, 1, -1]))
        first = self.op("mul", self.program(axis), self.known(width))
        return self.sum(self.lane(shape, lane), first)

    def divided(self, x: Index) -> list[Index]:
        c = self.known(self.draw(st.sampled_from([1, 2, 3, 4, 5, 8, -2])))
        high, low = self.op("sdiv", x, c), self.op("srem", x, c)
        if self.draw(st.booleans()):
            return [*self.divided(self.draw(st.sampled_from([high, low]))), high, low]
        return [high, low]

    def parts(self, shape: tuple[int, ...]) -> list[Index]:
        """Indices to put into an address and into masks."""
        found: list[Index] = []
        pids = [self.program(axis) for axis in (0, 1)]
        for lane in range(len(shape)):
            kind = self.draw(st.sampled_from(["lane", "blocked", "divided"]))
            x = self.lane(shape, lane)
            if kind != "lane":
                x = self.blocked(shape, self.draw(st.integers(0, 1)), lane)
            found += self.divided(x) if kind == "divided" else [x]
        rest = [pid for pid in pids if self.draw(st.integers(0, 3))]
        for pid in rest:
            found += self.divided(pid) if self.draw(st.booleans()) else [pid]
        return self.draw(st.permutations(found or pids))

    def mask(self, shape: tuple[int, ...], parts: list[Index]) -> Index | None:
        conjuncts: list[Index] = []
        for x in parts:
            if x.value.shape == shape and self.draw(st.booleans()):
                high = self.known(self.draw(st.integers(0, 20)))
                conjuncts.append(self.below(x, high))
        mask: Index | None = None
        for x in conjuncts:
            mask = x if mask is None else self.both(mask, x)
        return mask

    def both(self, x: Index, y: Index) -> Index:
        value = self.b.pointwise("and", x.value, y.value)
        return Index(value, x.numbers & y.numbers)

    def loaded(
        self, shape: tuple[int, ...], parts: list[Index]
    ) -> tuple[Index, Index | None]:
        """An index that is loaded from a place made of `parts`, and its mask."""
        place, base = self.scaled(parts), Value(PointerType(I32), INDEX)
        base = next((p for p in self.params if p.name == INDEX), base)
        if base not in self.params:
            self.params.append(base)
        of = place.value.shape
        mask = self.mask(shape, parts) if of else None
        other = None if mask is None else self.b.const(0, TensorType(I32, of))
        on = None if mask is None else mask.value
        access = Access(base, (place.value,), None, on, other)
        full = place.numbers.expand(*self.grid, *of)
        numbers = torch.tensor([self.element(int(at)) for at in full.flatten()])
        numbers = numbers.reshape(full.shape)
        if mask is not None:
            numbers = torch.where(mask.numbers.expand(full.shape), numbers, 0)
        return Index(self.b.load(access, TensorType(I32, of)), numbers), mask

    def element(self, place: int) -> int:
        """What stands in the buffer of indices at `place`."""
        if place not in self.indices:
            block, rest = divmod(len(self.indices), len(self.shuffled))
            number = block * len(self.shuffled) + self.shuffled[rest]
            self.indices[place] = number - 3
        return self.indices[place]

    def access(self, base: Value, shape: tuple[int, ...], indexed: bool) -> list[int]:
        """Adds to a few addresses that differ in where they start; what is touched."""
        b, parts, guard = self.b, self.parts(shape), None
        mask, touched = self.mask(shape, parts), list[int]()
        if indexed:
            inner = self.draw(st.integers(1, len(parts)))
            index, guard = self.loaded(shape, parts[:inner])
            parts = [*parts[inner - self.draw(st.sampled_from([0, 0, 0, 1])) :], index]
        address = self.scaled(parts)
        if guard is not None and self.draw(st.booleans()):
            mask = guard if mask is None else self.both(mask, guard)
        value = b.const(1.0, TensorType(F32, shape))
        for _ in range(self.draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2, 3]))):
            start = self.known(self.draw(st.integers(0, 12)))
            if self.draw(st.integers(0, 9)) == 0:
                mask = self.mask(shape, parts)
            offsets = (address.value, start.value)
            on = None if mask is None else mask.value
            b.atomic_add(Access(base, offsets, value, on, None))
            full = (*self.grid, *shape)
            start_numbers = self.lined(start.numbers, shape)
            numbers = (self.lined(address.numbers, shape) + start_numbers).expand(full)
            if mask is not None:
                numbers = numbers[mask.numbers.expand(full)]
            touched += numbers.flatten().tolist()
        return touched


@st.composite
def accesses(draw: st.DrawFn, indexed: bool = False) -> Accesses:
    """Accesses of one buffer in one launch, perhaps by a loaded index."""
    grid = draw(st.tuples(st.integers(1, 4), st.integers(1, 3)))
    building = Building(draw, grid)
    base = Value(PointerType(F32), "x_ptr")
    shapes = st.lists(st.sampled_from([1, 2, 4, 8]), max_size=2).map(tuple)
    touched = building.access(base, draw(shapes), indexed)
    if draw(st.integers(0, 7)) == 0:
        touched += building.access(base, draw(shapes), indexed)
    params = (base, *building.params)
    kernel = verify(Kernel("fuzzed", params, building.b.block))
    return Accesses(kernel, building.launch, touched)
