import pytest

from undertow.errors import UnsupportedError
from undertow.frontend import reduction

from .text import lift, ops


def reduce(body: str, type: str, axis: int = 0) -> str:
    scalar = type.split("x")[-1].rstrip(">")
    shape = [int(n) for n in type.removeprefix("tensor<").split("x")[:-1]]
    rest = shape[:axis] + shape[axis + 1 :]
    result = f"tensor<{'x'.join(map(str, rest))}x{scalar}>" if rest else scalar
    return f"""
    %r = "tt.reduce"(%x) <{{axis = {axis} : i32}}> ({{
    ^bb0(%p: {scalar} loc(unknown), %q: {scalar} loc(unknown)):
    {body}
    tt.reduce.return %t : {scalar}
    }}) : ({type}) -> {result}
    """.strip()


@pytest.mark.parametrize("name", reduction.KINDS)
@pytest.mark.parametrize("order", ["%p, %q", "%q, %p"])
def test_a_region_of_one_op_is_a_kind(name: str, order: str) -> None:
    operand, type = ("%a", "f32") if name.endswith("f") else ("%n", "i32")
    body = f"%x = tt.splat {operand} : {type} -> tensor<4x8x{type}>\n"
    body += reduce(f"%t = {name} {order} : {type}", f"tensor<4x8x{type}>", axis=1)
    expected = f"reduce(%5) <axis=1, kind='{reduction.KINDS[name]}'> : {type}[4]"
    assert ops(body)[1] == f"%6 = {expected}"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("addi", "xor"), ("muli", "and"), ("ori", "or"), ("andi", "and"), ("xori", "xor")],
)
def test_one_bit_wraps_around(name: str, kind: str) -> None:
    body = "%x = tt.splat %c : i1 -> tensor<4xi1>\n"
    body += reduce(f"%t = arith.{name} %p, %q : i1", "tensor<4xi1>")
    assert ops(body)[1] == f"%6 = reduce(%5) <axis=0, kind='{kind}'> : i1"


