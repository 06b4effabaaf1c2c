"""The meaning of float ops, one row an op.

The functions see float32 or float64 tensors: `pure` widens half types before the call
and rounds the result after it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.evaluate.dtypes import Fn


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a * b + c; for float32 the product is exact, for float64 it is rounded."""
    if a.dtype == torch.float64:
        return torch.addcmul(c, a, b)
    return (a.double() * b.double() + c.double()).to(a.dtype)


def clamp(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """A NaN in `x` gives `low`, as `min(max(x, low), high)` of IEEE's maxnum does."""
    return torch.fmin(torch.fmax(x, low), high)


def clamp_nan(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """A NaN in `x` stays."""
    return torch.minimum(torch.maximum(x, low), high)


def _round(x: Tensor) -> Tensor:
    # Adding a half and truncating would round 0.49999997 up; the difference is exact.
    whole = x.trunc()
    away = torch.copysign(((x - whole).abs() >= 0.5).to(x.dtype), x)
    return torch.copysign(whole + away, x)


def _cbrt(x: Tensor) -> Tensor:
    root = torch.copysign(x.abs().double().pow(1 / 3), x.double())
    # One Newton step takes the power's error away; at 0 and infinity it gives NaN.
    better = root - (root - x / (root * root)) / 3
    return torch.where(better.isfinite(), better, root).to(x.dtype)


def _fdim(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(a <= b, torch.zeros_like(a), a - b)


FLOAT: dict[str, Fn] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "neg": torch.neg,
    "fma": fma,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "expm1": torch.expm1,
    "sqrt": torch.sqrt,
    "sqrt_rn": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "cbrt": _cbrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfcx": torch.special.erfcx,
    "erfinv": torch.erfinv,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "lgamma": torch.lgamma,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": _round,
    "rint": torch.round,
    "abs": torch.abs,
    "div": torch.div,
    "div_rn": torch.div,
    "fmod": torch.fmod,
    "pow": torch.pow,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "copysign": torch.copysign,
    "fdim": _fdim,
    "maxnum": torch.fmax,
    "minnum": torch.fmin,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "signbit": torch.signbit,
}

FLOAT_COMPARE: dict[str, Fn] = {
    "oeq": torch.eq,
    "one": lambda a, b: (a < b) | (a > b),
    "olt": torch.lt,
    "ole": torch.le,
    "ogt": torch.gt,
    "oge": torch.ge,
    "ord": lambda a, b: ~(a.isnan() | b.isnan()),
    "ueq": lambda a, b: ~((a < b) | (a > b)),
    "une": torch.ne,
    "ult": lambda a, b: ~(a >= b),
    "ule": lambda a, b: ~(a > b),
    "ugt": lambda a, b: ~(a <= b),
    "uge": lambda a, b: ~(a < b),
    "uno": lambda a, b: a.isnan() | b.isnan(),
}
