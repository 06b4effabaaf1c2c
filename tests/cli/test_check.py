"""`undertow check`: what it says of a right kernel, and that it finds seeded faults."""

from __future__ import annotations

import pytest

from undertow.check import launch
from undertow.ir import Kernel, parse, print_kernel

FAULTY = "kernels_faulty.py"

RMS_NORM = """\
value               ✓ y_ptr against float64, error ≤ 1e-06
gradient            ✓ x_ptr, w_ptr against float64, error ≤ 1e-06
finite differences  ✓ x_ptr, w_ptr by every element
layouts             ✓ sliced, expanded, rows expanded, transposed, cat
races               ✓ none
out of bounds       ✓ none
unwritten           ✓ none
undefined lanes     ✓ w (line 14): contained
"""


def lines(text: str) -> dict[str, str]:
    """The outcomes by name, with the faults below them."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        name = line[:20].strip() or name
        found[name] = f"{found[name]}\n{line[22:]}" if name in found else line[20:]
    return found


def test_a_right_kernel(undertow) -> None:
    result = undertow("check", "kernels_norms.py::rms_norm")
    assert (result.exit_code, result.stderr) == (0, "")
    found, want = lines(result.stdout), lines(RMS_NORM)
    for name in ("value", "gradient"):  # the last digit is that of the libraries used
        found[name], want[name] = (
            t.partition(", error")[0] for t in (found[name], want[name])
        )
    assert found == want


def test_other_sizes_and_random_directions(undertow) -> None:
    words = ("check", "kernels_norms.py", "--example", "kernels_norms.py::in_halves")
    result = undertow(*words)
    found = lines(result.stdout)
    assert found["shapes"].startswith(("✓ n = 0, 1, 63, 64, 65", "✗ n = 0"))
    assert found["finite differences"] == "✓ x_ptr, w_ptr by every element"
    assert found["gradient"].startswith("✓ x_ptr, w_ptr against float64, error ≤ 1e-0")


@pytest.mark.parametrize(
    ("kernel", "gradient"),
    [
        ("in_place", "✓ x_ptr against float64, no error"),
        ("tuned", "✓ x_ptr against float64"),
        ("expanded", "✓ x_ptr, w_ptr against float64"),
        ("scatter_add", "✓ x_ptr against float64"),
        ("twice", "✓ x_ptr, y_ptr against float64"),
        ("scalar", "✓ x_ptr against float64"),
        ("integers", "– it has no input of floats"),
    ],
)
def test_arguments_of_other_kinds(undertow, kernel: str, gradient: str) -> None:
    result = undertow("check", f"kernels_odd.py::{kernel}")
    assert result.exit_code == 0, result.output
    assert lines(result.stdout)["gradient"].startswith(gradient)


def test_a_wrong_gradient_is_found(undertow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another function, derived for float64 in place of the kernel."""
    right = launch.in_float64

    def wrong(kernel: Kernel) -> Kernel:
        text = print_kernel(right(kernel)).replace("exp(", "sin(")
        return parse(text)

    monkeypatch.setattr(launch, "in_float64", wrong)
    result = undertow("check", "kernels_odd.py::tuned")
    assert result.exit_code == 1
    found = lines(result.stdout)
    assert found["value"].startswith("✓")
    assert "x_ptr: 100 elements are wrong; element (0,): got " in found["gradient"]
    assert "by the derived gradient, " in found["finite differences"]


def check(undertow, kernel: str, *words: str) -> dict[str, str]:
    """The outcomes for a kernel in which something is wrong."""
    result = undertow("check", f"{FAULTY}::{kernel}", *words)
    assert result.exit_code == 1, result.stdout
    return lines(result.stdout)


def test_races(undertow) -> None:
    result = undertow("check", f"{FAULTY}::race")
    assert result.exit_code == 1
    assert "an element of `y_ptr` is written several times" in result.stderr
    assert "--> kernels_faulty.py:12, in kernel `race`" in result.stderr
    assert lines(result.stdout)["races"] == (
        "✗ programs 0 and 1 both write offset 0 of y_ptr (line 12; 8 elements)"
    )


def test_out_of_bounds(undertow) -> None:
    found = check(undertow, "outside")
    assert found["value, gradient"] == (
        "– not compared: the kernel accesses memory out of bounds"
    )
    assert found["out of bounds"] == (
        "✗ program 0 reads x_ptr at offset 8 of 8 elements (line 23, lane 7; 1 in all)"
    )
    assert found["races"] == "✓ none"


def test_unwritten(undertow) -> None:
    assert check(undertow, "partial")["unwritten"] == "✗ 1 element of y_ptr"
    result = undertow("check", f"{FAULTY}::partial", "--allow-unwritten")
    assert result.exit_code == 0
    assert lines(result.stdout)["unwritten"] == "✓ 1 element of y_ptr: allowed"


def test_undefined_lanes_that_leak(undertow) -> None:
    assert check(undertow, "leak")["undefined lanes"] == (
        "✗ x (line 45): masked lanes change an output"
    )


