"""The evaluator on what was lifted agrees with Triton's own interpreter."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")

from undertow.evaluate import run  # noqa: E402
from undertow.frontend import capture  # noqa: E402

from .kernels import CASES  # noqa: E402

HERE = Path(__file__).parent
VERSION = tuple(int(n) for n in triton.__version__.split(".")[:2])
SIZE = 4096
SCALARS = {"n": 13, "stride": 20, "eps": 1e-5, "flag": True, "unused": 4}
TOLERANCE = {torch.bfloat16: 1e-2, torch.float32: 5e-6}
"""One rounding of bfloat16; a few of float32, for sums in another order."""

NOT_INTERPRETED = {
    "casts": "the interpreter has no bfloat16 constants",
    "library": "the interpreter does not run libdevice",
}
WAYS = {
    "descriptor": [{"n": 40}],  # a stride of whole 16 bytes
    "early_return": [{"n": 2}],
    "branches": [{"n": n, "flag": flag} for n in (3, 13) for flag in (True, False)],
    "nested_returns": [
        {"n": n, "flag": flag} for n in (3, 5) for flag in (True, False)
    ],
}
"""Numbers other than SCALARS, so that each way through a kernel is taken."""

RUNS = {
    f"{name}-{i}": (name, ways)
    for name in CASES
    if name not in NOT_INTERPRETED
    for i, ways in enumerate(WAYS.get(name, [{}]))
}


def grid(name: str) -> tuple[int, ...]:
    return (1,) if CASES[name].constexprs.keys() == {"M", "N"} else (8,)


def arguments(name: str, numbers: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    if name == "tuples":
        xs = (torch.randn(SIZE), torch.randn(SIZE))
        return {"xs": xs, "y_ptr": torch.zeros(SIZE), "pair": (3, 5)}
    types = CASES[name].signature.items()
    return {key: numbers.get(key, argument(key, type)) for key, type in types}


def argument(key: str, type: str) -> Any:
    if key == "y_ptr":
        dtype = {"*fp32": torch.float32, "*bf16": torch.bfloat16, "*i32": torch.int32}
        return torch.zeros(SIZE, dtype=dtype[type])
    match type:
        case "*fp32":
            return (
                torch.randn(SIZE).abs() + 0.1
            )  # logarithms and roots are among the ops
        case "*bf16":
            return torch.randn(SIZE).to(torch.bfloat16)
        case "*i32":
            return torch.randint(-40, 40, (SIZE,), dtype=torch.int32)
        case "*i1":
            return torch.rand(SIZE) > 0.5
        case _:
            return SCALARS[key]


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The arguments of each case after the interpreter ran it."""
    folder = tmp_path_factory.mktemp("interpreter")
    inputs = {
        key: (name, grid(name), arguments(name, numbers))
        for key, (name, numbers) in RUNS.items()
    }
    torch.save(inputs, folder / "in")
    result = subprocess.run(
        [sys.executable, HERE / "interpret.py", folder / "in", folder / "out"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return torch.load(folder / "out", weights_only=False)


@pytest.mark.parametrize("key", RUNS)
def test_the_lifted_kernel_computes_what_triton_does(
    key: str, interpreted: dict[str, Any]
) -> None:
    name, numbers = RUNS[key]
    kernel = capture(*CASES[name])
    before = arguments(name, numbers)
    args = copy.deepcopy(before)
    flat = {**args, **elements(args)}
    if isinstance(interpreted[key], str):
        assert VERSION < (3, 8), interpreted[key]
        pytest.skip(f"the old interpreter fails: {interpreted[key]}")
    _, _, expected = interpreted[key]
    run(kernel, {p.name: flat[p.name] for p in kernel.params}, grid(name))
    tensors = [key for key, value in args.items() if torch.is_tensor(value)]
    unchanged = all(torch.equal(args[t], before[t]) for t in tensors)
    assert unchanged == (name == "branches" and not numbers["flag"])
    for t in tensors:
        close = TOLERANCE.get(args[t].dtype, 0)
        torch.testing.assert_close(args[t], expected[t], rtol=close, atol=close)


def elements(args: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{key}.{i}": element
        for key, value in args.items()
        if isinstance(value, tuple)
        for i, element in enumerate(value)
    }
