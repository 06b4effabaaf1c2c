"""The rules of `custom` ops in the reverse sweep, and what they are refused for."""

from __future__ import annotations

import pytest
import torch

from derived import gradients
from transform.forwards import LANES
from undertow.errors import IRError, UnsupportedError
from undertow.ir import Kernel, parse, verify, walk
from undertow.transform.differentiate import differentiate
from undertow.transform.forward import push_forward


def forward(body: str, rule: str) -> Kernel:
    text = (
        "kernel k(%x_ptr: ptr<f32>, %w_ptr: ptr<f32>, %y_ptr: ptr<f32>, %n: i32) {"
        f"{LANES}{body}}}\nrule r {{{rule}}}\n"
    )
    return verify(parse(text))


SUM = """
  %x = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
  %w = load(%w_ptr) : f32
  %ws = broadcast(%w) : f32[8]
  %v = add(%x, %ws) : f32[8]
  %r = custom(%v, %v) <inputs=1, rule='r'> : f32[8]
  store(%y_ptr, %r, %mask, %offs) <mask=True>
"""
"""y = r(x + w), where lanes beyond n hold nothing, and the gradient of w is a sum."""

LINEAR = {
    "scaled": "%o = mul(%g, %a) : f32[8]",
    "divided": "%o = div(%g, %a) : f32[8]",
    "negated": "%h = mul(%g, %a) : f32[8]\n  %o = neg(%h) : f32[8]",
    "doubled": "%h = mul(%g, %a) : f32[8]\n  %o = add(%h, %h) : f32[8]",
    "squared": "%h = mul(%g, %a) : f32[8]\n  %o = mul(%h, %g) : f32[8]",
    "less": "%h = mul(%g, %a) : f32[8]\n  %o = sub(%h, %g) : f32[8]",
    "clipped": """%h = mul(%g, %a) : f32[8]
  %low = const() <value=-0.3> : f32[8]
  %high = const() <value=0.5> : f32[8]
  %o = clamp(%h, %low, %high) <nan=False> : f32[8]""",
    "positive": """%h = mul(%g, %a) : f32[8]
  %z = const() <value=0.0> : f32[8]
  %o = maxnum(%h, %z) : f32[8]""",
    "chosen": """%h = mul(%g, %a) : f32[8]
  %z = const() <value=0.0> : f32[8]
  %c = cmp(%a, %z) <predicate='ogt'> : i1[8]
  %o = select(%c, %h, %z) : f32[8]""",
    "chosen_other": """%h = mul(%g, %a) : f32[8]
  %z = const() <value=0.0> : f32[8]
  %c = cmp(%a, %z) <predicate='ogt'> : i1[8]
  %o = select(%c, %z, %h) : f32[8]""",
    "leaky": """%h = mul(%g, %a) : f32[8]
  %z = const() <value=0.0> : f32[8]
  %c = cmp(%a, %z) <predicate='ogt'> : i1[8]
  %o = select(%c, %h, %g) : f32[8]""",
    "moved": """%h = mul(%g, %a) : f32[8]
  %pairs = reshape(%h) : f32[4,2]
  %o = reshape(%pairs) : f32[8]""",
    "summed": """%h = mul(%g, %a) : f32[8]
  %sum = reduce(%h) <axis=0, kind='sum'> : f32
  %o = broadcast(%sum) : f32[8]""",
}
"""Rules of an input a and of a cotangent g, named o."""


def rule_in_torch(name: str, v: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    h = g * v
    zero = torch.zeros_like(h)
    return {
        "scaled": h,
        "divided": g / v,
        "negated": -h,
        "doubled": 2 * h,
        "squared": h * g,
        "less": h - g,
        "clipped": h.clamp(-0.3, 0.5),
        "positive": h.clamp(min=0),
        "chosen": torch.where(v > 0, h, zero),
        "chosen_other": torch.where(v > 0, zero, h),
        "leaky": torch.where(v > 0, h, g),
        "moved": h,
    }[name]


@pytest.mark.parametrize("name", [n for n in LINEAR if n != "summed"])
def test_undefined_lanes_stay_out_of_sums(name: str) -> None:
    """NaN stands in lanes beyond the mask, in x and so in what the rule is given."""
    kernel = forward(SUM, f"(%a: f32[8], %g: f32[8])\n  {LINEAR[name]}\n  yield(%o)\n")
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(13, generator=generator, dtype=torch.float64)
    w = torch.tensor([0.1], dtype=torch.float64)
    g = torch.randn(13, generator=generator, dtype=torch.float64)
    args = {"x_ptr": x, "w_ptr": w, "y_ptr": torch.zeros_like(x), "n": 13}
    found = gradients(kernel, args, (2,), {"y_ptr": g})
    expected = rule_in_torch(name, x + w, g)
    torch.testing.assert_close(found["x_ptr"], expected)
    torch.testing.assert_close(found["w_ptr"], expected.sum()[None])


def test_sums_in_a_rule_leave_undefined_lanes_out() -> None:
    kernel = forward(
        SUM, f"(%a: f32[8], %g: f32[8])\n  {LINEAR['summed']}\n  yield(%o)\n"
    )
    x, g = torch.rand(2, 5, dtype=torch.float64)
    args = {"x_ptr": x, "w_ptr": torch.zeros(1).double(), "n": 5}
    args["y_ptr"] = torch.zeros_like(x)
    found = gradients(kernel, args, (1,), {"y_ptr": g})
    torch.testing.assert_close(found["x_ptr"], (g * x).sum().expand(5))


TWO = """
  %x = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
  %r, %q = custom(%x, %x, %x) <inputs=1, rule='r'> : f32[8], f32[8]
  store(%y_ptr, %r, %mask, %offs) <mask=True>
"""
OF_TWO = """(%a: f32[8], %g: f32[8], %h: f32[8])
  %e = exp(%a) : f32[8]
  %unused = mul(%h, %e) : f32[8]
  %o = add(%g, %unused) : f32[8]
  yield(%o)
"""


def test_what_an_unused_output_would_give_is_not_computed() -> None:
    backward = differentiate(forward(TWO, OF_TWO), ["x_ptr"])
    opcodes = {op.opcode for op in walk(backward.kernel.body)}
    assert not opcodes & {"exp", "custom"}


def test_forward_mode_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        push_forward(forward(TWO, OF_TWO), ["x_ptr"])
    assert caught.value.fact == "no derivative rule for `r`"
    assert "the user gave its derivative for reverse mode only" in str(caught.value)


BITS = """
  %x = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
  %bits = bitcast(%x) : i32[8]
  %r = custom(%x, %bits, %x) <inputs=2, rule='r'> : f32[8]
  store(%y_ptr, %r, %mask, %offs) <mask=True>
"""


def test_bits_of_an_input_are_refused() -> None:
    rule = "(%a: f32[8], %i: i32[8], %g: f32[8])\n  yield(%g)\n"
    with pytest.raises(UnsupportedError, match=r"no derivative rule for `\.to"):
        differentiate(forward(BITS, rule))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("(%a: f32[8])\n  yield(%a)\n", "must take the inputs, and a cotangent"),
        ("(%a: f32[8], %g: f32[8])\n  yield(%g, %g)\n", "yields"),
        ("(%a: f32[8], %g: f32[8])\n  yield(%mask)\n", "is not defined before it"),
    ],
)
def test_an_invalid_rule(rule: str, words: str) -> None:
    with pytest.raises(IRError, match=words):
        forward(SUM, rule)
