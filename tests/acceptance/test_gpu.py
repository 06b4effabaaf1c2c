"""The kernels on a GPU: through autograd, and emitted source on its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from acceptance.emitted import check_all
from acceptance.launches import DTYPES, Expected, compare, label, launch, pairs
from kernels.cases import CASES
from undertow.evaluate import TOLERANCES

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("name", "dtype"), pairs(), ids=label)
def test_launches_on_cuda_tensors(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]()
    expected = Expected.of(case)
    outputs, gradients = launch(case, dtype, expected.cotangents, "cuda")
    tolerance = TOLERANCES[DTYPES[dtype]]
    compare(outputs, expected.outputs, tolerance)
    compare(gradients, expected.gradients, tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=label)
def test_emitted_source_needs_no_undertow(dtype: torch.dtype, tmp_path: Path) -> None:
    check_all([pair for pair in pairs() if pair[1] == dtype], tmp_path, "cuda", {})
