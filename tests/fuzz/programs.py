"""Random programs: loops in branches in loops, products, carried values, in-place.

A program follows from a seed and a size, so that a failing one is named by two numbers,
and shrinks by its size. Every float is of order one and smooth but for kinks that no
random point lies on; every address is inside of its buffer, since each integer is kept
with the interval it lies in.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fuzz.kernels import Case
from undertow.ir import (
    F32,
    I32,
    Access,
    Block,
    Builder,
    Kernel,
    PointerType,
    TensorType,
    Value,
    scalar,
    verify,
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
class Program:
    """A kernel under construction."""

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

    def case(self) -> Case:
        b = self.b
        self.pid = Int(b.program_id(0), 0, self.programs - 1)
        self.lanes = b.pure(
            "range", (), TensorType(I32, (LANES,)), {"start": 0, "end": LANES}
        )
        count = self.parameter("n", self.live)
        high = b.broadcast(count.value, (LANES,))
        self.mask = b.pointwise("cmp", self.lanes, high, predicate="slt")
        scope = Scope({t: [] for t in SHAPES}, [self.pid, self.parameter("k", 2)])
        for type in (SCALAR, VECTOR, TILE):
            scope.add(self.load(scope, type))
        inplace = self.random.random() < 0.15
        held = self.in_place() if inplace else None
        self.body(scope, depth=0)
        for type in (VECTOR, TILE):
            self.store(scope, scope.floats[type][-1])
        if held is not None:
            base, offsets, x = held
            total = self.binary("add", x, self.pick(scope, VECTOR))
            b.store(Access(base, offsets, total.value, self.masked(total), None))
        kernel = Kernel("program", tuple(self.params), b.block)
        return Case(verify(kernel), self.args, (self.programs,))

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

    # -- statements --

    def body(self, scope: Scope, depth: int) -> None:
        """Statements until those of the program are used up, or a few of a block."""
        count = self.size if depth == 0 else self.random.randint(1, 4)
        for _ in range(count):
            if self.left <= 0:
                return
            self.left -= 1
            self.statement(scope, depth)

    def statement(self, scope: Scope, depth: int) -> None:
        type = self.random.choice(SHAPES)
        x, y = self.pick(scope, type), self.pick(scope, type)
        weights = {
            "unary": 2, "binary": 3, "extreme": 1, "choice": 1, "reduce": 1,
            "widen": 1, "dot": 1, "load": 2, "store": 1,
            "for": 3 if depth < 2 else 0, "if": 2 if depth < 3 else 0,
        }  # fmt: skip
        match self.random.choices(list(weights), list(weights.values()))[0]:
            case "unary":
                scope.add(self.unary(x))
            case "binary":
                opcode = self.random.choice(["add", "sub", "mul"])
                value = self.binary(opcode, x, y)
                scope.add(self.tame(value) if opcode == "mul" else value)
            case "extreme":
                opcode = self.random.choice(["maximum", "minnum"])
                scope.add(self.binary(opcode, x, y))
            case "choice":
                scope.add(self.choice(scope, x, y))
            case "reduce":
                scope.add(self.reduced(scope))
            case "widen":
                scope.add(self.widened(scope))
            case "dot":
                scope.add(self.product(scope))
            case "load":
                loaded = self.load(scope, type)
                opcode = self.random.choice(["mul", "add"])
                scope.add(loaded)
                scope.add(self.tame(self.binary(opcode, loaded, x)))
            case "store":
                self.store(scope, x)
            case "for":
                self.loop(scope, depth)
            case _:
                self.branch(scope, depth)

    # -- branches --

    def condition(self, scope: Scope) -> Value:
        b = self.b
        if self.random.random() < 0.3:
            x = self.pick(scope, SCALAR)
            return b.pointwise("cmp", x.value, self.like(x, 0.05), predicate="ogt")
        x = self.random.choice(scope.ints)
        bound = self.integer(self.random.randint(x.low, x.high + 1)).value
        predicate = self.random.choice(["slt", "sge", "eq"])
        return b.pointwise("cmp", x.value, bound, predicate=predicate)

    def branch(self, scope: Scope, depth: int) -> None:
        condition = self.condition(scope)
        types = [self.random.choice(SHAPES) for _ in range(self.random.randint(0, 2))]
        sides: list[tuple[Block, list[Float]]] = []
        for _ in range(2):
            with self.b.region() as block:
                inner = scope.inside()
                if self.random.random() < 0.8:
                    self.body(inner, depth + 1)
                given = [self.pick(inner, type) for type in types]
                self.b.emit("yield", [x.value for x in given])
            sides.append((block, given))
        (then, left), (otherwise, right) = sides
        results = self.b.branch(condition, then, otherwise, types)
        for value, x, y in zip(results, left, right, strict=True):
            scope.add(Float(value, x.ragged or y.ragged))

    # -- loops --

    def bounds(self, scope: Scope) -> tuple[Int, Int, int]:
        """Lower and upper bound, and the step."""
        step = self.random.choice([1, 1, 1, 2, 3])
        lower = self.integer(self.random.choice([0, 0, 0, 1, -2]))
        match self.random.choice(["number", "argument", "program", "outer", "none"]):
            case "number":
                upper = self.integer(self.random.randint(0, 4))
            case "argument":
                number = self.random.randint(0, 3)
                upper = self.parameter(f"t{len(self.params)}", number)
            case "program":
                upper = self.plus(self.pid, self.integer(self.random.randint(-1, 1)))
            case "outer" if scope.turns:
                upper = self.plus(scope.turns[-1], self.integer(1))
            case "none":
                upper = lower
            case _:
                upper = self.parameter(f"t{len(self.params)}", 2)
        return lower, upper, step

    def turn(self, i: Int, lower: Int, upper: Int) -> list[Int]:
        """What a turn may count with: also downwards, as Triton turns loops around."""
        down = self.b.pointwise("sub", upper.value, i.value)
        back = Int(down, upper.low - i.high, upper.high - i.low)
        return [i, back] if self.random.random() < 0.3 else [i]

    def loop(self, scope: Scope, depth: int) -> None:
        b = self.b
        lower, upper, step = self.bounds(scope)
        trips = max(0, -(-(upper.high - lower.low) // step))
        carried = self.carried(scope)
        advance = self.random.randint(-2, 3)
        counter = self.random.choice(scope.ints) if self.random.random() < 0.4 else None
        initial = [x.value for x, _ in carried]
        initial += [] if counter is None else [counter.value]
        with b.region([Value(scalar(I32)), *initial]) as block:
            i = Int(block.args[0], lower.low, max(lower.low, upper.high - 1))
            inner = scope.inside(i)
            inner.ints += self.turn(i, lower, upper)[1:]
            for (x, _), arg in zip(carried, block.args[1:], strict=False):
                inner.add(Float(arg, x.ragged))
            if counter is not None:
                ends = (0, trips * advance)
                low, high = counter.low + min(ends), counter.high + max(ends)
                moving = Int(block.args[-1], low, high)
                inner.ints.append(moving)
            self.body(inner, depth + 1)
            following = [
                update(self, inner, Float(arg, x.ragged), k).value
                for k, ((x, update), arg) in enumerate(
                    zip(carried, block.args[1:], strict=False)
                )
            ]
            if counter is not None:
                moved = b.pointwise("add", block.args[-1], self.integer(advance).value)
                following.append(moved)
            b.emit("yield", following)
        by = self.integer(step).value
        results = b.loop((lower.value, upper.value, by), initial, block)
        for (x, _), value in zip(carried, results, strict=False):
            scope.add(Float(value, x.ragged))
        if counter is not None:
            scope.ints.append(Int(results[-1], moving.low, moving.high))

    def carried(self, scope: Scope) -> list[tuple[Float, Update]]:
        """What a loop starts with, and how a turn changes it."""
        found: list[tuple[Float, Update]] = []
        for _ in range(self.random.randint(0, 3)):
            type = self.random.choice(SHAPES)
            x = self.pick(scope, type)
            if self.random.random() < 0.3:
                x = Float(self.b.const(self.random.choice([0.0, 0.7]), type))
            ragged = type != SCALAR and self.random.random() < 0.5
            update = self.random.choice(UPDATES)
            found.append((x if ragged or not x.ragged else self.whole(x), update))
        return found

    def fitting(self, x: Float, of: Float) -> Float:
        """`x` defined where the carried `of` is."""
        return x if of.ragged else self.whole(x)


Update = Callable[[Program, Scope, Float, int], Float]


def _sum(p: Program, scope: Scope, arg: Float, _: int) -> Float:
    term = p.fitting(p.pick(scope, arg.value.tensor_type), arg)
    return p.binary("add", arg, term)


def _recurrence(p: Program, scope: Scope, arg: Float, _: int) -> Float:
    x = p.fitting(p.pick(scope, arg.value.tensor_type), arg)
    return Float(p.b.pointwise("sin", p.binary("mul", arg, x).value), arg.ragged)


def _decay(p: Program, scope: Scope, arg: Float, _: int) -> Float:
    x = p.fitting(p.pick(scope, arg.value.tensor_type), arg)
    half = Float(p.b.pointwise("mul", arg.value, p.like(arg, 0.5)), arg.ragged)
    return p.binary("add", half, x)


def _maximum(p: Program, scope: Scope, arg: Float, _: int) -> Float:
    x = p.fitting(p.pick(scope, arg.value.tensor_type), arg)
    return p.binary("maximum", arg, x)


def _forget(p: Program, scope: Scope, arg: Float, _: int) -> Float:
    return p.fitting(p.pick(scope, arg.value.tensor_type), arg)


def _kept(p: Program, scope: Scope, arg: Float, _: int) -> Float:
    return arg


def _fused(p: Program, scope: Scope, arg: Float, k: int) -> Float:
    if arg.value.tensor_type != TILE:
        return _decay(p, scope, arg, k)
    x, y = (p.tame(p.whole(p.pick(scope, TILE))).value for _ in range(2))
    return Float(p.b.dot(x, y, arg.value, "ieee"), arg.ragged)


UPDATES: tuple[Update, ...] = (
    _sum, _sum, _recurrence, _decay, _maximum, _forget, _kept, _fused, _fused
)  # fmt: skip


def program(seed: int, size: int) -> Case:
    """The program of this seed; `size` is how many statements it may have."""
    return Program(seed, size).case()
