"""Builds ops one after another, giving equal pure ops one value.

Merging happens while building, so no pass has to come after to undo what another one
repeats: the reverse sweep may ask for ``1 - y * y`` twice and gets one value.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from undertow.ir.core import UNKNOWN, Access, Attr, Block, Loc, Op, Value
from undertow.ir.ops import OPS
from undertow.ir.types import I1, I32, I64, DType, TensorType, Type, scalar

Fold = Callable[
    ["Builder", str, tuple[Value, ...], dict[str, Attr], Type], Value | None
]
"""Gives an equal, simpler value for an op about to be built, or None."""

COMMUTATIVE = frozenset(("add", "mul", "and", "or", "xor"))
SYMMETRIC = ("eq", "ne", "oeq", "une")
"""Predicates that hold of (a, b) where they hold of (b, a)."""

Key = tuple[object, ...]


class Builder:
    """Appends ops to a block. `loc` is given to each op; set it before building."""

    def __init__(self, fold: Fold | None = None) -> None:
        self.block = Block()
        self.loc: Loc = UNKNOWN
        self._fold = fold
        self._scopes: list[dict[Key, tuple[Value, ...]]] = [{}]

    # -- the two ways to append --

    def emit(
        self,
        opcode: str,
        operands: Sequence[Value] = (),
        types: Sequence[Type] = (),
        attrs: dict[str, Attr] | None = None,
        regions: Sequence[Block] = (),
    ) -> tuple[Value, ...]:
        """Appends an op as given and returns its results; merges nothing."""
        results = tuple(Value(t, self.loc.name) for t in types)
        op = Op(opcode, tuple(operands), results, attrs or {}, tuple(regions), self.loc)
        self.block.ops.append(op)
        return results

    def pure(
        self,
        opcode: str,
        operands: Sequence[Value],
        type: Type,
        attrs: dict[str, Attr] | None = None,
        *,
        index: int = 0,
        types: Sequence[Type] = (),
    ) -> Value:
        """A pure op, folded or merged.

        One with several results of `types`, of which the first one is `type`, gives the
        result `index`.
        """
        operands, attrs = tuple(operands), attrs or {}
        if self._fold is not None and len(types) <= 1:
            folded = self._fold(self, opcode, operands, attrs, type)
            if folded is not None:
                return folded
        key = _key(opcode, operands, type, attrs)
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key][index]
        results = self.emit(opcode, operands, types or (type,), attrs)
        self._scopes[-1][key] = results
        return results[index]

    @contextmanager
    def region(self, args: Sequence[Value] = ()) -> Generator[Block]:
        """A nested block: what is built inside goes there, and is not seen outside.

        Its arguments, if any, have the types and names of `args`.
        """
        fresh = tuple(Value(v.type, v.name, is_argument=True) for v in args)
        outer, self.block = self.block, Block(args=fresh)
        self._scopes.append({})
        try:
            yield self.block
        finally:
            self._scopes.pop()
            self.block = outer

    # -- sources and pointwise --

    def const(self, value: int | float | bool, type: TensorType) -> Value:
        if type.dtype == I1:
            value = bool(value)
        else:
            value = float(value) if type.dtype.is_float else int(value)
        return self.pure("const", (), type, {"value": value})

    def pointwise(self, opcode: str, *operands: Value, **attrs: Attr) -> Value:
        """A pointwise op whose type follows from its operands."""
        type = operands[-1].tensor_type
        if OPS[opcode].typing == "bool":
            type = type.with_dtype(I1)
        return self.pure(opcode, operands, type, attrs)

    def cast(self, value: Value, dtype: DType, *, signed: bool = True) -> Value:
        """`value` converted to `dtype`; itself if it has that dtype."""
        if value.tensor_type.dtype == dtype:
            return value
        return self.pure(
            "cast", (value,), value.tensor_type.with_dtype(dtype), {"signed": signed}
        )

    # -- structure --

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Value:
        if value.shape == shape:
            return value
        return self.pure("broadcast", (value,), value.tensor_type.with_shape(shape))

    def expand_dims(self, value: Value, axis: int) -> Value:
        shape = (*value.shape[:axis], 1, *value.shape[axis:])
        return self.pure(
            "expand_dims", (value,), value.tensor_type.with_shape(shape), {"axis": axis}
        )

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        if value.shape == shape:
            return value
        if not value.shape:
            return self.broadcast(value, shape)
        return self.pure("reshape", (value,), value.tensor_type.with_shape(shape))

    def transpose(self, value: Value, order: tuple[int, ...]) -> Value:
        """Axis `i` of the result is axis `order[i]` of `value`."""
        if order == tuple(range(len(order))):
            return value
        shape = tuple(value.shape[axis] for axis in order)
        return self.pure(
            "transpose", (value,), value.tensor_type.with_shape(shape), {"order": order}
        )

    def join(self, a: Value, b: Value) -> Value:
        return self.pure("join", (a, b), a.tensor_type.with_shape((*a.shape, 2)))

    def split(self, value: Value) -> tuple[Value, Value]:
        type = value.tensor_type.with_shape(value.shape[:-1])
        first = self.pure("split", (value,), type, index=0, types=(type, type))
        return first, self.pure("split", (value,), type, index=1, types=(type, type))

    def flip(self, value: Value, axis: int) -> Value:
        return self.pure("flip", (value,), value.tensor_type, {"axis": axis})

    def gather(self, value: Value, index: Value, axis: int) -> Value:
        type = value.tensor_type.with_shape(index.shape)
        return self.pure("gather", (value, index), type, {"axis": axis})

    def range(self, extent: int, axis: int, shape: tuple[int, ...]) -> Value:
        """The position along `axis`, whose extent is given, in a tensor of `shape`."""
        type, attrs = TensorType(I32, (extent,)), {"start": 0, "end": extent}
        lanes = self.pure("range", (), type, dict[str, Attr](attrs))
        for other in range(len(shape)):
            if other != axis:
                lanes = self.expand_dims(lanes, other)
        return self.broadcast(lanes, shape)

    def reduce(self, value: Value, kind: str, axis: int) -> Value:
        shape = (*value.shape[:axis], *value.shape[axis + 1 :])
        type = value.tensor_type.with_shape(shape)
        if kind in ("argmax", "argmin"):
            type = type.with_dtype(I32)
        return self.pure("reduce", (value,), type, {"kind": kind, "axis": axis})

    def scan(self, value: Value, kind: str, axis: int, *, reverse: bool) -> Value:
        attrs: dict[str, Attr] = {"kind": kind, "axis": axis, "reverse": reverse}
        return self.pure("scan", (value,), value.tensor_type, attrs)

    def recurrence(self, a: Value, b: Value, axis: int, *, reverse: bool) -> Value:
        attrs: dict[str, Attr] = {"axis": axis, "reverse": reverse}
        return self.pure("recurrence", (a, b), b.tensor_type, attrs)

    def dot(self, a: Value, b: Value, c: Value, precision: str) -> Value:
        return self.pure("dot", (a, b, c), c.tensor_type, {"precision": precision})

    # -- memory and control --

    def load(self, access: Access, type: TensorType, **attrs: Attr) -> Value:
        operands, flags = _segments(access)
        return self.emit("load", operands, (type,), {**flags, **attrs})[0]

    def store(self, access: Access, **attrs: Attr) -> None:
        operands, flags = _segments(access)
        self.emit("store", operands, (), {**flags, **attrs})

    def atomic_add(self, access: Access, **attrs: Attr) -> None:
        operands, flags = _segments(access)
        self.emit("atomic_add", operands, (), {**flags, **attrs})

    def branch(
        self, condition: Value, then: Block, otherwise: Block, types: Sequence[Type]
    ) -> tuple[Value, ...]:
        """An `if`; both blocks must end in a `yield` of `types`."""
        return self.emit("if", (condition,), types, {}, (then, otherwise))

    def loop(
        self,
        bounds: Sequence[Value],
        initial: Sequence[Value],
        body: Block,
        like: Op | None = None,
    ) -> tuple[Value, ...]:
        """A `for` over (lower, upper, step); `body` has arguments and a `yield`.

        Hints such as `num_stages` are those of the loop `like`.
        """
        types, attrs = [v.type for v in initial], dict(like.attrs) if like else {}
        return self.emit("for", (*bounds, *initial), types, attrs, (body,))

    def section(self, title: str) -> None:
        self.emit("section", attrs={"title": title})

    def program_id(self, axis: int) -> Value:
        return self.pure("program_id", (), scalar(I32), {"axis": axis})

    def wide(self, value: Value) -> Value:
        """An integer value in 64 bits."""
        return self.cast(value, I64)


def _key(
    opcode: str, operands: tuple[Value, ...], type: Type, attrs: dict[str, Attr]
) -> Key:
    """Equal for ops that give equal values: by identity of what they are given."""
    assert isinstance(type, TensorType)
    if opcode in COMMUTATIVE or attrs.get("predicate") in SYMMETRIC:
        operands = tuple(sorted(operands, key=id))
    key: Key = (opcode, type.dtype.name, type.shape, *map(id, operands))
    if not attrs:
        return key
    if opcode == "const":  # 0.0 == -0.0 == False, and nan != nan
        return (*key, repr(attrs["value"]))
    return (*key, *sorted(attrs.items()))


def _segments(access: Access) -> tuple[tuple[Value, ...], dict[str, Attr]]:
    parts = [access.base, access.value, access.mask, access.other]
    flags: dict[str, Attr] = {}
    if access.mask is not None:
        flags["mask"] = True
    if access.other is not None:
        flags["other"] = True
    return (*(p for p in parts if p is not None), *access.offsets), flags
