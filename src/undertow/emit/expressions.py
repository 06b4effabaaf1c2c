"""Turns values into expressions: named values by name, single-use ones in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from undertow.analysis.addresses import uniform
from undertow.emit import spelling
from undertow.emit.assembly import Assembly, function_of
from undertow.emit.promotion import PROMOTING, foldable, implicit, inside, weak
from undertow.emit.text import (
    AND,
    ATOM,
    COMPARE,
    OPERATORS,
    SUM,
    UNARY,
    Shape,
    Text,
    binary,
    broadcast_shape,
    call,
    dtype,
    number,
    shape,
    shortest,
)
from undertow.ir import F32, F64, I1, I32, Access, DType, Op, Value


@dataclass
class Expressions:
    """Writes values as text.

    Attributes:
        names: the values that have a variable.
        extents: constexpr names by the number they stand for.
        combines: names of the helper functions that reductions need, by kind.
        assemblies: names of those that hold inline assembly.
        shapes: what ops being written give before Triton broadcasts them.
    """

    names: dict[Value, str]
    extents: Mapping[int, str]
    assemblies: dict[Assembly, str]
    combines: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    shapes: dict[Op, Shape] = field(default_factory=lambda: dict[Op, Shape]())

    def text(self, value: Value) -> Text:
        """`value` with exactly its shape, unless it is a literal."""
        if value in self.names:
            return Text(self.names[value])
        if value.op is None:
            return Text(value.name)
        return self.build(value.op)

    def extent(self, size: int) -> str:
        return self.extents.get(size, str(size))

    def build(self, op: Op) -> Text:
        """The expression an op computes, not looking at the name of its result."""
        writer = self._writers.get(op.opcode)
        if writer is not None:
            return writer(op)
        if op.opcode in OPERATORS:
            return self.operator(op)
        arguments = self.spread(op.operands, op.result.shape)
        if op.opcode in spelling.CALLS:
            return self.function(op, arguments)
        return spelling.extremum(op, [t.text for t in arguments])

    @cached_property
    def _writers(self) -> dict[str, Callable[[Op], Text]]:
        return {
            "const": self.const,
            "range": self.range,
            "program_id": lambda op: call("tl.program_id", str(op.int_attr("axis"))),
            "num_programs": lambda op: call(
                "tl.num_programs", str(op.int_attr("axis"))
            ),
            "neg": lambda op: Text(
                f"-{self.spread(op.operands, self.shape_of(op))[0].within(ATOM)}", UNARY
            ),
            "reciprocal": lambda op: binary(
                "/", 1, Text("1.0"), self.text(op.operands[0])
            ),
            "cmp": self.cmp,
            "select": self.select,
            "cast": self.cast,
            "bitcast": self.bitcast,
            "broadcast": self.broadcast,
            "expand_dims": self.expand_dims,
            "reshape": self.reshape,
            "transpose": self.transpose,
            "join": lambda op: call("tl.join", *(self.full(v) for v in op.operands)),
            "split": lambda op: call("tl.split", self.full(op.operands[0])),
            "flip": self.flip,
            "gather": self.gather,
            "reduce": self.reduce,
            "scan": self.scan,
            "recurrence": self.recurrence,
            "dot": self.dot,
            **dict.fromkeys(("inline_asm", "extern"), self.opaque),
            "load": self.load,
            **dict.fromkeys(("isnan", "isinf", "isfinite", "signbit"), self.test),
        }

    # -- shapes ----------------------------------------------------------------------

    def stripped(self, value: Value) -> tuple[Text, Shape]:
        """`value` without the broadcasts Triton does by itself, and its shape then."""
        if value not in self.names and value.op is not None:
            if value.op.opcode == "broadcast":
                return self.stripped(value.op.operands[0])
            if value.op.opcode == "const":
                return self.literal(value.op), ()
            small = self.small(value)
            if small != value.shape:
                self.shapes[value.op] = small
                text = self.build(value.op)
                del self.shapes[value.op]
                return text, small
        return self.text(value), value.shape

    def small(self, value: Value) -> Shape:
        """The shape of `value` before the broadcasts that Triton does by itself."""
        op = value.op
        if op is None or value in self.names:
            return value.shape
        if op.opcode == "const":
            return ()
        if op.opcode == "broadcast":
            return self.small(op.operands[0])
        if op.opcode in OPERATORS or op.opcode in ("cmp", "neg"):
            return broadcast_shape([self.small(v) for v in op.operands]) or value.shape
        return value.shape

    def shape_of(self, op: Op) -> Shape:
        return self.shapes.get(op, op.result.shape)

    def spread(self, values: Sequence[Value], result: Shape) -> list[Text]:
        """Operands that Triton broadcasts to `result` together."""
        parts = [self.stripped(v) for v in values]
        if broadcast_shape([s for _, s in parts]) == result:
            return [text for text, _ in parts]
        return [Text(self.full(values[0])), *(text for text, _ in parts[1:])]

    def full(self, value: Value) -> str:
        """`value` as a tensor of exactly its shape; literals are filled in."""
        return self.whole(value).text

    def whole(self, value: Value) -> Text:
        """The same, with how tightly it binds."""
        op = value.op
        if value in self.names or op is None or op.opcode not in ("const", "broadcast"):
            return self.text(value)
        extents, kind = self.extents_of(value.shape), dtype(value.tensor_type.dtype)
        if op.opcode == "const":
            if spelling.is_zero(value) and value.shape:
                return call("tl.zeros", extents, kind)
            return call("tl.full", extents, self.literal(op).text, kind)
        inner, inner_shape = self.stripped(op.operands[0])
        if not inner_shape:
            return call("tl.full", extents, inner.text, kind)
        return call("tl.broadcast_to", inner.text, extents)

    def extents_of(self, of: Shape) -> str:
        return shape(tuple(self.extent(n) for n in of)) if of else "()"

    # -- sources ---------------------------------------------------------------------

    def literal(self, op: Op) -> Text:
        value = op.attrs["value"]
        assert isinstance(value, int | float)
        of = op.result.tensor_type.dtype
        if of.is_int and of != I1 and value in self.extents:
            return Text(self.extents[int(value)])
        narrow = of.is_float and of != F64 and math.isfinite(value)
        return number(shortest(value) if narrow else value)

    def const(self, op: Op) -> Text:
        return Text(self.full(op.result)) if op.result.shape else self.literal(op)

    def range(self, op: Op) -> Text:
        return call(
            "tl.arange", str(op.int_attr("start")), self.extent(op.int_attr("end"))
        )

    # -- pointwise -------------------------------------------------------------------

    def operator(self, op: Op) -> Text:
        symbol, level = OPERATORS[op.opcode]
        of = op.result.tensor_type.dtype
        if op.opcode == "xor" and of == I1 and spelling.is_true(op.operands[1]):
            return self.inverted(op.operands[0], self.shape_of(op))
        if op.opcode in spelling.UNSIGNED:
            left, right = self.unsigned(op)
            return spelling.as_signed(binary(symbol, level, left, right), of)
        return binary(symbol, level, *self.pair(op, of))

    def unsigned(self, op: Op) -> list[Text]:
        """The operands of `op` as unsigned tensors, which Triton broadcasts."""
        texts = self.spread(op.operands, self.shape_of(op))
        return list(map(self.as_unsigned, op.operands, texts))

    def as_unsigned(self, value: Value, text: Text) -> Text:
        """`text`, which spells `value` in its shape or before a broadcast."""
        of, source = value.tensor_type.dtype, inside(value, self.names)
        op = None if source in self.names else source.op
        if op and op.opcode == "const":
            if text == self.literal(op):
                return spelling.unsigned_literal(op.int_attr("value"), of)
        elif not source.shape and (source.op is None or uniform(source)):
            return call("tl.cast", text.text, dtype(of, unsigned=True))
        return spelling.as_unsigned(text, of)

    def pair(self, op: Op, target: DType) -> list[Text]:
        """Both operands, without a cast that Triton's type promotion makes anyway."""
        promoting = op.opcode in PROMOTING
        for index, value in enumerate(op.operands if promoting else ()):
            inner = implicit(value, target, self.names)
            other = op.operands[1 - index]
            if (
                inner is None
                or foldable(other, self.names)
                or implicit(other, target, self.names) is not None
            ):
                continue
            pair = [other, other]
            pair[index] = inner
            return self.spread(pair, self.shape_of(op))
        return self.spread(op.operands, self.shape_of(op))

    def function(self, op: Op, arguments: list[Text]) -> Text:
        of = op.operands[-1].tensor_type.dtype
        if of == F64 and (exact := spelling.rounded(op.opcode, arguments)):
            return exact
        if op.opcode not in spelling.UNSIGNED:
            return call(spelling.CALLS[op.opcode], *(a.text for a in arguments))
        unsigned = [text.text for text in self.unsigned(op)]
        return spelling.as_signed(call(spelling.CALLS[op.opcode], *unsigned), of)

    def test(self, op: Op) -> Text:
        return spelling.test(op, self.text(op.operands[0]))

    def cmp(self, op: Op) -> Text:
        return self.comparison(op, op.str_attr("predicate"))

    def comparison(self, op: Op, predicate: str) -> Text:
        of = op.operands[0].tensor_type.dtype
        reads_unsigned = of.is_int and predicate.startswith("u")
        a, b = self.unsigned(op) if reads_unsigned else self.pair(op, of)
        first = op.operands[0].op
        if first is not None and first.opcode == "const":  # n > 0, not 0 < n
            a, b, predicate = b, a, spelling.mirrored(predicate)
        return spelling.compare(predicate, of, a, b)

    def inverted(self, condition: Value, shape: Shape | None = None) -> Text:
        """``not condition``; a comparison of integers is turned around instead."""
        op = condition.op
        if condition not in self.names and op is not None and op.opcode == "cmp":
            inverse = spelling.INVERSE.get(op.str_attr("predicate"))
            if inverse and op.operands[0].tensor_type.dtype.is_int:
                return self.comparison(op, inverse)
        (text,) = self.spread((condition,), condition.shape if shape is None else shape)
        return Text(f"~{text.within(ATOM)}", UNARY)

    def select(self, op: Op) -> Text:
        texts = [t.text for t in self.spread(op.operands, op.result.shape)]
        of = op.result.tensor_type.dtype
        if of not in (F32, I32, I1) and all(
            weak(v, self.names) for v in op.operands[1:]
        ):
            texts[1] = f"tl.full((), {texts[1]}, {dtype(of)})"
        return call("tl.where", *texts)

    def cast(self, op: Op) -> Text:
        value, target = op.operands[0], op.result.tensor_type.dtype
        source = value.tensor_type.dtype
        text = self.text(value)
        signed = op.attrs.get("signed", True)
        if target == I1 and source.is_int:  # the lowest bit
            return binary("!=", COMPARE, binary("&", AND, text, Text("1")), Text("0"))
        if not signed and source.is_int and source != I1:
            inner = self.as_unsigned(value, text).text
            return call(f"{inner}.to", dtype(target))
        if not signed and source.is_float and target.is_int and target != I1:
            inner = call(f"{text.within(ATOM)}.to", dtype(target, unsigned=True))
            return spelling.as_signed(inner, target)
        if not value.shape and (value.op is None or uniform(value)):
            return call("tl.cast", text.text, dtype(target))
        return call(f"{text.within(ATOM)}.to", dtype(target))

    def bitcast(self, op: Op) -> Text:
        text = self.text(op.operands[0])
        return call(
            f"{text.within(ATOM)}.to",
            dtype(op.result.tensor_type.dtype),
            "bitcast=True",
        )

    # -- structure -------------------------------------------------------------------

    def broadcast(self, op: Op) -> Text:
        return Text(self.full(op.result))

    def expand_dims(self, op: Op) -> Text:
        """``x[:, None]``; a chain of new axes is one subscript."""
        axes: set[int] = set()
        value, rank = op.result, len(op.result.shape)
        keep = list(range(rank))
        while (
            value.op is not None
            and value.op.opcode == "expand_dims"
            and (value is op.result or value not in self.names)
        ):
            axes.add(keep.pop(value.op.int_attr("axis")))
            value = value.op.operands[0]
        subscript = ", ".join("None" if i in axes else ":" for i in range(rank))
        return Text(f"{self.text(value).within(ATOM)}[{subscript}]")

    def reshape(self, op: Op) -> Text:
        value = op.operands[0]
        if not op.result.shape:  # one lane, whose sum is the scalar
            flat = self.full(value)
            if len(value.shape) > 1:
                flat = call("tl.reshape", flat, "(1,)").text
            return call("tl.sum", flat, "axis=0")
        return call("tl.reshape", self.full(value), self.extents_of(op.result.shape))

    def transpose(self, op: Op) -> Text:
        order = op.tuple_attr("order")
        text = self.full(op.operands[0])
        if order == (1, 0):
            return call("tl.trans", text)
        return call("tl.permute", text, f"({', '.join(map(str, order))})")

    def flip(self, op: Op) -> Text:
        (value,), axis = op.operands, op.int_attr("axis")
        if value.tensor_type.dtype != I1:
            return call("tl.flip", self.full(value), str(axis))
        bits = call(f"{self.whole(value).within(ATOM)}.to", "tl.int8")
        return binary("!=", COMPARE, call("tl.flip", bits.text, str(axis)), Text("0"))

    def gather(self, op: Op) -> Text:
        texts = [self.full(v) for v in op.operands]
        return call("tl.gather", *texts, str(op.int_attr("axis")))

    def reduce(self, op: Op) -> Text:
        kind, axis = op.str_attr("kind"), op.int_attr("axis")
        function = spelling.REDUCTIONS.get(kind)
        text = self.full(op.operands[0])
        if kind in ("umax", "umin"):
            of = op.result.tensor_type.dtype
            unsigned = spelling.as_unsigned(Text(text, COMPARE), of).text
            whole = call(f"tl.{kind[1:]}", unsigned, f"axis={axis}")
            return spelling.as_signed(whole, of)
        if function is not None:
            return call(function, text, f"axis={axis}")
        name = self.combines.setdefault(kind, f"_{kind}")
        return call("tl.reduce", text, str(axis), name)

    def scan(self, op: Op) -> Text:
        function, axis = spelling.SCANS[op.str_attr("kind")], op.int_attr("axis")
        return spelling.scan(op, function, self.full(op.operands[0]), f"axis={axis}")

    def recurrence(self, op: Op) -> Text:
        name = self.combines.setdefault("recurrence", "_recurrence")
        pair, axis = ", ".join(map(self.full, op.operands)), str(op.int_attr("axis"))
        return spelling.scan(op, "tl.associative_scan", f"({pair})", axis, name)

    def dot(self, op: Op) -> Text:
        """``tl.dot(a, b, c)``, without a `c` that is zero."""
        a, b, c = op.operands
        fused = c in self.names or not spelling.is_zero(c)
        arguments = [self.full(v) for v in (a, b, c)[: 3 if fused else 2]]
        return call("tl.dot", *arguments, *spelling.dot_options(op, fused=fused))

    def opaque(self, op: Op) -> Text:
        """A call in which a literal is given its type."""
        arguments = [
            call("tl.full", "()", self.full(v), dtype(v.tensor_type.dtype)).text
            if not v.shape and foldable(v, self.names)
            else self.full(v)
            for v in op.operands
        ]
        if op.opcode == "extern":
            return call(f"libdevice.{op.str_attr('function')}", *arguments)
        return call(function_of(op, self.assemblies), *arguments)

    # -- memory ----------------------------------------------------------------------

    def pointer(self, access: Access, result: Shape) -> str:
        """``base + offset + offset``."""
        parts = [self.stripped(offset) for offset in access.offsets]
        if result and broadcast_shape([s for _, s in parts]) != result:
            parts.append(
                (Text(f"tl.zeros({self.extents_of(result)}, tl.int32)"), result)
            )
        text = access.base.name
        for part, _ in parts:
            if part.level > SUM:
                text += f" + ({part.text})"
            elif part.text.startswith("-"):
                text += f" - {part.text.removeprefix('-')}"
            else:
                text += f" + {part.text}"
        return text

    def load(self, op: Op) -> Text:
        access = Access.of(op)
        arguments = [self.pointer(access, op.result.shape)]
        if access.mask is not None:
            arguments.append(f"mask={self.stripped(access.mask)[0].text}")
        if access.other is not None:
            arguments.append(f"other={self.stripped(access.other)[0].text}")
        return call("tl.load", *arguments, *spelling.hints(op))
