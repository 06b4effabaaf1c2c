"""Capture through the installed Triton; no GPU is needed."""

from __future__ import annotations

import inspect
import os
import re
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from undertow.errors import CaptureError, UnsupportedError
from undertow.frontend import Parameter, capture, capture_text, parameters, unwrap
from undertow.ir import print_kernel, walk

triton = pytest.importorskip("triton")
tl: Any = triton.language

from kernels import calls  # noqa: E402

from . import kernels, refused  # noqa: E402, they need triton
from .test_fixtures import NEWEST, Normal, fixture, numbered  # noqa: E402

HERE = Path(__file__).parent
VERSION = tuple(int(n) for n in triton.__version__.split(".")[:2])


def test_the_matrix_runs_the_version_that_it_means_to() -> None:
    expected = os.environ.get("UNDERTOW_EXPECT_TRITON", triton.__version__)
    assert triton.__version__ == expected


@pytest.mark.parametrize("name", kernels.CASES)
def test_the_installed_version_gives_the_kernel_of_the_fixture(name: str) -> None:
    kernel = capture(*kernels.CASES[name])
    assert numbered(Normal(kernel).lines) == numbered(
        Normal(fixture(NEWEST, name)).lines
    )


def test_parameters_names_and_constexprs_are_the_users() -> None:
    kernel = capture(*kernels.CASES["scale"])
    assert [p.name for p in kernel.params] == ["x_ptr", "w_ptr", "y_ptr", "n", "unused"]
    assert dict(kernel.constexprs) == {"BLOCK": 16}


def test_elements_of_tuples_have_names_and_constexprs() -> None:
    kernel = capture(*kernels.CASES["tuples"])
    assert [p.name for p in kernel.params] == ["xs.0", "xs.1", "y_ptr", "pair.0"]
    assert dict(kernel.constexprs) == {"pair": (None, 5), "BLOCK": 16}


def test_places_are_in_the_users_file() -> None:
    kernel = capture(*kernels.CASES["layer_norm"])
    lines = Path(kernel.loc.file).read_text().splitlines()
    assert lines[kernel.loc.line - 1].startswith("def layer_norm(")
    reduce = [op for op in walk(kernel.body) if op.opcode == "reduce"]
    assert [lines[op.loc.line - 1].strip() for op in reduce] == [
        "mean = tl.sum(x, axis=0) / n",
        "var = tl.sum(centred * centred, axis=0) / n",
    ]
    divided = [op for op in walk(kernel.body) if op.opcode == "div"]
    assert [op.result.name for op in divided[:2]] == ["mean", "var"]
    assert all(op.loc.column >= 1 for op in walk(kernel.body) if op.loc.known)


def test_ops_of_a_helper_stand_where_it_was_called() -> None:
    kernel = capture(*kernels.CASES["helpers"])
    lines = Path(kernel.loc.file).read_text().splitlines()
    (exp,) = [op for op in walk(kernel.body) if op.opcode == "exp"]
    assert lines[exp.loc.line - 1].strip() == "gated, total = _gate(x, x)"


def test_ops_of_a_call_stand_where_it_is() -> None:
    names = ("x_ptr", "y_ptr")
    kernel = capture(calls.apart, dict.fromkeys(names, "*fp32"), {})
    source, first = inspect.getsourcelines(calls.apart.fn)
    lines = {
        opcode: [op.loc.line - first for op in walk(kernel.body) if op.opcode == opcode]
        for opcode in ("load", "store")
    }
    assert "_both(" in source[lines["load"][0]]
    assert ["_put(" in source[line] for line in lines["store"]] == [True, True]
    (x,) = (op for op in walk(kernel.body) if op.opcode == "load")
    assert x.loc.name == "x"


def test_a_constexpr_if_leaves_one_side() -> None:
    fn, signature, constexprs = kernels.CASES["helpers"]
    texts = [
        print_kernel(capture(fn, signature, {**constexprs, "NEGATE": negate}))
        for negate in (True, False)
    ]
    assert all("if(" not in text for text in texts)
    assert len(texts[0].splitlines()) > len(texts[1].splitlines())