@pytest.mark.parametrize(
    "body",
    [
        "%t = arith.subf %p, %q : f32",
        "%t = arith.addf %p, %p : f32",
        "%s = arith.negf %q : f32\n%t = arith.addf %p, %s : f32",
        "%t = arith.addf %p, %a : f32",
    ],
)
def test_other_functions_are_refused(body: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        lift(
            "%x = tt.splat %a : f32 -> tensor<4xf32>\n" + reduce(body, "tensor<4xf32>")
        )
    assert str(error.value) == (
        "`tl.reduce` with a custom function is not supported\n"
        "  --> k.py:7, in kernel `k`\n"
        "  = only sums, products, extremes, their positions, and bits are known\n"
        "hint: write it with `tl.sum`, `tl.max` and elementwise operations"
    )


# -- positions --

SPLAT = "%x = tt.splat {operand} : {type} -> tensor<4x8x{type}>"
ALONG = {
    0: """
    %o = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %e = tt.expand_dims %o {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
    %i = tt.broadcast %e : tensor<4x1xi32> -> tensor<4x8xi32>
    """.strip(),
    1: """
    %o = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %e = tt.expand_dims %o {axis = 0 : i32} : tensor<8xi32> -> tensor<1x8xi32>
    %i = tt.broadcast %e : tensor<1x8xi32> -> tensor<4x8xi32>
    """.strip(),
}


def pair(compare: str, type: str, axis: int, *, tie: bool, value: str = "") -> str:
    equal = "arith.cmpf oeq" if type == "f32" else "arith.cmpi eq"
    condition = f"%g = {compare}, %v, %w : {type}"
    if tie:
        condition = f"""
        %h = {equal}, %w, %v : {type}
        %l = arith.cmpi slt, %j, %k : i32
        %m = arith.andi %h, %l : i1
        %f = {compare}, %v, %w : {type}
        %g = arith.ori %m, %f : i1
        """.strip()
    rest = 8 if axis == 0 else 4
    results = f"(tensor<{rest}x{type}>, tensor<{rest}xi32>)"
    args = ", ".join(
        f"%{n}: {t} loc(unknown)"
        for n, t in zip("vjwk", (type, "i32") * 2, strict=True)
    )
    return f"""
    %r:2 = "tt.reduce"(%x, %i) <{{axis = {axis} : i32}}> ({{
    ^bb0({args}):
    {condition}
    %s = {value or "arith.select %g, %v, %w"} : {type}
    %t = arith.select %g, %j, %k : i32
    tt.reduce.return %s, %t : {type}, i32
    }}) : (tensor<4x8x{type}>, tensor<4x8xi32>) -> {results}
    %u = arith.addi %r#1, %r#1 : tensor<{rest}xi32>
    """.strip()


@pytest.mark.parametrize("compare", reduction._GREATER)
@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_positions_of_extremes(compare: str, tie: bool, axis: int) -> None:
    index, value, _ = reduction._GREATER[compare]
    operand, type = ("%a", "f32") if "cmpf" in compare else ("%n", "i32")
    splat = SPLAT.format(operand=operand, type=type)
    body = f"{splat}\n{ALONG[axis]}\n{pair(compare, type, axis, tie=tie)}"
    rest = 8 if axis == 0 else 4
    if value.startswith("u"):
        assert ops(body)[-4:] == [
            f"%10 = const() <value={-(2**31)}> : i32[4,8]",
            "%11 = xor(%5, %10) : i32[4,8]",
            f"%12 = reduce(%11) <axis={axis}, kind='{index}'> : i32[{rest}]",
            f"%13 = add(%12, %12) : i32[{rest}]",
        ]
        return
    assert ops(body)[-3:] == [
        f"%9 = reduce(%5) <axis={axis}, kind='{value}'> : {type}[{rest}]",
        f"%10 = reduce(%5) <axis={axis}, kind='{index}'> : i32[{rest}]",
        f"%11 = add(%10, %10) : i32[{rest}]",
    ]


def test_a_position_of_booleans_is_that_of_bytes() -> None:
    splat = SPLAT.format(operand="%c", type="i1")
    body = f"{splat}\n{ALONG[0]}\n{pair('arith.cmpi ugt', 'i1', 0, tie=True)}"
    assert ops(body)[-3:-1] == [
        "%10 = cast(%5) <signed=False> : i8[4,8]",
        "%11 = reduce(%10) <axis=0, kind='argmax'> : i32[8]",
    ]


def test_the_value_may_be_folded_to_a_maximum() -> None:
    """Triton 3.9 canonicalises `select(a > b, a, b)` of integers."""
    splat = SPLAT.format(operand="%n", type="i32")
    region = pair("arith.cmpi sgt", "i32", 0, tie=False, value="arith.maxsi %v, %w")
    assert "kind='argmax'" in ops(f"{splat}\n{ALONG[0]}\n{region}")[-2]


@pytest.mark.parametrize(
    "indices",
    [
        ALONG[1],  # along the other axis
        ALONG[0].replace("end = 4", "end = 5").replace("start = 0", "start = 1"),
        "%i = tt.splat %n : i32 -> tensor<4x8xi32>",
    ],
)
def test_pairs_of_other_things_are_refused(indices: str) -> None:
    splat = SPLAT.format(operand="%a", type="f32")
    with pytest.raises(UnsupportedError) as error:
        lift(f"{splat}\n{indices}\n{pair('arith.cmpf ogt', 'f32', 0, tie=True)}")
    assert str(error.value) == (
        "a reduction of pairs other than value and position is not supported\n"
        "  --> k.py:7, in kernel `k`\n"
        "  = it selects from the second tensor where the first is extreme\n"
        "hint: compare `tl.argmax` with the positions, and sum under that mask"
    )


def test_the_last_of_equal_ones_is_refused() -> None:
    splat = SPLAT.format(operand="%a", type="f32")
    region = pair("arith.cmpf ogt", "f32", 0, tie=True).replace("cmpi slt", "cmpi sgt")
    with pytest.raises(UnsupportedError, match="custom function"):
        lift(f"{splat}\n{ALONG[0]}\n{region}")


# -- sums of prefixes --


def scan(body: str, type: str, *, reverse: bool = False) -> str:
    return f"""
    %x = tt.splat %a : {type} -> tensor<4x8x{type}>
    %r = "tt.scan"(%x) <{{axis = 1 : i32, reverse = {str(reverse).lower()}}}> ({{
    ^bb0(%p: {type} loc(unknown), %q: {type} loc(unknown)):
    {body}
    tt.scan.return %t : {type}
    }}) : (tensor<4x8x{type}>) -> tensor<4x8x{type}>
    """.strip()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_by_addition(reverse: bool) -> None:
    body = scan("%t = arith.addf %p, %q : f32", "f32", reverse=reverse)
    expected = f"scan(%5) <axis=1, kind='sum', reverse={reverse}> : f32[4,8]"
    assert ops(body)[1] == f"%6 = {expected}"


def test_other_scans_are_refused() -> None:
    with pytest.raises(UnsupportedError) as error:
        lift(scan("%t = arith.mulf %p, %q : f32", "f32"))
    assert str(error.value).splitlines()[0] == (
        "`tl.associative_scan` and `tl.cumprod` are not supported yet"
    )
