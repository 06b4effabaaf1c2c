"""Random programs: loops in branches in loops, products, carried values, in-place.

A program follows from a seed and a size, so that a failing one is named by two numbers,
and shrinks by its size.
"""

from __future__ import annotations

from collections.abc import Callable

from fuzz.kernels import Case
from fuzz.parts import SCALAR, SHAPES, TILE, VECTOR, Float, Int, Parts, Scope
from undertow.ir import I32, Access, Block, Kernel, Value, scalar, verify


class Program(Parts):
    """A kernel under construction, statement by statement."""

    def case(self) -> Case:
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
            self.b.store(Access(base, offsets, total.value, self.masked(total), None))
        kernel = Kernel("program", tuple(self.params), self.b.block)
        return Case(verify(kernel), self.args, (self.programs,))

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
