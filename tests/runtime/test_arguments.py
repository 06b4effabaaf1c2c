"""Binding and typing arguments as Triton does."""

from __future__ import annotations

import enum
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from undertow import LaunchError
from undertow.runtime.arguments import POINTERS, Binder, grid_extents, picker


@triton.jit
def kernel(x_ptr, n, wide: tl.int64, rate=0.5, BLOCK: tl.constexpr = 8, MODE=None):
    pass


X = torch.zeros(3)
BINDER = Binder(kernel)


class Level(enum.IntEnum):
    HIGH = 7


def key(*args: Any, **kwargs: Any) -> object:
    return BINDER.bind(args, kwargs)[1]


def test_arguments_are_put_in_order():
    values, _ = BINDER.bind((X, 3), {"BLOCK": 16, "wide": 4, "num_warps": 2})
    assert values == (X, 3, 4, 0.5, 16, None)
    values, _ = BINDER.bind((), {"wide": 4, "n": 3, "x_ptr": X, "MODE": 1})
    assert values == (X, 3, 4, 0.5, 8, 1)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X, 1), {}, "`kernel` lacks its argument `wide`"),
        ((X,) * 7, {}, "`kernel` takes 6 arguments, got 7"),
        ((X, 1, 2), {"n": 1}, "`kernel` got two values for `n`"),
    ],
)
def test_arguments_that_do_not_fit(args: Any, kwargs: Any, message: str):
    with pytest.raises(LaunchError, match=message):
        BINDER.bind(args, kwargs)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n": 1}, {"n": 2**31}),
        ({"n": 2**31}, {"n": 2**63}),
        ({"n": -(2**31)}, {"n": -(2**31) - 1}),
        ({"n": 1}, {"n": True}),
        ({"n": 1}, {"n": 1.0}),
        ({"n": 1}, {"n": None}),
        ({"x_ptr": X}, {"x_ptr": X.half()}),
        ({"BLOCK": 1}, {"BLOCK": True}),
        ({"BLOCK": 0.0}, {"BLOCK": -0.0}),
        ({"BLOCK": tl.float32}, {"BLOCK": tl.float16}),
        ({"MODE": tl.float32}, {"MODE": tl.float16}),
        ({"MODE": "a"}, {"MODE": "b"}),
    ],
)
def test_keys_that_differ(one: dict[str, Any], other: dict[str, Any]):
    common = {"x_ptr": X, "n": 1, "wide": 1}
    assert key(**{**common, **one}) != key(**{**common, **other})


def test_keys_that_are_equal():
    assert key(X, 1, 2, 0.25) == key(torch.ones(9, 9), 7, 3, 0.5)
    assert key(X, Level.HIGH, 2) == key(X, 7, 2)


def test_types():
    values, _ = BINDER.bind((X, 2**31, 1, 0.5), {"MODE": True})
    assert BINDER.types(values) == (
        {"x_ptr": "*fp32", "n": "i64", "wide": "i64", "rate": "fp32", "MODE": "i1"},
        {"BLOCK": 8},
    )
    values, _ = BINDER.bind((X, 2**63, 1, 0.5), {"MODE": tl.float32})
    types, constexprs = BINDER.types(values)
    assert types["n"] == "u64"
    assert constexprs["MODE"] is tl.float32
    for dtype, name in POINTERS.items():
        values, _ = BINDER.bind((torch.zeros(1).to(dtype), 1, 1), {})
        assert BINDER.types(values)[0]["x_ptr"] == name


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((1, 2), "takes no tuple at run time, `n` is one"),
        (object(), "cannot take `n` of type `object`"),
        (torch.zeros(1, dtype=torch.complex64), "cannot take `n` of dtype"),
    ],
)
def test_values_that_no_parameter_can_be(value: object, message: str):
    values, _ = BINDER.bind((X, value, 1), {})
    with pytest.raises(LaunchError, match=message):
        BINDER.types(values)


def test_grids():
    names, values = ("n", "BLOCK"), (10, 4)
    assert grid_extents((3,), names, values) == (3, 1, 1)
    assert grid_extents([3, 2], names, values) == (3, 2, 1)
    assert grid_extents((torch.tensor(3), 2, 1), names, values) == (3, 2, 1)

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(meta["n"], meta["BLOCK"]),)

    assert grid_extents(grid, names, values) == (3, 1, 1)


@pytest.mark.parametrize("grid", [5, (), (1, 2, 3, 4), (-1,), (1.0,), ("a",)])
def test_grids_that_are_none(grid: Any):
    with pytest.raises(LaunchError, match="a tuple of one to three integers"):
        grid_extents(grid, (), ())


@pytest.mark.parametrize("indices", [(), (1,), (2, 0)])
def test_pickers_give_tuples(indices: tuple[int, ...]):
    assert picker(indices)("abc") == tuple("abc"[i] for i in indices)
