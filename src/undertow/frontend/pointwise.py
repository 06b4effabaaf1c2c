"""Rows of the lift for pointwise ops: one table entry an MLIR op."""

from __future__ import annotations

from undertow.frontend import libdevice
from undertow.frontend.context import Lifter, Row
from undertow.frontend.literal import literal
from undertow.frontend.opaque import extern
from undertow.frontend.shuffles import exchanged, reinterpreted
from undertow.frontend.ttir import MOp
from undertow.ir import I1, Value

OPCODES: dict[str, str] = {
    "arith.addi": "add", "arith.addf": "add", "arith.subi": "sub", "arith.subf": "sub",
    "arith.muli": "mul", "arith.mulf": "mul", "arith.negf": "neg",
    "arith.divf": "div", "tt.approx_divf": "div",
    "arith.divsi": "sdiv", "arith.divui": "udiv",
    "arith.remf": "fmod", "arith.remsi": "srem", "arith.remui": "urem",
    "arith.andi": "and", "arith.ori": "or",
    "arith.shli": "shl", "arith.shrsi": "sshr", "arith.shrui": "ushr",
    "arith.maxsi": "smax", "arith.maxui": "umax",
    "arith.minsi": "smin", "arith.minui": "umin",
    "arith.maxnumf": "maxnum", "arith.minnumf": "minnum",
    "arith.maximumf": "maximum", "arith.minimumf": "minimum",
    "tt.precise_divf": "div_rn", "tt.precise_sqrt": "sqrt_rn", "tt.mulhiui": "umulhi",
    "math.absf": "abs", "math.roundeven": "rint", "math.powf": "pow",
    "math.isnan": "isnan", "math.isinf": "isinf", "math.isfinite": "isfinite",
    **{
        f"math.{name}": name
        for name in (
            "exp exp2 log log2 log10 log1p expm1 sqrt rsqrt cbrt sin cos tan asin acos "
            "atan sinh cosh tanh asinh acosh atanh erf erfc floor ceil trunc round fma "
            "atan2 copysign"
        ).split()
    },
}  # fmt: skip
"""MLIR ops that are one opcode on the same operands."""

CASTS = {
    "arith.extsi": True, "arith.extui": False,
    "arith.sitofp": True, "arith.uitofp": False,
    "arith.fptosi": True, "arith.fptoui": False,
    "arith.extf": True, "arith.truncf": True,
    "tt.fp_to_fp": True, "arith.index_cast": True, "arith.index_castui": False,
}  # fmt: skip
"""Conversions of values, and whether an integer side is signed."""

FLOAT_CASTS = ("arith.extf", "arith.truncf", "tt.fp_to_fp")
"""The conversions between floats."""

_NEAREST = (None, "rtne", "to_nearest_even", "nneg")


def _simple(opcode: str) -> Row:
    def row(lifter: Lifter, op: MOp) -> None:
        lifter.bind(op, lifter.builder.pointwise(opcode, *lifter.values(op)))

    return row


def _cast(signed: bool) -> Row:
    def row(lifter: Lifter, op: MOp) -> None:
        (value,) = lifter.values(op)
        rounding = op.attrs.get("rounding", *op.words[:1])
        if rounding not in _NEAREST:
            lifter.refuse(
                op,
                f"a conversion with rounding mode `{rounding}` is not supported",
                why="only rounding to the nearest is known",
            )
        type = lifter.tensor(op, op.type)
        result = lifter.builder.cast(value, type.dtype, signed=signed)
        if value.tensor_type.dtype == I1 and not type.dtype.is_float and not signed:
            lifter.flags[result] = value
        lifter.bind(op, result)

    return row


def _trunci(lifter: Lifter, op: MOp) -> None:
    (value,) = lifter.values(op)
    b, type = lifter.builder, lifter.tensor(op, op.type)
    if type.dtype != I1:
        lifter.bind(op, b.cast(value, type.dtype))
        return
    if value in lifter.flags:
        lifter.bind(op, lifter.flags[value])
        return
    low = b.pointwise(
        "and", value, b.const(1, value.tensor_type)
    )  # the lowest bit is kept
    lifter.bind(
        op, b.pointwise("cmp", low, b.const(0, value.tensor_type), predicate="ne")
    )


