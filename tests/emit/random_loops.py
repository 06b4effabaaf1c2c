"""Kernels of random loops and branches that carry, pass on and forget values."""

from __future__ import annotations

import random
from collections.abc import Sequence

from emit.roundtrip import LANES, build, loaded, vector
from undertow.ir import (
    I32,
    I64,
    Access,
    Builder,
    Kernel,
    Loc,
    TensorType,
    Type,
    Value,
    scalar,
)
from undertow.ir.types import F32

VECTOR, NUMBER, INT, WIDE = vector("f32"), scalar(F32), scalar(I32), scalar(I64)
SITES = 160
SIZE = SITES * 64 * LANES
"""Elements of the output: each store has a place for eight turns of two loops."""

PARAMS = {"x_ptr": "*f32", "y_ptr": "*f32", "n": "i32", "w": "i64"}

Pool = dict[Type, list[Value]]


def kernel(seed: int) -> Kernel:
    """A kernel that reads LANES elements of x and writes some of the SIZE ones of y."""
    return build(PARAMS, lambda b, *params: _Random(seed, b, *params).body())


class _Random:
    """Builds the body. A pool holds the values that may be used, by type."""

    def __init__(
        self, seed: int, b: Builder, x: Value, y: Value, n: Value, w: Value
    ) -> None:
        self.random, self.b = random.Random(seed), b
        self.x, self.y, self.n, self.w = x, y, n, w
        self.sites = 0
        extent = {"start": 0, "end": LANES}
        self.lanes = b.pure("range", (), TensorType(I32, (LANES,)), extent)

    def body(self) -> None:
        pool: Pool = {
            VECTOR: [loaded(self.b, self.x)],
            NUMBER: [self.b.const(0.5, NUMBER)],
            INT: [self.n, self.b.const(3, INT)],
            WIDE: [self.w, self.b.const(0, WIDE)],
        }
        self.ops(pool, [], self.random.randint(4, 10))
        for values in pool.values():
            for value in values[-3:]:
                self.store(value, [])

    # -- choices --

    def somewhere(self) -> str:
        """Sets the place of what is built next; the variable assigned there."""
        names = ["", "", "", "a", "b", "acc", "m", "n"]
        name = self.random.choice(names)
        self.b.loc = Loc("user.py", self.random.randint(1, 60), 1, name)
        return name

    def pick(self, pool: Pool, type: Type) -> Value:
        return self.random.choice([*pool[type], pool[type][-1]])

    def several(self, pool: Pool, most: int) -> list[Value]:
        types = (VECTOR, VECTOR, VECTOR, INT, WIDE, NUMBER)
        count = self.random.randint(0, most)
        return [self.pick(pool, self.random.choice(types)) for _ in range(count)]

    def following(self, pool: Pool, like: Sequence[Value], new: Pool) -> list[Value]:
        """What a block yields: something new, one of `like`, or anything."""
        found: list[Value] = []
        for value in like:
            chance = self.random.random()
            if chance < 0.55 and new[value.type]:
                found.append(self.random.choice(new[value.type][-3:]))
            elif chance < 0.8:
                alike = [v for v in like if v.type == value.type]
                found.append(self.random.choice(alike))
            else:
                found.append(self.pick(pool, value.type))
        return found

    # -- ops --

    def ops(self, pool: Pool, turns: list[Value], count: int) -> None:
        for _ in range(count):
            chance = self.random.random()
            if chance < 0.12:
                values = pool[self.random.choice([VECTOR, NUMBER, INT, WIDE])]
                self.store(self.random.choice(values), turns)
            elif chance < 0.22 and len(turns) < 3:
                self.branch(pool, turns)
            elif chance < 0.36 and len(turns) < 3:
                self.loop(pool, turns)
            else:
                self.arithmetic(pool)

    def store(self, value: Value, turns: list[Value]) -> None:
        b, size = self.b, LANES
        offsets = [b.const(self.sites * 64 * LANES, INT)]
        for turn in turns[-2:]:
            low = b.pointwise("and", b.cast(turn, I32), b.const(7, INT))
            offsets.append(b.pointwise("mul", low, b.const(size, INT)))
            size *= 8
        self.sites = (self.sites + 1) % SITES
        value = b.broadcast(b.cast(value, F32), (LANES,))
        b.store(Access(self.y, (*offsets, self.lanes), value, None, None))

    def arithmetic(self, pool: Pool) -> None:
        type = self.random.choice([VECTOR, VECTOR, VECTOR, INT, INT, WIDE, NUMBER])
        self.somewhere()
        made = self.floats(pool, type) if type.dtype.is_float else self.ints(pool, type)
        pool[type].append(made)

    def floats(self, pool: Pool, type: TensorType) -> Value:
        b, x = self.b, self.pick(pool, type)
        match self.random.randrange(8):
            case 0:
                return b.pointwise("mul", x, b.const(0.75, type))
            case 1:
                return b.pointwise("exp", b.pointwise("minimum", x, b.const(1.0, type)))
            case 2 if type == VECTOR:
                return b.broadcast(self.pick(pool, NUMBER), (LANES,))
            case 2:
                return b.reduce(self.pick(pool, VECTOR), "max", 0)
            case 3:
                return b.const(self.random.choice([0.0, 1.0, 2.5]), type)
            case _:
                opcode = self.random.choice(["add", "sub", "maximum"])
                return b.pointwise(opcode, x, self.pick(pool, type))

    def ints(self, pool: Pool, type: TensorType) -> Value:
        b, x = self.b, self.pick(pool, type)
        match self.random.randrange(6):
            case 0:
                return b.pointwise("mul", x, b.const(3, type))
            case 1:
                return b.cast(
                    self.pick(pool, INT if type == WIDE else WIDE), type.dtype
                )
            case 2:
                return b.const(self.random.randint(0, 5), type)
            case _:
                opcode = self.random.choice(["add", "sub", "xor"])
                return b.pointwise(opcode, x, self.pick(pool, type))

    def block(self, pool: Pool, turns: list[Value], like: Sequence[Value]) -> None:
        """What stands in a nested block, to its `yield`."""
        inner: Pool = {t: list(values) for t, values in pool.items()}
        self.ops(inner, turns, self.random.randint(0, 5))
        new = {t: values[len(pool[t]) :] for t, values in inner.items()}
        self.b.emit("yield", self.following(inner, like, new))

    def branch(self, pool: Pool, turns: list[Value]) -> None:
        b, one = self.b, self.b.const(1, INT)
        low = b.pointwise("and", self.pick(pool, INT), b.const(3, INT))
        predicate = self.random.choice(["eq", "ne", "slt"])
        condition = b.pointwise("cmp", low, one, predicate=predicate)
        like = self.several(pool, 3)
        with b.region() as then:
            self.block(pool, turns, like)
        with b.region() as otherwise:
            self.block(pool, turns, like)
        for result in b.branch(condition, then, otherwise, [v.type for v in like]):
            result.name = self.somewhere()
            pool[result.type].append(result)

    def loop(self, pool: Pool, turns: list[Value]) -> None:
        b, initial = self.b, self.several(pool, 4)
        type = self.random.choice([INT, INT, INT, WIDE])
        upper = b.pointwise("and", self.pick(pool, type), b.const(3, type))
        if self.random.random() < 0.4:
            upper = b.const(self.random.randint(0, 4), type)
        bounds = (
            b.const(self.random.randint(0, 2), type),
            upper,
            b.const(self.random.choice([1, 1, 2]), type),
        )
        variable = Value(type, self.random.choice(["", "i", "k"]))
        carried = [Value(v.type, self.somewhere()) for v in initial]
        with b.region([variable, *carried]) as block:
            inner = {t: list(values) for t, values in pool.items()}
            for arg in block.args:
                inner[arg.type].append(arg)
            self.block(inner, [*turns, block.args[0]], block.args[1:])
        self.somewhere()
        for arg, result in zip(carried, b.loop(bounds, initial, block), strict=True):
            result.name = arg.name
            pool[result.type].append(result)
