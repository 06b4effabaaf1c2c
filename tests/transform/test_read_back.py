"""What the backward reads back from outputs, and what it computes again after all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import triton
import triton.language as tl

from acceptance.launches import Oracle
from derived import check
from kernels.cases import CASES
from undertow import frontend
from undertow.ir import Op, walk
from undertow.transform.differentiate import Backward, differentiate

READ = {
    "layer_norm_with_statistics-padded": ("mean_ptr", "rstd_ptr"),
    "norms_of_tiles-padded": ("rstd_ptr",),
    "attention_base_2-odd": ("o_ptr", "lse_ptr"),
    "attention-causal": ("o_ptr", "lse_ptr"),
    "cross_entropy_with_lse-padded": ("lse_ptr",),
    "rows_in_turn-padded": ("norm_ptr",),
}


def backward(name: str, dtype: torch.dtype = torch.float32) -> Backward:
    return Oracle(CASES[name](), dtype).derivation.backward


def primal_loops(found: Backward) -> int:
    """How many loops of the forward are run again before the reverse sweep."""
    count = 0
    for op in found.kernel.body.ops:
        if op.opcode == "section" and op.str_attr("title") == "reverse sweep":
            break
        count += sum(inner.is_loop for inner in walk_op(op))
    return count


def walk_op(op: Op) -> Iterator[Op]:
    yield op
    for region in op.regions:
        yield from walk(region)


@pytest.mark.parametrize("name", READ)
def test_a_stored_value_spares_its_loop(name: str) -> None:
    found = backward(name)
    assert found.read_back == READ[name]
    assert primal_loops(found) == 0


@pytest.mark.parametrize("name", READ)
def test_outputs_that_may_not_be_read_are_computed_again(name: str) -> None:
    forward = backward(name).forward
    found = differentiate(forward, readable=())
    assert found.read_back == ()


def test_rows_beyond_the_edge_that_reach_an_output() -> None:
    found = backward("norm_and_total-padded")
    assert found.read_back == ()
    assert primal_loops(found) == 1


@pytest.mark.parametrize("name", ["attention-causal", "cross_entropy_with_lse-padded"])
def test_a_logarithm_that_was_rounded(name: str) -> None:
    found = backward(name, torch.bfloat16)
    assert found.read_back == ()
    assert primal_loops(found) > 0


def test_an_output_in_half_precision_stands_for_the_sum() -> None:
    case = CASES["attention_base_2-odd"]()
    types = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*bf16")
    types |= {"lse_ptr": "*fp32", "scale": "fp32"}
    types |= dict.fromkeys(("T", "D", "GROUP"), "i32")
    kernel = frontend.capture(case.kernel, types, case.constexprs)
    found = differentiate(kernel)
    assert found.read_back == ("o_ptr", "lse_ptr")
    assert primal_loops(found) == 0


# -- kernels whose outputs are not what they seem --


@triton.jit
def flipped(x_ptr, y_ptr, norm_ptr, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Stores a row's norm in its own place, and uses it in the opposite one."""
    rows = tl.arange(0, ROWS)
    squares = tl.zeros((ROWS,), tl.float32)
    for col in range(COLS):
        x = tl.load(x_ptr + rows * COLS + col, mask=rows < n, other=1.0)
        squares += x * x
    tl.store(norm_ptr + rows, squares, mask=rows < n)
    tl.store(y_ptr + rows, tl.flip(squares, 0) * squares, mask=rows < n)


@triton.jit
def stored_twice(x_ptr, y_ptr, norm_ptr, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    """The second store leaves another number in some rows."""
    rows = tl.arange(0, ROWS)
    squares = tl.zeros((ROWS,), tl.float32)
    for col in range(COLS):
        x = tl.load(x_ptr + rows * COLS + col, mask=rows < n, other=1.0)
        squares += x * x
    tl.store(norm_ptr + rows, squares, mask=rows < n)
    tl.store(y_ptr + rows, squares * squares, mask=rows < n)
    tl.store(norm_ptr + rows, 2 * squares, mask=rows < n - 1)


@triton.jit
def shared(x_ptr, y_ptr, norm_ptr, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Both programs write the norms, each its own."""
    rows = tl.arange(0, ROWS)
    squares = tl.zeros((ROWS,), tl.float32)
    for col in range(COLS):
        x = tl.load(x_ptr + rows * COLS + col, mask=rows < n, other=1.0)
        squares += x * x
    squares *= 1.0 + tl.program_id(0)
    tl.store(norm_ptr + rows, squares, mask=rows < n)
    tl.store(y_ptr + tl.program_id(0) * n + rows, squares * squares, mask=rows < n)


@triton.jit
def unnormalised(
    x_ptr, y_ptr, sum_ptr, lse_ptr, z_ptr, n, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """Stores a sum of exponentials too, which goes with the true maximum alone."""
    rows = tl.arange(0, ROWS)
    top = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS,), tl.float32)
    for col in range(COLS):
        x = tl.load(x_ptr + rows * COLS + col, mask=rows < n, other=1.0)
        new = tl.maximum(top, x)
        scale = tl.exp(top - new)
        p = tl.exp(x - new)
        total = total * scale + p
        acc = acc * scale + p * x
        top = new
    y = acc / total
    tl.store(y_ptr + rows, y, mask=rows < n)
    tl.store(sum_ptr + rows, acc, mask=rows < n)
    tl.store(lse_ptr + rows, top + tl.log(total), mask=rows < n)
    tl.store(z_ptr + rows, y * y * y, mask=rows < n)


def test_a_sum_that_goes_with_another_maximum() -> None:
    names = ("x_ptr", "y_ptr", "sum_ptr", "lse_ptr", "z_ptr")
    signature = dict.fromkeys(names, "*fp32") | {"n": "i32"}
    for half, read in (("*fp32", ("y_ptr", "lse_ptr")), ("*bf16", ("lse_ptr",))):
        types = signature | {"y_ptr": half}
        kernel = frontend.capture(unnormalised, types, {"ROWS": 4, "COLS": 3})
        found = differentiate(kernel, outputs=["y_ptr", "lse_ptr", "z_ptr"])
        assert found.read_back == read
        args: dict[str, object] = {n: torch.zeros(3).double() for n in names}
        args |= {"x_ptr": torch.randn(3, 3).double(), "n": 3}
        check(kernel, args, (1,), outputs=["y_ptr", "lse_ptr", "z_ptr"])


@pytest.mark.parametrize(
    ("fn", "grid", "outputs"),
    [
        (flipped, (1,), None),
        (stored_twice, (1,), None),
        (shared, (2,), ["y_ptr"]),
    ],
)
def test_what_is_not_there_is_not_read(fn, grid, outputs) -> None:  # type: ignore[no-untyped-def]
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "norm_ptr": "*fp32", "n": "i32"}
    kernel = frontend.capture(fn, signature, {"ROWS": 4, "COLS": 3})
    assert differentiate(kernel, outputs=outputs).read_back == ()
    args: dict[str, object] = {
        "x_ptr": torch.randn(3, 3, dtype=torch.float64),
        "y_ptr": torch.zeros(grid[0] * 3, dtype=torch.float64),
        "norm_ptr": torch.zeros(3, dtype=torch.float64),
        "n": 3,
    }
    check(kernel, args, grid, outputs=outputs)
