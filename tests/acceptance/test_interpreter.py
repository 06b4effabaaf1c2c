"""Emitted source in Triton's interpreter against the evaluator."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from acceptance.emitted import Pair, check, run_alone
from acceptance.launches import label, pairs

UNABLE: set[Pair] = {("early_return-ragged", torch.bfloat16)}
"""The interpreter sums the bit patterns of bfloat16."""

ABLE = [pair for pair in pairs() if pair not in UNABLE]


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[Pair, Any]:
    folder = tmp_path_factory.mktemp("interpreter")
    return run_alone(ABLE, folder, "cpu", {"TRITON_INTERPRET": "1"})


@pytest.mark.parametrize(("name", "dtype"), ABLE, ids=label)
def test_emitted_source_does_what_the_evaluator_does(
    name: str, dtype: torch.dtype, interpreted: dict[Pair, Any]
) -> None:
    check((name, dtype), interpreted[name, dtype])
