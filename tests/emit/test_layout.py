"""Statements that do not fit on a line are split as `ruff format` splits them."""

from __future__ import annotations

from undertow.emit.layout import WIDTH, wrap

LONG = "first_operand_with_a_name + second_operand_with_a_name"


def test_an_expression_that_fits_stays() -> None:
    assert wrap("    ", "x = ", "a + b", "  # k.py:1") == ["    x = a + b  # k.py:1"]


def test_a_call_is_split_within_its_brackets() -> None:
    lines = wrap("    ", "a_longer_target = ", f"tl.sum({LONG}, axis=0)", "  # k.py:1")
    assert lines == [
        "    a_longer_target = tl.sum(",
        f"        {LONG}, axis=0",
        "    )  # k.py:1",
    ]


def test_what_ends_in_no_call_is_put_in_brackets() -> None:
    for expression in (f"tl.flip({LONG}, 1) != 0", f"{LONG} + the_third_one"):
        lines = wrap("    ", "a_longer_target = ", expression, "")
        assert lines == ["    a_longer_target = (", f"        {expression}", "    )"]
        assert all(len(line) <= WIDTH for line in lines)
