"""Emitted source in Triton's interpreter against the evaluator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from acceptance.emitted import Pair, check_all
from acceptance.launches import DTYPES, label, pairs
from kernels.cases import CASES

UNABLE: set[Pair] = {
    (name, torch.bfloat16)
    for name in CASES
    if name.startswith(
        (
            "early_return",
            "matmul",
            "attention",
            "linear",
            "staged",
            "split_k",
            "mean_loss",
        )
    )
}
"""The interpreter sums, multiplies and negates the bits of bfloat16."""


@pytest.mark.parametrize("dtype", DTYPES, ids=label)
def test_emitted_source_does_what_the_evaluator_does(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    able = [pair for pair in pairs() if pair[1] == dtype and pair not in UNABLE]
    check_all(able, tmp_path, "cpu", {"TRITON_INTERPRET": "1"})
