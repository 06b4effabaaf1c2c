"""Where contributions go: stored, merged, added atomically, or over a buffer."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor

from derived import check, gradients
from transform.forwards import LANES, ROW, TILE, forward
from transform.test_reverse import launch, refused, uniform
from undertow.analysis.exclusive import Exclusive, Shared
from undertow.ir import Kernel, walk
from undertow.transform.differentiate import Backward, differentiate

LOAD = "  %x = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]\n"
STORE = "  store(%y_ptr, %y, %mask, %offs) <mask=True>\n"


def writes(backward: Backward, of: str) -> Counter[str]:
    """How often each kind of memory op writes the gradient of `of`."""
    name = next(g.name for g in backward.gradients if g.of == of)
    ops = [op for op in walk(backward.kernel.body) if op.opcode != "load"]
    return Counter(
        op.opcode for op in ops if op.operands and op.operands[0].name == name
    )


def placed(kernel: Kernel, of: str, **options: object) -> Exclusive | Shared:
    backward = differentiate(kernel, **options)  # type: ignore[arg-type]
    return next(g.placement.finding for g in backward.gradients if g.of == of)


def rows(m: int, n: int, *names: str) -> dict[str, Tensor]:
    return {name: uniform(m, n, seed=i) for i, name in enumerate(names)}


# -- merging --


def test_two_loads_of_the_same_lanes_are_one_plain_store() -> None:
    again = LOAD.replace("%x =", "%z =")
    kernel = forward(LANES + LOAD + again + "  %y = mul(%x, %z) : f32[8]\n" + STORE)
    backward = differentiate(kernel)
    assert writes(backward, "x_ptr") == {"store": 1}
    assert backward.gradients[0].placement.merged == 1
    check(kernel, launch(13, x=uniform(13), y=torch.zeros(13)), (2,))


TWO_MASKS = (
    LANES
    + LOAD
    + """
  %three = const() <value=3> : i32[8]
  %few = cmp(%offs, %three) <predicate='slt'> : i1[8]
  %z = load(%x_ptr, %few, %zero, %offs) <mask=True, other=True> : f32[8]
  %y = mul(%x, %z) : f32[8]
"""
    + STORE
)


def test_two_loads_of_one_address_under_two_masks_are_added_atomically() -> None:
    kernel = forward(TWO_MASKS)
    assert writes(differentiate(kernel), "x_ptr") == {"atomic_add": 2}
    check(kernel, launch(13, x=uniform(13), y=torch.zeros(13)), (2,))


SHAPES = """
  %a = range() <end=8, start=0> : i32[8]
  %b = range() <end=4, start=0> : i32[4]
  %p = load(%x_ptr, %a) : f32[8]
  %q = load(%x_ptr, %b) : f32[4]
  %ps = reduce(%p) <axis=0, kind='sum'> : f32
  %qm = reduce(%q) <axis=0, kind='max'> : f32
  %y = mul(%ps, %qm) : f32
  store(%y_ptr, %y)
"""


def test_equal_addresses_of_different_shapes_are_added_atomically() -> None:
    kernel = forward(SHAPES)
    assert writes(differentiate(kernel), "x_ptr") == {"atomic_add": 2}
    check(kernel, launch(x=uniform(8), y=torch.zeros(1)), (1,))


SHIFTED = (
    LANES
    + LOAD
    + """
  %1 = const() <value=1> : i32
  %z = load(%x_ptr, %mask, %offs, %1) <mask=True> : f32[8]
  %y = mul(%x, %z) : f32[8]
"""
    + STORE
)


def test_neighbours_are_added_atomically_and_the_reason_is_given() -> None:
    kernel = forward(SHIFTED)
    finding = placed(kernel, "x_ptr")
    assert isinstance(finding, Shared)
    assert finding.reason == "several accesses may meet at one address"
    check(kernel, launch(13, x=uniform(14), y=torch.zeros(13)), (2,))


GATHER = (
    TILE
    + """
  %none = const() <value=0> : i32[4]
  %i = load(%i_ptr, %rmask, %none, %rows) <mask=True, other=True> : i32[4]
  %first = mul(%i, %s4) : i32[4]
  %first1 = expand_dims(%first) <axis=1> : i32[4,1]
  %first2 = broadcast(%first1) : i32[4,8]
  %x = load(%x_ptr, %mask, %first2, %cols2) <mask=True> : f32[4,8]
  %y = mul(%x, %x) : f32[4,8]
  store(%y_ptr, %y, %mask, %offs) <mask=True>
