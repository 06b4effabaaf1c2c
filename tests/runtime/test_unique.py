"""`unique=`: indices that hold no integer twice, as the user promises."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from undertow import Derivation, UnsupportedError, derive, differentiable
from undertow.analysis.exclusive import Exclusive
from undertow.runtime import recording, touches

from .comparison import close, leaf

DIM, ROWS = 5, 12


@triton.jit
def rows(x_ptr, index_ptr, y_ptr, stride, dim, BLOCK: tl.constexpr):
    token, cols = tl.program_id(0), tl.arange(0, BLOCK)
    index = tl.load(index_ptr + token).to(tl.int64)
    x = tl.load(x_ptr + index * stride + cols, mask=cols < dim)
    tl.store(y_ptr + token * dim + cols, tl.exp(x), mask=cols < dim)


@triton.jit
def tiles(x_ptr, index_ptr, y_ptr, tokens, dim, T: tl.constexpr, BLOCK: tl.constexpr):
    token, cols = tl.program_id(0) * T + tl.arange(0, T), tl.arange(0, BLOCK)
    index = tl.load(index_ptr + token, mask=token < tokens, other=0)
    mask = (token < tokens)[:, None] & (cols < dim)[None, :]
    x = tl.load(x_ptr + index[:, None] * dim + cols[None, :], mask=mask)
    tl.store(y_ptr + token[:, None] * dim + cols[None, :], tl.exp(x), mask=mask)


@triton.jit
def unmasked(x_ptr, index_ptr, y_ptr, tokens, T: tl.constexpr):
    """Lanes without an index read the first element, all of them."""
    token = tl.arange(0, T)
    index = tl.load(index_ptr + token, mask=token < tokens, other=0)
    tl.store(y_ptr + token, tl.exp(tl.load(x_ptr + index)))


@triton.jit
def turns(x_ptr, index_ptr, y_ptr, tokens, dim, BLOCK: tl.constexpr):
    batch, cols = tl.program_id(0), tl.arange(0, BLOCK)
    for token in range(tokens):
        index = tl.load(index_ptr + batch * tokens + token)
        x = tl.load(x_ptr + index * dim + cols, mask=cols < dim)
        at = y_ptr + (batch * tokens + token) * dim + cols
        tl.store(at, tl.exp(x), mask=cols < dim)


@triton.jit
def split(x_ptr, index_ptr, y_ptr, dim, parts, BLOCK: tl.constexpr):
    """Each row is the work of several programs along one axis."""
    program = tl.program_id(0)
    cols = program % parts * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + program // parts)
    x = tl.load(x_ptr + index * dim + cols, mask=cols < dim)
    at = y_ptr + program // parts * dim + cols
    tl.store(at, tl.exp(x), mask=cols < dim)


@triton.jit
def columns(x_ptr, index_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    """An index is no column of its row: nothing says how large it is."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    index = tl.load(index_ptr + cols)
    x = tl.load(x_ptr + row * stride + index)
    tl.store(y_ptr + row * BLOCK + cols, tl.exp(x))


@triton.jit
def cut(x_ptr, index_ptr, y_ptr, BLOCK: tl.constexpr):
    """Numbers that differ may be one when they are cut to 16 bits."""
    cols = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + cols).to(tl.int16).to(tl.int32)
    tl.store(y_ptr + cols, tl.exp(tl.load(x_ptr + index)))


@triton.jit
def pairs(x_ptr, index_ptr, other_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.load(index_ptr + cols) * stride + tl.load(other_ptr + cols)
    tl.store(y_ptr + cols, tl.exp(tl.load(x_ptr + at)))


@triton.jit
def scatter(x_ptr, index_ptr, y_ptr, dim, BLOCK: tl.constexpr):
    token, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + token * dim + cols, mask=cols < dim)
    index = tl.load(index_ptr + token)
    tl.store(y_ptr + index * dim + cols, tl.exp(x), mask=cols < dim)


def derived(kernel: Any, *promises: str) -> Derivation:
    names = [p.name for p in kernel.params if not p.is_constexpr]
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "index_ptr": "*i64"}
    types |= {"other_ptr": "*i64"}
    fixed = {p.name: 8 for p in kernel.params if p.is_constexpr}
    signature = {n: types.get(n, "i32") for n in names}
    return derive(kernel, signature, fixed, unique=promises or ("index_ptr",))


def why(kernel: Any) -> list[str] | str:
    """The conditions of a plain store, or the reason why there is none."""
    (gradient,) = derived(kernel).backward.gradients
    finding = gradient.placement.finding
    if isinstance(finding, Exclusive):
        return [str(condition) for condition in finding.conditions]
    return finding.reason


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (rows, ["stride >= dim"]),
        (tiles, []),
        (turns, []),
        (split, ["parts >= 1"]),
        (unmasked, "`index` is in the address also where it was not loaded"),
        (columns, "the address was not proved to differ between lanes and programs"),
        (cut, "the address depends on `tl.load(…)`, a value of each program"),
        (pairs, "the address depends on `tl.load(…)`, a value of each program"),
    ],
)
def test_where_a_promise_suffices(kernel: Any, reason: list[str] | str) -> None:
    assert why(kernel) == reason


