"""How each pointwise opcode is written in Triton."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from undertow.emit.text import COMPARE, OR, PRODUCT, UNARY, Text, binary, call, dtype
from undertow.ir import F16, F32, DType, Op, Value

CALLS: dict[str, str] = {
    **{name: f"tl.{name}" for name in (
        "exp exp2 log log2 sqrt sqrt_rn rsqrt sin cos erf floor ceil abs fma div_rn "
        "umulhi"
    ).split()},
    **{name: f"libdevice.{name}" for name in (
        "log10 log1p expm1 cbrt tan asin acos atan sinh cosh tanh asinh acosh atanh "
        "erfc erfcx erfinv cyl_bessel_i0 cyl_bessel_i1 lgamma trunc round rint "
        "fmod pow atan2 hypot copysign fdim"
    ).split()},
    "maxnum": "tl.maximum",
    "minnum": "tl.minimum",
    "smax": "tl.maximum",
    "smin": "tl.minimum",
    "umax": "tl.maximum",
    "umin": "tl.minimum",
}  # fmt: skip
"""Opcodes that are a call of their operands."""

UNSIGNED = frozenset("udiv urem ushr umax umin umulhi".split())
"""Opcodes that read their operands as unsigned; variables hold signed integers."""

COMPARISONS: dict[str, str] = {
    "eq": "==",
    "ne": "!=",
    "slt": "<",
    "sle": "<=",
    "sgt": ">",
    "sge": ">=",
    "ult": "<",
    "ule": "<=",
    "ugt": ">",
    "uge": ">=",
    "oeq": "==",
    "une": "!=",
    "olt": "<",
    "ole": "<=",
    "ogt": ">",
    "oge": ">=",
}

INVERSE: dict[str, str] = {
    "eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt",
    "ult": "uge", "uge": "ult", "ugt": "ule", "ule": "ugt",
}  # fmt: skip
"""Predicates of integers that hold where the other one does not."""


REDUCTIONS: dict[str, str] = {
    "sum": "tl.sum",
    "max": "tl.max",
    "min": "tl.min",
    "smax": "tl.max",
    "smin": "tl.min",
    "argmax": "tl.argmax",
    "argmin": "tl.argmin",
    "xor": "tl.xor_sum",
}
"""Kinds of `reduce` for which `tl` has a function."""


SCANS: dict[str, str] = {"sum": "tl.cumsum", "prod": "tl.cumprod"}
"""The function of `tl` for each kind of `scan`."""


def scan(op: Op, function: str, *arguments: str) -> Text:
    """A call of a scan, in the order of `op`."""
    order = ("reverse=True",) if op.attrs["reverse"] else ()
    return call(function, *arguments, *order)


def as_unsigned(text: Text, of: DType) -> Text:
    """A tensor of integers, read as unsigned."""
    return call(f"{text.within(0)}.to", dtype(of, unsigned=True), "bitcast=True")


def as_signed(text: Text, of: DType) -> Text:
    """A tensor of unsigned integers, read as signed."""
    return call(f"{text.within(0)}.to", dtype(of), "bitcast=True")


def unsigned_literal(number: int, of: DType) -> Text:
    """A literal has no methods, and its sign says which type Triton gives it."""
    return call("tl.full", "()", str(number % 2**of.bits), dtype(of, unsigned=True))


def rounded(opcode: str, arguments: Sequence[Text]) -> Text | None:
    """What rounds correctly by itself in float64, where no function of `tl` does."""
    match opcode:
        case "div_rn":
            return binary("/", PRODUCT, *arguments)
        case "sqrt_rn":
            return call("tl.sqrt", arguments[0].text)
        case _:
            return None


def mirrored(predicate: str) -> str:
    """The same comparison with its sides exchanged."""
    kind, order = predicate[:-2], predicate[-2:]
    return kind + {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(order, order)


def compare(predicate: str, of: DType, a: Text, b: Text) -> Text:
    """A comparison; one that Python cannot write is built from those it can.

    Integers that are compared as unsigned are given as such.
    """
    if of.is_int:
        return binary(COMPARISONS[predicate], COMPARE, a, b)
    if predicate == "une" or (predicate in COMPARISONS and predicate[0] == "o"):
        return binary(COMPARISONS[predicate], COMPARE, a, b)
    rebuilt: dict[str, Callable[[], Text]] = {
        "one": lambda: _either(_cmp("<", a, b), _cmp(">", a, b)),
        "ueq": lambda: _not(_either(_cmp("<", a, b), _cmp(">", a, b))),
        "ult": lambda: _not(_cmp(">=", a, b)),
        "ule": lambda: _not(_cmp(">", a, b)),
        "ugt": lambda: _not(_cmp("<=", a, b)),
        "uge": lambda: _not(_cmp("<", a, b)),
        "uno": lambda: _either(_cmp("!=", a, a), _cmp("!=", b, b)),
        "ord": lambda: _not(_either(_cmp("!=", a, a), _cmp("!=", b, b))),
    }
    return rebuilt[predicate]()


def _cmp(operator: str, a: Text, b: Text) -> Text:
    return binary(operator, COMPARE, a, b)


def _either(a: Text, b: Text) -> Text:
    return binary("|", OR, a, b)


def _not(a: Text) -> Text:
    return Text(f"~{a.within(0)}", UNARY)


def test(op: Op, x: Text) -> Text:
    """isnan, isinf, isfinite, signbit."""
    match op.opcode:
        case "isnan":
            return _cmp("!=", x, x)
        case "isinf":
            return _cmp("==", call("tl.abs", x.text), Text('float("inf")'))
        case "isfinite":
            return _cmp("<", call("tl.abs", x.text), Text('float("inf")'))
        case _:
            return _cmp("!=", call("libdevice.signbit", x.text), Text("0"))


def extremum(op: Op, arguments: list[str]) -> Text:
    """maximum, minimum and clamp with the treatment of NaN they ask for."""
    function = {"maximum": "tl.maximum", "minimum": "tl.minimum"}.get(
        op.opcode, "tl.clamp"
    )
    propagate = op.opcode != "clamp" or op.attrs.get("nan")
    extra = ["propagate_nan=tl.PropagateNan.ALL"] if propagate else []
    return call(function, *arguments, *extra)


def dot_options(op: Op, *, fused: bool) -> list[str]:
    """The arguments of `tl.dot` that are not its defaults.

    Args:
        op: a `dot`.
        fused: whether it is given an accumulator.
    """
    of, result = op.operands[0].tensor_type.dtype, op.result.tensor_type.dtype
    options: list[str] = []
    if of == F32 and op.str_attr("precision") != "tf32":
        options.append(f'input_precision="{op.str_attr("precision")}"')
    if result != F32 and (fused or result != of or result == F16):
        options.append(f"out_dtype={dtype(result)}")
    return options


def is_zero(value: Value) -> bool:
    """Whether a value is the number 0, in any shape."""
    while value.op is not None and value.op.opcode == "broadcast":
        value = value.op.operands[0]
    op = value.op
    return (
        op is not None
        and op.opcode == "const"
        and str(op.attrs["value"]) in ("0", "0.0")
    )


def hints(op: Op) -> list[str]:
    """Cache hints of a load, carried over."""
    found: list[str] = []
    if "evict" in op.attrs:
        found.append(f'eviction_policy="{op.str_attr("evict")}"')
    if "cache" in op.attrs:
        found.append(f'cache_modifier="{op.str_attr("cache")}"')
    return found


def is_true(value: Value) -> bool:
    return (
        value.op is not None
        and value.op.opcode == "const"
        and value.op.attrs["value"] is True
    )
