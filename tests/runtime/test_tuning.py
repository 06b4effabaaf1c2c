"""Autotuned kernels and heuristics: constexprs of the backward are the forward's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from undertow import LaunchError, differentiable, evaluate
from undertow.runtime import differentiable as launching
from undertow.runtime.arguments import Binder
from undertow.runtime.derivation import capture
from undertow.runtime.differentiable import Differentiable

from .comparison import close, leaf

N = 100


@triton.jit
def square(x_ptr, y_ptr, n, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    """Each program works on ROUNDS blocks."""
    start = tl.program_id(0) * BLOCK * ROUNDS
    for i in tl.static_range(ROUNDS):
        offs = start + i * BLOCK + tl.arange(0, BLOCK)
        mask = offs < n
        x = tl.load(x_ptr + offs, mask=mask)
        tl.store(y_ptr + offs, x * x, mask=mask)


def grid(meta: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(meta["n"], meta["BLOCK"] * meta["ROUNDS"]),)


CONFIGS = [
    triton.Config({"BLOCK": 64}, num_warps=8),
    triton.Config({"BLOCK": 16}, num_warps=2),
    triton.Config({"BLOCK": 32}, num_warps=4),
]
ROUNDS = triton.heuristics({"ROUNDS": lambda args: 1 if args["BLOCK"] == 64 else 2})


def tuned(order: str, fastest: int = 16, **options: Any) -> Differentiable:
    """A kernel whose tuner finds the block `fastest` to be the fastest."""
    times = {c.kwargs["BLOCK"]: float(c.kwargs["BLOCK"] != fastest) for c in CONFIGS}

    def do_bench(call: Callable[[], None], quantiles: object) -> list[float]:
        seen.clear()
        call()
        return [times[seen[-1]["BLOCK"]]] * 3

    autotune = triton.autotune(CONFIGS, key=["n"], do_bench=do_bench, **options)
    if order == "autotune(heuristics)":
        return differentiable(autotune(ROUNDS(square)))
    alone = triton.heuristics({"ROUNDS": lambda args: 1 + (args["n"] > 50)})
    return differentiable(alone(autotune(square)))


seen: list[dict[str, Any]] = []
"""What Triton was asked to launch."""


@pytest.fixture
def on_triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Launches CPU tensors by way of Triton, which the evaluator stands in for."""

    def run(jit: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        binder = Binder(jit)
        values, _ = binder.bind(args, kwargs)
        named = dict(zip(binder.names, values, strict=True))
        seen.append({**named, **kwargs})
        forward = capture(jit, *binder.types(values))
        extents = grid(named) if callable(grid) else grid
        evaluate.run(forward, {p.name: named[p.name] for p in forward.params}, extents)

    monkeypatch.setattr(type(square), "run", run)
    monkeypatch.setattr(launching, "_on_gpu", lambda values, tensors: True)
    yield
    seen.clear()


def gradient(kernel: Differentiable, how: Any = grid, **kwargs: Any) -> Tensor:
    x, ct = leaf(N), torch.randn(N)
    y = torch.zeros(N)
    kernel[how](x, y, N, **kwargs)
    close(y.detach(), x.detach() ** 2)
    y.backward(ct)
    close(x.grad, 2 * ct * x.detach())
    return y


ORDERS = ["autotune(heuristics)", "heuristics(autotune)"]


@pytest.mark.parametrize("order", ORDERS)
def test_on_cpu_tensors(order: str):
    gradient(tuned(order))


@pytest.mark.usefixtures("on_triton")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fastest", [64, 16, 32])
def test_the_backward_follows_the_tuner(order: str, fastest: int):
    """The first launch tunes; its choice is only known afterwards."""
    kernel = tuned(order, fastest)
    for _ in range(2):
        y = gradient(kernel)
        assert seen[-1]["BLOCK"] == fastest
        assert y.grad_fn is not None
        recording, _, options = y.grad_fn.launch
        assert recording.specialisation.forward.constexprs["BLOCK"] == fastest
        rounds = recording.specialisation.forward.constexprs["ROUNDS"]
        assert recording.grid == (-(-N // (fastest * rounds)), 1, 1)
        assert options["num_warps"] == fastest // 8


@pytest.mark.usefixtures("on_triton")
def test_two_keys_of_a_tuner():
    kernel = tuned(ORDERS[0])
    gradient(kernel)
    x, y = leaf(10), torch.zeros(10)
    kernel[grid](x, y, 10)
    gradient(kernel)
    y.sum().backward()
    close(x.grad, 2 * x.detach())


def test_a_configuration_that_is_pruned_is_not_used():
    """Only a block of 64 covers everything on this grid."""
    prune = {"early_config_prune": lambda configs, named, **_: configs[:1]}
    gradient(tuned(ORDERS[0], prune_configs_by=prune), how=(2,))


def test_heuristics_see_options_and_override():
    given: list[dict[str, Any]] = []

    def block(args: dict[str, Any]) -> int:
        given.append(dict(args))
        return 32

    both = triton.heuristics(
        {"BLOCK": block, "ROUNDS": lambda args: args["BLOCK"] // 32}
    )
    gradient(differentiable(both(square)), BLOCK=4, num_warps=1)
    assert given[0]["BLOCK"] == 4
    assert given[0]["num_warps"] == 1
    assert given[0]["n"] == N


def test_what_the_tuner_chooses_is_passed_too():
    with pytest.raises(LaunchError, match="`BLOCK` is chosen by autotune"):
        gradient(tuned(ORDERS[0]), BLOCK=16)


@pytest.mark.gpu
@pytest.mark.parametrize("order", ORDERS)
def test_on_the_device(order: str):
    autotune = triton.autotune(CONFIGS, key=["n"])
    alone = triton.heuristics({"ROUNDS": lambda args: 1 + (args["n"] > 50)})
    jit = autotune(ROUNDS(square)) if order == ORDERS[0] else alone(autotune(square))
    kernel = differentiable(jit)
    for n in (120, 33, 120):
        x, y = leaf(n, device="cuda"), torch.zeros(n, device="cuda")
        ct = torch.randn(n, device="cuda")
        kernel[grid](x, y, n)
        y.backward(ct)
        close(x.grad, 2 * ct * x.detach())


# -- kernels that change what an output holds --


@triton.jit
def add_square(x_ptr, y_ptr, n, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    """Adds to one number."""
    for i in tl.static_range(ROUNDS):
        offs = (tl.program_id(0) * ROUNDS + i) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
        tl.atomic_add(y_ptr, tl.sum(x * x))


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    """In place."""
    offs = tl.program_id(0) * BLOCK * ROUNDS + tl.arange(0, BLOCK * ROUNDS)
    mask = offs < n
    tl.store(x_ptr + offs, 2 * tl.load(x_ptr + offs, mask=mask), mask=mask)


@triton.jit
def split(x_ptr, y_ptr, n, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    """Stores, unless another program adds its part."""
    offs = tl.program_id(0) * BLOCK // ROUNDS + tl.arange(0, BLOCK // ROUNDS)
    x = 3 * tl.load(x_ptr + offs, mask=offs < n)
    if ROUNDS == 1:
        tl.store(y_ptr + offs, x, mask=offs < n)
    else:
        tl.atomic_add(y_ptr + offs, x, mask=offs < n)


def two_ways(jit: Any, **options: Any) -> Differentiable:
    """A kernel whose tuner runs both of its configurations and prefers the second."""
    configs = [
        triton.Config({"BLOCK": 64, "ROUNDS": 1}),
        triton.Config({"BLOCK": 16, "ROUNDS": 2}),
    ]

    def do_bench(call: Callable[[], None], quantiles: object) -> list[float]:
        call()
        return [float(seen[-1]["ROUNDS"] == 1)] * 3

    tuner = triton.autotune(configs, key=["n"], do_bench=do_bench, **options)
    return differentiable(tuner(jit))


REPEATED = r"autotune would run `{}` several times on `{}`, which each run changes"


@pytest.mark.usefixtures("on_triton")
@pytest.mark.parametrize(
    "options",
    [{"restore_value": ["y_ptr"]}, {"reset_to_zero": ["y_ptr"]}],
    ids=["restored", "reset"],
)
def test_sums_begin_anew_in_each_tuning_run(options: dict[str, list[str]]):
    kernel = two_ways(add_square, **options)
    for _ in range(2):
        x, y = leaf(N), torch.zeros(1)
        kernel[grid](x, y, N)
        close(y.detach(), x.detach().square().sum()[None])
        y.backward(torch.tensor([3.0]))
        close(x.grad, 6 * x.detach())


@pytest.mark.usefixtures("on_triton")
def test_sums_that_go_on_from_tuning_runs_are_refused():
    x, y = leaf(N), torch.zeros(1)
    with pytest.raises(LaunchError, match=REPEATED.format("add_square", "y_ptr")) as e:
        two_ways(add_square)[grid](x, y, N)
    assert e.value.hint == 'pass restore_value=["y_ptr"] to triton.autotune'
    assert "tl.atomic_add(y_ptr, tl.sum(x * x))" in str(e.value)
    assert not y.any()
    h = leaf(1)
    y = h * 5
    with pytest.raises(LaunchError, match=REPEATED.format("add_square", "y_ptr")):
        two_ways(add_square, reset_to_zero=["y_ptr"])[grid](x, y, N)
    two_ways(add_square, restore_value=["y_ptr"])[grid](x, y, N)
    y.backward()
    close(h.grad, torch.tensor([5.0]))


@pytest.mark.usefixtures("on_triton")
def test_changes_in_place_are_refused_or_made_once():
    x, ct = leaf(N), torch.randn(N)
    y = x * 1
    with pytest.raises(LaunchError, match=REPEATED.format("double", "x_ptr")):
        two_ways(double)[grid](y, N)
    two_ways(double, restore_value=["x_ptr"])[grid](y, N)
    close(y.detach(), 2 * x.detach())
    y.backward(ct)
    close(x.grad, 2 * ct)


@pytest.mark.usefixtures("on_triton")
def test_a_configuration_that_adds_is_refused_when_it_is_chosen():
    with pytest.raises(LaunchError, match=REPEATED.format("split", "y_ptr")):
        two_ways(split)[(100,)](leaf(N), torch.zeros(N), N)


@pytest.mark.usefixtures("on_triton")
def test_hooks_and_single_configurations_are_trusted():
    def clear(named: dict[str, Any], reset_only: bool = False) -> None:
        named["y_ptr"].zero_()

    one = triton.autotune([triton.Config({"BLOCK": 16, "ROUNDS": 2})], key=["n"])
    hooked = two_ways(add_square, pre_hook=clear)
    for kernel in (hooked, differentiable(one(add_square))):
        x, y = leaf(N), torch.zeros(1)
        kernel[grid](x, y, N)
        close(y.detach(), x.detach().square().sum()[None])
        y.backward()
        close(x.grad, 2 * x.detach())