def test_two_indices_prove_nothing_together() -> None:
    backward = derived(pairs, "index_ptr", "other_ptr").backward
    assert not backward.gradients[0].placement.plain
    assert backward.promised == ()


def test_the_kernel_says_what_it_relies_on() -> None:
    source = derived(rows).source
    assert "tl.atomic_add" not in source
    docstring = " ".join(source.split('"""')[1].split())
    assert docstring.endswith(
        "d_x: plain store, each element is written once (if stride >= dim, tested at "
        "launch; as index_ptr holds no value twice, as promised)."
    )
    assert derived(rows).backward.promised == ("index_ptr",)
    assert "tl.atomic_add" in derive(
        rows,
        {
            "x_ptr": "*fp32", "index_ptr": "*i64", "y_ptr": "*fp32", "stride": "i32",
            "dim": "i32",
        },
        {"BLOCK": 8},
    ).source  # fmt: skip


def distinct(device: str = "cpu", count: int = 6) -> Tensor:
    return torch.randperm(ROWS)[:count].to(device)


@pytest.mark.parametrize("kernel", [rows, tiles, turns, split])
def test_gradients_of_gathers(kernel: Any, device: str) -> None:
    x, index = leaf(ROWS, DIM, device=device), distinct(device)
    y = torch.empty(6, DIM, device=device)
    launch, ct = differentiable(kernel, unique=["index_ptr"]), torch.randn_like(y)
    if kernel is rows:
        launch[(6,)](x, index, y, DIM, DIM, BLOCK=8)
    elif kernel is tiles:
        launch[(2,)](x, index, y, 6, DIM, T=4, BLOCK=8)
    elif kernel is turns:
        launch[(2,)](x, index, y, 3, DIM, BLOCK=8)
    else:
        launch[(12,)](x, index, y, DIM, 2, BLOCK=4)
    y.backward(ct)
    given = x.detach()[index].exp() * ct
    close(x.grad, torch.zeros_like(x).index_add_(0, index, given))


def test_rows_that_overlap_are_added_atomically(device: str) -> None:
    """A window of five elements begins at each second one, so windows meet."""
    x, index = leaf(2 * ROWS + DIM, device=device), distinct(device)
    y = torch.empty(6, DIM, device=device)
    differentiable(rows, unique=["index_ptr"])[(6,)](x, index, y, 2, DIM, BLOCK=8)
    y.sum().backward()
    windows = 2 * index[:, None] + torch.arange(DIM, device=device)
    want = torch.zeros_like(x).index_add_(
        0, windows.flatten(), x.detach()[windows].exp().flatten()
    )
    close(x.grad, want)


def test_a_scatter_is_not_followed(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def follow(*_: object) -> Tensor:
        raise AssertionError("followed")

    monkeypatch.setattr(recording, "touched", follow)
    assert touches.touched is not follow
    x, index = leaf(6, DIM, device=device), distinct(device)
    y = torch.zeros(ROWS, DIM, device=device)
    launch = differentiable(unique=("index_ptr",))(scatter)
    for _ in range(2):
        launch[(6,)](x, index, y, DIM, BLOCK=8)
    y.sum().backward()
    close(x.grad, x.detach().exp())


def test_an_index_that_is_passed_twice_is_unique_still() -> None:
    @differentiable(unique=("index_ptr",))
    @triton.jit
    def both(x_ptr, other_ptr, index_ptr, y_ptr, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + tl.load(index_ptr + at))
        tl.store(y_ptr + at, x * tl.load(other_ptr + at))

    x, y, index = leaf(8), torch.empty(8), torch.randperm(8)
    both[(1,)](x, index, index, y, BLOCK=8)
    y.sum().backward()
    close(x.grad, torch.zeros(8).index_add_(0, index, index.float()))


def test_promises_add_up() -> None:
    once = differentiable(rows, unique=("index_ptr",))
    assert differentiable(once) is once
    assert differentiable(once, unique=("index_ptr",)) is once
    assert differentiable(rows).promises.unique == ()
    assert derived(once.fn).backward.promised == ("index_ptr",)
    signature = {"x_ptr": "*fp32", "index_ptr": "*i32", "y_ptr": "*fp32"}
    signature |= {"stride": "i32", "dim": "i32"}
    assert derive(once, signature, {"BLOCK": 8}).backward.promised == ("index_ptr",)


@pytest.mark.parametrize("name", ["x_ptr", "dim", "indices_ptr"])
def test_what_is_no_index_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        derived(rows, name)
    assert str(error.value) == (
        f"`{name}` of `unique` is no pointer to integers that are only loaded\n"
        "  --> kernel `rows`\n"
        "hint: these are: `index_ptr`"
    )
    launch = differentiable(rows, unique=(name,))
    with pytest.raises(UnsupportedError, match="is no pointer to integers"):
        launch[(1,)](leaf(4), torch.arange(1), torch.empty(4), 4, 4, BLOCK=8)
