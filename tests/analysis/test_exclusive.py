"""Addresses of real kernels: what must be proved, and what must not be."""

from __future__ import annotations

import pytest

from undertow.analysis.addresses import Addresses
from undertow.analysis.exclusive import Exclusive, Shared
from undertow.ir import Access, parse, verify
from undertow.transform.place import find, program_axes, visit

ELEMENTWISE = """
  %pid = program_id() <axis=0> : i32
  %64 = const() <value=64> : i32
  %start = mul(%pid, %64) : i32
  %lane = range() <end=64, start=0> : i32[64]
  %wide = broadcast(%start) : i32[64]
  %offs = add(%wide, %lane) : i32[64]
  %n64 = broadcast(%n) : i32[64]
  %mask = cmp(%offs, %n64) <predicate='slt'> : i1[64]
  %one = const() <value=1.0> : f32[64]
"""
DIGITS = """
  %c64 = broadcast(%c) : i32[64]
  %row = sdiv(%offs, %c64) : i32[64]
  %col = srem(%offs, %c64) : i32[64]
  %s64 = broadcast(%s) : i32[64]
  %first = mul(%row, %s64) : i32[64]
"""
ROWS = """
  %pid = program_id() <axis=0> : i32
  %lane = range() <end=64, start=0> : i32[64]
  %n64 = broadcast(%n) : i32[64]
  %mask = cmp(%lane, %n64) <predicate='slt'> : i1[64]
  %first = mul(%pid, %s) : i32
  %one = const() <value=1.0> : f32[64]
"""


def finding(body: str) -> Exclusive | Shared:
    params = "%x_ptr: ptr<f32>, %n: i32, %s: i32, %c: i32"
    kernel = verify(parse(f"kernel k({params}) {{\n{body}\n}}\n"))
    ops = [(op, path) for op, path in visit(kernel.body) if op.opcode == "atomic_add"]
    assert all(Access.of(op).base.name == "x_ptr" for op, _ in ops)
    return find(Addresses(), ops, program_axes(kernel))


def add(offsets: str, mask: str = "%mask", value: str = "%one") -> str:
    if not mask:
        return f"  atomic_add(%x_ptr, {value}, {offsets})\n"
    return f"  atomic_add(%x_ptr, {value}, {mask}, {offsets}) <mask=True>\n"


def launch(n: int = 100, s: int = 100, c: int = 10, *grid: int) -> dict[str, int]:
    extents = (*(grid or (2,)), 1, 1)[:3]
    return {"n": n, "s": s, "c": c} | {f"grid{i}": g for i, g in enumerate(extents)}


# -- proved --


def test_an_elementwise_kernel_covers_its_buffer() -> None:
    found = finding(ELEMENTWISE + add("%offs"))
    assert isinstance(found, Exclusive)
    assert not found.conditions
    assert found.holds(launch(100))
    assert found.covers(100, launch(100))
    assert not found.covers(101, launch(100))
    assert not found.covers(200, launch(200))  # two programs reach 128
    assert not found.holds(launch(100, 1, 1, 2, 2))  # every program twice


def test_rows_need_a_stride_of_the_row_length() -> None:
    found = finding(ROWS + add("%first, %lane"))
    assert isinstance(found, Exclusive)
    assert [str(c) for c in found.conditions] == ["s >= n"]
    assert found.holds(launch(50, 50))
    assert found.covers(100, launch(50, 50))
    assert found.holds(launch(50, 60))
    assert not found.covers(110, launch(50, 60))  # ten elements lie between the rows
    assert not found.holds(launch(50, 49))
    assert found.holds(launch(50, -50))  # backwards, and still apart
    assert not found.covers(100, launch(50, -50))
    assert not found.holds(launch(50, -49))


def test_a_flattened_index_is_its_own_two_digits() -> None:
    found = finding(ELEMENTWISE + DIGITS + add("%first, %col"))
    assert isinstance(found, Exclusive)
    assert found.holds(launch(100, 10, 10))
    assert found.covers(100, launch(100, 10, 10))
    assert not found.covers(95, launch(95, 10, 10))
    assert found.holds(launch(100, 13, 10))
    assert not found.holds(launch(100, 9, 10))
    assert not found.holds(launch(100, 10, 0))
    assert not found.holds(launch(100, 10, -3))


def test_digits_of_a_wrapped_number_prove_nothing() -> None:
    found = finding(ELEMENTWISE + DIGITS + add("%first, %col"))
    assert isinstance(found, Exclusive)
    assert not found.holds(launch(100, 10, 10, 1 << 26))


