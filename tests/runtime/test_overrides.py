"""Launches of kernels with rules of the user's, inline assembly among them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

import undertow
from undertow import UnsupportedError, derive
from undertow.frontend import Promises, overrides
from undertow.runtime import store
from undertow.runtime.derivation import capture

from .comparison import close, leaf
from .opaque import opaque

N = 50
XY = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}


def launch(kernel: Any, x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y


def test_assembly_and_unknown_functions_are_emitted(golden: Any) -> None:
    golden("assembly", derive(opaque, XY, {"BLOCK": 32}).source)


@pytest.mark.gpu
def test_assembly_with_a_rule() -> None:
    x = leaf(N, device="cuda")
    found = launch(opaque, x)
    w = torch.arange(1, N + 1, device="cuda")
    y = x.detach().tanh().requires_grad_()
    expected = y * torch.special.bessel_j0(y.detach()) * w
    close(found, expected.detach(), 1e-2)
    ct = torch.randn(N, device="cuda")
    (d_x,) = torch.autograd.grad(found, x, ct)
    t = y.detach()
    slope = torch.special.bessel_j0(t) - t * torch.special.bessel_j1(t)
    close(d_x, ct * w * slope * (1 - t * t), 2e-2)


def test_assembly_needs_a_gpu() -> None:
    with pytest.raises(UnsupportedError, match="cannot be run without a GPU") as caught:
        launch(opaque, leaf(N))
    assert caught.value.kernel == "opaque"
    assert caught.value.loc is not None


@triton.jit
def raw_assembly(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.inline_asm_elementwise("", "=f,0", [x], tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + offs, y, mask=offs < n)


@triton.jit
def raw_function(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = libdevice.tgamma(x)
    tl.store(y_ptr + offs, y, mask=offs < n)


@pytest.mark.parametrize(
    ("kernel", "name", "why"),
    [
        (raw_assembly, "tl.inline_asm_elementwise", "assembly says nothing about"),
        (raw_function, "libdevice.tgamma", "the function's derivative is not known"),
    ],
)
def test_what_has_no_rule_is_refused(kernel: Any, name: str, why: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        derive(kernel, XY, {"BLOCK": 32})
    text = str(caught.value)
    assert f"no derivative rule for `{name}`" in text
    assert "y = " in text
    assert f"it reaches output `y_ptr` through `y` (line {caught.value.loc.line})" in (
        text
    )
    assert why in text
    assert "`undertow.custom_vjp`" in text


@triton.jit
def stopped_assembly(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.inline_asm_elementwise("", "=f,0", [x], tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + offs, x * undertow.stop_gradient(y), mask=offs < n)


def test_a_stopped_value_needs_no_rule() -> None:
    source = derive(stopped_assembly, XY, {"BLOCK": 32}).source
    assert "y = _asm(x)" in source
    assert "d_x = d_y * y\n" in source


INTERPRETED = """
import torch, triton, triton.language as tl
import undertow

@undertow.custom_vjp
@triton.jit
def square(x):
    return x * x

@square.vjp
@triton.jit
def square_vjp(x, d_y):
    return 2.0 * x * d_y

@undertow.differentiable
@triton.jit
def squares(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = square(x) + undertow.stop_gradient(x)
    tl.store(y_ptr + offs, y, mask=offs < n)

x, y = torch.arange(3.0), torch.zeros(3)
squares[(1,)](x, y, 3, BLOCK=4)
print(y.tolist())
"""


def test_helpers_run_in_the_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERPRETED)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[0.0, 2.0, 6.0]\n"


@triton.jit
def promised(x_ptr, w_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    w = tl.load(w_ptr + offs, mask=offs < n)
    gate = tl.sigmoid(x)
    tl.store(y_ptr + offs, gate * x * _helper(w), mask=offs < n)


@pytest.mark.parametrize(
    "promises",
    [
        {},
        {"stop_gradient": ["gate"]},
        {"zero": ["w_ptr"]},
        {"zero": ["_helper"]},
        {"zero": ["tl.sigmoid", "_helper"]},
        {"stop_gradient": ["x", "w"]},
    ],
)
def test_promises(promises: dict[str, list[str]], device: str) -> None:
    x, w = leaf(N, device=device), leaf(N, device=device)
    names = {name for given in promises.values() for name in given}
    given_x = x.detach() if "x" in names else x
    fixed_w = names & {"w", "w_ptr", "_helper"}
    given_w = w.detach() if fixed_w else w
    gate = given_x.sigmoid()
    gate = gate.detach() if names & {"gate", "tl.sigmoid"} else gate
    expected = gate * given_x * given_w
    ct = torch.randn(N, device=device)
    y = torch.zeros_like(x)
    kernel = undertow.differentiable(promised, **promises)
    assert undertow.differentiable(kernel, **promises) is kernel
    kernel[(triton.cdiv(N, 32),)](x, w, y, N, BLOCK=32)
    close(y.detach(), expected.detach())
    wanted: tuple[Tensor | None, ...] = (None, None)
    if expected.requires_grad:
        wanted = torch.autograd.grad(expected, (x, w), ct, allow_unused=True)
    assert y.requires_grad == expected.requires_grad
    for tensor, want in zip((x, w), wanted, strict=True) if y.requires_grad else ():
        (got,) = torch.autograd.grad(y, tensor, ct, retain_graph=True)
        close(got, torch.zeros_like(tensor) if want is None else want)


# -- the caches --


@triton.jit
def twice(x, d_y):
    return d_y * 2.0


@triton.jit
def thrice(x, d_y):
    return d_y * 3.0


@triton.jit
def _helper(x):
    return x * 1.0


@triton.jit
def calls(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, _helper(x), mask=offs < n)


def test_promises_are_part_of_what_is_kept() -> None:
    keys = {
        store.key_of(promised, XY, {"BLOCK": 32}, given)
        for given in (
            Promises(),
            Promises(zero=("x",)),
            Promises(stop_gradient=("x",)),
            Promises(zero=("x", "y")),
        )
    }
    assert len(keys) == 4


def test_rules_are_part_of_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Between processes: one that knows another rule finds another entry."""
    monkeypatch.setenv("UNDERTOW_CACHE_DIR", str(tmp_path))
    keys: set[str | None] = set()
    for given in (None, twice, thrice):
        monkeypatch.setattr(overrides, "_KNOWN", [])
        if given is not None:
            monkeypatch.delattr(_helper, "undertow_override", raising=False)
            undertow.custom_vjp(_helper)
            _helper.vjp(given)
        keys.add(store.key_of(calls, XY, {"BLOCK": 32}))
        kernel = capture(calls, XY, {"BLOCK": 32})
        assert kernel.rules.keys() == ({given.__name__} if given else set())
    monkeypatch.delattr(_helper, "undertow_override")
    assert len(keys) == 3
    assert None not in keys
    assert len(list(tmp_path.glob("*.json"))) == 3
