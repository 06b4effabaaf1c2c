"""Rows of the lift for pointers, loads and stores.

Pointers exist in the IR only as parameters. A chain of `addptr`, `splat`, `broadcast`
and `expand_dims` becomes a base and offsets; see `context.Pointer`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from undertow.frontend.context import Lifter, Operand, Pointer, Row
from undertow.frontend.refusals import atomic
from undertow.frontend.ttir import MOp
from undertow.ir import I1, I8, I64, Access, Attr, Op, PointerType, TensorType, Value

FEW, MANY = 4, 12
"""A pointer that was moved more than MANY times keeps FEW offsets and a sum."""

_POLICY = re.compile(r"(\w+) = (\w+)")


def _addptr(lifter: Lifter, op: MOp) -> None:
    pointer, offset = lifter.operands(op)
    if not isinstance(pointer, Pointer) or isinstance(offset, Pointer):
        lifter.refuse(op, "arithmetic on what is no pointer argument is not supported")
    _unname(offset, op)
    offsets = pointer.offsets if is_zero(offset) else (*pointer.offsets, offset)
    if len(offsets) > MANY:  # in unrolled code, where each access would list them all
        moves = pointer.with_offsets(offsets[FEW:], pointer.shape)
        offsets = (*offsets[:FEW], total(lifter, moves))
    lifter.bind(op, pointer.with_offsets(offsets, pointer.shape))


def _unname(offset: Value, pointer: MOp) -> None:
    """Takes the name of a pointer variable from what is only its offset."""
    op = offset.op
    if op is None or not offset.name:
        return
    if (offset.name, op.loc.line) == (pointer.loc.name, pointer.loc.line):
        offset.name, op.loc = "", replace(op.loc, name="")
        for value in op.operands:
            _unname(value, pointer)


def is_zero(value: Value) -> bool:
    """Whether `value` is the constant 0, of any shape."""
    while value.op is not None and value.op.opcode == "broadcast":
        value = value.op.operands[0]
    return (
        value.op is not None
        and value.op.opcode == "const"
        and value.op.attrs["value"] == 0
    )


def through(
    pointer: Pointer, shape: tuple[int, ...], apply: Callable[[Value], Value]
) -> Pointer:
    """`pointer` under a structural op: scalar offsets hold for each element."""
    offsets = tuple(apply(v) if v.shape else v for v in pointer.offsets)
    return pointer.with_offsets(offsets, shape)


def total(lifter: Lifter, pointer: Pointer, emit: bool = False) -> Value:
    """The sum of the offsets in 64 bits and in the pointer's shape.

    `emit` builds ops that later code may not merge with, for a block that is closed
    already.
    """
    b, type = lifter.builder, TensorType(I64, pointer.shape)

    def make(
        opcode: str, operands: tuple[Value, ...], t: TensorType, **attrs: Attr
    ) -> Value:
        return (
            b.emit(opcode, operands, (t,), attrs)[0]
            if emit
            else b.pure(opcode, operands, t, attrs)
        )

    result: Value | None = None
    for offset in pointer.offsets:
        if offset.tensor_type.dtype != I64:
            offset = make(
                "cast", (offset,), offset.tensor_type.with_dtype(I64), signed=True
            )
        if offset.shape != pointer.shape:
            offset = make("broadcast", (offset,), type)
        result = offset if result is None else make("add", (result, offset), type)
    return make("const", (), type, value=0) if result is None else result


def select(
    lifter: Lifter, op: MOp, condition: Value, then: Operand, otherwise: Operand
) -> None:
    """`arith.select` of pointers: of one base, the offsets are selected."""
    assert isinstance(then, Pointer) and isinstance(otherwise, Pointer)
    check_same_base(lifter, op, then, otherwise)
    condition = lifter.builder.broadcast(condition, then.shape)
    offsets = (total(lifter, then), total(lifter, otherwise))
    offset = lifter.builder.pointwise("select", condition, *offsets)
    lifter.bind(op, then.with_offsets((offset,), then.shape))


def check_same_base(lifter: Lifter, op: MOp, a: Pointer, b: Pointer) -> None:
    """Refuses a choice between two arguments."""
    if a.base is not b.base:
        lifter.refuse(
            op,
            "a pointer chosen at run time is not supported",
            why=f"it may be `{a.base.name}` or `{b.base.name}`,"
            " and a gradient must know its buffer when the kernel is built",
            hint="load from both under masks and select the values,"
            " or choose by a `tl.constexpr`",
        )
    if a.element != b.element:
        lifter.refuse(op, "a pointer with a type chosen at run time is not supported")


def bitcast(lifter: Lifter, op: MOp, pointer: Pointer) -> None:
    """A pointer to another type: only what Triton does to pointers to booleans."""
    element = op.type.element
    for user in lifter.users(op.results[0]):
        if user.name == "tt.atomic_rmw":  # of floats, Triton makes two of integers
            _refuse_atomic(lifter, user)
    if (pointer.element, element) not in (
        ("i1", "i8"),
        (pointer.element, pointer.element),
    ):
        lifter.refuse(
            op,
            f"a pointer to `{pointer.element}` used as one to `{element}`"
            " is not supported",
            why=f"argument `{pointer.base.name}` would hold values of two types",
            hint="view the tensor as the other dtype outside of the kernel",
        )
    lifter.bind(op, Pointer(pointer.base, element, pointer.offsets, pointer.shape))


# -- accesses --


def _load(lifter: Lifter, op: MOp) -> None:
    pointer = _pointer(lifter, op)
    mask = lifter.value(op.operands[1], op) if len(op.operands) > 1 else None
    other = lifter.value(op.operands[2], op) if len(op.operands) > 2 else None
    is_bool = _holds_booleans(pointer)
    if is_bool and other is not None:
        other = _as_bool(lifter, other)
    type = TensorType(
        lifter.dtype(op, "i1" if is_bool else pointer.element), pointer.shape
    )
    access = Access(pointer.base, pointer.offsets, None, mask, other)
    value = lifter.builder.load(access, type, **_hints(lifter, op))
    if is_bool:
        byte = lifter.builder.cast(value, I8, signed=False)
        lifter.flags[byte] = value
        value = byte
    lifter.bind(op, value)


def _store(lifter: Lifter, op: MOp) -> None:
    pointer = _pointer(lifter, op)
    value = lifter.value(op.operands[1], op)
    mask = lifter.value(op.operands[2], op) if len(op.operands) > 2 else None
    if _holds_booleans(pointer):
        value = _as_bool(lifter, value)
    access = Access(pointer.base, pointer.offsets, value, mask, None)
    lifter.builder.store(access, **_hints(lifter, op))


def _atomic(lifter: Lifter, op: MOp) -> None:
    kind = op.words[0]
    if kind not in ("fadd", "add"):
        _refuse_atomic(lifter, op)
    if any(lifter.users(name) for name in op.results):
        lifter.refuse(
            op,
            "the old value that `tl.atomic_add` returns is not supported",
            why="it depends on the order in which programs run",
            hint="use `tl.atomic_add` for its effect only",
        )
    pointer = _pointer(lifter, op)
    value = lifter.value(op.operands[1], op)
    mask = lifter.value(op.operands[2], op) if len(op.operands) > 2 else None
    if mask is not None and is_true(mask):
        mask = None
    lifter.builder.atomic_add(Access(pointer.base, pointer.offsets, value, mask, None))


def _refuse_atomic(lifter: Lifter, op: MOp) -> NoReturn:
    refusal = atomic(op.words[0])
    lifter.refuse(op, refusal.fact, why=refusal.why, hint=refusal.hint)


def is_true(value: Value) -> bool:
    """Whether `value` is the constant true, of any shape."""
    op: Op | None = value.op
    return op is not None and op.opcode == "const" and op.attrs["value"] is True


def _pointer(lifter: Lifter, op: MOp) -> Pointer:
    pointer = lifter.operand(op.operands[0], op)
    if not isinstance(pointer, Pointer):
        lifter.refuse(
            op, "an access through what is no pointer argument is not supported"
        )
    return pointer


def _holds_booleans(pointer: Pointer) -> bool:
    """A pointer to booleans, which Triton casts to bytes for each access."""
    return pointer.base.type == PointerType(I1)


def _as_bool(lifter: Lifter, value: Value) -> Value:
    if value.tensor_type.dtype == I1:
        return value
    if value in lifter.flags:
        return lifter.flags[value]
    b, type = lifter.builder, value.tensor_type
    if value.op is not None and value.op.opcode == "const":
        return b.const(bool(value.op.attrs["value"]), type.with_dtype(I1))
    return b.pointwise("cmp", value, b.const(0, type), predicate="ne")


def _hints(lifter: Lifter, op: MOp) -> dict[str, Attr]:
    """Cache hints, spelled as `tl.load` takes them."""
    if op.attrs.get("isVolatile", "false") != "false":
        lifter.refuse(
            op,
            "`volatile=True` is not supported",
            why="another program may change the value between two reads",
            hint="drop it if no other program writes there",
        )
    names = ("cacheModifier", "evictionPolicy")
    cache, evict = (op.attrs.get(name) for name in names)
    for key, value in _POLICY.findall(op.attrs.get("cachePolicy", "")):  # since 3.9
        cache = value if key == "cache_modifier" else cache
        evict = value if key == "eviction_policy" else evict
    hints: dict[str, Attr] = {}
    if cache not in (None, "none"):
        hints["cache"] = f".{cache}"
    if evict not in (None, "evict_normal"):
        hints["evict"] = evict
    return hints


ROWS: dict[str, Row] = {
    "tt.addptr": _addptr,
    "tt.load": _load,
    "tt.store": _store,
    "tt.atomic_rmw": _atomic,
}
