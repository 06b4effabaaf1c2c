"""Derived backward kernels of random forwards against two independent oracles."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from derived import check
from fuzz.kernels import Case, kernels
from undertow.evaluate import run
from undertow.ir import parse, print_kernel
from undertow.transform.differentiate import differentiate
from undertow.transform.rebuild import simplify

SOME = settings(max_examples=max(200, settings.default.max_examples))
"""More than elsewhere: most random cases are easy."""


@SOME
@given(kernels())
def test_a_backward_agrees_with_differences_and_forward_mode(case: Case) -> None:
    check(case.kernel, case.args, case.grid)


@SOME
@given(kernels(), st.data())
def test_so_does_one_that_adds_atomically(case: Case, data: st.DataObject) -> None:
    inputs = [g.of for g in differentiate(case.kernel).gradients]
    atomic = data.draw(st.sets(st.sampled_from(inputs))) if inputs else set()
    check(case.kernel, case.args, case.grid, atomic=atomic)


@SOME
@given(kernels())
def test_deriving_twice_gives_one_text_and_the_text_parses(case: Case) -> None:
    first = print_kernel(differentiate(case.kernel).kernel)
    assert print_kernel(differentiate(case.kernel).kernel) == first
    assert print_kernel(parse(first)) == first


@SOME
@given(kernels())
def test_simplifying_keeps_every_bit_of_the_outputs(case: Case) -> None:
    outputs = []
    for kernel in (case.kernel, simplify(case.kernel)):
        args = {
            name: x.clone() if isinstance(x, Tensor) else x
            for name, x in case.args.items()
        }
        run(kernel, args, case.grid, float_dtype=torch.float64)
        outputs.append({n: x for n, x in args.items() if isinstance(x, Tensor)})
    assert all(torch.equal(x, outputs[1][name]) for name, x in outputs[0].items())
