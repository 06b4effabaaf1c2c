"""Derived backwards as text, to be read like code of one's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton

from acceptance.launches import Oracle
from kernels.cases import CASES

GOLDEN: dict[str, tuple[str, torch.dtype]] = {
    "scale": ("scale-odd", torch.float32),
    "rms_norm": ("rms_norm-padded", torch.bfloat16),
    "layer_norm": ("layer_norm-padded", torch.float32),
    "softmax": ("softmax-padded", torch.float32),
    "swiglu": ("swiglu-padded", torch.bfloat16),
    "rope": ("rope_halves-odd", torch.bfloat16),
    "giou": ("giou-padded", torch.float32),
    "dyt": ("dyt-padded", torch.float32),
    "branch": ("runtime_branch-both", torch.float32),
    "early_return": ("early_return-ragged", torch.float32),
    "embedding": ("embedding-repeated", torch.bfloat16),
    "matmul": ("matmul-odd", torch.float32),
    "online_softmax": ("online_softmax-padded", torch.float32),
    "attention": ("attention-causal", torch.float32),
    "recurrence": ("recurrence-odd", torch.float32),
    "scatter_add": ("weighted_histogram-outliers", torch.float32),
    "linear_recurrence": ("linear_recurrence-padded", torch.float32),
    "while_loop": ("relax-several", torch.float32),
    "straight_through": ("quantised-odd", torch.float32),
}

LONG = {
    "giou": 200,
    "attention": 130,
    "matmul": 110,
    "recurrence": 76,
    "while_loop": 90,
}
"""How many lines those have at the most that do not fit on a screen."""


@pytest.mark.parametrize("name", GOLDEN)
def test_the_emitted_backward(name: str, golden: Callable[[str, str], None]) -> None:
    if name == "swiglu" and triton.__version__ < "3.7":
        pytest.skip("this Triton writes -x as 0.0 - x")
    case, dtype = GOLDEN[name]
    golden(name, Oracle(CASES[case](), dtype).derivation.source)


def test_most_fit_on_a_screen() -> None:
    for name, (case, dtype) in GOLDEN.items():
        lines = Oracle(CASES[case](), dtype).derivation.source.count("\n")
        assert lines <= LONG.get(name, 72), name