"""
)


def test_a_gather_is_added_atomically_and_the_reason_names_the_index() -> None:
    kernel = forward(GATHER)
    finding = placed(kernel, "x_ptr")
    assert isinstance(finding, Shared)
    assert "a value of each program" in finding.reason
    args = launch(5, 5, 6, x=uniform(3, 5), y=torch.zeros(6, 5))
    args["i_ptr"] = torch.tensor([0, 2, 2, 1, 2, 0], dtype=torch.int32)
    check(kernel, args, (2,))


IN_BRANCHES = (
    LANES
    + """
  %1 = const() <value=1> : i32
  %first = cmp(%pid, %1) <predicate='slt'> : i1
  %y = if(%first) : f32[8] {
    %a = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
    %b = sin(%a) : f32[8]
    yield(%b)
  } {
    %a2 = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
    %b2 = cos(%a2) : f32[8]
    yield(%b2)
  }
"""
)


def test_both_branches_may_store_plainly_to_one_address() -> None:
    kernel = forward(IN_BRANCHES + STORE)
    assert writes(differentiate(kernel), "x_ptr") == {"store": 2}
    check(kernel, launch(13, x=uniform(13), y=torch.zeros(13)), (2,))


def test_a_branch_and_what_stands_outside_may_not() -> None:
    body = LANES + LOAD + IN_BRANCHES.removeprefix(LANES).replace("%y =", "%z =")
    kernel = forward(body + "  %y = mul(%x, %z) : f32[8]\n" + STORE)
    assert writes(differentiate(kernel), "x_ptr") == {"atomic_add": 3}
    check(kernel, launch(13, x=uniform(13), y=torch.zeros(13)), (2,))


# -- what a launch decides --

COPY_ROWS = (
    ROW
    + """
  %x = load(%x_ptr, %mask, %row, %lane) <mask=True> : f32[8]
  %e = exp(%x) : f32[8]
  store(%y_ptr, %e, %mask, %row, %lane) <mask=True>
"""
)


def test_overlapping_rows_are_added_atomically_when_the_launch_says_so() -> None:
    """Windows of 5 elements every 3: the forward is a sliding window."""
    body = COPY_ROWS.replace(
        "store(%y_ptr, %e, %mask, %row", "store(%y_ptr, %e, %mask, %out"
    )
    kernel = forward(ROW + "  %out = mul(%pid, %n) : i32\n" + body.removeprefix(ROW))
    args = launch(5, 3, x=uniform(14), y=torch.zeros(4, 5))
    found = check(kernel, args, (4,))
    assert found["x_ptr"].isfinite().all()
    finding = placed(kernel, "x_ptr", atomic=["x_ptr"])
    assert isinstance(finding, Shared)
    assert "strides of this launch" in finding.reason


def test_a_weight_shared_by_rows_is_added_atomically_in_f32() -> None:
    body = COPY_ROWS.replace(
        "load(%x_ptr, %mask, %row, %lane)", "load(%x_ptr, %mask, %lane)"
    )
    backward = differentiate(forward(body))
    assert writes(backward, "x_ptr") == {"atomic_add": 1}
    (gradient,) = backward.gradients
    assert str(gradient.dtype) == "f32"
    assert isinstance(gradient.placement.finding, Shared)
    assert gradient.placement.finding.reason == "shared along program axis 0"


SCALAR = """
  %pid = program_id() <axis=0> : i32
  %x = load(%x_ptr, %pid) : f32
  %y = exp(%x) : f32
  store(%y_ptr, %y, %pid)
"""


def test_scalars_of_each_program_are_stored_plainly() -> None:
    kernel = forward(SCALAR)
    assert writes(differentiate(kernel), "x_ptr") == {"store": 1}
    check(kernel, launch(x=uniform(3), y=torch.zeros(3)), (3,))


# -- overwritten buffers --

ROTATE = (
    ROW
    + """
  %second = add(%lane, %n8) : i32[8]
  %a = load(%x_ptr, %mask, %row, %lane) <mask=True> : f32[8]
  %b = load(%x_ptr, %mask, %row, %second) <mask=True> : f32[8]
  %c = load(%c_ptr, %mask, %lane) <mask=True> : f32[8]
  %ac = mul(%a, %c) : f32[8]
  %bc = mul(%b, %c) : f32[8]
  %p = sub(%ac, %b) : f32[8]
  %q = add(%bc, %a) : f32[8]
  store(%x_ptr, %p, %mask, %row, %lane) <mask=True>
  store(%x_ptr, %q, %mask, %row, %second) <mask=True>
