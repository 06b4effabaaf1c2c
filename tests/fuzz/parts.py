"""What random programs are made of: integers, accesses, floats.

Every float is of order one and smooth but for kinks that no random point lies on; every
address is inside of its buffer, since each integer is kept with the interval it is in.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch
from torch import Tensor

from undertow.ir import (
    F32,
    I32,
    Access,
    Builder,
    PointerType,
    TensorType,
    Value,
    scalar,
)

LANES = 4
SCALAR, VECTOR, TILE = scalar(F32), TensorType(F32, (LANES,)), TensorType(F32, (4, 4))
SHAPES = (SCALAR, VECTOR, VECTOR, TILE)


@dataclass(frozen=True)
class Int:
    """An integer scalar, and the lowest and highest value it has."""

    value: Value
    low: int
    high: int


@dataclass(frozen=True)
class Float:
    """A float; `ragged` if lanes beyond the mask of loads may be undefined."""

    value: Value
    ragged: bool = False


@dataclass
class Scope:
    """What may be used at a point, and the loops around it by their variables."""

    floats: dict[TensorType, list[Float]]
    ints: list[Int]
    turns: tuple[Int, ...] = ()

    def inside(self, *turns: Int) -> Scope:
        floats = {type: list(held) for type, held in self.floats.items()}
        return Scope(floats, [*self.ints, *turns], (*self.turns, *turns))

    def add(self, x: Float) -> None:
        self.floats[x.value.tensor_type].append(x)


@dataclass
class Parts:
    """A kernel under construction, and what may be put into it."""

    seed: int
    size: int
    b: Builder = field(default_factory=Builder)
    params: list[Value] = field(default_factory=list)
    args: dict[str, Tensor | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.generator = torch.Generator().manual_seed(self.seed)
        self.programs = self.random.randint(1, 3)
        self.live = self.random.choice([LANES, LANES, 1, 2, 3])
        self.left = self.size
        self.pid = Int(self.b.program_id(0), 0, self.programs - 1)
        lanes = {"start": 0, "end": LANES}
        self.lanes = self.b.pure("range", (), TensorType(I32, (LANES,)), {**lanes})
        high = self.b.broadcast(self.parameter("n", self.live).value, (LANES,))
        self.mask = self.b.pointwise("cmp", self.lanes, high, predicate="slt")

    # -- parameters and choices --

    def parameter(self, name: str, number: int) -> Int:
        param = Value(scalar(I32), name)
        self.params.append(param)
        self.args[name] = number
        return Int(param, number, number)

    def pointer(self, kind: str, tensor: Tensor) -> Value:
        param = Value(PointerType(F32), f"{kind}{len(self.params)}_ptr")
        self.params.append(param)
        self.args[param.name] = tensor
        return param

    def drawn(self, size: int) -> Tensor:
        return torch.rand(size, generator=self.generator, dtype=torch.float64) * 2 - 1

    def pick(self, scope: Scope, type: TensorType) -> Float:
        held = scope.floats[type]
        return self.random.choice([*held, held[-1]])

    def integer(self, number: int) -> Int:
        return Int(self.b.const(number, scalar(I32)), number, number)

    # -- integers --

    def plus(self, x: Int, y: Int) -> Int:
        value = self.b.pointwise("add", x.value, y.value)
        return Int(value, x.low + y.low, x.high + y.high)

    def times(self, x: Int, factor: int) -> Int:
        value = self.b.pointwise("mul", x.value, self.integer(factor).value)
        ends = sorted((x.low * factor, x.high * factor))
        return Int(value, *ends)

    def index(self, scope: Scope) -> Int:
        """A number that may depend on anything in scope."""
        total = self.integer(self.random.randint(0, 3))
        for x in scope.ints:
            if self.random.random() < 0.6:
                factor = self.random.choice([1, 1, 2, LANES, LANES, -1])
                total = self.plus(total, self.times(x, factor))
        return total

    def own(self, scope: Scope) -> Int:
        """A number that no other program or turn has."""
        total = self.pid
        for turn in scope.turns:
            extent = turn.high - turn.low + 1
            start = self.plus(turn, self.integer(-turn.low))
            total = self.plus(self.times(total, max(1, extent)), start)
        return total

    # -- memory --

    def offsets(self, start: Int, type: TensorType) -> tuple[Value, ...]:
        b = self.b
        if type == SCALAR:
            return (start.value,)
        if type == VECTOR:
            return (start.value, self.lanes)
        rows = b.pointwise("mul", self.lanes, b.const(LANES, self.lanes.tensor_type))
        row = b.broadcast(b.expand_dims(rows, 1), type.shape)
        return (start.value, row, b.broadcast(b.expand_dims(self.lanes, 0), type.shape))

    def mask_of(self, type: TensorType) -> Value | None:
        if type == SCALAR:
            return None
        if type == VECTOR:
            return self.mask
        return self.b.broadcast(self.b.expand_dims(self.mask, 0), type.shape)

    def masked(self, x: Float) -> Value | None:
        """The mask for a store of `x`: it needs one if lanes are undefined."""
        wanted = x.ragged or self.random.random() < 0.3
        return self.mask_of(x.value.tensor_type) if wanted else None

    def load(self, scope: Scope, type: TensorType) -> Float:
        """From a buffer of its own, or one that was loaded from before."""
        start = self.index(scope)
        start = self.plus(start, self.integer(max(0, -start.low)))
        size = start.high + type.size
        known = [p for p in self.params if self.fits(p, size)]
        if known and self.random.random() < 0.4:
            base = self.random.choice(known)
        else:
            base = self.pointer("x", self.drawn(size))
        mask = self.mask_of(type) if self.random.random() < 0.5 else None
        other = None
        if mask is not None and self.random.random() < 0.5:
            other = self.b.const(self.random.choice([0.0, 0.5]), type)
        access = Access(base, self.offsets(start, type), None, mask, other)
        return Float(self.b.load(access, type), mask is not None and other is None)

    def fits(self, param: Value, size: int) -> bool:
        held = self.args[param.name]
        large = isinstance(held, Tensor) and held.numel() >= size
        return large and param.name.startswith("x")

    def store(self, scope: Scope, x: Float) -> None:
        """Where nothing else stores, or twice, or in two halves of a buffer."""
        type = x.value.tensor_type
        start = self.times(self.own(scope), type.size)
        twice = self.random.random() < 0.15 and not scope.turns
        base = self.pointer("y", torch.zeros(2 * (start.high + type.size)).double())
        for part in range(1 + twice):
            if self.random.random() < 0.5 and part:
                start = self.plus(start, self.integer(start.high + type.size))
            if part:
                x = self.unary(x)
            access = Access(
                base, self.offsets(start, type), x.value, self.masked(x), None
            )
            self.b.store(access)

    def in_place(self) -> tuple[Value, tuple[Value, ...], Float]:
        """A buffer to be overwritten in the end, and what is in it."""
        base = self.pointer("z", self.drawn(LANES * self.programs))
        offsets = self.offsets(self.times(self.pid, LANES), VECTOR)
        access = Access(base, offsets, None, self.mask, None)
        return base, offsets, Float(self.b.load(access, VECTOR), True)

    # -- floats --

    def like(self, x: Float, number: float) -> Value:
        return self.b.const(number, x.value.tensor_type)

    def unary(self, x: Float) -> Float:
        b, opcode = (
            self.b,
            self.random.choice("tanh sin cos neg square exp sqrt".split()),
        )
        if opcode == "square":
            value = b.pointwise("mul", x.value, x.value)
        elif opcode == "exp":
            value = b.pointwise("exp", b.pointwise("sin", x.value))
        elif opcode == "sqrt":
            square = b.pointwise("mul", x.value, x.value)
            value = b.pointwise("sqrt", b.pointwise("add", square, self.like(x, 0.3)))
        else:
            value = b.pointwise(opcode, x.value)
        return self.tame(Float(value, x.ragged))

    def binary(self, opcode: str, x: Float, y: Float) -> Float:
        value = self.b.pointwise(opcode, x.value, y.value)
        return Float(value, x.ragged or y.ragged)

    def tame(self, x: Float) -> Float:
        """Of order one: carried around a loop, a product would grow without bound."""
        return Float(self.b.pointwise("sin", x.value), x.ragged)

    def whole(self, x: Float) -> Float:
        """With every lane defined."""
        mask = self.mask_of(x.value.tensor_type)
        if not x.ragged or mask is None:
            return x
        return Float(self.b.pointwise("select", mask, x.value, self.like(x, 0.0)))

    def choice(self, scope: Scope, x: Float, y: Float) -> Float:
        """By a float, or by a mask of lanes."""
        b, mask = self.b, self.mask_of(x.value.tensor_type)
        if mask is not None and self.random.random() < 0.4:
            value = b.pointwise("select", mask, x.value, y.value)
            return Float(value, y.ragged or x.ragged)
        by = self.pick(scope, x.value.tensor_type)
        condition = b.pointwise("cmp", by.value, self.like(by, 0.1), predicate="ogt")
        value = b.pointwise("select", condition, x.value, y.value)
        return Float(value, x.ragged or y.ragged or by.ragged)

    def reduced(self, scope: Scope) -> Float:
        x = self.whole(self.pick(scope, self.random.choice([VECTOR, TILE])))
        kind = self.random.choice(["sum", "sum", "max", "min", "prod"])
        value = self.b.reduce(x.value, kind, self.random.randrange(len(x.value.shape)))
        return Float(self.b.pointwise("sin", value))

    def widened(self, scope: Scope) -> Float:
        b = self.b
        if self.random.random() < 0.4:
            target = self.random.choice([VECTOR, TILE])
            return Float(b.broadcast(self.pick(scope, SCALAR).value, target.shape))
        x = self.whole(self.pick(scope, VECTOR)).value
        return Float(
            b.broadcast(b.expand_dims(x, self.random.randrange(2)), TILE.shape)
        )

    def product(self, scope: Scope) -> Float:
        x, y = (self.whole(self.pick(scope, TILE)).value for _ in range(2))
        if self.random.random() < 0.3:
            y = self.b.transpose(y, (1, 0))
        acc = Float(self.b.const(0.0, TILE))
        if self.random.random() < 0.6:
            acc = self.pick(scope, TILE)
        value = self.b.dot(x, y, acc.value, "ieee")
        return self.tame(Float(value, acc.ragged))
