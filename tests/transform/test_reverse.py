"""The reverse sweep on kernels that are hard on it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from derived import check, gradients
from transform.forwards import LANES, ROW, TILE, forward
from undertow.errors import UnsupportedError
from undertow.ir import Kernel, walk
from undertow.transform.differentiate import differentiate


def launch(n: int = 13, s: int = 8, m: int = 0, **tensors: Tensor) -> dict[str, object]:
    args: dict[str, object] = {f"{k}_ptr": v.double() for k, v in tensors.items()}
    return {"i_ptr": torch.zeros(1, dtype=torch.int32), "m": m, "n": n, "s": s} | args


def uniform(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5


# -- lanes without a value --

MASKED_SUM = (
    ROW
    + """
  %x = load(%x_ptr, %mask, %row, %lane) <mask=True> : f32[8]
  %e = exp(%x) : f32[8]
  %safe = select(%mask, %e, %zero) : f32[8]
  %sum = reduce(%safe) <axis=0, kind='sum'> : f32
  %wide = broadcast(%sum) : f32[8]
  %y = div(%e, %wide) : f32[8]
  store(%y_ptr, %y, %mask, %row, %lane) <mask=True>
"""
)


def test_undefined_lanes_reach_no_sum() -> None:
    x, y = uniform(3, 5), torch.zeros(3, 5)
    found = check(forward(MASKED_SUM), launch(5, 5, x=x, y=y), (3,))
    assert found["x_ptr"].isfinite().all()


DEAD_ROWS = (
    TILE
    + """
  %x = load(%x_ptr, %rmask2, %offs) <mask=True> : f32[4,8]
  %sum = reduce(%x) <axis=1, kind='sum'> : f32[4]
  %g = load(%g_ptr) : f32
  %g4 = broadcast(%g) : f32[4]
  %scaled = mul(%sum, %g4) : f32[4]
  %root = sqrt(%scaled) : f32[4]
  %root1 = expand_dims(%root) <axis=1> : f32[4,1]
  %root2 = broadcast(%root1) : f32[4,8]
  %y = div(%x, %root2) : f32[4,8]
  store(%y_ptr, %y, %rmask2, %offs) <mask=True>
"""
)


def test_rows_that_do_not_exist_reach_no_shared_gradient() -> None:
    """Their cotangent is 0 after the sum over columns, their values are undefined."""
    args = launch(8, 8, 6, x=uniform(6, 8), g=uniform(1), y=torch.zeros(6, 8))
    found = check(forward(DEAD_ROWS, "x g y"), args, (2,))
    assert found["g_ptr"].isfinite().all()


EMPTY_ROWS = (
    ROW
    + """
  %x = load(%x_ptr, %mask, %row, %lane) <mask=True> : f32[8]
  %safe = select(%mask, %x, %zero) : f32[8]
  %sum = reduce(%safe) <axis=0, kind='sum'> : f32
  %length = cast(%n) <signed=True> : f32
  %mean = div(%sum, %length) : f32
  %g = load(%g_ptr) : f32
  %shift = mul(%mean, %g) : f32
  %wide = broadcast(%shift) : f32[8]
  %y = sub(%x, %wide) : f32[8]
  store(%y_ptr, %y, %mask, %row, %lane) <mask=True>
"""
)


def test_an_empty_row_has_gradient_zero_although_its_mean_is_undefined() -> None:
    args = launch(0, 8, x=uniform(2, 8), g=uniform(1), y=torch.zeros(2, 8))
    found = gradients(
        forward(EMPTY_ROWS, "x g y"), args, (2,), {"y_ptr": uniform(2, 8)}
    )
    assert found["g_ptr"].tolist() == [0.0]
    args = launch(5, 8, x=uniform(2, 8), g=uniform(1), y=torch.zeros(2, 8))
    check(forward(EMPTY_ROWS, "x g y"), args, (2,))


TEMPERATURE = (
    ROW
    + """
  %low = const() <value=-inf> : f32[8]
  %x = load(%x_ptr, %mask, %low, %row, %lane) <mask=True, other=True> : f32[8]
  %g = load(%g_ptr) : f32
  %wide = broadcast(%g) : f32[8]
  %z = mul(%x, %wide) : f32[8]
  %top = reduce(%z) <axis=0, kind='max'> : f32
  %top8 = broadcast(%top) : f32[8]
  %shifted = sub(%z, %top8) : f32[8]
  %e = exp(%shifted) : f32[8]
  %sum = reduce(%e) <axis=0, kind='sum'> : f32
  %sum8 = broadcast(%sum) : f32[8]
  %y = div(%e, %sum8) : f32[8]
  store(%y_ptr, %y, %mask, %row, %lane) <mask=True>
