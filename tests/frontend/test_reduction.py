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
    ("body", "steps"),
    [
        ("%t = arith.subf %p, %q : f32", "sub"),
        ("%t = arith.addf %p, %p : f32", "add"),
        ("%s = arith.negf %q : f32\n%t = arith.addf %p, %s : f32", "neg add"),
        ("%t = arith.addf %p, %a : f32", "broadcast add"),
    ],
)
def test_other_functions_are_a_tree(body: str, steps: str) -> None:
    splat = "%x = tt.splat %a : f32 -> tensor<4xf32>\n"
    found = [line.split("= ")[1].split("(")[0] for line in ops(
        splat + reduce(body, "tensor<4xf32>")
    )]  # fmt: skip
    assert [name for name in found if name not in ("reshape", "store")] == (
        ["broadcast", *("split " + steps).split() * 2]
    )


@pytest.mark.parametrize("nan", ["%n, %g", "%g, %n"])
@pytest.mark.parametrize(("compare", "kind"), [("ogt", "max"), ("olt", "min")])
def test_an_extreme_that_passes_a_nan_on(compare: str, kind: str, nan: str) -> None:
    body = f"""
    %g = arith.cmpf {compare}, %p, %q : f32
    %n = arith.cmpf une, %p, %p : f32
    %m = arith.ori {nan} : i1
    %t = arith.select %m, %p, %q : f32
    """.strip()
    splat = "%x = tt.splat %a : f32 -> tensor<4x8xf32>\n"
    found = ops(splat + reduce(body, "tensor<4x8xf32>", axis=1))
    assert found[1] == f"%6 = reduce(%5) <axis=1, kind='{kind}'> : f32[4]"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("cf.cond_br %c, ^bb1, ^bb2", "that branches"),
        ("%t = tt.gather %p[%q] : (f32, f32) -> f32", "that is more than elementwise"),
    ],
)
def test_functions_that_are_refused(body: str, kind: str) -> None:
    text = reduce(body, "tensor<4xf32>")
    if "cond_br" in body:
        text = text.replace(body, f"{body}\n^bb1:\n^bb2:\n%t = arith.addf %p, %q : f32")
    with pytest.raises(UnsupportedError) as error:
        lift(f"%x = tt.splat %a : f32 -> tensor<4xf32>\n{text}")
    assert str(error.value) == (
        f"`tl.reduce` with a function {kind} is not supported\n"
        "  --> k.py:7, in kernel `k`\n"
        "  = it is applied to all elements at once\n"
        "hint: write it with elementwise operations, `tl.where` among them"
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
def test_pairs_of_other_things_are_a_tree(indices: str) -> None:
    splat = SPLAT.format(operand="%a", type="f32")
    found = ops(f"{splat}\n{indices}\n{pair('arith.cmpf ogt', 'f32', 0, tie=True)}")
    assert "reduce" not in "".join(found)
    assert sum("= select" in line for line in found) == 4


def test_the_last_of_equal_ones_is_a_tree() -> None:
    splat = SPLAT.format(operand="%a", type="f32")
    region = pair("arith.cmpf ogt", "f32", 0, tie=True).replace("cmpi slt", "cmpi sgt")
    assert "reduce" not in "".join(ops(f"{splat}\n{ALONG[0]}\n{region}"))


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


def test_a_scan_by_multiplication() -> None:
    body = scan("%t = arith.mulf %q, %p : f32", "f32")
    assert (
        ops(body)[1] == "%6 = scan(%5) <axis=1, kind='prod', reverse=False> : f32[4,8]"
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("gain", [0, 1])
def test_a_scan_of_pairs_is_a_recurrence(gain: int, fused: bool, reverse: bool) -> None:
    (a, x), (c, y) = ("pq", "uv") if gain == 0 else ("qp", "vu")
    step = f"%s = math.fma %{c}, %{x}, %{y} : f32"
    if not fused:
        step = f"%m = arith.mulf %{x}, %{c} : f32\n%s = arith.addf %{y}, %m : f32"
    results = "%t, %s" if gain == 0 else "%s, %t"
    block = ", ".join(f"%{name}: f32 loc(unknown)" for name in "pquv")
    body = f"""
    %x = tt.splat %a : f32 -> tensor<4x8xf32>
    %z = math.exp %x : tensor<4x8xf32>
    %r:2 = "tt.scan"(%x, %z) <{{axis = 1 : i32, reverse = {str(reverse).lower()}}}> ({{
    ^bb0({block}):
    %t = arith.mulf %{c}, %{a} : f32
    {step}
    tt.scan.return {results} : f32, f32
    }}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    """.strip()
    pair = "%5, %6" if gain == 0 else "%6, %5"
    first = pair.split(",")[0]
    assert ops(body)[2:4] == [
        f"%7 = scan({first}) <axis=1, kind='prod', reverse={reverse}> : f32[4,8]",
        f"%8 = recurrence({pair}) <axis=1, reverse={reverse}> : f32[4,8]",
    ]


def test_other_scans_are_a_tree() -> None:
    found = ops(scan("%t = arith.maxnumf %p, %q : f32", "f32"))
    assert "scan" not in "".join(found)
    # the prefixes and the totals of each of three steps
    assert sum("= maxnum" in line for line in found) == 6
