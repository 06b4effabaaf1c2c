"""Central differences against autograd, and the table of tolerances."""

from __future__ import annotations

import torch

from evaluate.kernels import kernel
from undertow.evaluate import TOLERANCES, directional_difference, finite_differences
from undertow.ir import DTYPES

# y[p] = sum_j exp(x[p, j] * w[j]), rows of x a stride apart
ROWS = """kernel rows(
  %x_ptr: ptr<bf16>, %w_ptr: ptr<f32>, %y_ptr: ptr<f32>, %stride: i32
) {
  %p = program_id() <axis=0> : i32
  %row = mul(%p, %stride) : i32
  %lane = range() <start=0, end=4> : i32[4]
  %h = load(%x_ptr, %row, %lane) : bf16[4]
  %x = cast(%h) <signed=True> : f32[4]
  %w = load(%w_ptr, %lane) : f32[4]
  %v = mul(%x, %w) : f32[4]
  %e = exp(%v) : f32[4]
  %s = reduce(%e) <axis=0, kind="sum"> : f32
  store(%y_ptr, %s, %p)
}"""


def setting() -> tuple[dict[str, object], torch.Tensor]:
    torch.manual_seed(3)
    x = torch.randn(3, 6).to(torch.bfloat16)[:, :4]
    args = {"x_ptr": x, "w_ptr": torch.randn(4), "y_ptr": torch.zeros(3), "stride": 6}
    return args, torch.randn(3)


def expected() -> tuple[torch.Tensor, torch.Tensor]:
    args, ct = setting()
    x = args["x_ptr"].double().requires_grad_()  # type: ignore[attr-defined]
    w = args["w_ptr"].double().requires_grad_()  # type: ignore[attr-defined]
    ((x * w).exp().sum(1) * ct.double()).sum().backward()
    return x.grad, w.grad


def test_element_by_element() -> None:
    args, ct = setting()
    before = args["x_ptr"].clone()  # type: ignore[attr-defined]
    got = finite_differences(
        kernel(ROWS), args, (3,), ["x_ptr", "w_ptr"], {"y_ptr": ct}
    )
    tolerance = TOLERANCES["difference"]
    for value, reference in zip(got.values(), expected(), strict=True):
        torch.testing.assert_close(
            value, reference, rtol=tolerance.rtol, atol=tolerance.atol
        )
    assert torch.equal(args["x_ptr"], before)
    assert not args["y_ptr"].any()  # type: ignore[attr-defined]


def test_along_a_direction() -> None:
    args, ct = setting()
    d_x, d_w = expected()
    directions = {"x_ptr": torch.randn(3, 4), "w_ptr": torch.randn(4)}
    got = directional_difference(kernel(ROWS), args, (3,), directions, {"y_ptr": ct})
    along = (d_x * directions["x_ptr"]).sum() + (d_w * directions["w_ptr"]).sum()
    assert abs(got - float(along)) < 1e-7 * (1 + abs(float(along)))


def test_arguments_that_share_memory_stay_together() -> None:
    text = """kernel k(%a_ptr: ptr<f32>, %b_ptr: ptr<f32>) {
      %a = load(%a_ptr) : f32
      %sq = mul(%a, %a) : f32
      store(%b_ptr, %sq)
    }"""
    memory = torch.tensor([3.0, 0.0])
    args = {"a_ptr": memory, "b_ptr": memory[1:]}
    ct = torch.tensor([0.0, 1.0])
    got = finite_differences(kernel(text), args, (1,), ["a_ptr"], {"a_ptr": ct})
    torch.testing.assert_close(got["a_ptr"][0].item(), 6.0, rtol=1e-8, atol=0.0)


def test_every_float_has_a_tolerance_and_a_reason() -> None:
    floats = {name for name, dtype in DTYPES.items() if dtype.is_float}
    assert floats == set(TOLERANCES) - {"difference"}
    assert all(t.reason and 0 < t.atol <= t.rtol for t in TOLERANCES.values())


# y[0] = x[0], y[1] = -inf, y[2] = 1e12
CONSTANTS = """kernel constants(%x_ptr: ptr<f64>, %y_ptr: ptr<f64>) {
  %x = load(%x_ptr) : f64
  store(%y_ptr, %x)
  %one = const() <value=1> : i32
  %low = const() <value=-inf> : f64
  store(%y_ptr, %low, %one)
  %two = const() <value=2> : i32
  %high = const() <value=1000000000000.0> : f64
  store(%y_ptr, %high, %two)
}"""


def test_outputs_that_do_not_move_do_not_count() -> None:
    x, y = torch.randn(1).double(), torch.zeros(3).double()
    ct = torch.tensor([2.0, 3.0, 5.0])
    args = {"x_ptr": x, "y_ptr": y}
    got = finite_differences(kernel(CONSTANTS), args, (1,), ["x_ptr"], {"y_ptr": ct})
    torch.testing.assert_close(
        got["x_ptr"], torch.tensor([2.0]).double(), rtol=1e-9, atol=0
    )
