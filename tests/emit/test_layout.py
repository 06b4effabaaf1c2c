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


def test_the_call_of_a_method_is_split_if_what_it_is_called_on_fits() -> None:
    for value in ("tl.umulhi(a_rather_long_name, another_one_of_them)", f"({LONG})"):
        lines = wrap("", "target = ", f"{value}.to(tl.int32, bitcast=True)", "  # k:1")
        assert lines == [
            f"target = {value}.to(",
            "    tl.int32, bitcast=True",
            ")  # k:1",
        ]


def test_brackets_that_are_no_call_get_no_comma() -> None:
    """It would make them a tuple."""
    first, second = "a" * 50, "b" * 34
    lines = wrap("", "target = ", f"({first} + {second}).to(tl.int32)", "")
    assert lines == ["target = (", f"    {first}", f"    + {second}", ").to(tl.int32)"]
    long = f"{first}.to(tl.uint32, bitcast=True)"
    assert wrap("", "target = ", f"({long} // {second}).to(tl.int32)", "") == [
        "target = (",
        f"    {long}",
        f"    // {second}",
        ").to(tl.int32)",
    ]


def test_so_do_brackets_behind_an_operator() -> None:
    first, second = "a" * 50, "b" * 34
    for sign in ("+", "/", "<", "&"):
        inner = f"{first} {sign} tl.exp({second})"
        lines = wrap("    ", "target = ", f"factor * ({inner})", "  # k.py:1")
        assert lines == [
            "    target = factor * (",
            f"        {first}",
            f"        {sign} tl.exp({second})",
            "    )  # k.py:1",
        ]
    lines = wrap("", "target = ", f"tl.exp(x) * tl.max({first}, axis={second})", "")
    assert lines[1:] == [f"    {first},", f"    axis={second},", ")"]
