"""The kernels on a GPU: through autograd, and emitted source on its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from acceptance.emitted import Pair, check, run_alone
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


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[Pair, Any]:
    return run_alone(pairs(), tmp_path_factory.mktemp("gpu"), "cuda", {})


@pytest.mark.parametrize(("name", "dtype"), pairs(), ids=label)
def test_emitted_source_needs_no_undertow(
    name: str, dtype: torch.dtype, alone: dict[Pair, Any]
) -> None:
    check((name, dtype), alone[name, dtype])