"""
)


def test_a_linear_map_in_place() -> None:
    kernel = forward(ROTATE, "x c")
    args = launch(3, 8, x=uniform(2, 8), c=uniform(3))
    found = check(kernel, args, (2,), wrt=["x_ptr"])
    backward = differentiate(kernel, ["x_ptr"])
    assert writes(backward, "x_ptr") == {"store": 2}
    assert backward.gradients[0].in_place
    assert found["x_ptr"].shape == (2, 8)


def test_an_overwritten_input_that_is_needed_is_refused() -> None:
    error = refused(forward(ROTATE, "x c"))  # by c as well, which needs a and b
    assert "`x_ptr` is overwritten, and its old value is needed" in error.fact


SQUARE = LANES + LOAD + '  %y = mul(%x, %x) : f32[8] @"sq.py":5:5:y\n'
IN_PLACE = STORE.replace("%y_ptr", "%x_ptr")


def test_a_square_in_place_is_refused() -> None:
    error = refused(forward(SQUARE + IN_PLACE))
    assert "`x_ptr` is overwritten, and its old value is needed" in error.fact


def test_reading_what_was_written_is_refused() -> None:
    again = LOAD.replace("%x =", "%z =")
    error = refused(forward(SQUARE + IN_PLACE + again + STORE.replace("%y,", "%z,")))
    assert error.fact == "`x_ptr` is read after it was written"


EITHER = (
    LANES
    + """
  %0 = const() <value=0> : i32
  %first = cmp(%pid, %0) <predicate='eq'> : i1
  if(%first) {
    store(%x_ptr, %zero, %mask, %offs) <mask=True>
    yield()
  } {
    %x = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
    %y = add(%x, %x) : f32[8]
    store(%x_ptr, %y, %mask, %offs) <mask=True>
    yield()
  }
"""
)


def test_what_one_branch_writes_the_other_one_may_read() -> None:
    kernel = forward(EITHER, "x")
    args = launch(13, x=uniform(13))
    check(kernel, args, (2,))
    ones = {"x_ptr": torch.ones(13).double()}
    found = gradients(kernel, args, (2,), ones)["x_ptr"]
    assert found.tolist() == [0.0] * 8 + [2.0] * 5


def test_reading_more_than_is_overwritten_is_refused() -> None:
    body = SHIFTED.replace("store(%y_ptr", "store(%x_ptr").replace(
        "mul(%x, %z)", "add(%x, %z)"
    )
    error = refused(forward(body))
    assert "is read and overwritten, and its gradient is no plain store" in error.fact


TWICE = (
    LANES
    + """
  %a = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
  %old = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
  %y = add(%a, %old) : f32[8]
"""
)


def test_an_element_read_twice_may_be_overwritten() -> None:
    kernel = forward(TWICE + IN_PLACE, "x")
    check(kernel, launch(13, x=uniform(13)), (2,))


# -- several stores to one output --


def test_of_two_stores_at_one_place_the_last_one_counts() -> None:
    body = SQUARE + STORE + "  %z = exp(%x) : f32[8]\n" + STORE.replace("%y,", "%z,")
    kernel = forward(body)
    x = uniform(13)
    found = check(kernel, launch(13, x=x, y=torch.zeros(13)), (2,))
    ones = {"y_ptr": torch.ones(13).double()}
    args = launch(13, x=x, y=torch.zeros(13))
    assert torch.allclose(gradients(kernel, args, (2,), ones)["x_ptr"], x.exp())
    assert found["x_ptr"].isfinite().all()


def test_a_store_that_writes_over_a_part_leaves_the_rest() -> None:
    few = """
  %three = const() <value=3> : i32[8]
  %few = cmp(%offs, %three) <predicate='slt'> : i1[8]
  store(%y_ptr, %zero, %few, %offs) <mask=True>
"""
    kernel = forward(SQUARE + STORE + few)
    found = check(kernel, launch(13, x=uniform(13), y=torch.zeros(13)), (2,))
    assert found["x_ptr"][:3].abs().max() == 0
    assert found["x_ptr"][3:].abs().min() > 0


def test_stores_that_may_meet_are_refused() -> None:
    shifted = "  %1 = const() <value=1> : i32\n"
    shifted += STORE.replace("%offs)", "%offs, %1)")
    error = refused(forward(SQUARE + STORE + shifted))
    assert error.fact == "`y_ptr` is stored to several times, perhaps at one address"
    under = """
  %first = cmp(%pid, %s) <predicate='slt'> : i1
  if(%first) {
    store(%y_ptr, %zero, %mask, %offs) <mask=True>
    yield()
  } {
    yield()
  }
"""
    error = refused(forward(SQUARE + STORE + under))
    assert error.fact == "`y_ptr` is stored to several times, perhaps at one address"


def test_stores_to_two_halves_are_proved_apart() -> None:
    body = ROTATE.replace("store(%x_ptr", "store(%y_ptr")
    backward = differentiate(forward(body, "x c y"))
    (stores,) = backward.stores
    assert stores.several
    assert stores.finding.holds(
        {"n": 3, "s": 8, "m": 0, "grid0": 2, "grid1": 1, "grid2": 1}
    )
    args = launch(3, 8, x=uniform(2, 8), c=uniform(3), y=torch.zeros(2, 8))
    check(forward(body, "x c y"), args, (2,))


@pytest.mark.parametrize("n", [0, 1, 8, 13])
def test_elements_never_stored_have_no_influence(n: int) -> None:
    kernel = forward(SQUARE + STORE)
    found = check(kernel, launch(n, x=uniform(13), y=torch.zeros(13)), (2,))
    assert found["x_ptr"][n:].abs().sum() == 0
