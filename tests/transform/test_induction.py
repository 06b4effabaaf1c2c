"""Integers that advance evenly: not carried any more, and the same in every turn."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from undertow.evaluate import run
from undertow.ir import Kernel, Op, parse, verify, walk
from undertow.transform.induction import induction

# Turn number k stores what is carried at 8 + k; what is left comes at 0.
FRAME = """kernel k(
  %y_ptr: ptr<i32>, %x_ptr: ptr<i32>, %lower: i32, %upper: i32, %step: i32, %a: i32,
  %b: i32
) {{
  %p = program_id() <axis=0> : i32
  %zero = const() <value=0> : i32
  %one = const() <value=1> : i32
  %eight = const() <value=8> : i32
  %lanes = range() <start=0, end=2> : i32[2]
  %w = const() <value=3> : i64
{before}
  %c, %k = for({bounds}, {initial}, %zero) : {type}, i32 {{
    (%i: i32, %v: {type}, %turn: i32)
    %x = load(%x_ptr) : i32
    %n = add(%turn, %x) : i32
{body}
    %at = add(%turn, %eight) : i32
{store}
    yield(%next, %n)
  }}
{after}
}}"""
STORE = "store(%y_ptr, {0}, {1})"
NARROW = "%{0}32 = cast(%{0}) <signed=True> : i32\n store(%y_ptr, %{0}32, {1})"
LANES = """%{0}2 = mul({1}, {2}) : i32
 %{0}3 = broadcast(%{0}2) : i32[2]
 %{0}4 = add(%{0}3, %lanes) : i32[2]
 store(%y_ptr, %{0}, %{0}4)"""


def text(
    body: str,
    type: str = "i32",
    initial: str = "%a",
    bounds: str = "%lower, %upper, %step",
    before: str = "",
) -> str:
    if type == "i64":
        store, after = NARROW.format("v", "%at"), NARROW.format("c", "%zero")
    elif type.endswith("]"):
        store = LANES.format("v", "%at", "%two")
        after = LANES.format("c", "%zero", "%zero")
        before += "\n  %two = const() <value=2> : i32"
    else:
        store, after = STORE.format("%v", "%at"), STORE.format("%c", "%zero")
    return FRAME.format(
        body=body, type=type, initial=initial, bounds=bounds, before=before,
        store=store, after=after,
    )  # fmt: skip


def kernel(*args: str, **options: str) -> Kernel:
    return verify(parse(text(*args, **options)))


def outcome(kernel: Kernel, **numbers: int) -> list[int]:
    """What is stored; the first parameters count turns by loading 1."""
    y = torch.full((200,), -77, dtype=torch.int32)
    args = {"lower": 0, "upper": 0, "step": 1, "a": 0, "b": 0, **numbers}
    x = torch.ones(1, dtype=torch.int32)
    run(kernel, {"y_ptr": y, "x_ptr": x, **args}, (1,))
    return y.tolist()


def loop(kernel: Kernel) -> Op:
    return next(op for op in walk(kernel.body) if op.opcode == "for")


def opcodes(kernel: Kernel) -> set[str]:
    return {op.opcode for op in walk(kernel.body)}


ADD_B = "%next = add(%v, %b) : i32"
EVEN = {
    "argument": kernel(ADD_B),
    "turned around": kernel("%next = add(%b, %v) : i32"),
    "subtracted": kernel("%next = sub(%v, %b) : i32"),
    "several": kernel(
        "%d = sub(%v, %b) : i32\n %e = add(%a, %d) : i32\n %next = add(%e, %b) : i32"
    ),
    "computed inside": kernel(
        "%d = mul(%b, %eight) : i32\n %e = add(%d, %p) : i32\n"
        " %next = add(%v, %e) : i32"
    ),
    "times the step": kernel("%d = mul(%b, %step) : i32\n %next = add(%v, %d) : i32"),
    "64 bits": kernel(
        "%d = cast(%b) <signed=True> : i64\n %next = add(%v, %d) : i64", "i64", "%w"
    ),
    "tensors": kernel(
        "%d = broadcast(%b) : i32[2]\n %next = add(%v, %d) : i32[2]", "i32[2]", "%lanes"
    ),
    "uneven lanes": kernel("%next = add(%v, %lanes) : i32[2]", "i32[2]", "%lanes"),
    "nothing": kernel("%next = add(%v, %zero) : i32"),
    "only in the next turn": kernel(
        "%d = add(%v, %b) : i32\n %next = add(%d, %one) : i32"
    ),
}


@pytest.mark.parametrize("name", EVEN)
@given(
    lower=st.integers(-9, 9),
    upper=st.integers(-9, 9),
    step=st.integers(-4, 4).filter(bool),
    a=st.integers(-50, 50),
    b=st.integers(-50, 50),
)
def test_what_advances_evenly_is_not_carried(name: str, **numbers: int) -> None:
    before = EVEN[name]
    after = verify(induction(before))
    assert len(loop(before).results) == 2
    assert [str(r.type) for r in loop(after).results] in (["i32"], [])
    assert outcome(after, **numbers) == outcome(before, **numbers)


@given(
    lower=st.integers(-(2**31), 2**31 - 1),
    b=st.integers(-(2**31), 2**31 - 1),
    step=st.sampled_from([1, 7, -3]),
)
def test_wrapping_around_is_kept(lower: int, b: int, step: int) -> None:
    upper = max(-(2**31), min(lower + 6 * step, 2**31 - 1))
    numbers = {"lower": lower, "upper": upper, "step": step, "a": 2**31 - 5, "b": b}
    for name in ("argument", "subtracted", "times the step"):
        before = EVEN[name]
        assert outcome(induction(before), **numbers) == outcome(before, **numbers)


UNEVEN = {
    "the variable": "%next = add(%v, %i) : i32",
    "what is loaded": "%next = add(%v, %x) : i32",
    "itself": "%next = add(%v, %v) : i32",
    "from a number": "%next = sub(%b, %v) : i32",
    "a product": "%next = mul(%v, %b) : i32",
}


@pytest.mark.parametrize("name", UNEVEN)
def test_what_does_not_advance_evenly_stays_carried(name: str) -> None:
    before = kernel(UNEVEN[name])
    after = verify(induction(before))
    assert len(loop(after).results) == 2
    numbers = {"upper": 9, "step": 2, "a": 3, "b": 5}
    assert outcome(after, **numbers) == outcome(before, **numbers)


def test_what_stays_the_same_is_not_carried() -> None:
    for body in ("%next = add(%v, %zero) : i32", "%next = add(%a, %zero) : i32"):
        before = kernel(body)
        after = verify(induction(before))
        assert len(loop(after).results) == 1
        assert outcome(after, upper=3, a=6) == outcome(before, upper=3, a=6)
    floats = """kernel k(%y_ptr: ptr<f32>, %n: i32, %f: f32) {
      %zero = const() <value=0> : i32
      %one = const() <value=1> : i32
      %r = for(%zero, %n, %one, %f) : f32 {
        (%i: i32, %v: f32)
        store(%y_ptr, %v, %i)
        yield(%v)
      }
      store(%y_ptr, %r, %n)
    }"""
    assert not loop(induction(verify(parse(floats)))).results


def test_a_block_at_a_time_needs_no_division() -> None:
    by_const = kernel(
        "%d = mul(%b, %eight) : i32\n %next = add(%v, %d) : i32",
        bounds="%zero, %upper, %eight",
    )
    for before in (by_const, EVEN["times the step"]):
        after = induction(before)
        inside = {op.opcode for op in walk(loop(after).regions[0])}
        assert "sdiv" not in inside
        assert "sub" not in inside or before is not by_const
    numbers = {"upper": 30, "step": 8, "a": 1, "b": 5}
    assert outcome(induction(by_const), **numbers) == outcome(by_const, **numbers)


def test_constant_bounds_fold() -> None:
    before = kernel(
        "%next = add(%v, %eight) : i32", initial="%zero", bounds="%zero, %one, %one"
    )
    after = induction(before)
    assert not opcodes(after) & {"sdiv", "smax", "sub"}
    assert outcome(after) == outcome(before)


NESTED = """kernel k(%y_ptr: ptr<i32>, %m: i32, %n: i32, %a: i32) {
  %zero = const() <value=0> : i32
  %one = const() <value=1> : i32
  %four = const() <value=4> : i32
  %last = for(%zero, %m, %one, %a) : i32 {
    (%i: i32, %v: i32)
    %w = for(%zero, %n, %four, %v) : i32 {
      (%j: i32, %u: i32)
      %row = mul(%i, %n) : i32
      store(%y_ptr, %u, %row, %j)
      %t = add(%u, %four) : i32
      yield(%t)
    }
    %x = add(%w, %one) : i32
    yield(%x)
  }
  %end = mul(%m, %n) : i32
  store(%y_ptr, %last, %end)
}"""


@given(m=st.integers(0, 5), n=st.integers(0, 13), a=st.integers(-9, 9))
def test_what_inner_loops_add_is_a_step_of_the_outer(m: int, n: int, a: int) -> None:
    before = verify(parse(NESTED))
    after = verify(induction(before))
    assert all(not op.results for op in walk(after.body) if op.opcode == "for")
    found: list[list[int]] = []
    for k in (before, after):
        y = torch.zeros(100, dtype=torch.int32)
        run(k, {"y_ptr": y, "m": m, "n": n, "a": a}, (1,))
        found.append(y.tolist())
    assert found[0] == found[1]


def test_a_kernel_without_loops_is_left_alone() -> None:
    k = verify(parse("kernel k(%y_ptr: ptr<i32>, %n: i32) {\n store(%y_ptr, %n)\n}"))
    assert induction(k) is k


def test_names_and_hints_are_kept() -> None:
    k = verify(
        parse(text(ADD_B).replace("%zero) : i32, i32", "%zero) <s=2> : i32, i32"))
    )
    loop(k).regions[0].args[1].name = "offset"
    after = induction(k)
    assert loop(after).attrs == {"s": 2}
    assert "offset" in {r.name for op in walk(after.body) for r in op.results}