def test_an_argument_of_none_is_a_constexpr() -> None:
    fn, signature, _ = refused.CASES["optional"][:3]
    with_bias = capture(fn, {**signature, "b_ptr": "*fp32"}, {})
    without = capture(fn, signature, {"b_ptr": None})
    assert len(with_bias.params) == len(without.params) + 1
    assert without.constexprs == {"b_ptr": None}


def test_constexprs_take_their_defaults() -> None:
    kernel = capture(refused.with_default, {"x_ptr": "*fp32"}, {})
    assert dict(kernel.constexprs) == {"N": 8}


def test_dtypes_give_different_kernels() -> None:
    fn, signature, constexprs = kernels.CASES["scale"]
    half = capture(fn, {**signature, "x_ptr": "*fp16", "y_ptr": "*fp16"}, constexprs)
    assert " cast(" in print_kernel(half)
    assert " cast(" not in print_kernel(capture(fn, signature, constexprs))


@pytest.mark.skipif(VERSION >= (3, 9), reason="Triton 3.9 has no block pointers")
def test_block_pointers_become_plain_ones() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # deprecated since 3.8
        kernel = capture(*refused.CASES["block_pointer"][:3])
    (load,) = [op for op in walk(kernel.body) if op.opcode == "load"]
    assert load.attrs == {"mask": True, "other": True}
    assert [p.name for p in kernel.params] == ["x_ptr", "y_ptr", "n"]


# -- what is refused --


@pytest.mark.parametrize(
    "name", [n for n, case in refused.CASES.items() if case.message]
)
def test_refusals_name_the_users_line(name: str) -> None:
    fn, signature, constexprs, message = refused.CASES[name]
    with pytest.raises(UnsupportedError) as error:
        capture(fn, signature, constexprs)
    assert error.value.fact == message
    loc = error.value.loc
    assert loc is not None
    line = Path(loc.file).read_text().splitlines()[loc.line - 1]
    assert "# here" in line, line
    assert f"in kernel `{fn.__name__}`" in str(error.value)


def test_tritons_own_errors_are_shown() -> None:
    with pytest.raises(CaptureError) as error:
        capture(refused.wrong, {"x_ptr": "*fp32"}, {})
    text = str(error.value)
    assert text.startswith(
        "Triton does not compile `wrong`: arange's range must be a power of 2"
    )
    assert error.value.loc is not None
    line = Path(error.value.loc.file).read_text().splitlines()[error.value.loc.line - 1]
    assert "# here" in line
    assert error.value.__cause__ is not None


def test_tritons_errors_inside_of_helpers_are_shown() -> None:
    with pytest.raises(CaptureError) as error:
        capture(refused.wrong_helper, {"x_ptr": "*fp32"}, {})
    assert "power of 2" in error.value.fact
    loc = error.value.loc
    assert loc is not None
    assert "# here" in Path(loc.file).read_text().splitlines()[loc.line - 1]


@pytest.mark.parametrize(
    ("signature", "constexprs", "message"),
    [
        ({"x_ptr": "*fp32"}, {"M": 3}, "`with_default` has no parameter `M`"),
        ({"x": "*fp32"}, {}, "`with_default` has no parameter `x`"),
        ({}, {}, "parameter `x_ptr` of `with_default` needs a type"),
    ],
)
def test_arguments_are_checked(
    signature: dict[str, Any], constexprs: dict[str, Any], message: str
) -> None:
    with pytest.raises(CaptureError) as error:
        capture(refused.with_default, signature, constexprs)
    assert error.value.fact == message


def test_a_constexpr_without_default_needs_a_value() -> None:
    fn, signature, _ = kernels.CASES["scale"]
    with pytest.raises(
        CaptureError, match="parameter `BLOCK` of `scale` needs a value"
    ):
        capture(fn, signature, {})


def test_the_constexprs_of_a_tuple_need_values() -> None:
    fn, signature, _ = kernels.CASES["tuples"]
    with pytest.raises(
        CaptureError, match="constexpr elements of tuple `pair` need values"
    ):
        capture(fn, signature, {"BLOCK": 16})


