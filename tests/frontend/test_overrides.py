"""Helpers with rules of the user's: what is captured, and what is refused, where."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import triton
import triton.language as tl

import undertow
from kernels import overrides
from undertow import CaptureError, UndertowError, UnsupportedError
from undertow.frontend import capture
from undertow.ir import Custom, Kernel, parse, print_kernel, verify, walk

XY = {"x_ptr": "*fp32", "y_ptr": "*fp32"}


def custom_ops(kernel: Kernel) -> list[Any]:
    return [op for op in walk(kernel.body) if op.opcode == "custom"]


def captured(fn: Any, **types: str) -> Kernel:
    return capture(fn, {**XY, **types}, {})


def line_of(fn: Any, text: str = "def ") -> int:
    lines, start = inspect.getsourcelines(fn.fn)
    return next(start + i for i, line in enumerate(lines) if text in line)


def test_a_call_is_an_op_whose_rule_is_a_block() -> None:
    types = {"s_ptr": "*fp32", "z_ptr": "*fp32"}
    types |= dict.fromkeys(("stride", "n_cols", "power"), "i32")
    kernel = capture(overrides.mixed, {**XY, **types}, {"BLOCK": 32})
    first, second = custom_ops(kernel)
    shapes = [v.shape for v in Custom.of(first).inputs]
    assert shapes == [(32,), (), (), ()]
    assert [v.shape for v in Custom.of(second).inputs] == [(32,)]
    assert set(kernel.rules) == {"affine_vjp", "affine_vjp_2"}
    assert [r.name for r in first.results] == ["", ""]
    rule = kernel.rules["affine_vjp"]
    assert [v.shape for v in rule.args] == [(32,), (), (), (), (32,), (32,)]
    assert [v.shape for v in rule.ops[-1].operands] == [(32,), (), ()]


def test_rules_are_printed_and_read_again() -> None:
    kernel = capture(
        overrides.softplus_rows,
        {**XY, "w_ptr": "*fp32", "stride": "i32", "n_cols": "i32"},
        {"BLOCK": 32},
    )
    text = print_kernel(kernel)
    assert "rule softplus_vjp {" in text
    again = verify(parse(text))
    assert print_kernel(again) == text
    assert again.rules.keys() == kernel.rules.keys()


@undertow.custom_vjp
@triton.jit
def cube(x):
    return x * x * x


@cube.vjp
@triton.jit
def cube_vjp(x, d_y):
    if tl.sum(x, 0) > 0:
        return 3 * x * x * d_y
    y = cube(x)
    return 3 * y / x * d_y


@triton.jit
def cubes(x_ptr, y_ptr):
    offs = tl.arange(0, 8)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, cube(cube(x)))


def test_a_rule_may_branch_return_early_and_call_its_helper() -> None:
    kernel = captured(cubes)
    assert len(custom_ops(kernel)) == 2
    (rule,) = kernel.rules.values()
    opcodes = [op.opcode for op in walk(rule)]
    assert "if" in opcodes
    assert "custom" not in opcodes


def test_the_marks_stand_at_the_users_lines() -> None:
    kernel = captured(cubes)
    first, _ = custom_ops(kernel)
    assert first.loc.line == line_of(cubes, "cube(cube")
    (rule,) = kernel.rules.values()
    lines = {op.loc.line for op in rule.ops[:-1] if op.loc.known}
    assert lines <= set(range(line_of(cube_vjp), line_of(cube_vjp) + 5))


def test_the_helper_is_the_function_it_was() -> None:
    @triton.jit
    def helper(x):
        return x

    key = helper.cache_key
    assert undertow.custom_vjp(helper) is helper
    assert helper.cache_key == key
    assert not helper.noinline


# -- what is refused --


def declared(helper: Any, rule: Any = None) -> Any:
    undertow.custom_vjp(helper)
    if rule is not None:
        helper.vjp(rule)
    return helper


@triton.jit
def one(x):
    return x * 2.0


@triton.jit
def one_literal(x, s):
    return x * s


@triton.jit
def one_pointer(x_ptr, offs):
    return tl.load(x_ptr + offs)


@triton.jit
def one_integer(x):
    return x.to(tl.int32)


@triton.jit
def nothing(x):
    tl.static_print("")


@triton.jit
def takes_too_little(x):
    return x


@triton.jit
def takes_too_much(x, d_y, d_z):
    return d_y


@triton.jit
def returns_too_much(x, d_y):
    return d_y, d_y


@triton.jit
def returns_a_sum(x, d_y):
    return tl.sum(d_y, 0)


@triton.jit
def returns_integers(x, d_y):
    return d_y.to(tl.int32)


@triton.jit
def returns_a_literal(x, d_y):
    return 0.0


@triton.jit
def of_literal(x, s, d_y):
    return d_y * s


no_rule = declared(one)
pointer = declared(one_pointer, returns_a_sum)
integer = declared(one_integer, takes_too_much)
none = declared(nothing, takes_too_little)
literal = declared(one_literal, of_literal)


def copied(fn: Any) -> Any:
    return triton.jit(fn.fn)


WRONG_RULES: dict[str, tuple[Any, str]] = {
    fn.__name__: (declared(copied(one), fn), f"the rule `{fn.__name__}` {message}")
    for fn, message in (
        (takes_too_little, "takes 1 arguments, and not 2"),
        (takes_too_much, "takes 3 arguments, and not 2"),
        (returns_too_much, "returns 2 values, and not 1"),
        (
            returns_a_sum,
            "returns fp32 for `x`, which is fp32 of shape (8)",
        ),
        (
            returns_integers,
            "returns int32 of shape (8) for `x`, which is fp32 of shape (8)",
        ),
        (returns_a_literal, "returns 0.0 for `x`, which is fp32 of shape (8)"),
    )
}


@triton.jit
def calls(x_ptr, y_ptr, HELPER: tl.constexpr):
    offs = tl.arange(0, 8)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, HELPER(x))


def refused(helper: Any, kernel: Any = calls) -> UndertowError:
    with pytest.raises(UndertowError) as caught:
        capture(kernel, XY, {"HELPER": helper})
    assert caught.value.kernel == kernel.__name__
    return caught.value


@pytest.mark.parametrize("name", WRONG_RULES)
def test_a_wrong_rule_is_refused_at_its_line(name: str) -> None:
    helper, message = WRONG_RULES[name]
    error = refused(helper)
    assert isinstance(error, CaptureError)
    found = error.fact.replace("`0.0`", "0.0")
    if triton.__version__ < "3.7":  # it makes tensors of literals
        message = message.replace("returns 0.0", "returns fp32")
    assert found == message
    assert error.loc is not None
    assert error.loc.line == line_of(globals()[name])
    assert f"def {name}(" in str(error)


def test_a_helper_without_its_rule() -> None:
    error = refused(no_rule)
    assert error.fact == "`one` has no rule for its derivative"
    assert error.hint == "decorate its derivative with `@one.vjp`"
    assert "def one(x):" in str(error)


@pytest.mark.parametrize(
    ("helper", "fact"),
    [
        (integer, "`one_integer` has a rule, and returns something that is no float"),
        (none, "`nothing` has a rule, and returns something that is no float"),
    ],
)
def test_helpers_return_floats(helper: Any, fact: str) -> None:
    error = refused(helper)
    assert isinstance(error, UnsupportedError)
    assert error.fact == fact


@triton.jit
def loads(x_ptr, y_ptr, HELPER: tl.constexpr):
    offs = tl.arange(0, 8)
    tl.store(y_ptr + offs, HELPER(x_ptr, offs))


def test_helpers_take_no_pointers() -> None:
    error = refused(pointer, loads)
    assert error.fact == (
        "`one_pointer` has a rule, and takes more than numbers for `x_ptr`"
    )
    assert error.hint == "load before the call, and pass what was loaded"


@triton.jit
def passes_a_number(x_ptr, y_ptr, HELPER: tl.constexpr):
    offs = tl.arange(0, 8)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, HELPER(x, 2.0))


def test_a_literal_is_an_argument_too() -> None:
    error = refused(literal, passes_a_number)
    assert error.fact == "the rule `of_literal` returns 1 values, and not 2"
    assert error.why == ("the arguments of `one_literal` that are floats: `x`, `s`",)
    assert "`tl.zeros_like(x)` where there is none" in error.hint


def test_a_helper_has_one_rule() -> None:
    with pytest.raises(CaptureError, match="has a rule already, `cube_vjp`"):
        cube.vjp(cube_vjp)
    with pytest.raises(CaptureError, match="is declared with `custom_vjp` already"):
        undertow.custom_vjp(cube)


def test_what_is_declared_is_a_jit_function() -> None:
    def plain(x: Any) -> Any:
        return x

    with pytest.raises(CaptureError, match="expected a function decorated with") as e:
        undertow.custom_vjp(plain)
    assert e.value.hint == "`@undertow.custom_vjp` stands above `@triton.jit`"
    helper = copied(one)
    undertow.custom_vjp(helper)
    with pytest.raises(CaptureError) as e:
        helper.vjp(plain)
    assert e.value.hint == "`@one.vjp` stands above `@triton.jit`"


@triton.jit
def reduces(x_ptr, y_ptr):
    offs = tl.arange(0, 8)
    tl.store(y_ptr, tl.reduce(tl.load(x_ptr + offs), 0, _product))


@undertow.custom_vjp
@triton.jit
def _product(x, y):
    return x * y


@_product.vjp
@triton.jit
def _product_vjp(x, y, d_z):
    return d_z * y, d_z * x


def test_a_rule_in_a_reduction_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"`tl\.reduce` with a function that"):
        captured(reduces)