"""
)


def test_padding_by_infinity_does_not_reach_a_temperature() -> None:
    args = launch(5, 5, x=uniform(3, 5), g=uniform(1), y=torch.zeros(3, 5))
    found = check(forward(TEMPERATURE, "x g y"), args, (3,))
    assert found["g_ptr"].isfinite().all()


INFINITE_DENOMINATOR = (
    LANES
    + """
  %x = load(%x_ptr, %mask, %zero, %offs) <mask=True, other=True> : f32[8]
  %w = load(%w_ptr, %mask, %zero, %offs) <mask=True, other=True> : f32[8]
  %one = const() <value=1.0> : f32[8]
  %kept = cmp(%x, %one) <predicate='olt'> : i1[8]
  %high = const() <value=inf> : f32[8]
  %length = select(%kept, %x, %high) : f32[8]
  %inverse = div(%one, %length) : f32[8]
  %shifted = add(%inverse, %one) : f32[8]
  %y = mul(%shifted, %w) : f32[8]
  store(%y_ptr, %y, %mask, %offs) <mask=True>
"""
)


def test_a_quotient_by_infinity_is_a_number_like_any_other() -> None:
    """1 / inf + 1 is 1, no padding."""
    x = torch.tensor([0.5, 0.75, 2.0, 3.0])
    args = launch(4, x=x, w=uniform(4), y=torch.zeros(4))
    found = check(forward(INFINITE_DENOMINATOR, "x w y"), args, (1,))
    assert found["w_ptr"].abs().min() > 0


WHERE = (
    LANES
    + """
  %x = load(%x_ptr, %mask, %zero, %offs) <mask=True, other=True> : f32[8]
  %positive = cmp(%x, %zero) <predicate='ogt'> : i1[8]
  %log = log(%x) : f32[8]
  %y = select(%positive, %log, %x) : f32[8]
  store(%y_ptr, %y, %mask, %offs) <mask=True>
"""
)


def test_the_side_not_chosen_gets_zero_where_its_derivative_is_infinite() -> None:
    x = torch.tensor([0.0, -1.0, 2.0])
    args = launch(3, x=x, y=torch.zeros(3))
    found = gradients(forward(WHERE), args, (1,), {"y_ptr": torch.ones(3).double()})
    assert found["x_ptr"].tolist() == [1.0, 1.0, 0.5]


OTHER = (
    LANES
    + """
  %w = load(%w_ptr, %mask, %offs) <mask=True> : f32[8]
  %three = const() <value=3> : i32[8]
  %few = cmp(%offs, %three) <predicate='slt'> : i1[8]
  %x = load(%x_ptr, %few, %w, %offs) <mask=True, other=True> : f32[8]
  %y = mul(%x, %x) : f32[8]
  store(%y_ptr, %y, %mask, %offs) <mask=True>
"""
)


def test_a_masked_load_gives_its_cotangent_to_other() -> None:
    args = launch(5, x=uniform(3), w=uniform(5), y=torch.zeros(5))
    found = check(forward(OTHER, "x w y"), args, (1,))
    assert found["w_ptr"][:3].abs().max() == 0
    assert found["w_ptr"][3:].abs().min() > 0


# -- branches --

BRANCHES = (
    LANES
    + """
  %x = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
  %log = log(%x) : f32[8]
  %1 = const() <value=1> : i32
  %first = cmp(%pid, %1) <predicate='slt'> : i1
  %y = if(%first) : f32[8] {
    %g = load(%g_ptr) : f32
    %g8 = broadcast(%g) : f32[8]
    %product = mul(%log, %g8) : f32[8]
    yield(%product)
  } {
    yield(%x)
  }
  store(%y_ptr, %y, %mask, %offs) <mask=True>