@pytest.mark.parametrize("fn", [print, lambda x: x, 3])
def test_only_jit_functions_are_captured(fn: object) -> None:
    with pytest.raises(
        CaptureError, match=r"expected a function decorated with `triton\.jit`"
    ):
        capture(fn, {}, {})


def test_the_interpreter_is_named() -> None:
    code = (
        "import kernels\n"
        "from undertow.frontend import capture\n"
        "from undertow.errors import CaptureError\n"
        "try:\n"
        "    capture(*kernels.CASES['scale'])\n"
        "except CaptureError as error:\n"
        "    print(error)\n"
    )
    output = run(code, TRITON_INTERPRET="1")
    assert output.splitlines()[0] == (
        "`scale` was made for Triton's interpreter and has no TTIR"
    )
    assert "TRITON_INTERPRET=1 was set when it was decorated" in output
    assert "hint: capture it in a process without TRITON_INTERPRET" in output


def test_importing_the_frontend_imports_neither_triton_nor_torch() -> None:
    path = HERE.parent / "fixtures" / "ttir" / NEWEST / "scale.ttir"
    code = (
        "import sys\n"
        "from undertow.frontend import lift_text\n"
        f"lift_text(open({str(path)!r}).read())\n"
        "print([m for m in ('triton', 'torch') if m in sys.modules])\n"
    )
    assert run(code).strip() == "[]"


def test_capture_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "import kernels\n"
        "from undertow.frontend import capture\n"
        "print(capture(*kernels.CASES['softmax']).name)\n"
    )
    assert run(code).strip() == "softmax"


def run(code: str, **env: str) -> str:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


# -- functions and parameters --


def test_unwrap_goes_through_autotune_and_heuristics() -> None:
    bare = kernels.scale
    tuned = triton.autotune([triton.Config({"BLOCK": 16})], key=["n"])(
        triton.heuristics({"BLOCK": lambda args: 16})(bare)
    )
    assert unwrap(tuned) is unwrap(bare) is bare
    _, signature, constexprs = kernels.CASES["scale"]
    assert print_kernel(capture(tuned, signature, constexprs)) == print_kernel(
        capture(bare, signature, constexprs)
    )


def test_parameters_are_those_of_the_source() -> None:
    assert parameters(refused.with_default) == (
        Parameter("x_ptr", False),
        Parameter("N", True, "constexpr", True, 8),
    )
    assert parameters(refused.annotated)[1] == Parameter("n", False, "i64")
    assert [p.name for p in parameters(kernels.scale)] == [
        "x_ptr", "w_ptr", "y_ptr", "n", "unused", "BLOCK",
    ]  # fmt: skip


def test_the_text_is_ttir() -> None:
    text = capture_text(*kernels.CASES["scale"])
    assert "tt.func public @scale(" in text
    assert "tt.divisibility" not in text


@pytest.mark.slow
def test_a_kernel_of_60_ops_is_captured_in_40_ms() -> None:
    case = kernels.CASES["integers"]
    capture(*case)
    seconds = []
    for _ in range(7):
        start = time.perf_counter()
        capture(*case)
        seconds.append(time.perf_counter() - start)
    assert statistics.median(seconds) < 0.04


def test_every_kernel_of_this_module_is_a_case() -> None:
    source = inspect.getsource(kernels)
    names = set(re.findall(r"^def ([a-z]\w*)\(", source, re.MULTILINE))
    assert names == set(kernels.CASES)


def test_a_kernel_in_gluon_is_refused() -> None:
    from triton.experimental import gluon

    kernel = gluon.jit(kernels.scale.fn)
    with pytest.raises(UnsupportedError) as error:
        capture(kernel, {"x_ptr": "*fp32", "w_ptr": "*fp32", "y_ptr": "*fp32",
                         "n": "i32", "unused": "i32"}, {"BLOCK": 16})  # fmt: skip
    assert "`scale` is written in Gluon, which is not supported\n" in str(error.value)
    assert "kernels.py:" in str(error.value)
