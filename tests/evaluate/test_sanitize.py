"""Races, accesses out of bounds, unwritten elements and undefined lanes."""

from __future__ import annotations

import torch

from evaluate.kernels import kernel
from undertow.evaluate import OutOfBounds, Race, Report, run
from undertow.ir import Loc

# y[(p * step + lane) * spread] = x[p * step + lane], four lanes a program
STRIDED = """kernel strided(
  %x_ptr: ptr<f32>, %y_ptr: ptr<f32>, %step: i32, %spread: i32
) {
  %p = program_id() <axis=0> : i32
  %0 = mul(%p, %step) : i32
  %1 = broadcast(%0) : i32[4]
  %lane = range() <start=0, end=4> : i32[4]
  %at = add(%1, %lane) : i32[4]
  %s = broadcast(%spread) : i32[4]
  %to = mul(%at, %s) : i32[4]
  %x = load(%x_ptr, %at) : f32[4] @"s.py":3:4
  store(%y_ptr, %x, %to) @"s.py":4:4
}"""
LOAD, STORE = Loc("s.py", 3, 4), Loc("s.py", 4, 4)


def strided(step: int, spread: int, size: int = 16, programs: int = 4) -> Report:
    args = {"x_ptr": torch.rand(16), "y_ptr": torch.zeros(size)}
    k, rest = kernel(STRIDED), {"step": step, "spread": spread}
    return run(k, {**args, **rest}, (programs,), sanitize=True)


def test_a_clean_run() -> None:
    report = strided(4, 1)
    assert report == Report(unwritten={"y_ptr": 0})
    assert report.ok


def test_a_plain_run_reports_nothing() -> None:
    args = {"x_ptr": torch.rand(16), "y_ptr": torch.zeros(16), "step": 3, "spread": 1}
    assert run(kernel(STRIDED), args, (4,)) == Report()


def test_overlapping_programs_race() -> None:
    report = strided(3, 1)
    expected = Race("y_ptr", "store", 3, (0, 1), (STORE, STORE), 3)
    assert report.races == (expected,)
    assert report.unwritten == {"y_ptr": 3}
    assert not report.ok


def test_lanes_of_one_store_race() -> None:
    (race,) = strided(4, 0, programs=1).races
    assert race == Race("y_ptr", "store", 0, (0, 0), (STORE, STORE), 1)


def test_chunks_do_not_hide_a_race() -> None:
    args = {"x_ptr": torch.rand(16), "y_ptr": torch.zeros(16), "step": 3, "spread": 1}
    k = kernel(STRIDED)
    assert run(k, args, (4,), sanitize=True, lanes=4) == run(
        k, args, (4,), sanitize=True
    )


def test_reading_what_another_program_writes_races() -> None:
    shared = torch.zeros(20)
    args = {"x_ptr": shared, "y_ptr": shared[2:], "step": 4, "spread": 1}
    (race,) = run(kernel(STRIDED), args, (4,), sanitize=True).races
    assert race == Race("x_ptr", "load", 4, (0, 1), (STORE, LOAD), 6)


def test_reading_what_the_same_program_writes_is_no_race() -> None:
    shared = torch.zeros(16)
    args = {"x_ptr": shared, "y_ptr": shared, "step": 4, "spread": 1}
    assert run(kernel(STRIDED), args, (4,), sanitize=True).ok


def test_a_second_store_of_one_program_is_no_race() -> None:
    text = """kernel k(%y_ptr: ptr<i32>) {
      %p = program_id() <axis=0> : i32
      store(%y_ptr, %p, %p)
      store(%y_ptr, %p, %p)
    }"""
    y = torch.zeros(4, dtype=torch.int32)
    assert run(kernel(text), {"y_ptr": y}, (4,), sanitize=True).ok


