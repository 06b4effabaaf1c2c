"""Forwards that add atomically: the sum's cotangent is that of each term."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from derived import check, gradients
from transform.forwards import LANES, ROW, forward
from undertow.ir import walk
from undertow.transform.differentiate import differentiate

SCATTER = (
    LANES
    + """
  %x = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
  %e = exp(%x) : f32[8]
  %at = load(%i_ptr, %mask, %offs) <mask=True> : i32[8]
  atomic_add(%y_ptr, %e, %mask, %at) <mask=True>
"""
)


def scattered() -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    return {
        "x_ptr": torch.randn(13, generator=generator, dtype=torch.float64),
        "y_ptr": torch.randn(5, generator=generator, dtype=torch.float64),
        "i_ptr": torch.randint(5, (13,), generator=generator, dtype=torch.int32),
        "m": 0,
        "n": 13,
        "s": 0,
    }


@pytest.mark.parametrize("wrt", [["x_ptr"], ["x_ptr", "y_ptr"], ["y_ptr"]])
def test_additions_that_meet(wrt: list[str]) -> None:
    check(forward(SCATTER), scattered(), (2,), wrt=wrt)


def test_what_stood_there_has_the_cotangent_of_what_came_of_it() -> None:
    backward = differentiate(forward(SCATTER), ["x_ptr", "y_ptr"])
    assert backward.passed_on == ("y_ptr",)
    assert backward.stores == backward.zeros == ()
    (gradient,) = backward.gradients
    assert gradient.placement.plain
    cotangent = torch.randn(5, dtype=torch.float64)
    found = gradients(
        forward(SCATTER), scattered(), (2,), {"y_ptr": cotangent}, wrt=["y_ptr"]
    )
    assert torch.equal(found["y_ptr"], cotangent)


TURNS = (
    ROW
    + """
  %first = const() <value=0> : i32
  %step = const() <value=1> : i32
  %one = const() <value=1.0> : f32
  %last = for(%first, %m, %step, %one) : f32 {(%t: i32, %c: f32)
    %start = mul(%t, %n) : i32
    %x = load(%x_ptr, %mask, %zero, %start, %lane) <mask=True, other=True> : f32[8]
    %sum = reduce(%x) <axis=0, kind='sum'> : f32
    %next = mul(%sum, %c) : f32
    atomic_add(%y_ptr, %next, %row)
    yield(%next)
  }
"""
)


def test_turns_of_a_loop_that_add_to_one_element() -> None:
    x = torch.rand(4, 6, dtype=torch.float64) + 0.2
    y = torch.zeros(2, dtype=torch.float64)
    args = {"x_ptr": x, "y_ptr": y, "i_ptr": torch.zeros(1, dtype=torch.int32)}
    args |= {"m": 4, "n": 6, "s": 1}
    check(forward(TURNS), args, (2,))


RUNNING = (
    ROW
    + """
  %first = const() <value=0> : i32
  %step = const() <value=1> : i32
  %low = const() <value=-inf> : f32
  %none = const() <value=0.0> : f32
  %top, %total = for(%first, %m, %step, %low, %none) : f32, f32 {
    (%t: i32, %old: f32, %sum: f32)
    %start = mul(%t, %n) : i32
    %pad = broadcast(%low) : f32[8]
    %x = load(%x_ptr, %mask, %pad, %start, %lane) <mask=True, other=True> : f32[8]
    %here = reduce(%x) <axis=0, kind='max'> : f32
    %new = maximum(%old, %here) : f32
    %less = sub(%old, %new) : f32
    %scale = exp(%less) : f32
    %news = broadcast(%new) : f32[8]
    %shifted = sub(%x, %news) : f32[8]
    %e = exp(%shifted) : f32[8]
    %part = reduce(%e) <axis=0, kind='sum'> : f32
    %scaled = mul(%sum, %scale) : f32
    %next = add(%scaled, %part) : f32
    %kept = select(%mask, %x, %zero) : f32[8]
    %square = mul(%kept, %kept) : f32[8]
    atomic_add(%z_ptr, %square, %lane)
    yield(%new, %next)
  }
  %log = log(%total) : f32
  %lse = add(%log, %top) : f32
  store(%y_ptr, %lse)
"""
)


def test_a_loop_with_a_running_maximum_adds_once() -> None:
    """The loop is split in two, of which one finds the maximum."""
    args: dict[str, object] = {
        "x_ptr": torch.randn(4, 6, dtype=torch.float64),
        "y_ptr": torch.zeros(1, dtype=torch.float64),
        "z_ptr": torch.zeros(8, dtype=torch.float64),
        "i_ptr": torch.zeros(1, dtype=torch.int32),
        "m": 4,
        "n": 6,
        "s": 1,
    }
    kernel = forward(RUNNING, "x y z")
    backward = differentiate(kernel)
    assert not backward.tapes
    check(kernel, args, (1,), smooth=False)
    loops = [op for op in walk(backward.forward.body) if op.is_loop]
    assert len(loops) == 2
    adding = [op for op in walk(backward.forward.body) if op.opcode == "atomic_add"]
    assert len(adding) == 1


def test_what_a_branch_adds() -> None:
    body = SCATTER.replace(
        "  atomic_add(%y_ptr, %e, %mask, %at) <mask=True>\n",
        """  %odd = cmp(%pid, %m) <predicate='eq'> : i1
  if(%odd) {
    atomic_add(%y_ptr, %e, %mask, %at) <mask=True>
    yield()
  } {
    %f = mul(%e, %x) : f32[8]
    atomic_add(%y_ptr, %f, %mask, %at) <mask=True>
    yield()
  }
""",
    )
    args: dict[str, Tensor | object] = scattered()
    check(forward(body), args, (2,), wrt=["x_ptr", "y_ptr"])
