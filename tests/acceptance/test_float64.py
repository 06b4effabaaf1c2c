"""Derived gradients against float64 autograd, in the evaluator and through launches."""

from __future__ import annotations

import pytest
import torch

import undertow
from acceptance.launches import (
    DTYPES,
    EXACT,
    Expected,
    Oracle,
    compare,
    halves,
    label,
    launch,
    pairs,
)
from kernels.cases import CASES
from undertow.evaluate import TOLERANCES


@pytest.mark.parametrize("name", CASES)
def test_the_evaluator_in_float64_gives_the_references_values(name: str) -> None:
    case = CASES[name]()
    compare(Oracle(case).forward(), Expected.of(case).outputs, EXACT)


@pytest.mark.parametrize("name", CASES)
def test_derived_gradients_are_exact_in_float64(name: str) -> None:
    case = CASES[name]()
    expected = Expected.of(case)
    found = Oracle(case).gradients(expected.cotangents)
    compare(found, expected.gradients, EXACT)


@pytest.mark.parametrize("name", CASES)
def test_undefined_lanes_reach_no_gradient(name: str) -> None:
    case = CASES[name]()
    expected = Expected.of(case)
    found = Oracle(case).gradients(expected.cotangents, poison=True)
    compare(found, expected.gradients, EXACT)


@pytest.mark.parametrize("layout", ["expanded", "transposed", "sliced"])
@pytest.mark.parametrize("name", CASES)
def test_cotangents_in_other_layouts(name: str, layout: str) -> None:
    case = CASES[name]()
    expected = Expected.of(case, layout)
    found = Oracle(case).gradients(expected.cotangents)
    compare(found, expected.gradients, EXACT)


@pytest.mark.parametrize("name", halves())
def test_a_kernel_captured_for_bfloat16_has_the_same_derivative(name: str) -> None:
    case = CASES[name]()
    expected = Expected.of(case)
    found = Oracle(case, torch.bfloat16).gradients(expected.cotangents)
    compare(found, expected.gradients, EXACT)


@pytest.mark.parametrize(("name", "dtype"), pairs(), ids=label)
def test_launches_on_cpu_tensors(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]()
    expected = Expected.of(case)
    outputs, gradients = launch(case, dtype, expected.cotangents)
    tolerance = TOLERANCES[DTYPES[dtype]]
    compare(outputs, expected.outputs, tolerance)
    compare(gradients, expected.gradients, tolerance)


def test_what_an_in_place_kernel_overwrites_is_not_needed_but_by_the_angles() -> None:
    oracle = Oracle(CASES["rope_halves-odd"]())
    with pytest.raises(undertow.UnsupportedError) as caught:
        undertow.derive(oracle.case.kernel, oracle.signature, oracle.constexprs)
    text = str(caught.value)
    assert (
        "`q_ptr` is overwritten, and its old value is needed for the gradient" in text
    )
    assert "a = tl.load(lower, mask=mask).to(tl.float32)" in text
