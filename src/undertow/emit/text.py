"""Pieces of expressions as text, with the precedence that decides about parentheses."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from undertow.ir import DType

Shape = tuple[int, ...]

ATOM, UNARY, PRODUCT, SUM, SHIFT, AND, XOR, OR, COMPARE = range(9)
"""Python's precedence levels, tightest first."""


@dataclass(frozen=True, slots=True)
class Text:
    """An expression and how tightly its outermost operator binds."""

    text: str
    level: int = ATOM

    def within(self, level: int) -> str:
        """The text as an operand of an operator of `level`."""
        return self.text if self.level <= level else f"({self.text})"


OPERATORS: dict[str, tuple[str, int]] = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "div": ("/", PRODUCT),
    "sdiv": ("//", PRODUCT),
    "srem": ("%", PRODUCT),
    "udiv": ("//", PRODUCT),
    "urem": ("%", PRODUCT),
    "shl": ("<<", SHIFT),
    "sshr": (">>", SHIFT),
    "ushr": (">>", SHIFT),
    "and": ("&", AND),
    "xor": ("^", XOR),
    "or": ("|", OR),
}
"""Opcodes that Python writes as an operator."""


def binary(operator: str, level: int, left: Text, right: Text) -> Text:
    """``left operator right``; operators of one level associate to the left."""
    return Text(f"{left.within(level)} {operator} {right.within(level - 1)}", level)


def call(function: str, *arguments: str) -> Text:
    return Text(f"{function}({', '.join(arguments)})")


def single(value: float) -> float:
    """The float32 closest to `value`; an infinity beyond its range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def shortest(value: float) -> float:
    """The number with the fewest digits that a float32 cannot tell from `value`."""
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next((v for v in map(float, texts) if single(v) == value), value)


def number(value: int | float | bool) -> Text:
    """A literal as it is written in a kernel."""
    if isinstance(value, float) and not math.isfinite(value):
        sign = "-" if value < 0 else ""
        name = "nan" if math.isnan(value) else "inf"
        return Text(f'{sign}float("{name}")', UNARY if sign else ATOM)
    text = repr(value).replace("e+", "e")
    return Text(text, UNARY if value < 0 else ATOM)


_TRITON = {
    "i1": "tl.int1",
    "i8": "tl.int8",
    "i16": "tl.int16",
    "i32": "tl.int32",
    "i64": "tl.int64",
    "f8e4m3": "tl.float8e4nv",
    "f8e5m2": "tl.float8e5",
    "f16": "tl.float16",
    "bf16": "tl.bfloat16",
    "f32": "tl.float32",
    "f64": "tl.float64",
}


def dtype(of: DType, *, unsigned: bool = False) -> str:
    """The Triton name of a dtype."""
    name = _TRITON[of.name]
    return name.replace("tl.int", "tl.uint") if unsigned else name


def shape(extents: tuple[str, ...]) -> str:
    """A tuple display."""
    return f"({extents[0]},)" if len(extents) == 1 else f"({', '.join(extents)})"


def broadcast_shape(shapes: Sequence[Shape]) -> Shape | None:
    """The shape that operands of `shapes` broadcast to; None if they do not."""
    if len(set(shapes)) == 1:
        return shapes[0]
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    result = tuple(max(column) for column in zip(*padded, strict=True)) if rank else ()
    ok = all(a in (1, b) for s in padded for a, b in zip(s, result, strict=True))
    return result if ok else None