def _bitcast(lifter: Lifter, op: MOp) -> None:
    (value,), type = lifter.values(op), lifter.tensor(op, op.type)
    moved = reinterpreted(lifter.builder, value, type)
    lifter.shuffled |= moved is not None
    lifter.bind(op, moved or lifter.builder.pure("bitcast", (value,), type))


def _xor(lifter: Lifter, op: MOp) -> None:
    b, (left, right) = lifter.builder, lifter.values(op)
    moved = exchanged(b, left, right)
    lifter.shuffled |= moved is not None
    lifter.bind(op, moved or b.pointwise("xor", left, right))


def _cmp(lifter: Lifter, op: MOp) -> None:
    left, right = lifter.values(op)
    predicate = op.words[0]
    if predicate == "ne" and left in lifter.flags and _is_zero(right):
        # Triton holds booleans as integers here and there: `flag != 0` is the flag.
        lifter.bind(op, lifter.flags[left])
        return
    if predicate in ("true", "false"):
        lifter.refuse(op, f"a comparison that is always {predicate} is not supported")
    lifter.bind(op, lifter.builder.pointwise("cmp", left, right, predicate=predicate))


def _is_zero(value: Value) -> bool:
    return (
        value.op is not None
        and value.op.opcode == "const"
        and value.op.attrs["value"] == 0
    )


def _select(lifter: Lifter, op: MOp) -> None:
    condition, then, otherwise = lifter.values(op)
    condition = lifter.builder.broadcast(condition, then.shape)
    lifter.bind(op, lifter.builder.pointwise("select", condition, then, otherwise))


def _constant(lifter: Lifter, op: MOp) -> None:
    if op.body in ("true", "false"):
        lifter.bind(
            op,
            lifter.builder.const(
                op.body == "true", lifter.tensor(op, lifter.bool_type)
            ),
        )
        return
    type = lifter.tensor(op, op.type)
    value = literal(op.body, type.dtype)
    if value is None:
        lifter.refuse(op, "a constant tensor with different elements is not supported",
                      why=f"the constant is `{op.body[:60]}`")  # fmt: skip
    lifter.bind(op, lifter.builder.const(value, type))


def _absi(lifter: Lifter, op: MOp) -> None:
    (value,) = lifter.values(op)
    lifter.bind(
        op,
        lifter.builder.pointwise("smax", value, lifter.builder.pointwise("neg", value)),
    )


def _clamp(lifter: Lifter, op: MOp) -> None:
    nan = op.attrs.get("propagateNan", "none") == "all"
    lifter.bind(op, lifter.builder.pointwise("clamp", *lifter.values(op), nan=nan))


def _fpowi(lifter: Lifter, op: MOp) -> None:
    base, exponent = lifter.values(op)
    exponent = lifter.builder.cast(exponent, base.tensor_type.dtype)
    lifter.bind(op, lifter.builder.pointwise("pow", base, exponent))


def _extern(lifter: Lifter, op: MOp) -> None:
    symbol = op.attrs["symbol"].strip('"')
    type = lifter.tensor(op, op.type)
    result = libdevice.build(lifter.builder, symbol, lifter.values(op), type)
    if result is None or result.type != type:
        extern(lifter, op)
        return
    if result.op is not None and result.op.opcode == "cast":
        source = result.op.operands[0]
        if source.tensor_type.dtype == I1:
            lifter.flags[result] = source
    lifter.bind(op, result)


ROWS: dict[str, Row] = {
    **{name: _simple(opcode) for name, opcode in OPCODES.items()},
    **{name: _cast(signed) for name, signed in CASTS.items()},
    "arith.trunci": _trunci,
    "arith.xori": _xor,
    "arith.bitcast": _bitcast,
    "tt.bitcast": _bitcast,
    "arith.cmpi": _cmp,
    "arith.cmpf": _cmp,
    "arith.select": _select,
    "arith.constant": _constant,
    "math.absi": _absi,
    "math.fpowi": _fpowi,
    "tt.clampf": _clamp,
    "tt.extern_elementwise": _extern,
}
