"""Programs: numbering, chunks, branches taken by some of them, and determinism."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evaluate.kernels import kernel
from undertow.errors import LaunchError
from undertow.evaluate import compile_kernel, run

NUMBERS = """kernel numbers(%y_ptr: ptr<i32>) {
  %x = program_id() <axis=0> : i32
  %y = program_id() <axis=1> : i32
  %z = program_id() <axis=2> : i32
  %nx = num_programs() <axis=0> : i32
  %ny = num_programs() <axis=1> : i32
  %0 = mul(%z, %ny) : i32
  %1 = add(%0, %y) : i32
  %2 = mul(%1, %nx) : i32
  %at = add(%2, %x) : i32
  %h = const() <value=100> : i32
  %3 = mul(%z, %h) : i32
  %4 = add(%3, %y) : i32
  %5 = mul(%4, %h) : i32
  %code = add(%5, %x) : i32
  store(%y_ptr, %code, %at)
}"""

# y[p] = log(x[p]) where x[p] > 0, and otherwise n[p] += 1; then z[p] says which.
BRANCH = """kernel branch(
  %x_ptr: ptr<f32>, %y_ptr: ptr<f32>, %n_ptr: ptr<f32>, %z_ptr: ptr<f32>
) {
  %p = program_id() <axis=0> : i32
  %x = load(%x_ptr, %p) : f32
  %zero = const() <value=0.0> : f32
  %one = const() <value=1.0> : f32
  %c = cmp(%x, %zero) <predicate="ogt"> : i1
  %r, %s = if(%c) : f32, f32 {
    %l = log(%x) : f32
    store(%y_ptr, %l, %p) @"branch.py":9:8
    yield(%l, %one)
  } {
    %m = load(%n_ptr, %p) : f32 @"branch.py":11:8
    %v = add(%m, %one) : f32
    store(%n_ptr, %v, %p)
    atomic_add(%n_ptr, %one, %p)
    yield(%v, %zero)
  }
  store(%z_ptr, %s, %p)
}"""


@pytest.mark.parametrize("grid", [(5,), (3, 4), (3, 2, 4), (1, 3, 2), (2, 1, 3)])
@pytest.mark.parametrize("lanes", [1, 3, 1 << 20])
def test_programs_are_numbered_with_x_fastest(
    grid: tuple[int, ...], lanes: int
) -> None:
    nx, ny, nz = (*grid, 1, 1)[:3]
    y = torch.full((nx * ny * nz,), -1, dtype=torch.int32)
    run(kernel(NUMBERS), {"y_ptr": y}, grid, lanes=lanes)
    expected = [
        10000 * z + 100 * y + x for z in range(nz) for y in range(ny) for x in range(nx)
    ]
    assert y.tolist() == expected


def branch(x: torch.Tensor, lanes: int = 1 << 20) -> tuple[torch.Tensor, ...]:
    args = {"x_ptr": x}
    for name in ("y_ptr", "n_ptr", "z_ptr"):
        args[name] = torch.full_like(x, 5.0)
    run(kernel(BRANCH), args, (len(x),), lanes=lanes)
    return args["y_ptr"], args["n_ptr"], args["z_ptr"]


@pytest.mark.parametrize("lanes", [1, 2, 1 << 20])
@pytest.mark.parametrize("sign", [(1, -1, 1, -1), (1, 1, 1, 1), (-1, -1, -1, -1)])
def test_branches_write_for_their_own_programs(
    sign: tuple[int, ...], lanes: int
) -> None:
    x = torch.tensor(sign) * torch.tensor([1.0, 2.0, 3.0, 4.0])
    y, n, z = branch(x, lanes)
    taken = x > 0
    assert torch.equal(y, torch.where(taken, x.abs().log(), 5.0))
    assert torch.equal(n, torch.where(taken, 5.0, 7.0))
    assert torch.equal(z, taken.float())


def test_programs_outside_a_branch_touch_no_memory() -> None:
    x = torch.tensor([1.0, -1.0, 2.0])
    args = {"x_ptr": x, "y_ptr": torch.zeros(3), "n_ptr": torch.zeros(2)}
    args["z_ptr"] = torch.zeros(3)
    run(kernel(BRANCH), args, (3,))
    with pytest.raises(LaunchError, match="reads `n_ptr` out of bounds: offset 2"):
        run(kernel(BRANCH), {**args, "x_ptr": -x.abs()}, (3,))


NESTED = """kernel nested(%y_ptr: ptr<i32>, %n: i32) {
  %p = program_id() <axis=0> : i32
  %one = const() <value=1> : i32
  %two = const() <value=2> : i32
  %three = const() <value=3> : i32
  %inside = cmp(%p, %n) <predicate="slt"> : i1
  %r = if(%inside) : i32 {
    %odd = srem(%p, %two) : i32
    %is = cmp(%odd, %one) <predicate="eq"> : i1
    %q = if(%is) : i32 {
      store(%y_ptr, %p, %p)
      yield(%one)
    } {
      %lanes = range() <start=0, end=4> : i32[4]
      %sum = reduce(%lanes) <axis=0, kind="sum"> : i32
      yield(%sum)
    }
    %third = mul(%n, %three) : i32
    %last = add(%third, %p) : i32
    store(%y_ptr, %q, %last)
    yield(%q)
  } {
    yield(%three)
  }
  %at = add(%p, %n) : i32
  store(%y_ptr, %r, %at)
}"""


def test_nested_branches() -> None:
    y = torch.full((24,), -1, dtype=torch.int32)
    run(kernel(NESTED), {"y_ptr": y, "n": 6}, (8,))
    assert y[:6].tolist() == [-1, 1, -1, 3, -1, 5]
    assert y[6:14].tolist() == [6, 1, 6, 1, 6, 1, 3, 3]
    assert y[14:].tolist() == [-1] * 4 + [6, 1, 6, 1, 6, 1]


def test_a_uniform_branch() -> None:
    text = """kernel k(%y_ptr: ptr<i32>, %n: i32) {
      %p = program_id() <axis=0> : i32
      %zero = const() <value=0> : i32
      %c = cmp(%n, %zero) <predicate="sgt"> : i1
      assume(%c)
      section() <title="primal sweep">
      if(%c) {
        store(%y_ptr, %n, %p)
        yield()
      } {
        store(%y_ptr, %p, %zero)
        yield()
      }
    }"""
    y = torch.zeros(4, dtype=torch.int32)
    run(kernel(text), {"y_ptr": y, "n": 9}, (4,))
    assert y.tolist() == [9] * 4
    run(kernel(text), {"y_ptr": y, "n": -9}, (1,))
    assert y.tolist() == [0, 9, 9, 9]


@given(
    x=st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=12),
    lanes=st.integers(1, 12),
)
def test_chunks_change_nothing(x: list[float], lanes: int) -> None:
    whole, cut = branch(torch.tensor(x)), branch(torch.tensor(x), lanes)
    for a, b in zip(whole, cut, strict=True):
        assert torch.equal(a, b)


def test_runs_repeat_bit_for_bit() -> None:
    torch.manual_seed(2)
    x = torch.randn(500)
    first, second = branch(x), branch(x)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.view(torch.int32), b.view(torch.int32))


def test_a_kernel_is_compiled_once() -> None:
    k = kernel(NUMBERS)
    assert compile_kernel(k) is compile_kernel(k)
    assert compile_kernel(k) is not compile_kernel(k, torch.float64)


@pytest.mark.gpu
def test_cuda_tensors_give_what_cpu_tensors_give() -> None:
    torch.manual_seed(4)
    x = torch.randn(300)
    for here, there in zip(branch(x), branch(x.cuda(), lanes=64), strict=True):
        torch.testing.assert_close(there.cpu(), here)
    args = {"x_ptr": x.cuda(), "y_ptr": x.cuda(), "n_ptr": x.cuda(), "z_ptr": x.cuda()}
    report = run(kernel(BRANCH), args, (300,), sanitize=True)
    assert not report.out_of_bounds
    assert report.unwritten["y_ptr"] == int((x <= 0).sum())
