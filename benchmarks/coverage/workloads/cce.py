"""Cut Cross-Entropy: a linear layer and its cross entropy in one kernel."""

from __future__ import annotations

import torch
from cut_cross_entropy import linear_cross_entropy
from cut_cross_entropy.indexed_dot import indexed_neg_dot_forward_kernel
from torch import Tensor

from benchmarks.coverage.inputs import Inputs
from benchmarks.coverage.workloads import workload

cce = workload("cce")


@cce("linear_cross_entropy")
def loss(draw: Inputs) -> Tensor:
    e, c = draw.normal(9, 32), draw.normal(37, 32)
    y = draw.integers(37, 9)
    half = e.to(torch.bfloat16), c.to(torch.bfloat16)
    return linear_cross_entropy(*half, y, filter_eps=None)


@cce(beside=True)
def indexed_dot(draw: Inputs) -> Tensor:
    e, c, y = draw.normal(9, 32), draw.normal(37, 32), draw.integers(37, 9)
    return indexed_neg_dot_forward_kernel(e, c, y)
