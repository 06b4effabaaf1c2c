"""What the backward reads back from outputs, and what it computes again after all."""

from __future__ import annotations

import pytest
import torch

from acceptance.launches import Oracle
from kernels.cases import CASES
from undertow.ir import walk
from undertow.transform.differentiate import Backward, differentiate

READ = {
    "layer_norm_with_statistics-padded": ("mean_ptr", "rstd_ptr"),
    "norms_of_tiles-padded": ("rstd_ptr",),
    "attention_base_2-odd": ("o_ptr", "lse_ptr"),
    "attention-causal": ("o_ptr", "lse_ptr"),
    "cross_entropy_with_lse-padded": ("lse_ptr",),
    "rows_in_turn-padded": ("norm_ptr",),
}


def backward(name: str, dtype: torch.dtype = torch.float32) -> Backward:
    return Oracle(CASES[name](), dtype).derivation.backward


def primal_loops(found: Backward) -> int:
    """How many loops of the forward are run again before the reverse sweep."""
    count = 0
    for op in found.kernel.body.ops:
        if op.opcode == "section" and op.str_attr("title") == "reverse sweep":
            break
        count += sum(inner.is_loop for inner in walk_op(op))
    return count


def walk_op(op):  # type: ignore[no-untyped-def]
    yield op
    for region in op.regions:
        yield from walk(region)


@pytest.mark.parametrize("name", READ)
def test_a_stored_value_spares_its_loop(name: str) -> None:
    found = backward(name)
    assert found.read_back == READ[name]
    assert primal_loops(found) == 0


@pytest.mark.parametrize("name", READ)
def test_outputs_that_may_not_be_read_are_computed_again(name: str) -> None:
    forward = backward(name).forward
    found = differentiate(forward, readable=())
    assert found.read_back == ()
