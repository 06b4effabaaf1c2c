"""Kernels of the tutorials at odd sizes, and at sizes smaller than a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
import torch
from torch import Tensor

from acceptance.launches import Expected, label, launch
from kernels.case import Case
from kernels.draw import Draw
from kernels.loop_cases import layer_norm_in_loops, matmul
from kernels.tutorial_cases import dropout, linear, persistent_softmax, staged_attention

CLOSE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 8e-3}
"""The largest relative error in the Euclidean norm, for sums of a thousand terms."""

MAKERS: dict[str, Callable[[Draw], Case]] = {
    "softmax-odd": lambda d: persistent_softmax(d, 1823, 781, 132, block=1024),
    "softmax-short": lambda d: persistent_softmax(d, 5, 3, 2, block=1024),
    "dropout-odd": lambda d: dropout(d, 98_433, seed=2**31 - 1, block=1024),
    "dropout-short": lambda d: dropout(d, 3, seed=1, block=1024),
    "matmul-odd": lambda d: matmul(d, 777, 513, 1030, tile=(64, 64, 32)),
    "matmul-short": lambda d: matmul(d, 7, 3, 5, tile=(64, 64, 32)),
    "linear-odd": lambda d: linear(d, 777, 513, 1030, "silu", (64, 64, 32)),
    "linear-short": lambda d: linear(d, 7, 3, 5, "silu", (64, 64, 32)),
    "linear-even": lambda d: linear(d, 512, 256, 1024, "relu", (64, 64, 64)),
    "linear-skinny": lambda d: linear(d, 4097, 17, 65, "none", (128, 32, 32)),
    "layer_norm-odd": lambda d: layer_norm_in_loops(d, 1151, 8191, block=1024),
    "layer_norm-short": lambda d: layer_norm_in_loops(d, 3, 5, block=1024),
    "attention-odd": lambda d: attention(d, 1001, causal=False),
    "attention-causal": lambda d: attention(d, 1001, causal=True),
    "attention-causal_even": lambda d: attention(d, 1024, causal=True),
    "attention-causal_short": lambda d: attention(d, 17, causal=True),
}


def attention(draw: Draw, length: int, causal: bool) -> Case:
    return staged_attention(draw, length, causal, heads=3, dim=64, tile=(64, 32))


def agree(
    found: Mapping[str, Tensor], expected: Mapping[str, Tensor], error: float
) -> None:
    """Close to float64 in the norm of each tensor, each element to its largest one."""
    for name, want in expected.items():
        difference = found[name].to(want) - want
        assert difference.norm() <= error * want.norm(), name
        assert difference.abs().max() <= 4 * error * want.abs().max(), name


def launches() -> Iterator[object]:
    """All on a GPU; the short ones are quick enough for the evaluator."""
    for name in MAKERS:
        yield pytest.param(name, "cuda", marks=pytest.mark.gpu)
        if name.endswith("short"):
            yield pytest.param(name, "cpu")


@pytest.mark.parametrize("dtype", CLOSE, ids=label)
@pytest.mark.parametrize(("name", "device"), list(launches()))
def test_kernels_of_the_tutorials(name: str, device: str, dtype: torch.dtype) -> None:
    case = MAKERS[name](Draw(len(name)))
    expected = Expected.of(case)
    outputs, gradients = launch(case, dtype, expected.cotangents, device)
    agree(outputs, expected.outputs, CLOSE[dtype])
    agree(gradients, expected.gradients, CLOSE[dtype])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["linear", "attention"])
def test_products_in_tf32(name: str) -> None:
    """Triton's default: factors of 11 bits, in the backward as in the forward."""
    draw = Draw(3)
    if name == "linear":
        case = linear(draw, 300, 200, 500, "silu", (64, 64, 32), precision="tf32")
    else:
        case = staged_attention(
            draw, 300, True, heads=2, dim=64, tile=(64, 32), precision="tf32"
        )
    expected = Expected.of(case)
    outputs, gradients = launch(case, torch.float32, expected.cotangents, "cuda")
    agree(outputs, expected.outputs, CLOSE[torch.float16])
    agree(gradients, expected.gradients, CLOSE[torch.float16])
