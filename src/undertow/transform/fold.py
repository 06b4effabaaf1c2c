"""Identities applied while ops are built: each is exact, in every dtype.

`fold` is given to the builder. It returns an equal, simpler value, or None.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from undertow.ir import I1, OPS, Attr, Builder, TensorType, Type, Value
from undertow.transform.masks import implies

Operands = tuple[Value, ...]
Attrs = dict[str, Attr]
Rule = Callable[[Builder, Operands, Attrs, TensorType], Value | None]


def fold(
    b: Builder, opcode: str, operands: Operands, attrs: Attrs, type: Type
) -> Value | None:
    """The simpler value for ``opcode(operands)``, or None."""
    assert isinstance(type, TensorType)
    rule = _RULES.get(opcode)
    value = rule(b, operands, attrs, type) if rule else None
    if value is None and OPS[opcode].kind == "pointwise" and opcode != "neg":
        value = _before_broadcast(b, opcode, operands, attrs, type)
    return value


def _before_broadcast(
    b: Builder, opcode: str, xs: Operands, attrs: Attrs, type: TensorType
) -> Value | None:
    """f(broadcast(x), broadcast(y)) = broadcast(f(x, y)): once, not in every lane."""
    narrow: tuple[int, ...] | None = None
    for x in xs:
        op = x.op
        if op is not None and op.opcode == "broadcast":
            shape = op.operands[0].shape
            if narrow is not None and shape != narrow:
                return None
            narrow = shape
        elif op is None or op.opcode != "const":
            return None
    if narrow is None:
        return None
    inner = [_narrowed(b, x, narrow) for x in xs]
    return b.broadcast(
        b.pure(opcode, inner, type.with_shape(narrow), attrs), type.shape
    )


def _narrowed(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    assert x.op is not None
    if x.op.opcode == "broadcast":
        return x.op.operands[0]
    return b.pure("const", (), x.tensor_type.with_shape(shape), dict(x.op.attrs))


def constant(value: Value) -> int | float | bool | None:
    """The number every lane of `value` holds, or None if that is not known."""
    op = value.op
    if op is None:
        return None
    if op.opcode == "const":
        number = op.attrs["value"]
        assert isinstance(number, int | float)
        return number
    if op.opcode in ("broadcast", "expand_dims", "reshape", "transpose"):
        return constant(op.operands[0])
    return None


def _opcode(value: Value) -> str:
    return value.op.opcode if value.op else ""


def _negated(value: Value) -> Value | None:
    """x if `value` is −x."""
    return value.op.operands[0] if value.op and value.op.opcode == "neg" else None


def _add(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    x, y = xs
    if type.dtype.is_int:
        return _integers(operator.add, b, xs, type, unit=0)
    if x is y:
        return b.pointwise("mul", b.const(2.0, type), x)
    for one, other in ((x, y), (y, x)):
        inner = _negated(other)
        if inner is not None:
            return b.pointwise("sub", one, inner)
    return None


def _sub(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    x, y = xs
    number = constant(y)
    if type.dtype.is_int:
        return x if number == 0 else _integers(operator.sub, b, xs, type)
    if number is not None and number == 0.0 and math.copysign(1.0, number) > 0:
        return x
    inner = _negated(y)
    return b.pointwise("add", x, inner) if inner is not None else None


def _mul(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    x, y = xs
    if type.dtype.is_int:
        return _integers(operator.mul, b, xs, type, unit=1)
    for one, other in ((x, y), (y, x)):
        if constant(one) == 1.0:
            return other
        if constant(one) == -1.0:
            return b.pointwise("neg", other)
    return _sign_outward("mul", b, xs)


def _div(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    return xs[0] if constant(xs[1]) == 1.0 else _sign_outward("div", b, xs)


def _sign_outward(opcode: str, b: Builder, xs: Operands) -> Value | None:
    """(−x)·y = −(x·y): where signs meet they cancel, or turn an addition around."""
    x, y = map(_negated, xs)
    if x is not None:
        return b.pointwise("neg", b.pointwise(opcode, x, xs[1]))
    if y is not None:
        return b.pointwise("neg", b.pointwise(opcode, xs[0], y))
    return None


def _neg(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    x = xs[0]
    number = constant(x)
    if number is not None:
        return b.const(-number if type.dtype.is_float else _wrap(-number, type), type)
    return _negated(x)


def _wrap(number: int | float, type: TensorType) -> int:
    """An integer modulo the width of its type."""
    half = 1 << (type.dtype.bits - 1)
    return (int(number) + half) % (2 * half) - half


def _integers(
    function: Callable[[int, int], int],
    b: Builder,
    xs: Operands,
    type: TensorType,
    unit: int | None = None,
) -> Value | None:
    x, y = constant(xs[0]), constant(xs[1])
    if x is not None and y is not None and type.dtype != I1:
        return b.const(_wrap(function(int(x), int(y)), type), type)
    if unit is not None:
        if x == unit:
            return xs[1]
        if y == unit:
            return xs[0]
    return None


def _and(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    x, y = xs
    if x is y:
        return x
    if type.dtype != I1:
        return None
    for one, other in ((x, y), (y, x)):
        if constant(one) is True:
            return other
        if constant(one) is False:
            return one
        if implies(one, other):
            return one
    return None


def _or(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    x, y = xs
    if x is y:
        return x
    if type.dtype != I1:
        return None
    for one, other in ((x, y), (y, x)):
        if constant(one) is False:
            return other
        if constant(one) is True or implies(other, one):
            return one
    return None


def _xor(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    """not(not(x)) = x."""
    x, y = xs
    if type.dtype != I1 or constant(y) is not True or _opcode(x) != "xor":
        return None
    assert x.op is not None
    inner, flag = x.op.operands
    return inner if constant(flag) is True else None


def _select(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    condition, x, y = xs
    if x is y:
        return x
    known = constant(condition)
    if known is not None:
        return x if known else y
    if _opcode(x) == "select" and x.op is not None and x.op.operands[0] is condition:
        return b.pointwise("select", condition, x.op.operands[1], y)
    if _opcode(y) == "select" and y.op is not None and y.op.operands[0] is condition:
        return b.pointwise("select", condition, x, y.op.operands[2])
    return None


def _cast(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    """Constants are converted where that is exact and does not depend on signs."""
    (x,) = xs
    number, source = constant(x), x.tensor_type.dtype
    inner = _negated(x)
    if inner is not None and source.is_float and type.dtype.is_float:
        return b.pointwise("neg", b.cast(inner, type.dtype))
    if number is None or source.is_float or not 0 <= number < 1 << 24:
        return None
    wide = type.dtype.bits >= (32 if type.dtype.is_float else source.bits)
    return b.const(number, type) if wide else None


def _broadcast(
    b: Builder, xs: Operands, attrs: Attrs, type: TensorType
) -> Value | None:
    """A chain of broadcasts is one; a constant takes the wide shape itself."""
    x = xs[0]
    inner = _negated(x)
    if inner is not None:
        return b.pointwise("neg", b.broadcast(inner, type.shape))
    number = constant(x)
    if number is not None:
        return b.const(number, type)
    if _opcode(x) == "broadcast" and x.op is not None:
        inner = x.op.operands[0]
        if not inner.shape or len(inner.shape) == len(type.shape):
            return b.broadcast(inner, type.shape)
    return None


def _reshape(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    """A chain of reshapes goes straight to the last shape."""
    x = xs[0]
    inner = _negated(x)
    if inner is not None:
        return b.pointwise("neg", b.reshape(inner, type.shape))
    number = constant(x)
    if number is not None:
        return b.const(number, type)
    if x.op is not None and x.op.opcode in ("reshape", "expand_dims"):
        return b.reshape(x.op.operands[0], type.shape)
    if x.op is not None and x.op.opcode == "flip":
        return _flipped_whole(b, x, type.shape)
    if x.op is not None and x.op.opcode == "broadcast" and not x.op.operands[0].shape:
        return b.broadcast(x.op.operands[0], type.shape)
    return None


def _expand_dims(
    b: Builder, xs: Operands, attrs: Attrs, type: TensorType
) -> Value | None:
    x = xs[0]
    inner, axis = _negated(x), attrs["axis"]
    if inner is not None:
        assert isinstance(axis, int)
        return b.pointwise("neg", b.expand_dims(inner, axis))
    number = constant(x)
    if number is not None:
        return b.const(number, type)
    if _opcode(x) == "broadcast" and x.op is not None and not x.op.operands[0].shape:
        return b.broadcast(x.op.operands[0], type.shape)
    if x.op is not None and x.op.opcode == "reshape":
        return b.reshape(x.op.operands[0], type.shape)
    return None


def _cmp(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    """x[:, None] < n is (x < n)[:, None]: one mask, however it was spread."""
    axes = {x.op.int_attr("axis") for x in xs if x.op and _opcode(x) == "expand_dims"}
    if len(axes) != 1:
        return None
    (axis,) = axes
    shape = (*type.shape[:axis], *type.shape[axis + 1 :])
    narrow: list[Value] = []
    for x in xs:
        number, op = constant(x), x.op
        if op is not None and op.opcode == "expand_dims":
            narrow.append(op.operands[0])
        elif number is not None:
            narrow.append(b.const(number, x.tensor_type.with_shape(shape)))
        elif op is not None and op.opcode == "broadcast" and not op.operands[0].shape:
            narrow.append(b.broadcast(op.operands[0], shape))
        else:
            return None
    return b.expand_dims(b.pure("cmp", narrow, type.with_shape(shape), attrs), axis)


def _transpose(
    b: Builder, xs: Operands, attrs: Attrs, type: TensorType
) -> Value | None:
    x, order = xs[0], attrs["order"]
    number = constant(x)
    if number is not None:
        return b.const(number, type)
    if x.op is not None and x.op.opcode == "transpose":
        assert isinstance(order, tuple)
        inner = x.op.tuple_attr("order")
        return b.transpose(x.op.operands[0], tuple(inner[axis] for axis in order))
    return None


def _flip(b: Builder, xs: Operands, attrs: Attrs, type: TensorType) -> Value | None:
    x, axis = xs[0], attrs["axis"]
    assert isinstance(axis, int)
    inner = _negated(x)
    if inner is not None:
        return b.pointwise("neg", b.flip(inner, axis))
    if x.op is None or constant(x) is not None or not x.op.operands:
        return x if constant(x) is not None else None
    source = x.op.operands[0]
    if x.op.opcode == "flip" and x.op.attrs["axis"] == axis:
        return source
    if x.op.opcode == "broadcast" and (not source.shape or source.shape[axis] == 1):
        return x
    return None


def _flipped_whole(b: Builder, x: Value, shape: tuple[int, ...]) -> Value | None:
    """Flips along all axes that an axis was split into are one along that axis."""
    flipped: set[int] = set()
    source = x
    while source.op is not None and source.op.opcode == "flip":
        flipped.add(source.op.int_attr("axis"))
        source = source.op.operands[0]
    op = source.op
    if not flipped or op is None or op.opcode not in ("reshape", "expand_dims"):
        return None
    value = op.operands[0]
    groups = _split_axes(value.shape, source.shape) if value.shape == shape else None
    for axis, parts in enumerate(groups or ()):
        wide = {part for part in parts if source.shape[part] > 1}
        if wide and wide <= flipped:
            flipped -= wide
            value = b.flip(value, axis)
    return value if groups is not None and not flipped else None


def _split_axes(
    whole: tuple[int, ...], parts: tuple[int, ...]
) -> list[list[int]] | None:
    """For each axis of `whole` those of `parts` that it was split into, in order."""
    groups: list[list[int]] = []
    rest = list(enumerate(parts))
    for extent in whole:
        group, size = list[int](), 1
        while rest and (size < extent or rest[0][1] == 1):
            index, part = rest.pop(0)
            group.append(index)
            size *= part
        if size != extent:
            return None
        groups.append(group)
    return groups


_RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "and": _and,
    "or": _or,
    "xor": _xor,
    "select": _select,
    "cmp": _cmp,
    "cast": _cast,
    "broadcast": _broadcast,
    "flip": _flip,
    "reshape": _reshape,
    "expand_dims": _expand_dims,
    "transpose": _transpose,
}
