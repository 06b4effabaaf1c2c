"""What has no derivative because the user says so from outside of the kernel."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice

from undertow import CaptureError, UndertowError, UnsupportedError, derive
from undertow.frontend import Promises, capture
from undertow.ir import Kernel, walk

from .test_overrides import line_of

XWY = {"x_ptr": "*fp32", "w_ptr": "*fp32", "y_ptr": "*fp32"}


@triton.jit
def _gate(x, DOUBLE: tl.constexpr):
    return tl.sigmoid(x) * 2.0 if DOUBLE else tl.sigmoid(x)


@triton.jit
def _pair(x):
    return x * 2.0, x.to(tl.int32)


@triton.jit
def _writes(p, x):
    tl.store(p, x)


@triton.jit
def kernel(x_ptr, w_ptr, y_ptr, SPECIAL: tl.constexpr = False):
    offs = tl.arange(0, 8)
    x = tl.load(x_ptr + offs)
    w = tl.load(w_ptr + offs)
    scale, alias = x * w, x
    total = scale
    if tl.sum(w, 0) > 0:
        total += alias
    for k in range(2):
        total = total * x + k
    twice, whole = _pair(x)
    factor: tl.constexpr = 8
    if SPECIAL:
        total = libdevice.tgamma(total)
    none = tl.zeros([factor], tl.float32)
    tl.store(y_ptr + offs, total * _gate(x, True) + twice * whole * none)


def stops(kernel: Kernel) -> list[Any]:
    return [op for op in walk(kernel.body) if op.opcode == "stop"]


def captured(**promises: tuple[str, ...]) -> Kernel:
    return capture(kernel, XWY, {}, Promises.of(**promises))


def refused(**promises: tuple[str, ...]) -> UndertowError:
    with pytest.raises(UndertowError) as caught:
        captured(**promises)
    assert caught.value.kernel == "kernel"
    return caught.value


def test_a_variable_is_stopped_wherever_it_is_assigned() -> None:
    found = stops(captured(stop_gradient=("total",)))
    lines = [line_of(kernel, text) for text in ("total = scale", "total += alias")]
    lines.append(line_of(kernel, "total = total * x"))
    assert [op.loc.line for op in found] == lines
    assert stops(captured()) == []


def test_another_name_for_a_value_is_stopped_by_itself() -> None:
    """Of the alias nothing is left in the TTIR, and x goes its own way."""
    kernel = captured(stop_gradient=("alias",))
    (stop,) = stops(kernel)
    (x,) = stop.operands
    assert x.name == "x"
    assert sum(x in op.operands for op in walk(kernel.body)) > 2


def test_numbers_of_the_compiler_may_be_named() -> None:
    assert stops(captured(stop_gradient=("factor",))) == []


def test_integers_are_stopped_too() -> None:
    (stop,) = stops(captured(stop_gradient=("whole",)))
    assert not stop.result.is_float


@pytest.mark.parametrize(
    ("name", "count"),
    [("_gate", 1), ("_pair", 2), ("tl.sigmoid", 1), ("w_ptr", 1), ("tl.sum", 1)],
)
def test_what_has_derivative_zero(name: str, count: int) -> None:
    assert len(stops(captured(zero=(name,)))) == count


def test_what_another_constexpr_would_use_may_be_named() -> None:
    assert stops(captured(zero=("libdevice.tgamma",))) == []
    special = {"SPECIAL": True}
    found = capture(kernel, XWY, special, Promises(zero=("libdevice.tgamma",)))
    (stop,) = stops(found)
    assert stop.operands[0].op.opcode == "extern"
    derive(kernel, XWY, special, zero=["libdevice.tgamma"])
    with pytest.raises(UnsupportedError, match=r"no derivative rule for `libdevice\.t"):
        derive(kernel, XWY, special)


@triton.jit
def assembly(x_ptr, w_ptr, y_ptr):
    offs = tl.arange(0, 8)
    x = tl.load(x_ptr + offs)
    y = tl.inline_asm_elementwise("", "=f,0", [x], tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + offs, y * tl.load(w_ptr + offs))


def test_assembly_with_derivative_zero() -> None:
    source = derive(assembly, XWY, {}, zero=["tl.inline_asm_elementwise"]).source
    assert "Zero, as no output depends on it: x_ptr." in source


def test_names_that_stand_for_nothing() -> None:
    error = refused(zero=("tl.histogram",))
    assert error.fact == "`tl.histogram` in `zero` is nothing that `kernel` uses"
    assert "def kernel(" in str(error)
    error = refused(stop_gradient=("sum",))
    assert isinstance(error, CaptureError)
    assert error.fact == "nothing is assigned to `sum` in `kernel`"


def test_outputs_have_no_derivative_zero() -> None:
    error = refused(zero=("y_ptr",))
    assert error.fact == "`y_ptr` is stored to, and cannot have derivative zero"
    assert error.loc is not None
    assert error.loc.line == line_of(kernel, "tl.store(y_ptr")


@triton.jit
def storing(x_ptr, w_ptr, y_ptr):
    _writes(y_ptr, tl.load(x_ptr))


def test_a_helper_that_returns_nothing() -> None:
    with pytest.raises(UnsupportedError) as caught:
        capture(storing, XWY, {}, Promises(zero=("_writes",)))
    assert caught.value.fact == (
        "`_writes` returns nothing that could have derivative zero"
    )