def test_a_quotient_and_a_remainder_times_the_divisor_are_the_dividend() -> None:
    body = ELEMENTWISE + DIGITS.replace("%s64 = broadcast(%s)", "%s64 = broadcast(%c)")
    found = finding(body + add("%first, %col"))
    assert isinstance(found, Exclusive)
    assert not found.conditions
    assert found.covers(95, launch(95, 0, 10))


def test_two_halves_of_a_row_are_one_more_digit() -> None:
    second = "  %half = add(%n64, %lane) : i32[64]\n"
    found = finding(ROWS + second + add("%first, %lane") + add("%first, %half"))
    assert isinstance(found, Exclusive)
    assert found.holds(launch(25, 50))
    assert found.covers(100, launch(25, 50))
    assert not found.holds(launch(25, 49))


def under(condition: str, body: str, otherwise: str = "") -> str:
    return (
        f"  if({condition}) {{\n{body}  yield()\n  }} {{\n{otherwise}  yield()\n  }}\n"
    )


FEW = "  %few = cmp(%pid, %c) <predicate='{}'> : i1\n"
"""Whether a program is among the first c ones."""


@pytest.mark.parametrize("inside", [True, False])
def test_a_branch_bounds_what_is_touched_in_it(inside: bool) -> None:
    """Rows that programs behind the c-th would share are not theirs."""
    store = add("%first, %lane")
    body = ROWS + "  %pid1 = program_id() <axis=1> : i32\n"
    body = body.replace("mul(%pid, %s)", "mul(%pid, %n)")
    body += "  %outer = mul(%pid1, %s) : i32\n"
    store = add("%first, %outer, %lane")
    if inside:
        body += FEW.format("slt") + under("%few", store)
    else:
        body += FEW.format("sge") + under("%few", "", store)
    found = finding(body)
    assert isinstance(found, Exclusive)
    assert found.holds(launch(10, 30, 3, 8, 2))  # s = c n, of grid0 = 8 rows
    assert not found.holds(launch(10, 29, 3, 8, 2))
    assert not found.covers(60, launch(10, 30, 3, 8, 2))
    plain = finding(body.split("  %few")[0] + store)
    assert isinstance(plain, Exclusive)
    assert not plain.holds(launch(10, 30, 3, 8, 2))


def test_what_both_branches_have_in_common_bounds_both() -> None:
    body = ROWS + FEW.format("slt")
    store = add("%first, %lane")
    found = finding(body + under("%few", store, store))
    assert isinstance(found, Exclusive)
    assert found.holds(launch(50, 50, 1))
    assert not found.holds(launch(50, 49, 1))


# -- not proved --

OVERLAPPING = {
    "shared along program axis 0": ROWS + add("%lane"),
    "only a digit of program axis 0": ROWS
    + "  %7 = const() <value=7> : i32\n  %digit = srem(%pid, %7) : i32\n"
    + "  %at = mul(%digit, %s) : i32\n"
    + add("%at, %lane"),
    "every lane along axis 0 has the same address": ROWS + add("%first"),
    "not linear": ELEMENTWISE + """
  %square = mul(%offs, %offs) : i32[64]
""" + add("%square"),
    "several accesses may meet": ROWS
    + "  %true = cmp(%lane, %n64) <predicate='sge'> : i1[64]\n"
    + add("%first, %lane")
    + add("%first, %lane", "%true"),
    "several accesses": ROWS
    + "  %short = range() <end=32, start=0> : i32[32]\n"
    + "  %ones = const() <value=1.0> : f32[32]\n"
    + add("%first, %lane", "")
    + add("%first, %short, %s", "", "%ones"),
    "several": ROWS
    + "  %twice = add(%lane, %lane) : i32[64]\n"
    + add("%lane, %first")
    + add("%twice, %first, %s"),
    "was not proved": ELEMENTWISE
    + "  %two = const() <value=2> : i32[64]\n"
    + "  %col = srem(%offs, %two) : i32[64]\n"
    + add("%col, %offs"),
    "a value of each program": ELEMENTWISE
    + "  %index = cast(%one) <signed=True> : i32[64]\n"
    + add("%index"),
}  # fmt: skip


@pytest.mark.parametrize("reason", OVERLAPPING)
def test_it_says_why_addresses_may_meet(reason: str) -> None:
    found = finding(OVERLAPPING[reason])
    assert isinstance(found, Shared)
    assert reason in found.reason


def test_neighbours_are_not_apart() -> None:
    body = ELEMENTWISE + "  %1 = const() <value=1> : i32\n"
    found = finding(body + add("%offs") + add("%offs, %1"))
    assert isinstance(found, Shared)
    assert found.reason == "several accesses may meet at one address"
