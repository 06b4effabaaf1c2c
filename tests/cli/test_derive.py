"""`undertow derive`: what it prints and writes, and every way to name it wrongly."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

NORM = "kernels_norms.py::rms_norm"
MANY = "kernels_many.py"


def test_prints_the_source_and_nothing_else(undertow) -> None:
    result = undertow("derive", NORM, "-c", "BLOCK=16")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.startswith("import triton\nimport triton.language as tl\n")
    assert "def rms_norm_bwd(" in result.stdout
    assert "\x1b" not in result.stdout
    ast.parse(result.stdout)


def test_the_file_alone_names_its_only_kernel(undertow) -> None:
    assert (
        undertow("derive", "kernels_norms.py").stdout == undertow("derive", NORM).stdout
    )


def types(undertow, *words: str) -> str:
    """The types that `explain` says a kernel was derived for, on one line."""
    text = undertow("explain", NORM, *words).stdout
    return " ".join(text.partition("derived for  ")[2].split())


def test_types_of_the_example_are_taken(undertow) -> None:
    words = ("--example", "kernels_norms.py::in_halves")
    rest = "stride:i32, n_cols:i32, eps:fp32; BLOCK=128"
    found = types(undertow, *words)
    assert found == f"x_ptr:*bf16, w_ptr:*bf16, y_ptr:*bf16, {rest}"
    found = types(undertow, *words, "--dtype", "fp16")
    assert found == f"x_ptr:*fp16, w_ptr:*fp16, y_ptr:*fp16, {rest}"
    assert undertow("derive", NORM, *words).stdout != undertow("derive", NORM).stdout


def test_dtype_and_signature(undertow) -> None:
    words = ("--dtype", "bf16", "--signature", "w_ptr:*fp32, eps:fp64")
    assert types(undertow, *words) == (
        "x_ptr:*bf16, w_ptr:*fp32, y_ptr:*bf16, stride:i32, n_cols:i32, eps:fp64; "
        "BLOCK=16"
    )


def test_wrt_and_outputs_take_lists(undertow) -> None:
    only = undertow("derive", NORM, "--wrt", "w_ptr", "--outputs", "y_ptr").stdout
    assert "d_w_ptr" in only
    assert "d_x_ptr" not in only
    both = undertow("derive", NORM, "--wrt", "x_ptr,w_ptr").stdout
    assert both == undertow("derive", NORM).stdout
    assert both == undertow("derive", NORM, "--wrt", "x_ptr", "--wrt", "w_ptr").stdout


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        ("by_flow", "d_X"),
        ("by_helper", "d_A"),
        ("with_defaults", "d_bias_ptr"),
        ("tuned", "BLOCK == 64"),
        ("wrapped", "BLOCK == 64"),
    ],
)
def test_arguments_are_found_out(undertow, kernel: str, text: str) -> None:
    result = undertow("derive", f"{MANY}::{kernel}")
    assert result.exit_code == 0, result.stderr
    assert text in result.stdout


def test_a_pointer_may_be_none(undertow) -> None:
    words = ("derive", f"{MANY}::with_defaults", "-c", "bias_ptr=None")
    assert "bias" not in undertow(*words).stdout


def test_integer_pointers_need_a_signature(undertow) -> None:
    result = undertow("derive", f"{MANY}::gather")
    assert result.exit_code == 1
    assert "others are given with --signature" in result.stderr
    result = undertow("derive", f"{MANY}::gather", "--signature", "index_ptr:*i64")
    assert result.exit_code == 0
    assert "d_x_ptr" in result.stdout


def test_scalars_of_the_wrong_type_are_explained(undertow) -> None:
    result = undertow("derive", f"{MANY}::strict")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: Triton does not compile `strict`: ")
    assert "hint: types taken: x_ptr:*fp32, y_ptr:*fp32, scale:i32" in result.stderr
    result = undertow("derive", f"{MANY}::strict", "--signature", "scale:fp32")
    assert result.exit_code == 0


# -- writing --


def test_writes_a_file_once(undertow, tmp_path: Path) -> None:
    out = tmp_path / "bwd.py"
    result = undertow("derive", NORM, "--out", str(out))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"wrote {out}\n"
    assert out.read_text() == undertow("derive", NORM).stdout
    out.write_text("mine")
    result = undertow("derive", NORM, "--out", str(out))
    assert result.exit_code == 2
    assert result.stderr == f"error: `{out}` exists\nhint: overwrite it with --force\n"
    assert out.read_text() == "mine"
    assert undertow("derive", NORM, "--out", str(out), "--force").exit_code == 0
    assert out.read_text() != "mine"


def test_a_file_that_cannot_be_written(undertow, tmp_path: Path) -> None:
    out = tmp_path / "missing" / "bwd.py"
    result = undertow("derive", NORM, "--out", str(out))
    assert result.exit_code == 2
    assert (
        result.stderr
        == f"error: `{out}` cannot be written: No such file or directory\n"
    )


# -- errors --

ERRORS = [
    (
        ["kernels_nroms.py::rms_norm"],
        "error: there is no file `kernels_nroms.py`\n"
        "hint: there is `kernels_norms.py`\n",
    ),
    (["nothing.txt::k"], "error: there is no file `nothing.txt`\n"),
    (
        ["kernels_norms.py::rms_nrom"],
        "error: `kernels_norms.py` has no kernel `rms_nrom`\n"
        "  = its kernels are `rms_norm`\n"
        "hint: did you mean kernels_norms.py::rms_norm\n",
    ),
    (
        ["kernels_many.py::plain"],
        "error: `plain` in `kernels_many.py` is not decorated with `triton.jit`\n",
    ),
    (
        ["kernels_many.py"],
        "error: `kernels_many.py` has 10 kernels: `square`, `read`, ",
    ),
    (
        ["kernels_many.py::guided"],
        "error: constexpr `BLOCK` of `guided` needs a value\n"
        "hint: pass --constexpr BLOCK=…, or write an `example` beside the kernel\n",
    ),
    (
        [NORM, "-c", "BLOK=16"],
        "error: `rms_norm` has no parameter `BLOK`\n"
        "  = its parameters are x_ptr, w_ptr, y_ptr, stride, n_cols, eps, BLOCK\n"
        "hint: did you mean `BLOCK`\n",
    ),
    (
        [NORM, "-c", "BLOCK"],
        "error: `BLOCK` in --constexpr is not of the form NAME=value\n"
        "hint: for example --constexpr BLOCK=256\n",
    ),
    (
        [NORM, "-c", "BLOCK="],
        "error: `BLOCK=` in --constexpr is not of the form NAME=value\n",
    ),
    (["kernels_norms.py::"], "error: `kernels_norms.py` has 1 kernel: `rms_norm`\n"),
    (
        [NORM, "--signature", "x_ptr"],
        "error: `x_ptr` in --signature is not of the form name:type\n"
        'hint: for example --signature "x_ptr:*bf16,n:i32"\n',
    ),
    (
        [NORM, "--signature", "x_ptr:*float"],
        "error: `*float` is no type of Triton's\nhint: one of i1, i8, ",
    ),
    ([NORM, "--wrt", "v_ptr"], "error: `rms_norm` has no parameter `v_ptr`\n"),
    (
        [NORM, "--wrt", "y_ptr"],
        "error: `y_ptr` in --wrt is no float pointer that is loaded\n"
        "  = those of `rms_norm` are x_ptr, w_ptr\n",
    ),
    (
        [NORM, "--outputs", "n_cols"],
        "error: `n_cols` in --outputs is no float pointer that is stored to\n"
        "  = those of `rms_norm` are y_ptr\n",
    ),
    (
        [NORM, "--example", "kernels_norms.py::exmaple"],
        "error: `kernels_norms.py` has no function `exmaple`\n",
    ),
]


@pytest.mark.parametrize(("words", "text"), ERRORS, ids=[e[1][:60] for e in ERRORS])
def test_what_is_not_there(undertow, words: list[str], text: str) -> None:
    result = undertow("derive", *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(text)


def test_what_has_no_derivative(undertow) -> None:
    result = undertow("derive", "kernels_faulty.py::refused")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "tl.histogram" in result.stderr
    assert "--> kernels_faulty.py:" in result.stderr


def test_nothing_to_differentiate(undertow) -> None:
    words = ["--signature", "x_ptr:*i32,y_ptr:*i32"]
    result = undertow("derive", f"{MANY}::with_defaults", *words, "-c", "bias_ptr=None")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: no gradient reaches an input of `with_defaults`\n"
        "  = it loads no floats\n"
    )


def test_errors_of_the_users_file_are_shown_as_such(undertow, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import math\n\nmath.nothing\n")
    result = undertow("derive", f"{tmp_path}/broken.py::k")
    assert result.exit_code == 2
    assert result.stderr == (
        f"error: `{tmp_path}/broken.py` cannot be imported: AttributeError: "
        "module 'math' has no attribute 'nothing'\n"
        f"  --> {tmp_path}/broken.py:3\n"
        "   | math.nothing\n"
    )


def test_syntax_errors_and_exits(undertow, tmp_path: Path) -> None:
    (tmp_path / "syntax.py").write_text("x = 1\ny = (\n")
    assert (
        "SyntaxError: '(' was never closed"
        in undertow("derive", f"{tmp_path}/syntax.py::k").stderr
    )
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)\n")
    result = undertow("derive", f"{tmp_path}/leaves.py::k")
    assert result.exit_code == 2
    assert "cannot be imported: SystemExit: 0" in result.stderr


def test_a_file_without_kernels(undertow, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    result = undertow("derive", f"{tmp_path}/empty.py")
    assert result.stderr == (
        f"error: `{tmp_path}/empty.py` has no kernel\n"
        "hint: decorate a function with `triton.jit`\n"
    )


def test_siblings_are_imported_and_nothing_is_written(undertow, tmp_path: Path) -> None:
    source = (Path(__file__).parent / "kernels_norms.py").read_text()
    (tmp_path / "sibling_of_norms.py").write_text("BLOCKS = 16\n")
    (tmp_path / "norms.py").write_text(f"from sibling_of_norms import BLOCKS\n{source}")
    assert undertow("derive", f"{tmp_path}/norms.py::rms_norm").exit_code == 0
    names = {p.name for p in tmp_path.iterdir()} - {"cache"}
    assert names == {"norms.py", "sibling_of_norms.py"}
