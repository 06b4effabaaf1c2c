"""CUDA's math library: the symbols of `tl.extra.libdevice` as IR.

A symbol is reduced to its name: `__nv_fast_expf` and `__nv_exp` are both `exp`. What is
not in these tables is refused; a function is composed only where the composition is as
exact as a float of its type can say. Some are known by name only, for helpers whose
derivative is the user's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from undertow.ir import F32, I1, I32, Builder, TensorType, Value

Recipe = Callable[[Builder, Sequence[Value], TensorType], Value]
"""Builds a function of some operands; the type is what Triton gives the result."""

_SAME_NAME = (
    "exp exp2 log log2 log10 log1p expm1 sqrt rsqrt cbrt sin cos tan asin acos atan "
    "sinh cosh tanh asinh acosh atanh erf erfc erfcx erfinv cyl_bessel_i0 "
    "cyl_bessel_i1 lgamma floor ceil trunc round rint fmod pow atan2 hypot copysign "
    "fdim fma"
).split()

OPCODES: dict[str, str] = {
    **{name: name for name in _SAME_NAME},
    "fabs": "abs", "nearbyint": "rint", "fmax": "maxnum", "fmin": "minnum",
    "fdivide": "div", "fdiv_rn": "div_rn", "ddiv_rn": "div_rn",
    "fsqrt_rn": "sqrt_rn", "dsqrt_rn": "sqrt_rn",
    "frsqrt_rn": "rsqrt", "frcp_rn": "reciprocal", "drcp_rn": "reciprocal",
    "fadd_rn": "add", "dadd_rn": "add", "fsub_rn": "sub", "dsub_rn": "sub",
    "fmul_rn": "mul", "dmul_rn": "mul", "fmaf_rn": "fma", "fma_rn": "fma",
    "umulhi": "umulhi", "umul64hi": "umulhi",
}  # fmt: skip
"""Functions that are one opcode of the IR."""

_TESTS = {
    "isnan": "isnan", "isnand": "isnan", "isinf": "isinf", "isinfd": "isinf",
    "finite": "isfinite", "isfinited": "isfinite",
    "signbit": "signbit", "signbitd": "signbit",
}  # fmt: skip

_LOG2_10 = 3.321928094887362


def _exp10(b: Builder, x: Sequence[Value], _: TensorType) -> Value:
    return b.pointwise(
        "exp2", b.pointwise("mul", x[0], b.const(_LOG2_10, x[0].tensor_type))
    )


def _powi(b: Builder, x: Sequence[Value], type: TensorType) -> Value:
    return b.pointwise("pow", x[0], b.cast(x[1], type.dtype))


def _ldexp(b: Builder, x: Sequence[Value], type: TensorType) -> Value:
    return b.pointwise("mul", x[0], b.pointwise("exp2", b.cast(x[1], type.dtype)))


def _reciprocal_of(opcode: str) -> Recipe:
    def build(b: Builder, x: Sequence[Value], _: TensorType) -> Value:
        return b.pointwise("reciprocal", b.pointwise(opcode, *x))

    return build


def _abs(b: Builder, x: Sequence[Value], _: TensorType) -> Value:
    return b.pointwise("smax", x[0], b.pointwise("neg", x[0]))


def _saturate(b: Builder, x: Sequence[Value], type: TensorType) -> Value:
    return b.pointwise("clamp", x[0], b.const(0.0, type), b.const(1.0, type), nan=False)


def _convert(signed: bool) -> Recipe:
    def build(b: Builder, x: Sequence[Value], type: TensorType) -> Value:
        return b.cast(x[0], type.dtype, signed=signed)

    return build


def _reinterpret(b: Builder, x: Sequence[Value], type: TensorType) -> Value:
    return b.pure("bitcast", x, type)


def _each(names: str, recipe: Recipe) -> dict[str, Recipe]:
    return dict.fromkeys(names.split(), recipe)


COMPOSED: dict[str, Recipe] = {
    "exp10": _exp10, "powi": _powi, "ldexp": _ldexp, "scalbn": _ldexp,
    "abs": _abs, "llabs": _abs, "saturate": _saturate,
    "rcbrt": _reciprocal_of("cbrt"), "rhypot": _reciprocal_of("hypot"),
    **_each("int2float_rn int2double_rn ll2float_rn ll2double_rn", _convert(True)),
    **_each("uint2float_rn uint2double_rn ull2float_rn ull2double_rn", _convert(False)),
    **_each("float2int_rz float2ll_rz double2int_rz double2ll_rz", _convert(True)),
    **_each("float2uint_rz float2ull_rz double2uint_rz double2ull_rz", _convert(False)),
    "double2float_rn": _convert(True),
    **_each(
        "float_as_int float_as_uint int_as_float uint_as_float "
        "double_as_longlong longlong_as_double", _reinterpret,
    ),
}  # fmt: skip
"""Functions that take several opcodes, or more than the operands' types to say."""

UNKNOWN = (
    "tgamma j0 j1 jn y0 y1 yn erfcinv normcdf normcdfinv sinpi cospi remainder "
    "nextafter logb ilogb llrint llround norm3d rnorm3d norm4d rnorm4d"
).split()
"""Functions without a meaning here."""

_ROUNDED = re.compile(r"[fd](add|sub|mul|div|rcp|sqrt|ma)f?(_r[zdu])")


def function_name(symbol: str, *, single: bool) -> str:
    """`symbol` without prefix, and without the `f` of a `single` precision form."""
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    return name.removesuffix("f") if single else name


def names(symbol: str, *, single: bool) -> tuple[str, ...]:
    """What kernels may have called a function by."""
    known = unknown(symbol, single=single), function_name(symbol, single=single)
    found = (*known, symbol.removeprefix("__nv_"))
    return tuple(f"libdevice.{name}" for name in found if name)


def unknown(symbol: str, *, single: bool) -> str | None:
    """What `tl.extra.libdevice` calls a function without a meaning; None for others."""
    name = function_name(symbol, single=single)
    rounded = _ROUNDED.fullmatch(name)
    if rounded is not None:
        return {"ma": "fma"}.get(rounded[1], rounded[1]) + rounded[2]
    return name if name in UNKNOWN and symbol.startswith("__nv_") else None


def build(
    b: Builder, symbol: str, operands: Sequence[Value], type: TensorType
) -> Value | None:
    """The call of `symbol` as IR, or None if there is no way to say it."""
    single = any(v.tensor_type.dtype == F32 for v in operands)
    name = function_name(symbol, single=single)
    if name in _TESTS:
        test = b.pointwise(_TESTS[name], operands[0])
        return test if type.dtype == I1 else b.cast(test, I32, signed=False)
    if name in OPCODES:
        return b.pointwise(OPCODES[name], *operands)
    recipe = COMPOSED.get(name)
    return recipe(b, operands, type) if recipe else None