"""
)


def test_a_branch_not_taken_leaks_nothing_computed_before_it() -> None:
    x = uniform(16)
    x[8:] = 0.0  # log and its derivative are infinite there
    args = launch(16, x=x, g=uniform(1), y=torch.zeros(16))
    cotangents = {"y_ptr": uniform(16)}
    found = gradients(forward(BRANCHES, "x g y"), args, (2,), cotangents)
    assert torch.equal(found["x_ptr"][8:], cotangents["y_ptr"][8:])
    args["x_ptr"] = uniform(16)
    check(forward(BRANCHES, "x g y"), args, (2,))


NESTED = (
    LANES
    + """
  %limit = const() <value=3> : i32
  %some = cmp(%pid, %limit) <predicate='slt'> : i1
  if(%some) {
    %x = load(%x_ptr, %mask, %offs) <mask=True> : f32[8]
    %flag = cmp(%s, %pid) <predicate='sgt'> : i1
    %y = if(%flag) : f32[8] {
      %r = sqrt(%x) : f32[8]
      %a = mul(%r, %x) : f32[8]
      yield(%a)
    } {
      %b = sin(%x) : f32[8]
      yield(%b)
    }
    store(%y_ptr, %y, %mask, %offs) <mask=True>
    yield()
  } {
    yield()
  }
"""
)


@pytest.mark.parametrize("s", [0, 2, 5])
def test_an_early_return_and_an_if_inside(s: int) -> None:
    args = launch(30, s, x=uniform(30), y=torch.zeros(30))
    found = check(forward(NESTED), args, (4,))
    assert found["x_ptr"][24:].abs().max() == 0  # program 3 returned


# -- what is refused --


def refused(kernel: Kernel, **options: object) -> UnsupportedError:
    with pytest.raises(UnsupportedError) as caught:
        differentiate(kernel, **options)  # type: ignore[arg-type]
    return caught.value


LGAMMA = (
    LANES
    + """
  %x = load(%x_ptr, %mask, %offs) <mask=True> : f32[8] @"model.py":7:9:x
  %g = lgamma(%x) : f32[8] @"model.py":8:9:g
  %z = exp(%g) : f32[8] @"model.py":9:9:z
  store(%y_ptr, %z, %mask, %offs) <mask=True> @"model.py":10:5
"""
)


def test_a_missing_rule_is_named_with_its_line_and_path() -> None:
    error = refused(forward(LGAMMA))
    assert error.fact == "no derivative rule for `libdevice.lgamma`"
    assert error.loc is not None
    assert error.loc.line == 8
    assert "it reaches output `y_ptr` through `z` (line 9)" in error.why[0]
    assert error.kernel == "k_fwd"


def test_what_reaches_no_output_needs_no_rule() -> None:
    body = LGAMMA.replace("store(%y_ptr, %z", "store(%y_ptr, %x")
    assert differentiate(forward(body)).zeros == ()


def test_a_name_that_is_no_pointer_to_floats_is_refused() -> None:
    for name in ("n", "i_ptr", "nobody"):
        error = refused(forward(WHERE), wrt=[name])
        assert error.fact == f"`{name}` is no pointer to floats of `k_fwd`"


def test_an_input_without_influence_has_gradient_zero() -> None:
    backward = differentiate(forward(WHERE, "x w y"), wrt=["x_ptr", "w_ptr"])
    assert backward.zeros == ("w_ptr",)


def test_an_output_left_out_is_not_read() -> None:
    body = WHERE + "  store(%z_ptr, %x, %mask, %offs) <mask=True>\n"
    backward = differentiate(forward(body, "x y z"), outputs=["z_ptr"])
    assert [c.of for c in backward.cotangents] == ["z_ptr"]
    assert not any(op.opcode == "log" for op in walk(backward.kernel.body))
