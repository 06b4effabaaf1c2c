import pytest

from undertow.errors import UnsupportedError
from undertow.frontend import libdevice

from .text import lift, ops


def call(symbol: str, operands: str, given: str, made: str) -> str:
    return (
        f'%r = tt.extern_elementwise {operands} {{libname = "", libpath = "", '
        f'pure = true, symbol = "{symbol}"}} : ({given}) -> {made}'
    )


def last(symbol: str, operands: str, given: str, made: str) -> str:
    return ops(call(symbol, operands, given, made), d="f64")[-1].partition(" = ")[2]


@pytest.mark.parametrize(
    ("symbol", "opcode"),
    [
        *(
            (f"__nv_{name}f", name)
            for name in (
                "tanh exp exp2 log1p erf erfcx cbrt cyl_bessel_i0 lgamma rint"
            ).split()
        ),
        ("__nv_fast_expf", "exp"),
        ("__nv_fast_sinf", "sin"),
        ("__nv_fabsf", "abs"),
        ("__nv_nearbyintf", "rint"),
        ("__nv_rsqrtf", "rsqrt"),
        ("__nv_frcp_rn", "reciprocal"),
        ("__nv_fsqrt_rn", "sqrt_rn"),
    ],
)
def test_functions_of_one_argument(symbol: str, opcode: str) -> None:
    assert last(symbol, "%a", "f32", "f32") == f"{opcode}(%a) : f32"


@pytest.mark.parametrize(
    ("symbol", "opcode"),
    [("__nv_erf", "erf"), ("__nv_tanh", "tanh"), ("__nv_drcp_rn", "reciprocal")],
)
def test_double_precision_has_no_suffix(symbol: str, opcode: str) -> None:
    assert last(symbol, "%d", "f64", "f64") == f"{opcode}(%d) : f64"


@pytest.mark.parametrize(
    ("symbol", "opcode"),
    [
        ("__nv_powf", "pow"),
        ("__nv_fast_powf", "pow"),
        ("__nv_atan2f", "atan2"),
        ("__nv_hypotf", "hypot"),
        ("__nv_copysignf", "copysign"),
        ("__nv_fdimf", "fdim"),
        ("__nv_fmodf", "fmod"),
        ("__nv_fdiv_rn", "div_rn"),
        ("__nv_fast_fdividef", "div"),
    ],
)
def test_functions_of_two_arguments(symbol: str, opcode: str) -> None:
    assert last(symbol, "%a, %a", "f32, f32", "f32") == f"{opcode}(%a, %a) : f32"


@pytest.mark.parametrize(
    ("symbol", "opcode"),
    [("__nv_isnanf", "isnan"), ("__nv_isinff", "isinf"), ("__nv_finitef", "isfinite"),
     ("__nv_signbitf", "signbit")],
)  # fmt: skip
def test_tests_give_the_integer_that_triton_expects(symbol: str, opcode: str) -> None:
    assert ops(call(symbol, "%a", "f32", "i32")) == [
        f"%5 = {opcode}(%a) : i1",
        "%6 = cast(%5) <signed=False> : i32",
    ]


def test_a_test_compared_with_0_is_the_test() -> None:
    body = f"""
    %z = arith.constant 0 : i32
    {call("__nv_isnanf", "%a", "f32", "i32")}
    %m = arith.cmpi ne, %r, %z : i32
    %s = arith.select %m, %a, %a : f32
    """
    assert ops(body)[-1] == "%8 = select(%6, %a, %a) : f32"


@pytest.mark.parametrize(
    ("symbol", "operands", "given", "made", "expected"),
    [
        ("__nv_exp10f", "%a", "f32", "f32", "exp2(%7) : f32"),
        ("__nv_powif", "%a, %n", "f32, i32", "f32", "pow(%a, %6) : f32"),
        ("__nv_ldexpf", "%a, %n", "f32, i32", "f32", "mul(%a, %7) : f32"),
        ("__nv_rcbrtf", "%a", "f32", "f32", "reciprocal(%6) : f32"),
        ("__nv_abs", "%n", "i32", "i32", "smax(%n, %6) : i32"),
        ("__nv_saturatef", "%a", "f32", "f32", "clamp(%a, %6, %7) <nan=False> : f32"),
        ("__nv_int2float_rn", "%n", "i32", "f32", "cast(%n) <signed=True> : f32"),
        ("__nv_uint2float_rn", "%n", "i32", "f32", "cast(%n) <signed=False> : f32"),
        ("__nv_float2int_rz", "%a", "f32", "i32", "cast(%a) <signed=True> : i32"),
        ("__nv_float_as_int", "%a", "f32", "i32", "bitcast(%a) : i32"),
    ],
)
def test_composed_functions(
    symbol: str, operands: str, given: str, made: str, expected: str
) -> None:
    assert last(symbol, operands, given, made) == expected


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("__nv_j0f", "j0"),
        ("__nv_tgammaf", "tgamma"),
        ("__nv_fadd_rz", "add_rz"),
        ("__nv_fmaf_ru", "fma_ru"),
        ("__nv_dsqrt_rd", "sqrt_rd"),
    ],
)
def test_functions_without_a_meaning_are_known_by_name(symbol: str, name: str) -> None:
    assert last(symbol, "%a", "f32", "f32") == f"extern(%a) <function='{name}'> : f32"


@pytest.mark.parametrize("symbol", ["__nv_popc", "__nv_clzll", "mine", "__nv_mine"])
def test_other_functions_are_refused_by_name(symbol: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        lift(call(symbol, "%a", "f32", "f32"))
    assert str(error.value) == (
        f"the external function `{symbol}` is not supported\n"
        "  --> k.py:7, in kernel `k`\n"
        "  = its derivative is not known\n"
        "hint: write it in Triton's own operations"
    )


def test_each_name_stands_in_one_table() -> None:
    tables = (*libdevice.OPCODES, *libdevice.COMPOSED, *libdevice.UNKNOWN)
    assert len(tables) == len(set(tables))
