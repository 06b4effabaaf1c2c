"""Random kernels over tiles of rows and columns, built directly in IR.

Every kernel is one whose outputs are defined: each value remembers which masks its
lanes need to be defined, and is only summed along an axis that needs none. Functions
are smooth and of order one wherever they are computed, so that finite differences
converge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from undertow.ir import (
    F32,
    I32,
    Access,
    Builder,
    DType,
    Kernel,
    PointerType,
    TensorType,
    Value,
    print_kernel,
    scalar,
    verify,
)

Draw = st.DrawFn
Needs = frozenset[str]
"""Which of the masks ``rows`` and ``cols`` a value needs to be defined."""
ALL: Needs = frozenset()


@dataclass(repr=False)
class Case:
    """A kernel and a launch of it; its repr is what hypothesis shows."""

    kernel: Kernel
    args: dict[str, Tensor | int | float]
    grid: tuple[int, ...]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        lines = [print_kernel(self.kernel).rstrip(), f"grid {self.grid}"]
        for name, value in self.args.items():
            held = value.tolist() if isinstance(value, Tensor) else value
            lines.append(f"{name} = {held}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Lanes:
    """A float value of a kernel under construction, and what it needs."""

    value: Value
    needs: Needs = ALL

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


@dataclass
class Tile:
    """A kernel under construction: its tile, its masks, its parameters."""

    draw: Draw
    r: int
    c: int
    m: int
    n: int
    pad: int
    seed: int
    b: Builder = field(default_factory=Builder)
    params: list[Value] = field(default_factory=list)
    args: dict[str, Tensor | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = torch.Generator().manual_seed(self.seed)
        self.size_m, self.size_n = self.number("m", self.m), self.number("n", self.n)
        self.stride = self.number("stride", self.n + self.pad)
        b, pid = self.b, self.b.program_id(0)
        first = b.pointwise("mul", pid, b.const(self.r, scalar(I32)))
        self.rows = b.pointwise(
            "add", b.broadcast(first, (self.r,)), self.range(self.r)
        )
        self.cols = self.range(self.c)
        wide_m = b.broadcast(self.size_m, (self.r,))
        wide_n = b.broadcast(self.size_n, (self.c,))
        self.masks = {
            "rows": b.pointwise("cmp", self.rows, wide_m, predicate="slt"),
            "cols": b.pointwise("cmp", self.cols, wide_n, predicate="slt"),
        }

    @property
    def shape(self) -> tuple[int, int]:
        return (self.r, self.c)

    # -- parameters --

    def number(self, name: str, value: int) -> Value:
        param = Value(scalar(I32), name)
        self.params.append(param)
        self.args[name] = value
        return param

    def pointer(self, kind: str, tensor: Tensor, dtype: DType = F32) -> Value:
        count = sum(p.name.startswith(kind) for p in self.params)
        param = Value(PointerType(dtype), f"{kind}{count}_ptr")
        self.params.append(param)
        self.args[param.name] = tensor
        return param

    def floats(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.random, dtype=torch.float64) * 2 - 1

    # -- lanes --

    def range(self, extent: int) -> Value:
        attrs = {"start": 0, "end": extent}
        return self.b.pure("range", (), TensorType(I32, (extent,)), attrs)

    def row(self, value: Value) -> Value:
        return self.b.broadcast(self.b.expand_dims(value, 1), self.shape)

    def col(self, value: Value) -> Value:
        return self.b.broadcast(self.b.expand_dims(value, 0), self.shape)

    def spread(self, x: Lanes) -> Lanes:
        """Over the tile."""
        if x.shape == self.shape:
            return x
        if x.shape == ():
            return Lanes(self.b.broadcast(x.value, self.shape), x.needs)
        by_row = x.value in self.by_row
        return Lanes((self.row if by_row else self.col)(x.value), x.needs)

    def mask(self, shape: tuple[int, ...], needs: Needs, by_row: bool) -> Value | None:
        if shape == ():
            return None
        if shape != self.shape:
            name = "rows" if by_row else "cols"
            return self.masks[name] if name in needs else None
        parts = [self.row(self.masks["rows"])] if "rows" in needs else []
        parts += [self.col(self.masks["cols"])] if "cols" in needs else []
        mask = parts[0] if parts else None
        return self.b.pointwise("and", *parts) if len(parts) == 2 else mask

    by_row: set[Value] = field(default_factory=set)
    """The vectors that stand for one value a row."""

    def mark(self, x: Lanes, by_row: bool) -> Lanes:
        if len(x.shape) == 1 and by_row:
            self.by_row.add(x.value)
        return x

    # -- memory --

    def load(
        self, base: Value, offsets: tuple[Value, ...], by_row: bool = True
    ) -> Lanes:
        shape = max((o.shape for o in offsets), key=len, default=())
        needs = (
            {"rows", "cols"} if len(shape) == 2 else {"rows"} if by_row else {"cols"}
        )
        if self.n == self.c and self.draw(st.booleans()):
            needs -= {"cols"}
        mask = self.mask(shape, frozenset(needs), by_row)
        type = TensorType(F32, shape)
        other, after = None, frozenset(needs)
        if mask is not None and self.draw(st.booleans()):
            number = self.draw(st.sampled_from([0.0, 0.7, -0.4]))
            other, after = self.b.const(number, type), ALL
        value = self.b.load(Access(base, offsets, None, mask, other), type)
        return self.mark(Lanes(value, after if shape else ALL), by_row)

    def tile_offsets(self) -> tuple[Value, ...]:
        b = self.b
        rows = self.row(self.rows)
        scaled = b.pointwise("mul", rows, b.broadcast(self.stride, self.shape))
        if self.draw(st.booleans()):
            return (b.pointwise("add", scaled, self.col(self.cols)),)
        return (scaled, self.col(self.cols))

    def tile_input(self) -> Lanes:
        x = self.floats(self.m * (self.n + self.pad) or 1)
        return self.load(self.pointer("x", x), self.tile_offsets())

    def row_input(self) -> Lanes:
        return self.load(self.pointer("v", self.floats(self.m)), (self.rows,))

    def col_input(self) -> Lanes:
        return self.load(self.pointer("w", self.floats(self.n)), (self.cols,), False)

    def scalar_input(self) -> Lanes:
        return self.load(self.pointer("s", self.floats(1)), ())

    def gathered_input(self) -> Lanes:
        """Rows of a table by a random index."""
        length = self.draw(st.integers(1, 4))
        index = torch.randint(length, (self.m,), generator=self.random)
        base = self.pointer("i", index.to(torch.int32), I32)
        type = TensorType(I32, (self.r,))
        zero = self.b.const(0, type)
        access = Access(base, (self.rows,), None, self.masks["rows"], zero)
        found = self.row(self.b.load(access, type))
        scaled = self.b.pointwise(
            "mul", found, self.b.broadcast(self.size_n, self.shape)
        )
        table = self.pointer("e", self.floats(length * self.n))
        return self.load(table, (scaled, self.col(self.cols)))

    def store(self, x: Lanes) -> None:
        """Each shape at its own place, under the masks that keep it inside."""
        b, mask = self.b, None
        if x.shape == self.shape:
            y = torch.zeros(self.m * (self.n + self.pad) or 1, dtype=torch.float64)
            offsets = self.tile_offsets()
            mask = self.mask(x.shape, frozenset({"rows", "cols"}), True)
        elif x.shape == () and "rows" not in x.needs:
            y = torch.zeros(-(-self.m // self.r) + 1, dtype=torch.float64)
            offsets = (b.program_id(0),)
        elif x.value in self.by_row:
            y = torch.zeros(self.m, dtype=torch.float64)
            offsets, mask = (self.rows,), self.masks["rows"]
        else:
            self.store(self.spread(x))
            return
        base = self.pointer("y", y)
        b.store(Access(base, offsets, x.value, mask, None))


# -- functions --

Unary = Callable[[Builder, Value], Value]


def _like(b: Builder, x: Value, number: float) -> Value:
    return b.const(number, x.tensor_type)


def _positive(b: Builder, x: Value) -> Value:
    return b.pointwise("add", b.pointwise("mul", x, x), _like(b, x, 0.4))


def _op(opcode: str, positive: bool = False) -> Unary:
    def apply(b: Builder, x: Value) -> Value:
        return b.pointwise(opcode, _positive(b, x) if positive else x)

    return apply


UNARY: tuple[Unary, ...] = (
    *map(_op, "tanh sin cos erf atan abs neg".split()),
    *(_op(name, True) for name in "log sqrt rsqrt reciprocal log2 cbrt".split()),
    lambda b, x: b.pointwise("exp", b.pointwise("sin", x)),
    lambda b, x: b.pointwise("exp2", b.pointwise("tanh", x)),
)
BINARY = "add sub mul div maximum minnum pow atan2 hypot fma clamp where".split()


def _binary(tile: Tile, opcode: str, x: Lanes, y: Lanes) -> Lanes:
    b, needs = tile.b, x.needs | y.needs
    a, c = tile.spread(x).value, tile.spread(y).value
    half = _like(b, a, 0.5)
    if opcode in ("add", "sub"):
        value = b.pointwise("mul", half, b.pointwise(opcode, a, c))
    elif opcode in ("div", "hypot"):
        value = b.pointwise(opcode, a, _positive(b, c))
    elif opcode == "pow":
        value = b.pointwise("pow", _positive(b, a), b.pointwise("tanh", c))
    elif opcode == "fma":
        value = b.pointwise("fma", half, a, b.pointwise("mul", c, c))
    elif opcode == "clamp":
        low, high = _like(b, a, -0.31), b.pointwise("add", b.pointwise("abs", c), half)
        value = b.pointwise("clamp", a, low, high)
    elif opcode == "where":
        value = _where(tile, a, c)
    else:
        value = b.pointwise(opcode, a, c)
    return Lanes(value, needs)


def _where(tile: Tile, a: Value, c: Value) -> Value:
    """Chosen by a value, so that either side may hold what must not leak."""
    b = tile.b
    zero = _like(b, a, 0.0)
    condition = b.pointwise("cmp", a, zero, predicate="ogt")
    if tile.draw(st.booleans()):
        return b.pointwise("select", condition, a, c)
    root = b.pointwise(tile.draw(st.sampled_from(["log1p", "sqrt"])), a)
    return b.pointwise("select", condition, root, c)


def _tame(tile: Tile, x: Lanes) -> Lanes:
    return tile.mark(
        Lanes(tile.b.pointwise("tanh", x.value), x.needs), x.value in tile.by_row
    )


def _masked(tile: Tile, x: Lanes) -> Lanes:
    """Defined everywhere by a constant outside of its masks."""
    mask = tile.mask(x.shape, x.needs, x.value in tile.by_row)
    if mask is None:
        return x
    number = tile.draw(st.sampled_from([0.0, 0.25]))
    value = tile.b.pointwise("select", mask, x.value, _like(tile.b, x.value, number))
    return tile.mark(Lanes(value), x.value in tile.by_row)


def _reduced(tile: Tile, x: Lanes) -> Lanes:
    b, x = tile.b, tile.spread(x)
    axis = tile.draw(st.integers(0, 1))
    gone = {"rows"} if axis == 0 else {"cols"}
    if x.needs & gone:
        x = _masked(tile, x)
    kind = tile.draw(st.sampled_from(["sum", "sum", "max", "min", "prod"]))
    value = b.reduce(x.value, kind, axis)
    whole = axis == 0 and tile.draw(st.booleans())
    if whole:
        if "cols" in x.needs:
            x = _masked(tile, x)
            value = b.reduce(x.value, kind, axis)
        value = b.reduce(value, "sum", 0)
    return _tame(tile, tile.mark(Lanes(value, x.needs), axis == 1))


def _padded_softmax(tile: Tile, x: Lanes) -> Lanes:
    """Padding by −inf, scaled by something differentiated."""
    b, x = tile.b, tile.spread(x)
    mask = tile.mask(x.shape, x.needs | {"cols"}, True)
    assert mask is not None
    low = _like(b, x.value, float("-inf"))
    padded = b.pointwise("select", mask, x.value, low)
    scale = b.pointwise("exp", tile.scalar_input().value)
    scores = b.pointwise("mul", padded, b.broadcast(scale, tile.shape))
    if tile.draw(st.booleans()):
        top = b.expand_dims(b.reduce(scores, "max", 1), 1)
        scores = b.pointwise("sub", scores, b.broadcast(top, tile.shape))
    weights = b.pointwise("exp", scores)
    total = b.broadcast(b.expand_dims(b.reduce(weights, "sum", 1), 1), tile.shape)
    needs = frozenset({"rows", "cols"}) & (x.needs | {"cols"})
    return Lanes(b.pointwise("div", weights, total), needs | {"rows"})


def _moved(tile: Tile, x: Lanes) -> Lanes:
    """There and back through an op that moves lanes, with something done in between."""
    b, x = tile.b, tile.spread(x)
    unary = tile.draw(st.sampled_from(UNARY[:6]))
    way = tile.draw(st.sampled_from(["transpose", "reshape", "join"]))
    if way == "transpose":
        value = b.transpose(unary(b, b.transpose(x.value, (1, 0))), (1, 0))
    elif way == "reshape":
        flat = b.reshape(x.value, (tile.r * tile.c,))
        value = b.reshape(unary(b, flat), tile.shape)
    else:
        first, second = b.split(unary(b, b.join(x.value, unary(b, x.value))))
        if tile.draw(st.booleans()):
            return Lanes(second, x.needs)
        value = b.pointwise("mul", first, second)
    return Lanes(value, x.needs)


def _branch(tile: Tile, x: Lanes, y: Lanes) -> Lanes:
    b, x, y = tile.b, tile.spread(x), tile.spread(y)
    bound = b.const(tile.draw(st.integers(0, 2)), scalar(I32))
    condition = b.pointwise("cmp", b.program_id(0), bound, predicate="slt")
    if tile.draw(st.booleans()):
        flag = tile.number(f"flag{len(tile.params)}", tile.draw(st.integers(0, 1)))
        zero = b.const(0, scalar(I32))
        condition = b.pointwise("cmp", flag, zero, predicate="sgt")
    blocks = []
    needs = x.needs | y.needs
    for side in (x, y):
        with b.region() as block:
            value = tile.draw(st.sampled_from(UNARY))(b, side.value)
            if tile.draw(st.booleans()):
                extra = tile.tile_input()
                needs |= extra.needs
                value = b.pointwise("mul", value, extra.value)
            b.emit("yield", (value,))
        blocks.append(block)
    (result,) = b.branch(condition, *blocks, [x.value.type])
    return _tame(tile, Lanes(result, needs))


@st.composite
def kernels(draw: Draw) -> Case:
    """A random kernel with a launch whose sizes are not multiples of the tile."""
    r, c = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4, 8]))
    m, n = draw(st.integers(1, 7)), draw(st.integers(1, c))
    tile = Tile(draw, r, c, m, n, draw(st.integers(0, 2)), draw(st.integers(0, 999)))
    inputs = [tile.tile_input, tile.row_input, tile.col_input, tile.scalar_input]
    inputs.append(tile.gathered_input)
    pool = [tile.tile_input()]
    for _ in range(draw(st.integers(1, 9))):
        pool.append(_step(tile, pool, inputs))
    tile.store(pool[-1])
    if draw(st.booleans()):
        tile.store(draw(st.sampled_from(pool)))
    programs = -(-m // r) + draw(st.integers(0, 1))
    kernel = Kernel("fuzzed", tuple(tile.params), tile.b.block)
    return Case(verify(kernel), tile.args, (programs,))


def _step(tile: Tile, pool: list[Lanes], inputs: list[Callable[[], Lanes]]) -> Lanes:
    draw = tile.draw
    x = pool[-1] if draw(st.booleans()) else draw(st.sampled_from(pool))
    kinds = [
        "unary",
        "binary",
        "binary",
        "input",
        "reduce",
        "move",
        "branch",
        "softmax",
    ]
    match draw(st.sampled_from(kinds)):
        case "unary":
            unary = draw(st.sampled_from(UNARY))
            value = unary(tile.b, x.value)
            return tile.mark(Lanes(value, x.needs), x.value in tile.by_row)
        case "binary":
            opcode = draw(st.sampled_from(BINARY))
            return _tame(tile, _binary(tile, opcode, x, draw(st.sampled_from(pool))))
        case "input":
            loaded = draw(st.sampled_from(inputs))()
            return _binary(tile, draw(st.sampled_from(["mul", "add"])), loaded, x)
        case "reduce":
            return _reduced(tile, x)
        case "move":
            return _tame(tile, _moved(tile, x))
        case "softmax":
            return _padded_softmax(tile, x)
        case _:
            return _branch(tile, x, draw(st.sampled_from(pool)))
