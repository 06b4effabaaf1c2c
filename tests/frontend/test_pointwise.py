# ruff: noqa: E501 -- MLIR prints one op a line
import pytest

from undertow.errors import CaptureError, UnsupportedError
from undertow.frontend import pointwise
from undertow.ir import OPS

from .text import lift, ops

INTEGER = {
    opcode
    for name, opcode in pointwise.OPCODES.items()
    if OPS[opcode].domain == "int" or name.endswith(("addi", "subi", "muli"))
}


@pytest.mark.parametrize("name", pointwise.OPCODES)
def test_one_op_becomes_one_opcode(name: str) -> None:
    opcode = pointwise.OPCODES[name]
    is_int = OPS[opcode].domain == "int" or name in (
        "arith.addi",
        "arith.subi",
        "arith.muli",
    )
    operand, type = ("%n", "i32") if is_int else ("%a", "f32")
    arity = OPS[opcode].arity or 0
    result = "i1" if OPS[opcode].typing == "bool" else type
    line = ops(f"%r = {name} {', '.join([operand] * arity)} : {type}")[0]
    assert line == f"%5 = {opcode}({', '.join([operand] * arity)}) : {result}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("arith.extsi %n : i32 to i64", "cast(%n) <signed=True> : i64"),
        ("arith.extui %n : i32 to i64", "cast(%n) <signed=False> : i64"),
        ("arith.extui %n nneg : i32 to i64", "cast(%n) <signed=False> : i64"),
        ("arith.trunci %n : i32 to i8", "cast(%n) <signed=True> : i8"),
        ("arith.sitofp %n : i32 to f32", "cast(%n) <signed=True> : f32"),
        ("arith.uitofp %n : i32 to bf16", "cast(%n) <signed=False> : bf16"),
        ("arith.uitofp %c : i1 to f32", "cast(%c) <signed=False> : f32"),
        ("arith.fptosi %a : f32 to i32", "cast(%a) <signed=True> : i32"),
        ("arith.fptoui %a : f32 to i8", "cast(%a) <signed=False> : i8"),
        ("arith.extf %a : f32 to f64", "cast(%a) <signed=True> : f64"),
        ("arith.truncf %a : f32 to f16", "cast(%a) <signed=True> : f16"),
        (
            "tt.fp_to_fp %a, rounding = rtne : f32 -> f8E5M2",
            "cast(%a) <signed=True> : f8e5m2",
        ),
        ("tt.fp_to_fp %a : f32 -> f8E4M3FN", "cast(%a) <signed=True> : f8e4m3"),
        ("tt.bitcast %a : f32 -> i32", "bitcast(%a) : i32"),
        ("arith.bitcast %n : i32 to f32", "bitcast(%n) : f32"),
        ("arith.cmpi slt, %n, %n : i32", "cmp(%n, %n) <predicate='slt'> : i1"),
        ("arith.cmpi uge, %n, %n : i32", "cmp(%n, %n) <predicate='uge'> : i1"),
        ("arith.cmpf une, %a, %a : f32", "cmp(%a, %a) <predicate='une'> : i1"),
        ("arith.cmpf ord, %a, %a fastmath<fast> : f32", "cmp(%a, %a) <predicate='ord'> : i1"),
        ("arith.select %c, %a, %a : f32", "select(%c, %a, %a) : f32"),
        ("arith.addi %n, %n overflow<nsw, nuw> : i32", "add(%n, %n) : i32"),
        ("arith.negf %a : f32", "neg(%a) : f32"),
        ("arith.xori %c, %c : i1", "xor(%c, %c) : i1"),
        ("arith.constant 5 : i32", "const() <value=5> : i32"),
        ("arith.constant true", "const() <value=True> : i1"),
        ("arith.constant dense<true> : tensor<4xi1>", "const() <value=True> : i1[4]"),
        ("arith.constant dense<0xFF800000> : tensor<4x2xf32>", "const() <value=-inf> : f32[4,2]"),
        ("arith.constant dense<0x7F80> : tensor<4xbf16>", "const() <value=inf> : bf16[4]"),
        ("tt.clampf %a, %a, %a, propagateNan = none : f32", "clamp(%a, %a, %a) <nan=False> : f32"),
        ("tt.clampf %a, %a, %a, propagateNan = all : f32", "clamp(%a, %a, %a) <nan=True> : f32"),
    ],
)  # fmt: skip
def test_rows_with_something_to_say(line: str, expected: str) -> None:
    assert ops(f"%r = {line}")[0] == f"%5 = {expected}"


