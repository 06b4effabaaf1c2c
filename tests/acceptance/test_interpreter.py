"""Emitted source in Triton's interpreter against the evaluator."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from acceptance import interpret
from acceptance.launches import DTYPES, Expected, Oracle, compare, label, pairs
from kernels.cases import CASES
from undertow.evaluate import TOLERANCES

Pair = tuple[str, torch.dtype]

UNABLE: set[Pair] = {("early_return-ragged", torch.bfloat16)}
"""The interpreter sums the bit patterns of bfloat16."""

ABLE = [pair for pair in pairs() if pair not in UNABLE]


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[Pair, Any]:
    """The arguments that each emitted backward leaves, all from one process."""
    folder = tmp_path_factory.mktemp("interpreter")
    jobs: list[tuple[str, str, tuple[int, ...], dict[str, object]]] = []
    for number, (name, dtype) in enumerate(ABLE):
        case = CASES[name]()
        oracle = Oracle(case, dtype)
        source = folder / f"kernel_{number}.py"
        source.write_text(oracle.derivation.source)
        args = oracle.backward_arguments(Expected.of(case).cotangents)
        args.update(oracle.derivation.constexprs)
        jobs.append((str(source), oracle.derivation.name, oracle.grid, args))
    torch.save(jobs, folder / "jobs.pt")
    subprocess.run(
        [sys.executable, interpret.__file__, folder / "jobs.pt", folder / "results.pt"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=True,
    )
    results = torch.load(folder / "results.pt", weights_only=False)
    return dict(zip(ABLE, results, strict=True))


@pytest.mark.parametrize(("name", "dtype"), ABLE, ids=label)
def test_emitted_source_does_what_the_evaluator_does(
    name: str, dtype: torch.dtype, interpreted: dict[Pair, Any]
) -> None:
    case = CASES[name]()
    oracle = Oracle(case, dtype)
    left = interpreted[name, dtype]
    assert not isinstance(left, str), left
    wanted = oracle.gradients(Expected.of(case).cotangents, float_dtype=None)
    gradients = oracle.derivation.backward.gradients
    found: dict[str, Tensor] = {g.of: left[g.name] for g in gradients}
    compare(found, wanted, TOLERANCES[DTYPES[dtype]])
