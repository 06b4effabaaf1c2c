"""Loops and products of matrices: their text, and that it means the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from torch import Tensor

from acceptance import standalone
from emit import random_loops
from emit.loop_kernels import CASES
from emit.roundtrip import LANES, TORCH, recaptured, ruff, run, same
from undertow.emit import emit
from undertow.frontend import capture
from undertow.ir import Kernel, PointerType, parse, verify

Arguments = dict[str, object]

SEEDS = range(32)
VERSION = tuple(int(n) for n in triton.__version__.split(".")[:2])
UNUSED = "lint.ignore=['F841']"
"""Random kernels compute what they do not use."""


def body(source: str) -> str:
    """The statements of a kernel without indentation, assertions and places."""
    lines = source[source.index("def ") :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.endswith("):")) + 1
    skipped = ("#", "tl.static_assert")
    kept = [line for line in lines[start:] if not line.strip().startswith(skipped)]
    return "\n".join(line[4:].split("  #")[0] for line in kept)


def roundtrip(kernel: Kernel, args: Arguments, folder: Path, **grid: Any) -> str:
    """Compares a kernel with its emitted self; gives the body of that."""
    source = emit(kernel)
    again = recaptured(kernel, source, folder)
    same(run(again, args, **grid), run(kernel, args, **grid))
    path = folder / "formatted.py"
    path.write_text(source)
    ruff(path, "--isolated", "--config", UNUSED)
    return body(source)


# -- kernels as users write them --------------------------------------------------


def lifted(name: str) -> Kernel:
    case = CASES[name]
    pointers = {f"{p}_ptr": f"*{case.dtype}" for p in case.pointers}
    numbers = {
        n: "i32" if isinstance(v, int) else "fp32" for n, v in case.numbers.items()
    }
    return capture(case.fn, pointers | numbers, case.constexprs)


def arguments(kernel: Kernel, numbers: dict[str, int | float]) -> Arguments:
    torch.manual_seed(0)
    pointers = {
        p.name: torch.randn(8192).to(TORCH[p.type.element.name])
        for p in kernel.params
        if isinstance(p.type, PointerType)
    }
    return pointers | numbers


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_stays_what_it_is(name: str, tmp_path: Path) -> None:
    kernel, case = lifted(name), CASES[name]
    roundtrip(kernel, arguments(kernel, case.numbers), tmp_path, grid=case.grid)


def test_a_sum() -> None:
    assert body(emit(lifted("row_sum"))) == (
        "row = tl.program_id(0)\n"
        "offs = tl.arange(0, BLOCK)\n"
        "acc = tl.zeros((BLOCK,), tl.float32)\n"
        "for start in range(0, n, BLOCK):\n"
        "    mask = start + offs < n\n"
        "    x = tl.load(x_ptr + row * n + start + offs, mask=mask, other=0.0)\n"
        "    acc += x\n"
        "tl.store(y_ptr + row, tl.sum(acc, axis=0))"
    )


def test_a_product_of_matrices() -> None:
    text = body(emit(lifted("matmul")))
    assert "acc = tl.zeros((BM, BN), tl.float32)\nfor k in range(0, K, BK):\n" in text
    assert "    acc = tl.dot(a, b, acc)\nc_mask = " in text
    assert "c_ptr + offs_m[:, None] * N + offs_n[None, :], acc, mask=c_mask" in text


def test_a_pipeline_keeps_its_stages() -> None:
    assert "in tl.range(0, n, BLOCK, num_stages=2):" in emit(lifted("softmax"))


def test_a_variable_goes_on_where_its_old_value_is_done_with() -> None:
    text = body(emit(lifted("attention")))
    assert "    acc *= alpha[:, None]\n    acc = tl.dot(p, v, acc, " in text


def test_places_in_the_source_stand_behind_loops() -> None:
    assert "for i in range(n):  # loop_kernels.py:" in emit(lifted("nested"))


# -- what is carried --------------------------------------------------------------

HEAD = """kernel kernel(%x_ptr: ptr<f32>, %y_ptr: ptr<f32>, %n: i32) {
  %lanes = range() <end=16, start=0> : i32[16]
  %c0 = const() <value=0> : i32
  %c1 = const() <value=1> : i32
  %c16 = const() <value=16> : i32
  %x = load(%x_ptr, %lanes) : f32[16] @"k.py":3:1:x
"""
PLAIN = "lanes = tl.arange(0, 16)\nx = tl.load(x_ptr + lanes)\n"


def written(text: str, folder: Path, n: int = 3) -> str:
    """What is emitted for a body after HEAD, without PLAIN; checked in a run."""
    kernel = verify(parse(f"{HEAD}{text}\n}}\n"))
    torch.manual_seed(0)
    args: Arguments = {"x_ptr": torch.randn(256), "y_ptr": torch.zeros(256), "n": n}
    found = roundtrip(kernel, args, folder)
    assert found.startswith(PLAIN)
    return found.removeprefix(PLAIN).strip()


def loop(types: str, args: str, initial: str, inside: str, name: str = "") -> str:
    results = ", ".join(f"%r{i}" for i in range(len(types.split(", "))))
    place = f' @"k.py":5:1:{name}' if name else ""
    return (
        f"  {results} = for(%c0, %n, %c1, {initial}) : {types} {{{place}\n"
        f"    (%i: i32, {args})\n{inside}\n  }}\n"
    )


def test_values_that_change_places(tmp_path: Path) -> None:
    """And begin as one value, which Triton must not take for unchanged."""
    swap = loop(
        "f32[16], f32[16]",
        "%a: f32[16], %b: f32[16]",
        "%x, %x",
        "    %t = exp(%a) : f32[16]\n    yield(%b, %t)",
    )
    text = written(f"{swap}  store(%y_ptr, %r0, %lanes)", tmp_path)
    assert text == (
        "x_2 = x - 0.0\n"
        "for i in range(n):\n"
        "    new_x = x_2\n"
        "    x_2 = tl.exp(x)\n"
        "    x = new_x\n"
        "tl.store(y_ptr + lanes, x)"
    )


def test_a_first_value_that_is_still_needed_is_copied(tmp_path: Path) -> None:
    carried = loop(
        "f32[16]",
        "%a: f32[16]",
        "%x",
        "    %t = sub(%a, %x) : f32[16]\n    yield(%t)",
        "m",
    )
    text = written(f"{carried}  store(%y_ptr, %r0, %lanes)", tmp_path)
    assert text == ("m = x\nfor i in range(n):\n    m -= x\ntl.store(y_ptr + lanes, m)")


def test_numbers_get_their_type(tmp_path: Path) -> None:
    carried = loop(
        "i64, f16",
        "%a: i64, %b: f16",
        "%k, %h",
        "    %j = cast(%i) <signed=True> : i64\n    %s = add(%a, %j) : i64\n"
        "    yield(%s, %b)",
    )
    consts = "  %k = const() <value=7> : i64\n  %h = const() <value=0.5> : f16\n"
    end = "  store(%y_ptr, %x, %r0, %lanes)"
    text = written(f"{consts}{carried}{end}", tmp_path)
    assert "offset = tl.full((), 7, tl.int64)\n" in text
    assert "= tl.full((), 0.5, tl.float16)\n" in text
    assert "    offset += i\n" in text


def test_nothing_carried(tmp_path: Path) -> None:
    text = written(
        "  for(%c0, %n, %c1) {\n    (%i: i32)\n"
        "    %o = mul(%i, %c16) : i32\n    store(%y_ptr, %x, %o, %lanes)\n"
        "    yield()\n  }\n  for(%c1, %n, %c1) {\n    (%j: i32)\n    yield()\n  }",
        tmp_path,
    )
    assert text == (
        "for i in range(n):\n    tl.store(y_ptr + i * 16 + lanes, x)\n"
        "for i in range(1, n):\n    pass"
    )


INNER = """  %r = for(%c0, %n, %c1, %x) : f32[16] { @"k.py":5:1:acc
    (%i: i32, %a: f32[16])
    %s = for(%i, %n, %c1, %a) : f32[16] { @"k.py":6:1:acc
      (%j: i32, %b: f32[16])
      %p = cmp(%j, %c1) <predicate='eq'> : i1
      %t = if(%p) : f32[16] { @"k.py":7:1:acc
        %u = add(%b, %x2) : f32[16]
        yield(%u)
      } {
        yield(%b)
      }
      yield(%t)
    }
    yield(%s)
  }
  store(%y_ptr, %r, %lanes)"""


def test_one_variable_through_loops_and_branches(tmp_path: Path) -> None:
    text = written(f"  %x2 = exp(%x) : f32[16]\n{INNER}", tmp_path)
    assert text == (
        "exp_x = tl.exp(x)\n"
        "acc = x\n"
        "for i in range(n):\n"
        "    for j in range(i, n):\n"
        "        if j == 1:\n"
        "            acc += exp_x\n"
        "tl.store(y_ptr + lanes, acc)"
    )


def test_what_does_not_change_is_computed_before(tmp_path: Path) -> None:
    carried = loop(
        "f32[16]",
        "%a: f32[16]",
        "%x",
        "    %b = broadcast(%s) : f32[16]\n    %t = mul(%a, %b) : f32[16]\n"
        "    %o = mul(%i, %d) : i32\n    store(%y_ptr, %t, %o, %lanes)\n"
        "    yield(%t)",
        "y",
    )
    before = "  %s = reduce(%x) <axis=0, kind='max'> : f32\n  %d = add(%n, %c1) : i32\n"
    text = written(f"{before}{carried}", tmp_path)
    assert text.startswith("max_x = tl.max(x, axis=0)\n")
    assert "tl.store(y_ptr + i * (n + 1) + lanes, " in text


def test_names_of_a_body_are_free_after_it(tmp_path: Path) -> None:
    once = (
        "  for(%c0, %n, %c1) {{\n    (%i{0}: i32)\n    %o{0} = mul(%i{0}, %c16) : i32\n"
        '    %z{0} = load(%x_ptr, %o{0}, %lanes) : f32[16] @"k.py":{0}:1:z\n'
        "    store(%y_ptr, %z{0}, %o{0}, %lanes)\n    yield()\n  }}"
    )
    text = written(f"{once.format(5)}\n{once.format(9)}", tmp_path)
    first, second = text.split("\nfor ")
    assert first == f"for {second}"


def test_bounds_of_64_bits(tmp_path: Path) -> None:
    text = written(
        "  %lo = const() <value=0> : i64\n  %hi = const() <value=3> : i64\n"
        "  %st = const() <value=2> : i64\n"
        "  for(%lo, %hi, %st) {\n    (%i: i64)\n    %w = const() <value=8> : i64\n"
        "    %o = mul(%i, %w) : i64\n    store(%y_ptr, %x, %o, %lanes)\n"
        "    yield()\n  }",
        tmp_path,
    )
    assert "for i in range(0, tl.full((), 3, tl.int64), 2):" in text


def test_sections_and_barriers_in_order() -> None:
    text = emit(
        parse(
            f"{HEAD}  section() <title='sweep'>\n  for(%c0, %n, %c1) {{\n"
            "    (%i: i32)\n    barrier()\n    yield()\n  }\n}\n"
        )
    )
    end = "    # -- sweep --\n    for i in range(n):\n        tl.debug_barrier()\n"
    assert text.endswith(end)


# -- dot --------------------------------------------------------------------------

DOT = """kernel kernel(%x_ptr: ptr<{of}>, %y_ptr: ptr<{into}>) {{
  %m = range() <end=16, start=0> : i32[16]
  %c = expand_dims(%m) <axis=0> : i32[1, 16]
  %cols = broadcast(%c) : i32[16, 16]
  %r = expand_dims(%m) <axis=1> : i32[16, 1]
  %rs = broadcast(%r) : i32[16, 16]
  %w = const() <value=16> : i32[16, 16]
  %rows = mul(%rs, %w) : i32[16, 16]
  %a = load(%x_ptr, %rows, %cols) : {of}[16, 16] @"k.py":3:1:a
  %t = transpose(%a) <order=[1, 0]> : {of}[16, 16] @"k.py":4:1:b
  %z = const() <value={zero}> : {into}[16, 16]
  %d = dot(%a, %t, %z) <precision='{precision}'> : {into}[16, 16] @"k.py":5:1:d
  %e = dot(%t, %a, %d) <precision='{precision}'> : {into}[16, 16] @"k.py":6:1:e
  store(%y_ptr, %e, %rows, %cols)
}}
"""


@pytest.mark.parametrize(
    ("of", "into", "precision", "options", "fused"),
    [
        ("f32", "f32", "tf32", "", ""),
        ("f32", "f32", "ieee", ', input_precision="ieee"', ""),
        ("f32", "f32", "tf32x3", ', input_precision="tf32x3"', ""),
        ("f16", "f32", "tf32", "", ""),
        ("f16", "f32", "ieee", "", ""),
        ("bf16", "f32", "tf32", "", ""),
        ("f16", "f16", "tf32", ", out_dtype=tl.float16", ""),
        ("f64", "f64", "ieee", "", ", out_dtype=tl.float64"),
    ],
)
def test_dot(
    of: str, into: str, precision: str, options: str, fused: str, tmp_path: Path
) -> None:
    text = DOT.format(of=of, into=into, precision=precision, zero=0.0)
    kernel = verify(parse(text))
    args: Arguments = {
        "x_ptr": torch.randn(256).to(TORCH[of]),
        "y_ptr": torch.zeros(256, dtype=TORCH[into]),
    }
    written = roundtrip(kernel, args, tmp_path)
    assert f"\nd = tl.dot(a, b{options})\n" in written
    assert f"\ne = tl.dot(b, a, d{options}{fused})\n" in written


def test_an_accumulator_that_is_not_zero_is_passed() -> None:
    text = DOT.format(of="f32", into="f32", precision="ieee", zero=-0.0)
    assert "d = tl.dot(a, b, tl.full((16, 16), -0.0, tl.float32), " in emit(parse(text))


# -- random kernels ---------------------------------------------------------------


def random_arguments(n: int, w: int) -> Arguments:
    torch.manual_seed(n)
    zeros = torch.zeros(random_loops.SIZE)
    return {"x_ptr": torch.randn(LANES), "y_ptr": zeros, "n": n, "w": w}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_loops(seed: int, tmp_path: Path) -> None:
    kernel = random_loops.kernel(seed)
    roundtrip(kernel, random_arguments(3, 2), tmp_path)
    again = recaptured(kernel, emit(kernel), tmp_path, ones=True)
    same(run(again, ones := random_arguments(1, 1)), run(kernel, ones))


def test_random_loops_in_the_interpreter(tmp_path: Path) -> None:
    jobs: list[tuple[str, str, tuple[int, ...], Arguments]] = []
    for seed in SEEDS[:12]:
        kernel = random_loops.kernel(seed)
        source = tmp_path / f"kernel_{seed}.py"
        source.write_text(emit(kernel))
        args = random_arguments(3, 2)
        given = {p.name: args[p.name] for p in kernel.params}
        jobs.append((str(source), "kernel", (1,), given))
    torch.save(jobs, tmp_path / "jobs.pt")
    subprocess.run(
        [
            sys.executable,
            standalone.__file__,
            tmp_path / "jobs.pt",
            tmp_path / "done.pt",
            "cpu",
        ],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=True,
    )
    done = torch.load(tmp_path / "done.pt", weights_only=False)
    for seed, found in zip(SEEDS, done, strict=False):
        if isinstance(found, str):
            assert VERSION < (3, 8), found
            pytest.skip(f"the old interpreter fails: {found}")
        wanted: dict[str, Tensor] = run(
            random_loops.kernel(seed), random_arguments(3, 2)
        )
        torch.testing.assert_close(found["y_ptr"], wanted["y_ptr"], equal_nan=True)
