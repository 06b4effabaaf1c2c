"""What the command line says of kernels with derivatives of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_check import lines

FILE = "kernels_rules.py"


def test_a_rule_that_is_the_derivative(undertow) -> None:
    result = undertow("check", f"{FILE}::smooth")
    found = lines(result.stdout)
    assert result.exit_code == 0, result.stdout
    assert found["gradient"].startswith("✓ x_ptr against float64")
    assert found["finite differences"] == (
        "✓ x_ptr by every element, without softplus_vjp"
    )
    assert found["rules"] == "✓ softplus_vjp: the derivative of what is computed"


def test_a_rule_that_is_another_one(undertow) -> None:
    """That is no fault, and what is beside it is measured all the same."""
    result = undertow("check", f"{FILE}::quantised")
    found = lines(result.stdout)
    assert result.exit_code == 0, result.stdout
    assert found["finite differences"].startswith("✓ x_ptr by every element, without")
    assert found["rules"].startswith(
        "– rounded_vjp: not the derivative of what is computed\n"
        "x_ptr: 40 elements are wrong; element (0,): got"
    )


def test_where_there_is_no_other_derivative_the_rule_is_measured(undertow) -> None:
    result = undertow("check", f"{FILE}::gamma")
    assert result.exit_code == 0, result.stdout
    found = lines(result.stdout)
    assert found["finite differences"] == "✓ x_ptr by every element"
    result = undertow("check", f"{FILE}::wrong")
    assert result.exit_code == 0, result.stdout
    assert (
        lines(result.stdout)["finite differences"]
        .splitlines()[0]
        .startswith("– x_ptr by every element differ, as wrong_gamma_vjp may mean to")
    )


def test_stopped_values_stand_still_while_others_are_moved(undertow) -> None:
    result = undertow("check", f"{FILE}::detached")
    assert result.exit_code == 0, result.stdout
    found = lines(result.stdout)
    assert found["finite differences"] == "✓ x_ptr, h_ptr along random directions"


def test_names_that_are_promised_to_have_no_derivative(undertow) -> None:
    plain = undertow("derive", f"{FILE}::gated").stdout
    (d_x,) = (line for line in plain.splitlines() if "d_x = " in line)
    assert d_x.endswith("* gate")
    assert "d_w = " in plain
    words = ("--stop-gradient", "x", "--zero", "softplus")
    fixed = undertow("derive", f"{FILE}::gated", *words)
    assert fixed.exit_code == 1
    assert "no gradient reaches an input of `gated`" in fixed.stderr
    fixed = undertow("derive", f"{FILE}::gated", "--zero", "w_ptr")
    assert "Zero, as no output depends on it: w_ptr." in fixed.stdout
    wrong = undertow("derive", f"{FILE}::gated", "--zero", "softmax")
    assert wrong.exit_code == 1
    assert "`softmax` in `zero` is nothing that `gated` uses" in wrong.stderr


def test_promised_values_stand_still(undertow) -> None:
    for words in ((), ("--zero", "w_ptr"), ("--stop-gradient", "w")):
        result = undertow("check", f"{FILE}::gated", *words)
        assert result.exit_code == 0, result.stdout
        found = lines(result.stdout)
        assert found["finite differences"] == (
            "✓ x_ptr, w_ptr along random directions, without softplus_vjp"
        )


def test_explain_names_rules(undertow) -> None:
    text = undertow("explain", f"{FILE}::smooth").stdout
    assert "rules        of the user's: softplus_vjp\n" in text


@pytest.mark.parametrize("kernel", ["smooth", "detached"])
def test_a_wrapper_needs_no_undertow(undertow, tmp_path: Path, kernel: str) -> None:
    out = tmp_path / "alone.py"
    words = ("--wrapper", "--out", str(out))
    assert undertow("derive", f"{FILE}::{kernel}", *words).exit_code == 0
    text = out.read_text()
    assert "undertow" not in text
    compile(text, str(out), "exec")
