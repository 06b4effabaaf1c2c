"""The lift as a whole: names, places, parameters, what is dropped or refused."""

import pytest

from undertow.errors import CaptureError, UnsupportedError
from undertow.frontend import lift_text
from undertow.frontend.lift import ROWS
from undertow.frontend.refusals import DROPPED, LOOP_HINTS, REFUSED, spelling
from undertow.ir import Loc, print_kernel

from .text import lift, module, ops


def test_parameters_keep_their_names_and_order() -> None:
    kernel = lift(
        "%r = tt.load %x_ptr : !tt.ptr<f32>", unused="i64", h_ptr="!tt.ptr<f8E5M2>"
    )
    assert [(p.name, str(p.type)) for p in kernel.params] == [
        ("x_ptr", "ptr<f32>"),
        ("y_ptr", "ptr<f32>"),
        ("n", "i32"),
        ("a", "f32"),
        ("c", "i1"),
        ("unused", "i64"),
        ("h_ptr", "ptr<f8e5m2>"),
    ]
    assert (kernel.name, kernel.loc) == ("k", Loc("k.py", 3, 1))


def test_elements_of_a_tuple_that_are_named_alike_are_numbered() -> None:
    text = module("%r = arith.addf %a, %b : f32", b="f32").replace('loc("b"', 'loc("a"')
    assert [p.name for p in lift_text(text).params][3:] == ["a.0", "c", "a.1"]


def test_values_have_the_users_names_and_places() -> None:
    kernel = lift('%r = math.exp %a : f32 loc("rate"(#loc1))')
    (op,) = kernel.body.ops
    assert op.result.name == "rate"
    assert op.loc == Loc("k.py", 7, 5, "rate")


@pytest.mark.parametrize(
    "line",
    [
        'tt.print " x: " {hex = false, isSigned = array<i32: 0>} : %a : f32',
        'tt.assert %c, "n > 5" : i1',
        "gpu.barrier",
        "ttg.barrier all",
    ],
)
def test_notes_to_the_machine_are_dropped(line: str) -> None:
    assert ops(line) == [] or lift(line).body.ops == []


def test_an_assumption_is_kept() -> None:
    assert ops("llvm.intr.assume %c : i1") == ["assume(%c)"]


def test_every_dropped_op_has_a_reason() -> None:
    assert all(len(reason.split()) > 4 for reason in (DROPPED | LOOP_HINTS).values())


def test_an_op_has_one_fate() -> None:
    fates = [*ROWS, *DROPPED, *REFUSED, "scf.if", "scf.for"]
    assert len(fates) == len(set(fates))


@pytest.mark.parametrize("name", REFUSED)
def test_refused_ops_are_named_with_their_line(name: str) -> None:
    refusal = REFUSED[name]
    with pytest.raises(UnsupportedError) as error:
        lift(f"%r = {name} %a : f32")
    text = str(error.value)
    assert text.startswith(f"{refusal.fact}\n  --> k.py:7, in kernel `k`")
    assert refusal.why in text
    assert refusal.hint in text
    assert refusal.fact == refusal.fact.strip()


def test_a_refusal_in_full() -> None:
    with pytest.raises(UnsupportedError) as error:
        lift("%r = tt.cat %a, %a : f32 -> f32")
    assert str(error.value) == (
        "`tl.cat` is not supported\n"
        "  --> k.py:7, in kernel `k`\n"
        "  = Triton leaves the order of `tl.cat` open\n"
        "hint: `tl.join` keeps the order"
    )


def test_unknown_ops_are_refused_by_name() -> None:
    for name, shown in (("tt.new_thing", "tl.new_thing"), ("arith.new", "arith.new")):
        assert spelling(name) == shown
        with pytest.raises(UnsupportedError, match=f"`{shown}` is not supported"):
            lift(f"%r = {name} %a : f32")


def test_an_argument_that_is_no_scalar_or_pointer_is_refused() -> None:
    with pytest.raises(UnsupportedError) as error:
        lift("tt.return", d="!tt.tensordesc<tensor<16xf32>>")
    assert str(error.value).startswith(
        "argument `d` of type `!tt.tensordesc<tensor<16xf32>>` is not supported\n"
        "  --> k.py:3, in kernel `k`\n"
    )


def test_a_module_has_one_public_function() -> None:
    with pytest.raises(CaptureError, match="one public function"):
        lift_text(module("tt.return").replace("public", "private"))


def test_the_result_is_verified_ir_that_prints() -> None:
    assert print_kernel(lift("tt.store %x_ptr, %a : !tt.ptr<f32>"), locations=True) == (
        "kernel k(%x_ptr: ptr<f32>, %y_ptr: ptr<f32>, %n: i32, %a: f32, %c: i1)"
        ' { @"k.py":3:1\n'
        '  store(%x_ptr, %a) @"k.py":7:5\n'
        "}\n"
    )