def test_absolute_integers_and_powers_are_composed() -> None:
    assert ops("%r = math.absi %n : i32") == [
        "%5 = neg(%n) : i32",
        "%6 = smax(%n, %5) : i32",
    ]
    assert ops("%r = math.fpowi %a, %n : f32, i32") == [
        "%5 = cast(%n) <signed=True> : f32",
        "%6 = pow(%a, %5) : f32",
    ]


def test_an_integer_cut_to_one_bit_keeps_the_lowest() -> None:
    assert ops("%r = arith.trunci %n : i32 to i1") == [
        "%5 = const() <value=1> : i32",
        "%6 = and(%n, %5) : i32",
        "%7 = const() <value=0> : i32",
        "%8 = cmp(%6, %7) <predicate='ne'> : i1",
    ]


def test_a_scalar_condition_selects_whole_tensors() -> None:
    body = """
    %s = tt.splat %a : f32 -> tensor<4xf32>
    %r = arith.select %c, %s, %s : tensor<4xf32>
    """
    assert ops(body)[1:] == [
        "%6 = broadcast(%c) : i1[4]",
        "%7 = select(%6, %5, %5) : f32[4]",
    ]


def test_a_flag_held_as_an_integer_is_the_flag() -> None:
    body = """
    %z = arith.constant 0 : i32
    %w = arith.extui %c : i1 to i32
    %r = arith.cmpi ne, %w, %z : i32
    %t = arith.trunci %w : i32 to i1
    %q = arith.andi %r, %t : i1
    """
    assert ops(body)[-1] == "%7 = and(%c, %c) : i1"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tt.fp_to_fp %a, rounding = rtz : f32 -> f8E5M2", "rounding mode `rtz`"),
        ("arith.truncf %a toward_zero : f32 to f16", "rounding mode `toward_zero`"),
        ("arith.constant dense<[0, 1]> : tensor<2xi32>", "with different elements"),
        ("arith.cmpf true, %a, %a : f32", "always true"),
        ("arith.index_cast %n : i32 to index", "values of type `index`"),
        ("arith.extf %a : f32 to f128", "values of type `f128`"),
        ("tt.int_to_ptr %n : i32 -> !tt.ptr<f32>", "a pointer made from an integer"),
        ("tt.bitcast %n : i64 -> !tt.ptr<f32>", "not one of the kernel's arguments"),
        ("arith.ceildivsi %n, %n : i32", "`arith.ceildivsi` is not supported"),
    ],
)
def test_refusals(line: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        lift(f"%r = {line}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("arith.addf %a, %a {new = 1 : i32} : f32", "attribute `new`"),
        ("arith.addf %a, %a saturating : f32", "attribute `saturating`"),
        ("arith.addf %a, %b : f32", "`%b` is used by `arith.addf` but not defined"),
        ("arith.negf %a", "carries no type"),
    ],
)
def test_what_is_not_known_is_an_error(line: str, message: str) -> None:
    if "no type" in message:
        line = line.replace("arith.negf %a", "arith.extf %a")
    with pytest.raises(CaptureError, match=message):
        lift(f"%r = {line}")


def test_hints_with_a_dot_are_left_out() -> None:
    line = "%r = arith.addi %n, %n {tt.divisibility = dense<16> : tensor<1xi32>} : i32"
    assert ops(line) == ["%5 = add(%n, %n) : i32"]
