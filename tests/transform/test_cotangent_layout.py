"""Cotangents addressed by their own strides."""

from __future__ import annotations

import pytest
import torch

from transform.forwards import LANES, ROW, TILE, forward
from transform.test_reverse import launch, uniform
from undertow.evaluate import run
from undertow.ir import Kernel
from undertow.transform.cotangent_layout import StridedCotangent
from undertow.transform.differentiate import differentiate

SQUARE = "  %x = load({x}) <mask=True> : f32[{shape}]\n  %y = mul(%x, %x) : f32[{shape}]\n"


def body(lanes: str, offsets: str, shape: str) -> str:
    text = lanes + SQUARE.format(x=f"%x_ptr, %mask, {offsets}", shape=shape)
    return text + f"  store(%y_ptr, %y, %mask, {offsets}) <mask=True>\n"


SCALED_TILE = TILE + """
  %rows1 = expand_dims(%rows) <axis=1> : i32[4,1]
  %s41 = broadcast(%s) : i32[4,1]
  %down = mul(%rows1, %s41) : i32[4,1]
  %m18 = broadcast(%m) : i32[1,8]
  %across = mul(%cols1, %m18) : i32[1,8]
  %down2 = broadcast(%down) : i32[4,8]
  %across2 = broadcast(%across) : i32[4,8]
  %both = add(%down2, %across2) : i32[4,8]
"""  # fmt: skip
WIDE_TILE = TILE + """
  %w = cast(%rfirst2) <signed=True> : i64[4,8]
  %w2 = cast(%cols2) <signed=True> : i64[4,8]
  %both = add(%w, %w2) : i64[4,8]
"""  # fmt: skip

KERNELS = {
    "flat": (body(LANES, "%offs", "8"), [None]),
    "row": (body(ROW, "%row, %lane", "8"), ["s", None]),
    "tile": (body(TILE, "%offs", "4,8"), ["s", None]),
    "two strides": (body(SCALED_TILE, "%both", "4,8"), ["s", "m"]),
    "wide": (body(WIDE_TILE, "%both", "4,8"), ["s", None]),
}


def plan(kernel: Kernel) -> StridedCotangent:
    (found,) = differentiate(kernel).cotangents
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_an_address_falls_into_coordinates(name: str) -> None:
    text, expected = KERNELS[name]
    found = plan(forward(text))
    assert [c and c.name for c in found.coefficients] == expected
    assert len(found.strides) == len(found.indices) == len(expected)


def test_the_range_of_a_coordinate_is_what_the_mask_leaves() -> None:
    found = plan(forward(KERNELS["tile"][0]))
    facts = {"m": 6, "n": 5, "s": 5, "grid0": 2, "grid1": 1, "grid2": 1}
    ends = [indices[0].range(facts) for indices in found.indices]
    assert ends == [(0, 5), (0, 4)]


@pytest.mark.parametrize("layout", ["expanded", "transposed", "sliced"])
@pytest.mark.parametrize("name", ["row", "tile", "wide"])
def test_any_layout_gives_the_gradient_of_the_contiguous_one(
    name: str, layout: str
) -> None:
    backward = differentiate(forward(KERNELS[name][0]))
    m, n = 6, 5
    ct = {
        "expanded": uniform(1, 1).expand(m, n),
        "transposed": uniform(n, m).t(),
        "sliced": uniform(m, 2 * n)[:, ::2],
    }[layout]
    x, found = uniform(m, n, seed=1), torch.full((m, n), torch.nan).double()
    args = launch(n, n, m, x=x)
    args |= {"d_y_ptr": ct, "d_x_ptr": found}
    args |= {f"d_y_stride_{i}": ct.stride(i) for i in range(2)}
    used = {p.name: args[p.name] for p in backward.kernel.params}
    run(backward.kernel, used, (m if name == "row" else 2,), float_dtype=torch.float64)
    assert torch.allclose(found, 2 * x * ct)


FLATTENED = LANES + """
  %m8 = broadcast(%m) : i32[8]
  %r = sdiv(%offs, %m8) : i32[8]
  %c = srem(%offs, %m8) : i32[8]
  %s8 = broadcast(%s) : i32[8]
  %first = mul(%r, %s8) : i32[8]
  %a = add(%first, %c) : i32[8]
"""  # fmt: skip


def test_quotients_and_remainders_are_coordinates_too() -> None:
    found = plan(forward(body(FLATTENED, "%a", "8")))
    assert [c and c.name for c in found.coefficients] == ["s", None]
    facts = {"m": 5, "n": 23, "s": 7, "grid0": 3, "grid1": 1, "grid2": 1}
    assert [i[0].range(facts) for i in found.indices] == [(0, 4), (0, 4)]
    assert found.indices[0][0].range({**facts, "m": 0}) is None


def test_stores_with_different_coefficients_keep_the_layout_of_the_output() -> None:
    text = KERNELS["row"][0] + "  %twice = mul(%pid, %m) : i32\n"
    text += "  %far = mul(%m, %n) : i32\n  %more = mul(%lane, %n8) : i32[8]\n"
    text += "  store(%y_ptr, %x, %mask, %twice, %more, %far) <mask=True>\n"
    from undertow.errors import UnsupportedError

    with pytest.raises(UnsupportedError, match="stored to several times"):
        differentiate(forward(text))