def test_a_value_that_is_lost_in_rounding(undertow) -> None:
    found = check(undertow, "rounded")
    assert found["value"].startswith("✗ y_ptr against float64, error ≤ ")
    assert "wrong; element (" in found["value"]
    assert found["gradient"].startswith("✓")
    assert "n = 63: value of y_ptr: " in found["shapes"]


def test_a_kernel_without_derivative(undertow) -> None:
    result = undertow("check", f"{FAULTY}::refused")
    assert result.exit_code == 1
    assert "tl.histogram" in result.stderr


@pytest.mark.parametrize(
    ("example", "code", "text"),
    [
        (
            "wrong_shape_example",
            1,
            "error: `wrong_shape_example` returns a value of type `dict`\n"
            "hint: return (grid, kwargs) or (grid, args, kwargs)\n",
        ),
        (
            "wrong_size_example",
            1,
            "error: parameter `n` of `wrong_size_example` has no integer default\n"
            "  = it is a size, which `check` varies\n"
            "hint: write n=64\n",
        ),
        ("short_example", 1, "error: the example gives no `y_ptr` of `race`\n"),
        (
            "shared_example",
            1,
            "error: `x_ptr` and `y_ptr` of `race` share memory in the example\n"
            "  = one of them is written, and the checks compare separate copies\n"
            "hint: pass a copy of one of them\n",
        ),
        (
            "raising_example",
            2,
            "error: `raising_example` cannot give arguments: ValueError: "
            "no data today\n"
            "  --> kernels_faulty.py:89\n"
            '   |     raise ValueError("no data today")\n',
        ),
    ],
)
def test_examples_that_do_not_fit(undertow, example: str, code: int, text: str) -> None:
    result = undertow("check", f"{FAULTY}::race", "--example", f"{FAULTY}::{example}")
    assert result.stderr == text
    assert result.exit_code == code


def test_a_kernel_without_example(undertow) -> None:
    result = undertow("check", "kernels_many.py::tuned")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: `tuned` has no example arguments\n"
        "  = a function beside it returns them as (grid, kwargs)\n"
        "hint: write tuned_example(), or pass --example file.py::function\n"
    )


@pytest.mark.parametrize("option", ["--wrt", "--outputs"])
def test_names_that_are_not_there(undertow, option: str) -> None:
    result = undertow("check", "kernels_norms.py", option, "zz")
    assert result.exit_code == 2
    assert "`rms_norm` has no parameter `zz`" in result.stderr


def test_a_seed_that_is_too_large(undertow) -> None:
    result = undertow("check", "kernels_norms.py", "--seed", "99999999999999999999")
    assert result.exit_code == 2


EXAMPLES = """
from kernels_norms import *

def values(**more):
    x = torch.full((2, 8), more.pop("of", 1.0))
    return {"x_ptr": x, "w_ptr": torch.ones(8), "y_ptr": torch.empty(2, 8),
            "stride": 8, "n_cols": 8, "eps": 1e-6, "BLOCK": 8, **more}

def nans():
    return 2, values(of=float("nan"))

def unknown():
    return 2, values(zz=1)

def options():
    return 2, values(num_warps=2)

def no_grid():
    return (lambda meta: (meta["q"],)), values()

def integers():
    x = torch.ones(2, 8, dtype=torch.int32)
    return 2, values(x_ptr=x, w_ptr=x, y_ptr=x.clone())
"""


@pytest.mark.parametrize(
    ("example", "words", "code", "text"),
    [
        ("nans", [], 0, "value               – y_ptr: not compared, every element"),
        ("unknown", [], 1, "`rms_norm` has no parameter `zz`, which the example"),
        ("options", [], 0, "gradient            ✓ x_ptr, w_ptr against"),
        ("no_grid", [], 1, "the grid of the example raises KeyError: 'q'"),
        ("integers", [], 0, "gradient            – it has no input of floats"),
        ("integers", ["--wrt", "x_ptr"], 2, "`x_ptr` in --wrt is no float pointer"),
    ],
)
def test_other_examples(
    undertow, tmp_path, example: str, words: list[str], code: int, text: str
) -> None:
    file = tmp_path / "examples.py"
    file.write_text(EXAMPLES)
    named = ("--example", f"{file}::{example}")
    result = undertow("check", "kernels_norms.py", *named, *words)
    assert (result.exit_code, "✗" in result.stdout) == (code, False), result.stdout
    assert text in result.stdout + result.stderr


@pytest.mark.gpu
def test_the_compiled_kernels(undertow) -> None:
    result = undertow("check", "kernels_norms.py::rms_norm", "--device", "cuda")
    found = lines(result.stdout)
    assert result.exit_code == 0, result.stdout
    assert found["value, cuda"].startswith("✓ y_ptr against float64")
    assert found["gradient, cuda"].startswith("✓ x_ptr, w_ptr against float64")
    assert found["layouts, cuda"].startswith("✓ sliced")
