"""Emitted modules: they compile, mean what they meant, and are well formed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from acceptance.launches import Expected, Oracle
from emit.roundtrip import recaptured, ruff, run, same
from kernels.cases import CASES
from undertow.emit import emit, emit_backward

HERE = Path(__file__).parent
DTYPES = [torch.float32, torch.bfloat16]


@cache
def oracle(name: str, dtype: torch.dtype) -> Oracle:
    return Oracle(CASES[name](), dtype)


def takes(name: str) -> list[torch.dtype]:
    return DTYPES[:1] if CASES[name]().precise else DTYPES


ALL = [(name, dtype) for name in CASES for dtype in takes(name)]


@pytest.mark.parametrize(("name", "dtype"), ALL)
def test_an_emitted_forward_is_the_forward(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    of = oracle(name, dtype)
    kernel = of.derivation.forward
    again = recaptured(kernel, emit(kernel), tmp_path)
    args, grid = of.arguments(dtype), of.case.grid
    same(run(again, args, grid), run(kernel, args, grid))


@pytest.mark.parametrize(("name", "dtype"), ALL)
def test_an_emitted_backward_is_the_backward(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    of = oracle(name, dtype)
    kernel = of.derivation.backward.kernel
    again = recaptured(kernel, of.derivation.source, tmp_path)
    args = of.backward_arguments(Expected.of(of.case).cotangents)
    same(run(again, args, of.grid), run(kernel, args, of.grid))


@pytest.mark.parametrize("name", CASES)
def test_integers_that_are_one_compile(name: str, tmp_path: Path) -> None:
    derivation = oracle(name, torch.float32).derivation
    kernel = derivation.backward.kernel
    again = recaptured(kernel, derivation.source, tmp_path, ones=True)
    assert {p.name for p in again.params} <= {p.name for p in kernel.params}


@pytest.mark.parametrize("emitted", [
    lambda of: emit(of.derivation.forward),
    lambda of: emit_backward(of.derivation.backward),
], ids=["forward", "backward"])  # fmt: skip
@pytest.mark.parametrize("name", CASES)
def test_emitting_twice_gives_the_same_text(
    name: str, emitted: Callable[[Oracle], str]
) -> None:
    case = CASES[name]()
    assert emitted(Oracle(case)) == emitted(Oracle(case))
    of = oracle(name, torch.float32)
    assert emitted(of) == emitted(of)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that is emitted for the cases."""
    folder = tmp_path_factory.mktemp("emitted")
    for number, (name, dtype) in enumerate(ALL):
        derivation = oracle(name, dtype).derivation
        stem = name.replace("-", "_")
        (folder / f"{stem}_{number}.py").write_text(emit(derivation.forward))
        (folder / f"{stem}_{number}_bwd.py").write_text(derivation.source)
    return folder


def test_ruff_finds_nothing_to_change(everything: Path) -> None:
    ruff(everything, f"--config={HERE.parent.parent / 'pyproject.toml'}")


def test_what_is_emitted_needs_nothing_but_triton(everything: Path) -> None:
    allowed = (
        "import triton",
        "import triton.language as tl",
        "from triton.language.extra import libdevice",
    )
    for path in everything.iterdir():
        lines = path.read_text().splitlines()
        imports = [line for line in lines if line.startswith(("import", "from"))]
        assert set(imports) <= set(allowed), path
        assert not any(len(line) > 88 for line in lines), path
