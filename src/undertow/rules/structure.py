"""Transposes of the ops that move lanes, and of the reductions.

Lanes are only moved here: what holds of a cotangent's lanes, its support, is moved by
the same functions.
"""

from __future__ import annotations

from collections.abc import Callable

from undertow.ir import I1, Builder, Op, Value
from undertow.rules.expr import Expr, where
from undertow.rules.registry import Table

Cotangents = tuple[Value | None, ...]


def register(table: Table) -> None:
    """Adds the verdicts of every opcode that is not pointwise."""
    table.special("broadcast", "its transpose sums over the lanes it spread over")
    table.structural("expand_dims", _restore_shape)
    table.structural("reshape", _restore_shape)
    table.structural("transpose", _transpose)
    table.structural("join", lambda b, op, cts: b.split(_only(cts)))
    table.structural("split", _split)
    table.structural("flip", _flip)
    table.special("gather", "each element sums the cotangents of the lanes it went to")
    table.special(
        "reduce",
        "a sum spreads `d_y`, max and min split it evenly among the extremes, a "
        "product gives each element the product of the others",
    )
    table.special("scan", "sums and products of prefixes go back from the other end")
    table.special("recurrence", "a recurrence from the other end")
    table.special("load", "adds to the gradient at the loaded address")
    table.special("store", "reads the output's cotangent at the stored address")
    table.special("dot", "`d_a = d_y @ bᵀ`, `d_b = aᵀ @ d_y`, `d_c = d_y`")
    table.special("custom", "by the rule that the user gave")
    table.zero("stop", "the user says so")
    table.unsupported("inline_asm", "assembly says nothing about its derivative")
    table.unsupported("extern", "the function's derivative is not known")
    table.special("for", "a `for` that runs backwards, over recomputed turns")
    table.special("while", "a `for` over its turns, which the primal sweep counts")
    table.special("if", "an `if` that recomputes its branch, then sweeps it backwards")
    table.special("yield", "carries cotangents out of a branch")
    table.special("atomic_add", "reads the buffer's cotangent where it adds")
    table.zero("const range program_id num_programs", "it does not depend on any input")
    table.zero("assume section barrier", "it computes nothing")


def _only(cts: Cotangents) -> Value:
    (ct,) = cts
    assert ct is not None
    return ct


def _restore_shape(b: Builder, op: Op, cts: Cotangents) -> Cotangents:
    return (b.reshape(_only(cts), op.operands[0].shape),)


def _transpose(b: Builder, op: Op, cts: Cotangents) -> Cotangents:
    order = op.tuple_attr("order")
    inverse = tuple(order.index(axis) for axis in range(len(order)))
    return (b.transpose(_only(cts), inverse),)


def _flip(b: Builder, op: Op, cts: Cotangents) -> Cotangents:
    return (b.flip(_only(cts), op.int_attr("axis")),)


def _split(b: Builder, op: Op, cts: Cotangents) -> Cotangents:
    first, second = cts
    known = first or second
    assert known is not None
    zero = b.const(False if known.tensor_type.dtype == I1 else 0.0, known.tensor_type)
    return (b.join(first or zero, second or zero),)


def widen(b: Builder, value: Value, axis: int, shape: tuple[int, ...]) -> Value:
    """Repeats `value`, a reduction of `shape` along `axis`, over the lanes it came
    from."""
    if not value.shape:
        return b.broadcast(value, shape)
    return b.broadcast(b.expand_dims(value, axis), shape)


def reduce_cotangent(b: Builder, op: Op, ct: Value, x: Value, y: Value) -> Value | None:
    """Cotangent of the operand of a `reduce`, or None where none is known.

    Args:
        b: the builder to extend.
        op: the reduction.
        ct: cotangent of its result.
        x: its operand, in the cotangent's dtype.
        y: its result, in the cotangent's dtype.

    max and min split evenly over ties. The product gives each lane the product of the
    other ones, also where lanes are zero.
    """
    axis = op.int_attr("axis")
    spread = Expr(b, widen(b, ct, axis, x.shape))
    partial = reduce_partial(b, op, x, y)
    if partial is None:
        return spread.value if op.str_attr("kind") == "sum" else None
    return partial(spread).value


def reduce_partial(
    b: Builder, op: Op, x: Value, y: Value
) -> Callable[[Expr], Expr] | None:
    """What a reduction multiplies each lane's tangent by; None for a sum (1) or no
    rule.

    The map is elementwise in the operand's lanes: reverse mode applies it to the
    cotangent spread over them, forward mode to the tangent before it is summed.
    """
    axis, lanes = op.int_attr("axis"), Expr(b, x)
    match op.str_attr("kind"):
        case "max" | "min":
            chosen = lanes.equals(Expr(b, widen(b, y, axis, x.shape)))
            ties = b.reduce(_indicator(b, chosen, x).value, "sum", axis)
            wide = Expr(b, widen(b, ties, axis, x.shape))
            return lambda t: where(chosen, t / wide, 0.0)
        case "prod":
            return lambda t: _product(b, t, lanes, axis)
        case _:
            return None


def _indicator(b: Builder, condition: Expr, like: Value) -> Expr:
    return Expr(b, b.cast(condition.value, like.tensor_type.dtype, signed=False))


def _product(b: Builder, t: Expr, x: Expr, axis: int) -> Expr:
    shape = x.value.shape
    is_zero = x.equals(0.0)
    zeros = b.reduce(_indicator(b, is_zero, x.value).value, "sum", axis)
    rest = b.reduce(where(is_zero, 1.0, x).value, "prod", axis)
    zeros_wide = Expr(b, widen(b, zeros, axis, shape))
    rest_wide = Expr(b, widen(b, rest, axis, shape))
    alone = where(zeros_wide.equals(1.0), t * rest_wide, 0.0)
    others = where(zeros_wide.equals(0.0), t * rest_wide / x, 0.0)
    return where(is_zero, alone, others)
