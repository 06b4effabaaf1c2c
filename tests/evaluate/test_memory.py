"""Accesses: masks, layouts, bounds, atomics, and the arguments of a launch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from evaluate.kernels import TORCH, kernel
from undertow.errors import LaunchError, UnsupportedError
from undertow.evaluate import run
from undertow.ir import Kernel

COPY = """kernel copy(%x_ptr: ptr<{t}>, %y_ptr: ptr<{t}>, %n: i32) {{
  %pid = program_id() <axis=0> : i32
  %size = const() <value=8> : i32
  %start = mul(%pid, %size) : i32
  %lane = range() <start=0, end=8> : i32[8]
  %base = broadcast(%start) : i32[8]
  %offs = add(%base, %lane) : i32[8]
  %limit = broadcast(%n) : i32[8]
  %mask = cmp(%offs, %limit) <predicate="slt"> : i1[8]
  %x = load(%x_ptr, %mask{other}, %offs) <mask=True{has_other}> : {t}[8] @"rows.py":7:4
  store(%y_ptr, %x{store_mask}, %offs) {attrs} @"rows.py":8:4
}}"""

ADD = """kernel add(%x_ptr: ptr<f32>, %i_ptr: ptr<i64>, %y_ptr: ptr<{t}>) {{
  %pid = program_id() <axis=0> : i32
  %size = const() <value=8> : i32
  %start = mul(%pid, %size) : i32
  %lane = range() <start=0, end=8> : i32[8]
  %base = broadcast(%start) : i32[8]
  %offs = add(%base, %lane) : i32[8]
  %x = load(%x_ptr, %offs) : f32[8]
  %i = load(%i_ptr, %offs) : i64[8]
  %v = cast(%x) <signed=True> : {t}[8]
  atomic_add(%y_ptr, %v, %i) @"add.py":5:4
}}"""


def copy_kernel(
    dtype: str = "f32", *, other: bool = False, masked: bool = True
) -> Kernel:
    text = COPY.format(
        t=dtype,
        other=", %fill" if other else "",
        has_other=", other=True" if other else "",
        store_mask=", %mask" if masked else "",
        attrs="<mask=True>" if masked else "",
    )
    if other:
        fill = "-1.5" if dtype[0] != "i" else "-7"
        text = text.replace(
            "  %x = load", f"  %fill = const() <value={fill}> : {dtype}[8]\n  %x = load"
        )
    return kernel(text)


def copy(x: Tensor, n: int, *, other: bool = False, poison: bool = False) -> Tensor:
    """A copy of `n` elements; lanes past `n` are written as they were loaded."""
    y = torch.full((16,), 99).to(x.dtype)
    name = {v: k for k, v in TORCH.items()}[x.dtype]
    k = copy_kernel(name, other=other, masked=False)
    run(k, {"x_ptr": x, "y_ptr": y, "n": n}, (2,), poison=poison)
    return y


DTYPES = list(TORCH)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_loads_and_stores(dtype: str) -> None:
    x = torch.arange(16).sub(8).to(TORCH[dtype])
    y = torch.zeros_like(x)
    run(copy_kernel(dtype), {"x_ptr": x, "y_ptr": y, "n": 13}, (2,))
    assert torch.equal(y[:13].view(torch.uint8), x[:13].view(torch.uint8))
    assert not y[13:].view(torch.uint8).any()


def test_lanes_off_give_other_zero_or_poison() -> None:
    x = torch.arange(13.0)
    assert copy(x, 13)[13:].tolist() == [0.0] * 3
    assert copy(x, 13, other=True)[13:].tolist() == [-1.5] * 3
    assert copy(x, 13, poison=True)[13:].isnan().all()
    assert copy(x, 13, other=True, poison=True)[13:].tolist() == [-1.5] * 3
    integers = copy(x.int(), 13, poison=True)[13:]
    assert integers.abs().min() > 1 << 20
    assert (integers % 2 == 1).all()
    assert copy(x.int(), 13, other=True)[13:].tolist() == [-7] * 3


def test_nothing_is_read_where_all_lanes_are_off() -> None:
    assert copy(torch.empty(0), 0).tolist() == [0.0] * 16
    y = torch.empty(0)
    run(copy_kernel(), {"x_ptr": y, "y_ptr": y, "n": 0}, (2,))


def test_an_empty_grid_does_nothing() -> None:
    y = torch.zeros(4)
    run(copy_kernel(), {"x_ptr": y, "y_ptr": y, "n": 4}, (0,))


def test_scalars_have_masks_too() -> None:
    text = """kernel k(%x_ptr: ptr<f32>, %y_ptr: ptr<f32>, %n: i32) {
      %p = program_id() <axis=0> : i32
      %in = cmp(%p, %n) <predicate="slt"> : i1
      %fill = const() <value=7.0> : f32
      %x = load(%x_ptr, %in, %fill, %p) <mask=True, other=True> : f32
      %out = cmp(%p, %n) <predicate="sge"> : i1
      store(%y_ptr, %x, %out, %p) <mask=True>
      store(%y_ptr, %x, %in, %p) <mask=True>
    }"""
    y = torch.zeros(5)
    run(kernel(text), {"x_ptr": torch.ones(3), "y_ptr": y, "n": 3}, (5,))
    assert y.tolist() == [1.0, 1.0, 1.0, 7.0, 7.0]


# -- layouts ---------------------------------------------------------------------------


def test_a_pointer_is_the_first_element_and_knows_no_strides() -> None:
    base = torch.arange(40.0)
    x = base[3:].view(37)[::2]  # reaches elements 3 to 39
    out = torch.zeros(64)
    run(copy_kernel(), {"x_ptr": x, "y_ptr": out[40:], "n": 13}, (2,))
    assert out[40:53].tolist() == list(range(3, 16))
    assert not out[:40].any()


def test_elements_past_the_reach_of_a_slice_are_out_of_bounds() -> None:
    x = torch.arange(40.0)[:13]
    y = torch.zeros(16)
    run(copy_kernel(), {"x_ptr": x, "y_ptr": y, "n": 13}, (2,))
    with pytest.raises(LaunchError, match="offset 13 of 13 elements"):
        run(copy_kernel(), {"x_ptr": x, "y_ptr": y, "n": 14}, (2,))


def test_a_tensor_that_needs_a_gradient_is_written_and_its_version_counts() -> None:
    x, y = torch.arange(8.0, requires_grad=True), torch.zeros(8)
    version = y._version
    run(copy_kernel(), {"x_ptr": x, "y_ptr": y, "n": 8}, (1,))
    assert y._version > version
    assert not y.requires_grad


# -- bounds ----------------------------------------------------------------------------


def test_reading_out_of_bounds_names_the_line() -> None:
    y = torch.zeros(16)
    with pytest.raises(LaunchError) as caught:
        run(copy_kernel(), {"x_ptr": torch.ones(11), "y_ptr": y, "n": 16}, (2, 1))
    assert str(caught.value) == (
        "`copy` reads `x_ptr` out of bounds: offset 11 of 11 elements\n"
        "  --> rows.py:7, in kernel `copy`\n"
        "  = program (1, 0, 0), lane 3\n"
        "hint: mask the access, or pass a tensor that reaches this far"
    )


def test_writing_out_of_bounds_writes_nothing() -> None:
    y = torch.zeros(16)
    with pytest.raises(LaunchError, match="writes `y_ptr` out of bounds: offset 12"):
        run(copy_kernel(), {"x_ptr": torch.ones(16), "y_ptr": y[:12], "n": 16}, (2,))
    assert not y.any()


def test_negative_offsets_are_out_of_bounds() -> None:
    index = torch.tensor([0, 1, 2, 3, 4, 5, 6, -1])
    with pytest.raises(
        LaunchError, match="adds to `y_ptr` out of bounds: offset -1 of 8"
    ):
        run(
            kernel(ADD.format(t="f32")),
            {"x_ptr": torch.ones(8), "i_ptr": index, "y_ptr": torch.zeros(8)},
            (1,),
        )


# -- atomics ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16", "i32"])
def test_atomics_add_every_contribution(dtype: str) -> None:
    torch.manual_seed(1)
    index = torch.randint(0, 5, (64,))
    x = torch.randint(0, 8, (64,)).float()
    y = torch.ones(6).to(TORCH[dtype])
    args = {"x_ptr": x, "i_ptr": index, "y_ptr": y}
    run(kernel(ADD.format(t=dtype)), args, (8,))
    expected = torch.ones(6, dtype=torch.float64).index_add_(0, index, x.double())
    assert torch.equal(y.double(), expected)


def test_half_buffers_round_once() -> None:
    x, index = torch.full((64,), 0.01), torch.zeros(64, dtype=torch.int64)
    y = torch.tensor([16.0], dtype=torch.bfloat16)
    run(kernel(ADD.format(t="bf16")), {"x_ptr": x, "i_ptr": index, "y_ptr": y}, (8,))
    assert y.item() == pytest.approx(16.64, abs=0.07)


def test_a_value_equal_for_all_programs_is_added_by_each() -> None:
    text = """kernel k(%y_ptr: ptr<f32>) {
      %one = const() <value=1.0> : f32[4]
      %at = const() <value=1> : i32
      atomic_add(%y_ptr, %one, %at)
    }"""
    y = torch.zeros(3)
    run(kernel(text), {"y_ptr": y}, (5, 2))
    assert y.tolist() == [0.0, 40.0, 0.0]


# -- the oracle ------------------------------------------------------------------------


def test_the_oracle_takes_float64_tensors_for_half_pointers() -> None:
    x = torch.rand(16, dtype=torch.float64)
    y = torch.zeros(16, dtype=torch.float64)
    args = {"x_ptr": x, "y_ptr": y, "n": 16}
    run(copy_kernel("bf16"), args, (2,), float_dtype=torch.float64)
    assert torch.equal(x, y)
    with pytest.raises(
        LaunchError, match="`x_ptr` is a pointer to bf16, got a tensor of"
    ):
        run(copy_kernel("bf16"), args, (2,))


def test_the_oracle_refuses_bitcasts_of_floats() -> None:
    text = """kernel k(%x_ptr: ptr<f32>, %y_ptr: ptr<i32>) {
      %x = load(%x_ptr) : f32
      %y = bitcast(%x) : i32 @"bits.py":3:4
      store(%y_ptr, %y)
    }"""
    args = {"x_ptr": torch.ones(1), "y_ptr": torch.zeros(1, dtype=torch.int32)}
    with pytest.raises(UnsupportedError, match="a bitcast from f32 to i32") as caught:
        run(kernel(text), args, (1,), float_dtype=torch.float64)
    assert "bits.py:3" in str(caught.value)
    run(kernel(text), args, (1,))
    assert args["y_ptr"].item() == 0x3F800000


# -- arguments -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": None}, "arguments are missing: `n`"),
        ({"m": 3}, "unknown arguments: `m`"),
        ({"n": 1.5}, "`n` is i32, got float"),
        ({"n": 1 << 40}, "`n` is i32, 1099511627776 does not fit"),
        ({"x_ptr": 0}, "`x_ptr` is a pointer, got int"),
        (
            {"x_ptr": torch.ones(16).int()},
            "`x_ptr` is a pointer to f32, got a tensor of",
        ),
    ],
)
def test_arguments_that_do_not_fit(change: dict[str, object], message: str) -> None:
    args = {"x_ptr": torch.ones(16), "y_ptr": torch.zeros(16), "n": 16, **change}
    args = {name: arg for name, arg in args.items() if arg is not None}
    with pytest.raises(LaunchError, match=message):
        run(copy_kernel(), args, (2,))  # type: ignore[arg-type]


def test_grids_that_are_none() -> None:
    args = {"x_ptr": torch.ones(16), "y_ptr": torch.zeros(16), "n": 16}
    for grid in ((), (1, 2, 3, 4), (-1,)):
        with pytest.raises(LaunchError, match="one to three extents"):
            run(copy_kernel(), args, grid)


def test_unsigned_and_bool_tensors_are_read_as_their_bits() -> None:
    x = torch.arange(250, 266).to(torch.uint8)
    y = torch.zeros(16, dtype=torch.uint8)
    run(copy_kernel("i8"), {"x_ptr": x, "y_ptr": y, "n": 16}, (2,))
    assert torch.equal(x, y)
    flags, out = torch.arange(16) % 3 == 0, torch.zeros(16, dtype=torch.bool)
    run(copy_kernel("i8"), {"x_ptr": flags, "y_ptr": out, "n": 16}, (2,))
    assert torch.equal(flags, out)


def test_offsets_add_in_64_bits() -> None:
    text = """kernel k(%x_ptr: ptr<f32>, %a: i32, %b: i64) {
      %x = load(%x_ptr, %a, %a, %b) : f32
      store(%x_ptr, %x)
    }"""
    x = torch.tensor([math.nan, 3.0])
    run(kernel(text), {"x_ptr": x, "a": 2**31 - 1, "b": 3 - 2**32}, (1,))
    assert x[0] == 3.0
