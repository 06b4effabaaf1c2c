"""What is proved of addresses holds when every program and lane is enumerated."""

from __future__ import annotations

from hypothesis import event, given, settings

from fuzz.addresses import Accesses, accesses
from undertow.analysis.exclusive import Shared

SOME = settings(max_examples=max(200, settings.default.max_examples))
"""More than elsewhere: most random cases are easy."""


@SOME
@given(accesses())
def test_an_exclusive_address_is_touched_once(case: Accesses) -> None:
    _touched_once(case)


@SOME
@given(accesses(indexed=True))
def test_one_by_an_index_that_is_unique_is_touched_once(case: Accesses) -> None:
    _touched_once(case)


def _touched_once(case: Accesses) -> None:
    finding = case.finding()
    if isinstance(finding, Shared):
        event("shared")
    elif finding.holds(case.launch):
        event("holds")
        assert len(set(case.touched)) == len(case.touched)
    else:
        event("does not hold in this launch")


@SOME
@given(accesses() | accesses(indexed=True))
def test_covered_elements_are_touched_and_no_others(case: Accesses) -> None:
    finding = case.finding()
    if isinstance(finding, Shared):
        return
    touched = sorted(set(case.touched))
    for size in {len(touched), max(touched, default=0) + 1, 8}:
        if finding.covers(size, case.launch):
            event("covers")
            assert touched == list(range(size))