def test_atomics_race_with_stores_but_not_with_each_other() -> None:
    text = """kernel k(%y_ptr: ptr<f32>) {{
      %p = program_id() <axis=0> : i32
      %zero = const() <value=0> : i32
      %one = const() <value=1.0> : f32
      atomic_add(%y_ptr, %one, %zero)
      {}
    }}"""
    y = torch.zeros(4)
    alone = run(kernel(text.format("")), {"y_ptr": y}, (4,), sanitize=True)
    assert alone == Report()
    stored = text.format("store(%y_ptr, %one, %p)")
    mixed = run(kernel(stored), {"y_ptr": y}, (4,), sanitize=True)
    assert [(r.kind, r.offset) for r in mixed.races] == [("store", 0)]


def test_out_of_bounds_is_left_out_and_described() -> None:
    report = strided(4, 1, size=14)
    expected = OutOfBounds("y_ptr", "store", STORE, 3, 2, 14, 14, 2)
    assert report.out_of_bounds == (expected,)
    assert report.unwritten == {"y_ptr": 0}


def test_nothing_is_written_by_no_program() -> None:
    assert strided(4, 1, programs=0).unwritten == {"y_ptr": 16}


def test_unwritten_counts_the_elements_of_a_view() -> None:
    base = torch.zeros(8, 4)
    args = {"x_ptr": torch.rand(16), "y_ptr": base[:, ::2], "step": 4, "spread": 2}
    # Two programs of four lanes write elements 0, 2, ..., 14 of 0, 2, ..., 30.
    report = run(kernel(STRIDED), args, (2,), sanitize=True)
    assert report.unwritten == {"y_ptr": 8}


UNDEFINED = """kernel k(%x_ptr: ptr<f32>, %y_ptr: ptr<f32>, %n: i32) {{
  %p = program_id() <axis=0> : i32
  %lane = range() <start=0, end=8> : i32[8]
  %limit = broadcast(%n) : i32[8]
  %mask = cmp(%lane, %limit) <predicate="slt"> : i1[8]
  %x = load(%x_ptr, %mask, %lane) <mask=True> : f32[8] @"u.py":5:4
  {}
  store(%y_ptr, %total, %p)
}}"""
LEAKY = '%total = reduce(%x) <axis=0, kind="{}"> : f32'
CLEAN = """%zero = const() <value=0.0> : f32[8]
  %kept = select(%mask, %x, %zero) : f32[8]
  %total = reduce(%kept) <axis=0, kind="sum"> : f32"""


def undefined(body: str) -> Report:
    x = torch.rand(5)
    args = {"x_ptr": x, "y_ptr": torch.zeros(1), "n": 5}
    report = run(kernel(UNDEFINED.format(body)), args, (1,), sanitize=True)
    assert not report.out_of_bounds
    return report


def test_undefined_lanes_that_reach_an_output() -> None:
    for kind in ("sum", "max", "min", "prod"):
        (found,) = undefined(LEAKY.format(kind)).undefined
        assert (found.param, found.loc, found.leaks) == (
            "x_ptr",
            Loc("u.py", 5, 4),
            True,
        )


def test_undefined_lanes_that_are_selected_away() -> None:
    report = undefined(CLEAN)
    assert [u.leaks for u in report.undefined] == [False]
    assert report.ok


def test_an_undefined_index_leaks() -> None:
    text = """kernel k(%i_ptr: ptr<i32>, %y_ptr: ptr<f32>) {
      %lane = range() <start=0, end=4> : i32[4]
      %two = const() <value=2> : i32[4]
      %mask = cmp(%lane, %two) <predicate="slt"> : i1[4]
      %i = load(%i_ptr, %mask, %lane) <mask=True> : i32[4]
      %y = load(%y_ptr, %i) : f32[4]
      store(%y_ptr, %y, %lane)
    }"""
    args = {"i_ptr": torch.tensor([2, 3], dtype=torch.int32), "y_ptr": torch.rand(4)}
    report = run(kernel(text), args, (1,), sanitize=True)
    assert [u.leaks for u in report.undefined] == [True]
