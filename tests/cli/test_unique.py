"""Promises on the command line: derived by, explained, and checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from undertow.check.run import check
from undertow.cli.target import import_file

TAKE, PLAIN = "kernels_unique.py::take", "kernels_unique.py::plain"


def test_a_promise_that_is_kept(undertow) -> None:
    result = undertow("check", TAKE)
    assert result.exit_code == 0, result.output
    first, *rest = result.stdout.splitlines()
    assert first == "unique              ✓ index_ptr: no value twice"
    assert [line.split()[0] for line in rest[:2]] == ["value", "gradient"]
    assert "shapes              ✓ tokens = 0, 1, 63, 64, 65" in rest


def test_a_promise_that_is_broken_is_said_before_any_gradient(undertow) -> None:
    result = undertow("check", TAKE, "--example", "kernels_unique.py::repeated")
    assert result.exit_code == 1
    assert result.stdout == (
        "unique              ✗ index_ptr: 3 stands at [1] and at [3]\n"
        "races               ✓ none\n"
        "out of bounds       ✓ none\n"
        "unwritten           ✓ none\n"
        "undefined lanes     ✓ x (line 15): contained\n"
    )


def test_a_promise_that_is_broken_at_another_size(undertow) -> None:
    result = undertow("check", TAKE, "--example", "kernels_unique.py::repeated_later")
    assert result.exit_code == 1
    assert "unique              ✓" in result.stdout
    wrong = [f"tokens = {n}: index_ptr: 2 stands at [0, 2] and at [0, 63]"
             for n in (64, 65)]  # fmt: skip
    shown = result.stdout.partition("shapes")[2].splitlines()[1:3]
    assert [line.strip() for line in shown] == wrong


def test_the_promise_of_an_option(undertow) -> None:
    named = ("--example", "kernels_unique.py::repeated")
    result = undertow("check", PLAIN, *named)
    assert (result.exit_code, "unique" in result.stdout) == (0, False)
    result = undertow("check", PLAIN, *named, "--unique", "index_ptr")
    assert (result.exit_code, "unique" in result.stdout) == (1, True)


@pytest.mark.parametrize("kernel", [TAKE, PLAIN])
def test_the_explanation(undertow, kernel: str) -> None:
    words = ("--signature", "index_ptr:*i64")
    promised = () if kernel == TAKE else ("--unique", "index_ptr")
    text = undertow("explain", kernel, *words, *promised).stdout
    reason = "each element is written once, as index_ptr holds no value twice"
    assert f"plain store {reason} reads" in " ".join(text.split())
    note = "no value stands twice; only `check` tests it"
    assert f"promised     index_ptr: {note}\n" in text
    assert "tl.atomic_add" not in undertow("derive", kernel, *words, *promised).stdout
    without = undertow("explain", PLAIN, *words).stdout
    assert "atomic_add" in without
    assert "promised" not in without


def test_what_is_no_index_is_said(undertow) -> None:
    for command in ("derive", "explain", "check"):
        named = ("--example", "kernels_unique.py::repeated")
        result = undertow(command, PLAIN, *named, "--unique", "x_ptr")
        assert result.exit_code == 2
        assert result.stderr == (
            "error: `x_ptr` in --unique is no integer pointer that is only loaded\n"
            "  = those of `plain` are index_ptr\n"
        )


def test_the_promise_of_a_differentiable_in_python() -> None:
    example = import_file(Path(__file__).parent / "kernels_unique.py")
    found = list(check(example.take, example.repeated))
    assert [(f.name, f.ok) for f in found[:1]] == [("unique", False)]
    assert not any(f.name == "gradient" for f in found)
    assert all(f.ok for f in check(example.take, example.take_example))
