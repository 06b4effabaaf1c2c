"""Emitted backwards of many cases, run by one process that has no Undertow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from acceptance import standalone
from acceptance.launches import DTYPES, Expected, Oracle, compare
from kernels.cases import CASES
from undertow.evaluate import TOLERANCES

Pair = tuple[str, torch.dtype]


def run_alone(
    pairs: Sequence[Pair], folder: Path, device: str, env: Mapping[str, str]
) -> dict[Pair, Any]:
    """For each pair the arguments as its backward leaves them, or an error's text."""
    jobs: list[tuple[str, str, tuple[int, ...], dict[str, object]]] = []
    for number, (name, dtype) in enumerate(pairs):
        case = CASES[name]()
        oracle = Oracle(case, dtype)
        source = folder / f"kernel_{number}.py"
        source.write_text(oracle.derivation.source)
        args = oracle.backward_arguments(Expected.of(case).cotangents)
        args.update(oracle.derivation.constexprs)
        jobs.append((str(source), oracle.derivation.name, oracle.grid, args))
    torch.save(jobs, folder / "jobs.pt")
    subprocess.run(
        [
            sys.executable,
            standalone.__file__,
            folder / "jobs.pt",
            folder / "results.pt",
            device,
        ],
        env={**os.environ, **env},
        check=True,
    )
    results = torch.load(folder / "results.pt", weights_only=False)
    return dict(zip(pairs, results, strict=True))


def check_all(
    pairs: Sequence[Pair], folder: Path, device: str, env: Mapping[str, str]
) -> None:
    """Runs them and asserts that each leaves what the evaluator leaves."""
    wrong: list[str] = []
    for pair, left in run_alone(pairs, folder, device, env).items():
        try:
            _check(pair, left)
        except AssertionError as error:
            wrong.append(f"{pair[0]} in {DTYPES[pair[1]]}: {error}")
    assert not wrong, "\n\n".join(wrong)


def _check(pair: Pair, left: Any) -> None:
    name, dtype = pair
    assert not isinstance(left, str), left
    case = CASES[name]()
    oracle = Oracle(case, dtype)
    wanted = oracle.gradients(Expected.of(case).cotangents, float_dtype=None)
    backward = oracle.derivation.backward
    for passed_on in backward.passed_on:  # the launch does it, not the kernel
        del wanted[passed_on]
    found: dict[str, Tensor] = {g.of: left[g.name] for g in backward.gradients}
    compare(found, wanted, TOLERANCES[DTYPES[dtype]])
