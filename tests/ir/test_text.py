"""Printing and parsing are inverse, and what is no kernel is refused by line."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

from undertow.errors import IRError
from undertow.ir import DTYPES, F32, I32, Kernel, parse, print_kernel, verify

TEXT = """kernel every(%x_ptr: ptr<bf16>, %y_ptr: ptr<f32>, %n: i32, %eps: f32) {
  section() <title='primal sweep (recomputed)'>
  %4 = const() <value=-inf> : f32[4]
  %5 = const() <value=nan> : f32
  %6 = const() <value=-0.0> : f32
  %7 = const() <value=1e-05> : f32
  %8 = const() <value=-3> : i64
  %9 = const() <value=True> : i1[2,2]
  %10 = program_id() <axis=2> : i32
  %11 = range() <end=8, start=4> : i32[4]
  %12 = broadcast(%n) : i32[4]
  %13 = cmp(%11, %12) <predicate='slt'> : i1[4]
  %14 = load(%x_ptr, %13, %11) <cache='.cg', mask=True> : bf16[4]
  %15 = cast(%14) <signed=True> : f32[4]
  %16 = reshape(%15) : f32[2,2]
  %17 = transpose(%16) <order=[1, 0]> : f32[2,2]
  %18, %19 = split(%17) : f32[2], f32[2]
  %20 = reduce(%15) <axis=0, kind='max'> : f32
  %21 = cmp(%20, %eps) <predicate='olt'> : i1
  %22 = if(%21) : f32 {
    %23 = exp(%20) : f32
    yield(%23)
  } {
    yield(%eps)
  }
  %24 = broadcast(%22) : f32[4]
  store(%y_ptr, %24, %13, %11) <mask=True>
  atomic_add(%y_ptr, %24, %11)
}
"""


def test_text_is_read_back_as_it_was() -> None:
    assert print_kernel(verify(parse(TEXT))) == TEXT


def test_locations_are_read_back() -> None:
    text = 'kernel k(%x: i32) { @"some file.py":3:1\n'
    text += '  %1.y = neg(%x) : i32 @"some file.py":4:5:y\n'
    text += '  %2.z = neg(%1.y) : i32 @"some file.py":4:5:y\n'
    text += '  %3. = neg(%2.z) : i32 @"some file.py":4:5:y\n}\n'
    kernel = parse(text)
    assert kernel.loc.line == 3
    assert kernel.body.ops[0].loc.name == "y"
    assert [op.result.name for op in kernel.body.ops] == ["y", "z", ""]
    assert print_kernel(kernel, locations=True) == text


def test_numbers_are_exact() -> None:
    ops = parse(TEXT).body.ops
    assert ops[1].attrs["value"] == -math.inf
    assert math.isnan(float(ops[2].attrs["value"]))  # type: ignore[arg-type]
    assert math.copysign(1, float(ops[3].attrs["value"])) == -1  # type: ignore[arg-type]


def test_a_dtype_is_one_object_however_it_is_copied() -> None:
    for dtype in DTYPES.values():
        assert copy.deepcopy(dtype) is dtype
        assert pickle.loads(pickle.dumps(dtype)) is dtype


def body(*lines: str) -> Kernel:
    joined = "\n".join(lines)
    return parse(f"kernel k(%p: ptr<f32>, %x: f32, %i: i32) {{\n{joined}\n}}\n")


UNREADABLE = {
    "unreadable text on line 2": "  %1 = neg(%x) : f32 ~",
    "expected `=`, got `(`": "  %1 (%x)",
    "`%y` is used before its definition": "  %1 = neg(%y) : f32",
    "`%x` is defined twice": "  %x = neg(%x) : f32",
    "`f31` is no dtype": "  %1 = neg(%x) : f31",
    "names 1 results and types 0": "  %1 = neg(%x)",
    "ends too early": "  %1 = if(%i) : f32 {",
}


@pytest.mark.parametrize("message", UNREADABLE)
def test_unreadable_text(message: str) -> None:
    with pytest.raises(IRError) as caught:
        body(UNREADABLE[message])
    assert message in str(caught.value)


INVALID = {
    "unknown opcode": "  %1 = nag(%x) : f32",
    "takes 1 operands, has 2": "  %1 = neg(%x, %x) : f32",
    "only memory ops take pointers": "  %1 = neg(%p) : f32",
    "takes floats": "  %1 = exp(%i) : i32",
    "takes integers": "  %1 = and(%x, %x) : f32",
    "the operands differ in dtype": "  %1 = add(%x, %i) : i32",
    "the result must be i1": "  %1 = cmp(%x, %x) <predicate='olt'> : f32",
    "unknown predicate 'slt'": "  %1 = cmp(%x, %x) <predicate='slt'> : i1",
    "the condition must be i1": "  %1 = select(%i, %x, %x) : f32",
    "the widths differ": "  %1 = bitcast(%x) : i64",
    "value 1 is no float": "  %1 = const() <value=1> : f32",
    "the type must be i32[end - start]": "  %1 = range() <end=4, start=0> : i32[3]",
    "needs an axis in 0..2": "  %1 = program_id() <axis=3> : i32",
    "the number of elements and the dtype": "  %1 = reshape(%x) : f32[2]",
    "the first operand must be a pointer": "  %1 = load(%x) : f32",
    "the value must have the pointer's": "  %1 = load(%p) : i32",
    "an offset must be integers": "  %1 = load(%p, %x) : f32",
    "the mask must be i1": "  %1 = load(%p, %i) <mask=True> : f32",
    "takes a scalar i1 and two blocks": "  %1 = if(%i) : f32 {\n yield(%x)\n }",
    "`yield` must end a nested block": "  yield(%x)",
    "unknown kind": "  %2 = broadcast(%x) : f32[2]\n"
    "  %1 = reduce(%2) <axis=0, kind='s'> : f32",
    "axis 1 is out of range": "  %2 = broadcast(%x) : f32[2]\n"
    "  %1 = reduce(%2) <axis=1, kind='sum'> : f32",
}  # fmt: skip


@pytest.mark.parametrize("message", INVALID)
def test_invalid_kernels(message: str) -> None:
    with pytest.raises(IRError) as caught:
        verify(body(INVALID[message]))
    assert message in str(caught.value)
    assert caught.value.kernel == "k"


def test_types_have_cotangents_no_narrower_than_f32() -> None:
    from undertow.ir import cotangent_dtype

    names = {name: str(cotangent_dtype(d)) for name, d in DTYPES.items() if d.is_float}
    assert names.pop("f64") == "f64"
    assert set(names.values()) == {"f32"}
    assert F32 is not I32
