"""Loops: bounds that differ between programs, nesting, memory, and reports."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evaluate.kernels import kernel
from undertow.errors import LaunchError
from undertow.evaluate import run

LANES = [1, 3, 1 << 20]

# y[p] = the sum, z[p] = the last variable over range(lower[p], upper[p], step[p]).
SUM = """kernel sum(
  %l_ptr: ptr<{t}>, %u_ptr: ptr<{t}>, %s_ptr: ptr<{t}>, %y_ptr: ptr<{t}>,
  %z_ptr: ptr<{t}>
) {{
  %p = program_id() <axis=0> : i32
  %l = load(%l_ptr, %p) : {t}
  %u = load(%u_ptr, %p) : {t}
  %s = load(%s_ptr, %p) : {t}
  %zero = const() <value=0> : {t}
  %none = const() <value=-1> : {t}
  %y, %z = for(%l, %u, %s, %zero, %none) : {t}, {t} {{
    (%i: {t}, %sum: {t}, %last: {t})
    %next = add(%sum, %i) : {t}
    yield(%next, %i)
  }}
  store(%y_ptr, %y, %p)
  store(%z_ptr, %z, %p)
}}"""

Bounds = list[tuple[int, int, int]]


def sums(bounds: Bounds, dtype: torch.dtype, lanes: int) -> tuple[list[int], list[int]]:
    columns = torch.tensor(bounds, dtype=dtype).T.contiguous()
    args = dict(zip(("l_ptr", "u_ptr", "s_ptr"), columns, strict=True))
    args |= {name: torch.zeros(len(bounds), dtype=dtype) for name in ("y_ptr", "z_ptr")}
    text = SUM.format(t={torch.int32: "i32", torch.int64: "i64"}[dtype])
    run(kernel(text), args, (len(bounds),), lanes=lanes)
    return args["y_ptr"].tolist(), args["z_ptr"].tolist()


@given(
    bounds=st.lists(
        st.tuples(
            st.integers(-9, 9),
            st.integers(-9, 9),
            st.integers(-4, 4).filter(bool),
        ),
        min_size=1,
        max_size=9,
    ),
    dtype=st.sampled_from([torch.int32, torch.int64]),
    lanes=st.sampled_from(LANES),
)
def test_each_program_makes_its_own_turns(
    bounds: Bounds, dtype: torch.dtype, lanes: int
) -> None:
    y, z = sums(bounds, dtype, lanes)
    ranges = [range(*b) for b in bounds]
    assert y == [sum(r) for r in ranges]
    assert z == [r[-1] if r else -1 for r in ranges]


def test_a_step_of_zero_is_refused() -> None:
    with pytest.raises(LaunchError, match="a loop has a step of 0"):
        sums([(0, 4, 1), (0, 4, 0)], torch.int32, 8)


# For i below p: if i is odd, y[p, i] = x[i], else the lower triangle t counts j < i.
NESTED = """kernel nested(
  %x_ptr: ptr<f32>, %y_ptr: ptr<f32>, %t_ptr: ptr<i32>, %n: i32
) {
  %p = program_id() <axis=0> : i32
  %zero = const() <value=0> : i32
  %one = const() <value=1> : i32
  %two = const() <value=2> : i32
  %big = cmp(%p, %two) <predicate="sge"> : i1
  %row = mul(%p, %n) : i32
  %total = if(%big) : i32 {
    %sum = for(%zero, %p, %one, %zero) : i32 {
      (%i: i32, %t: i32)
      %rest = srem(%i, %two) : i32
      %odd = cmp(%rest, %one) <predicate="eq"> : i1
      %count = if(%odd) : i32 {
        %x = load(%x_ptr, %i) : f32
        store(%y_ptr, %x, %row, %i)
        yield(%t)
      } {
        %inner = for(%zero, %i, %one, %t) : i32 {
          (%j: i32, %u: i32)
          %next = add(%u, %one) : i32
          yield(%next)
        }
        yield(%inner)
      }
      yield(%count)
    }
    yield(%sum)
  } {
    yield(%one)
  }
  store(%t_ptr, %total, %p)
}"""


@pytest.mark.parametrize("lanes", LANES)
def test_loops_and_branches_inside_each_other(lanes: int) -> None:
    n, grid = 7, 6
    x, y = torch.arange(10.0, 10.0 + n), torch.zeros(grid, n)
    t = torch.zeros(grid, dtype=torch.int32)
    args = {"x_ptr": x, "y_ptr": y, "t_ptr": t, "n": n}
    run(kernel(NESTED), args, (grid,), lanes=lanes)
    for p in range(grid):
        odd = [i for i in range(p) if p >= 2 and i % 2]
        row = torch.zeros(n)
        row[odd] = x[odd]
        assert torch.equal(y[p], row)
        even = [i for i in range(p) if i % 2 == 0]
        assert int(t[p]) == (sum(even) if p >= 2 else 1)


# Each program p adds x[p, :] over n[p] blocks of four lanes into lanes, swapping two.
BLOCKS = """kernel blocks(
  %x_ptr: ptr<f32>, %n_ptr: ptr<i32>, %y_ptr: ptr<f32>, %a_ptr: ptr<f32>, %stride: i32
) {
  %p = program_id() <axis=0> : i32
  %n = load(%n_ptr, %p) : i32
  %zero = const() <value=0> : i32
  %four = const() <value=4> : i32
  %lane = range() <start=0, end=4> : i32[4]
  %none = const() <value=0.0> : f32[4]
  %ones = const() <value=1.0> : f32[4]
  %row = mul(%p, %stride) : i32
  %a, %b = for(%zero, %n, %four, %none, %ones) : f32[4], f32[4] {
    (%i: i32, %even: f32[4], %odd: f32[4])
    %at = broadcast(%i) : i32[4]
    %col = add(%at, %lane) : i32[4]
    %end = broadcast(%n) : i32[4]
    %mask = cmp(%col, %end) <predicate="slt"> : i1[4]
    %x = load(%x_ptr, %mask, %none, %row, %col) <mask=True, other=True> : f32[4]
    %s = add(%even, %x) : f32[4]
    atomic_add(%a_ptr, %x, %mask, %lane) <mask=True>
    yield(%odd, %s)
  }
  %out = mul(%p, %four) : i32
  %sum = add(%a, %b) : f32[4]
  store(%y_ptr, %sum, %out, %lane)
}"""


def blocks(counts: list[int], lanes: int, **options: Any) -> tuple[Any, ...]:
    torch.manual_seed(1)
    x = torch.randn(len(counts), 16)
    y, a = torch.zeros(len(counts), 4), torch.zeros(4)
    n = torch.tensor(counts, dtype=torch.int32)
    args = {"x_ptr": x, "n_ptr": n, "y_ptr": y, "a_ptr": a, "stride": 16}
    report = run(kernel(BLOCKS), args, (len(counts),), lanes=lanes, **options)
    kept = torch.where(torch.arange(16) < n[:, None], x, 0).view(-1, 4, 4).sum(1)
    return y, kept, a, report


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("counts", [[0, 3, 16, 7], [8, 8, 8], [0, 0], [1]])
@pytest.mark.parametrize("dtype", [None, torch.float64])
def test_tensors_are_carried(
    counts: list[int], lanes: int, dtype: torch.dtype | None
) -> None:
    y, kept, a, _ = blocks(counts, lanes, float_dtype=dtype)
    torch.testing.assert_close(y, kept + 1)
    torch.testing.assert_close(a, kept.sum(0))


def test_a_clean_loop_has_a_clean_report() -> None:
    y, kept, _, report = blocks([0, 3, 16, 7], 8, sanitize=True, poison=True)
    torch.testing.assert_close(y, kept + 1)
    assert report.ok


REPEAT = """kernel repeat(%x_ptr: ptr<f32>, %y_ptr: ptr<f32>, %n: i32) {{
  %p = program_id() <axis=0> : i32
  %zero = const() <value=0> : i32
  %one = const() <value=1> : i32
  for(%zero, %n, %one) {{
    (%i: i32)
    %x = load(%x_ptr, %i) : f32 @"k.py":4:3
    store(%y_ptr, %x, {at}) @"k.py":5:3
    yield()
  }}
}}"""


def repeat(at: str, n: int) -> Any:
    args = {"x_ptr": torch.arange(4.0), "y_ptr": torch.zeros(4), "n": n}
    report = run(kernel(REPEAT.format(at=at)), args, (3,), sanitize=True, lanes=2)
    return report, args["y_ptr"]


def test_a_program_may_write_an_element_in_each_turn() -> None:
    report, y = repeat("%p", 4)
    assert report.ok
    assert report.unwritten == {"y_ptr": 1}
    assert y.tolist() == [3, 3, 3, 0]


def test_programs_that_meet_in_a_loop_race() -> None:
    report, _ = repeat("%i", 4)
    (race,) = report.races
    assert (race.param, race.kind, race.count, race.offset) == ("y_ptr", "store", 4, 0)


def test_an_access_out_of_bounds_is_reported_once() -> None:
    report, _ = repeat("%p", 6)
    (found,) = report.out_of_bounds
    assert (found.param, found.program, found.offset, found.count) == ("x_ptr", 0, 4, 6)
    assert found.loc.line == 4
    args = {"x_ptr": torch.zeros(4), "y_ptr": torch.zeros(4), "n": 5}
    with pytest.raises(LaunchError, match="reads `x_ptr` out of bounds: offset 4"):
        run(kernel(REPEAT.format(at="%p")), args, (3,))


def test_lanes_that_wait_touch_no_memory() -> None:
    text = REPEAT.format(at="%p").replace("for(%zero, %n,", "for(%zero, %p,")
    args = {"x_ptr": torch.arange(2.0), "y_ptr": torch.full((3,), 9.0), "n": 0}
    run(kernel(text), args, (3,))
    assert args["y_ptr"].tolist() == [9, 0, 1]


# -- dot --


DOT = """kernel dot(
  %a_ptr: ptr<{t}>, %b_ptr: ptr<{t}>, %c_ptr: ptr<{u}>, %y_ptr: ptr<{u}>
) {{
  %p = program_id() <axis=0> : i32
  %i = range() <start=0, end={a}> : i32[{a}]
  %j = range() <start=0, end={b}> : i32[{b}]
  %k = range() <start=0, end={c}> : i32[{c}]
  %ka = const() <value={a}> : i32
  %kc = const() <value={c}> : i32
  %pa = mul(%p, %ka) : i32
  %pc = mul(%p, %kc) : i32
  %la = load(%a_ptr, %pa, %i) : {t}[{a}]
  %lb = load(%b_ptr, %j) : {t}[{b}]
  %lc = load(%c_ptr, %k) : {u}[{c}]
  %x = reshape(%la) : {t}[{batch}3,4]
  %y = reshape(%lb) : {t}[{batch}4,2]
  %z = reshape(%lc) : {u}[{batch}3,2]
  %r = dot(%x, %y, %z) <precision="ieee"> : {u}[{batch}3,2]
  %flat = reshape(%r) : {u}[{c}]
  store(%y_ptr, %flat, %pc, %k)
}}"""
TYPES = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
}


@pytest.mark.parametrize(
    ("held", "summed"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float16),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("lanes", LANES)
def test_dot(held: torch.dtype, summed: torch.dtype, batch: int, lanes: int) -> None:
    torch.manual_seed(3)
    a, b = torch.randn(4, batch, 3, 4), torch.randn(batch, 4, 2)
    a, b, c = a.to(held), b.to(held), torch.randn(batch, 3, 2).to(summed)
    y = torch.zeros(4, batch, 3, 2, dtype=summed)
    prefix = f"{batch}," if batch > 1 else ""
    extents = {"a": 12 * batch, "b": 8 * batch, "c": 6 * batch, "batch": prefix}
    text = DOT.format(t=TYPES[held], u=TYPES[summed], **extents)
    args = {"a_ptr": a, "b_ptr": b, "c_ptr": c, "y_ptr": y}
    run(kernel(text), args, (4,), lanes=lanes)
    exact = torch.einsum("pbik,bkj->pbij", a.double(), b.double()) + c.double()
    torch.testing.assert_close(y, exact.to(summed))
    wide = {key: value.double() for key, value in args.items()}
    run(kernel(text), wide, (4,), lanes=lanes, float_dtype=torch.float64)
    torch.testing.assert_close(wide["y_ptr"], exact)


def test_dot_of_constants() -> None:
    text = """kernel k(%y_ptr: ptr<f32>) {
      %a = const() <value=2.0> : f32[3,5]
      %b = const() <value=3.0> : f32[5,4]
      %c = const() <value=1.0> : f32[3,4]
      %r = dot(%a, %b, %c) <precision="tf32"> : f32[3,4]
      %s = reduce(%r) <axis=0, kind="sum"> : f32[4]
      %t = reduce(%s) <axis=0, kind="sum"> : f32
      store(%y_ptr, %t)
    }"""
    y = torch.zeros(1)
    run(kernel(text), {"y_ptr": y}, (1,))
    assert y.item() == 12 * (5 * 6 + 1)
