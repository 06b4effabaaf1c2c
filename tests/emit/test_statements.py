"""Names, branches, long expressions: what is written around the opcodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from emit.roundtrip import (
    LANES,
    build,
    loaded,
    recaptured,
    ruff,
    run,
    same,
    stored,
    vector,
)
from undertow.emit import emit
from undertow.ir import (
    I1,
    Access,
    Block,
    Builder,
    Kernel,
    Loc,
    Value,
    parse,
    scalar,
    verify,
)

RANDOM = torch.Generator().manual_seed(0)


def floats(*names: str) -> dict[str, Tensor]:
    return {n: torch.randn(LANES, generator=RANDOM) for n in names}


def roundtrip(kernel: Kernel, args: dict[str, object], folder: Path) -> str:
    """Compares a kernel with its emitted self, and gives the text."""
    text = emit(kernel)
    again = recaptured(kernel, text, folder)
    same(run(again, args), run(kernel, args))
    path = folder / "formatted.py"
    path.write_text(text)
    ruff(path, "--isolated")
    return text


# -- names -----------------------------------------------------------------------


def named(name: str) -> Kernel:
    """y = s + s² where s = 2 x is called `name`."""

    def body(b: Builder, x: Value, y: Value) -> None:
        value = loaded(b, x)
        b.loc = Loc("user.py", 3, 5, name)
        s = b.pure("add", [value, value], vector("f32"))
        b.loc = Loc("user.py", 4, 5)
        square = b.pure("mul", [s, s], vector("f32"))
        stored(b, y, b.pure("add", [s, square], vector("f32")))

    return build({"x_ptr": "*f32", "y_ptr": "*f32"}, body)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("s", "s"),
        ("lambda", "lambda_"),
        ("sum", "sum_"),
        ("tl", "tl_2"),
        ("triton", "triton_2"),
        ("libdevice", "libdevice_2"),
        ("x_ptr", "x_ptr_2"),
        ("d_x", "d_x"),
        ("größe", "größe"),
        ("2nd", "v2nd"),
        ("a.b[0]", "a_b_0_"),
    ],
)
def test_a_users_name(name: str, written: str, tmp_path: Path) -> None:
    text = roundtrip(named(name), floats("x_ptr", "y_ptr"), tmp_path)
    assert f"    {written} = x + x  # user.py:3\n" in text
    assert f"{written} + {written} * {written}" in text


def test_two_values_of_one_name(tmp_path: Path) -> None:
    def body(b: Builder, x: Value, y: Value) -> None:
        value = loaded(b, x)
        for _ in range(3):
            b.loc = Loc("user.py", 3, 5, "h")
            value = b.pure("mul", [value, value], vector("f32"))
        stored(b, y, value)

    kernel = build({"x": "*f32", "y": "*f32"}, body)
    text = roundtrip(kernel, floats("x", "y"), tmp_path)
    assert "h_2 = h * h" in text
    assert "h_3 = h_2 * h_2" in text


def test_a_constexpr_names_an_extent_alone(tmp_path: Path) -> None:
    kernel = named("s")
    kernel.constexprs = {"BLOCK": LANES, "FLAG": True, "OTHER": 3}  # type: ignore[misc]
    text = roundtrip(kernel, floats("x_ptr", "y_ptr"), tmp_path)
    assert "def kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):" in text
    assert "tl.static_assert(BLOCK == 16)" in text
    assert "tl.arange(0, BLOCK)" in text
    kernel.constexprs = {"BLOCK": LANES, "SAME": LANES}  # type: ignore[misc]
    assert "tl.arange(0, 16)" in emit(kernel)


# -- branches --------------------------------------------------------------------


def branching(
    then: Callable[[Builder], Value] | None,
    otherwise: Callable[[Builder], Value] | None,
    *,
    after: bool,
) -> Kernel:
    """Stores x, then in a branch on n > 0 something else, then perhaps again."""

    def body(b: Builder, n: Value, x: Value, y: Value) -> None:
        value = loaded(b, x)
        stored(b, y, value)
        zero = b.const(0, scalar(n.tensor_type.dtype))
        condition = b.pure("cmp", [n, zero], scalar(I1), {"predicate": "sgt"})
        blocks: list[Block] = []
        for side in (then, otherwise):
            inner = Builder()
            if side is not None:
                stored(inner, y, side(inner))
            inner.emit("yield")
            blocks.append(inner.block)
        b.emit("if", [condition], regions=blocks)
        if after:
            stored(b, y, b.pure("add", [value, value], vector("f32")))

    return build({"n": "i32", "x": "*f32", "y": "*f32"}, body)


def one(b: Builder) -> Value:
    return b.const(1.0, vector("f32"))


def two(b: Builder) -> Value:
    return b.const(2.0, vector("f32"))


FORMS = {
    "both": (one, two, False, ["if n > 0:", "else:"]),
    "then": (one, None, True, ["if n > 0:"]),
    "else": (None, one, True, ["if n <= 0:"]),
    "last-then": (one, None, False, ["if n <= 0:", "return"]),
    "last-else": (None, one, False, ["if n > 0:", "return"]),
    "nothing": (None, None, True, []),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [0, 3])
def test_a_branch_that_stores(form: str, n: int, tmp_path: Path) -> None:
    then, otherwise, after, lines = FORMS[form]
    kernel = branching(then, otherwise, after=after)
    text = roundtrip(kernel, {"n": n, **floats("x", "y")}, tmp_path)
    for line in lines:
        assert f"    {line}\n" in text
    assert ("else:" in text) == ("else:" in lines)


VALUES = """
kernel kernel(%n: i32, %x: ptr<f32>, %y: ptr<f32>) {
  %0 = range() <start=0, end=16> : i32[16]
  %1 = load(%x, %0) : f32[16]
  %2 = const() <value=0> : i32
  %3 = cmp(%n, %2) <predicate="sgt"> : i1
  %4, %5 = if(%3) : f32[16], f32[16] {
    %6 = mul(%1, %1) : f32[16]
    yield(%6, %1)
  } {
    %7 = const() <value=0.0> : f32[16]
    %8 = add(%1, %1) : f32[16]
    yield(%7, %8)
  }
  %9 = add(%4, %5) : f32[16]
  %10 = mul(%9, %4) : f32[16]
  store(%y, %10, %0)
}
"""


@pytest.mark.parametrize("n", [0, 3])
def test_a_branch_that_gives_values(n: int, tmp_path: Path) -> None:
    kernel = verify(parse(VALUES))
    text = roundtrip(kernel, {"n": n, **floats("x", "y")}, tmp_path)
    assert "tl.zeros((16,), tl.float32)" in text


# -- long expressions ------------------------------------------------------------


@pytest.mark.parametrize("length", [3, 10, 40, 150])
@pytest.mark.parametrize("opcode", ["add", "mul", "div", "maximum"])
def test_a_long_expression_is_taken_apart(
    length: int, opcode: str, tmp_path: Path
) -> None:
    def body(b: Builder, *pointers: Value) -> None:
        *inputs, y = pointers
        values = [loaded(b, p) for p in inputs]
        total = values[0]
        for step in range(length):
            other = values[step % len(values)]
            total = b.pure(opcode, [other, total], vector("f32"))
        stored(b, y, total)

    inputs = [f"a_rather_long_name_{i}" for i in range(min(4, length))]
    kernel = build(dict.fromkeys([*inputs, "y"], "*f32"), body)
    text = roundtrip(kernel, floats(*inputs, "y"), tmp_path)
    assert max(map(len, text.splitlines())) <= 88


def test_a_long_signature_and_address(tmp_path: Path) -> None:
    strides = [f"stride_of_a_long_name_{i}" for i in range(6)]

    def body(b: Builder, x: Value, y: Value, *scalars: Value) -> None:
        lanes = b.pure("range", (), vector("i32"), {"start": 0, "end": LANES})
        total = lanes
        for s in scalars:
            wide = b.broadcast(s, (LANES,))
            total = b.pure("add", [total, wide], vector("i32"))
        zero = b.pure("sub", [total, total], vector("i32"))
        again = b.pure("add", [zero, lanes], vector("i32"))
        value = b.load(_access(x, again), vector("f32"))
        stored(b, y, value)

    types = {"x_ptr": "*f32", "y_ptr": "*f32", **dict.fromkeys(strides, "i32")}
    args = {**floats("x_ptr", "y_ptr"), **dict.fromkeys(strides, 2)}
    roundtrip(build(types, body), args, tmp_path)


def _access(pointer: Value, offset: Value) -> Access:
    return Access(pointer, (offset,), None, None, None)


# -- kinds of arguments ----------------------------------------------------------


def test_pointers_to_booleans(tmp_path: Path) -> None:
    def body(b: Builder, keep: Value, x: Value, kept: Value, y: Value) -> None:
        flag, value = loaded(b, keep), loaded(b, x)
        zero = b.const(0.0, vector("f32"))
        true = b.const(True, vector("i1"))
        stored(b, y, b.pure("select", [flag, value, zero], vector("f32")))
        stored(b, kept, b.pure("xor", [flag, true], vector("i1")))

    types = {"keep": "*i1", "x": "*f32", "kept": "*i1", "y": "*f32"}
    keep = torch.rand(LANES, generator=RANDOM) > 0.5
    args = {**floats("x", "y"), "keep": keep, "kept": torch.zeros_like(keep)}
    assert "~" in roundtrip(build(types, body), args, tmp_path)


REDUCTIONS = {
    "f32": ["sum", "prod", "max", "min"],
    "i32": "sum prod smax smin umax umin and or xor".split(),
}


@pytest.mark.parametrize(
    ("dtype", "kind"), [(d, k) for d, kinds in REDUCTIONS.items() for k in kinds]
)
def test_a_reduction(dtype: str, kind: str, tmp_path: Path) -> None:
    def body(b: Builder, x: Value, y: Value) -> None:
        table = b.reshape(loaded(b, x), (4, 4))
        stored(b, y, b.reduce(b.reduce(table, kind, 1), kind, 0))

    draw = torch.randn(LANES, generator=RANDOM)
    x = draw if dtype == "f32" else (draw * 100).to(torch.int32)
    args = {"x": x, "y": torch.zeros_like(x)}
    kernel = build({"x": f"*{dtype}", "y": f"*{dtype}"}, body)
    again = recaptured(kernel, emit(kernel), tmp_path)
    same(run(again, args), run(kernel, args))
