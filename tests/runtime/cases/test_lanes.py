"""Lanes that are padding, and lanes that tie."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from undertow import differentiable, evaluate

from ..comparison import close, leaf
from ..kernels import rms_norm, rms_reference, softmax


def test_padded_lanes_contribute_nothing(device: str):
    """`other=-inf`: 5 of 8 lanes are alive, and rows differ in how far they reach."""
    x, ct = leaf(3, 5, device=device), torch.randn(3, 5, device=device)
    y = torch.empty(3, 5, device=device)
    softmax[(3,)](x, y, 5, 5, BLOCK=8)
    y.backward(ct)
    expected = torch.autograd.grad(x.softmax(1), x, ct)[0]
    close(x.grad, expected)


@differentiable
@triton.jit
def capped_cross_entropy(
    x_ptr, cap_ptr, label_ptr, loss_ptr, n_cols, AGAIN: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Logits in (-cap, cap); AGAIN masks the padding once more after that."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    cap = tl.load(cap_ptr)
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"))
    x = cap * (2 * tl.sigmoid(2 * x / cap) - 1)
    if AGAIN:
        x = tl.where(mask, x, -float("inf"))
    top = tl.max(x, axis=0)
    total = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
    hit = tl.sum(tl.where(cols == tl.load(label_ptr + row), x, 0.0), axis=0)
    tl.store(loss_ptr + row, total - hit)


@pytest.mark.parametrize("again", [True, False], ids=["masked", "finite"])
def test_padded_lanes_turned_finite(again: bool, device: str):
    """unsloth#10616: `other=-inf`, then a soft cap, which makes it -cap: 5 of 8 lanes.

    Masked again, dead lanes contribute exactly 0, also to the gradient of the cap,
    where the derivative at infinity is 0 times infinity. Without that the forward
    itself counts them, and its derivative is that of what it computes.
    """
    x, cap = leaf(3, 5, device=device), torch.tensor(1.5, device=device)
    labels = torch.tensor([0, 4, 2], device=device)
    loss, ct = torch.empty(3, device=device), torch.randn(3, device=device)
    inputs = (x, cap.requires_grad_()) if again else (x,)
    capped_cross_entropy[(3,)](x, cap, labels, loss, 5, AGAIN=again, BLOCK=8)
    found = torch.autograd.grad(loss, inputs, ct)
    exact = [t.detach().double().requires_grad_() for t in inputs]
    size = exact[1] if again else cap.double()
    capped = size * (exact[0] / size).tanh()
    if not again:
        capped = torch.cat([capped, (-size).expand(3, 3)], 1)
    wanted = F.cross_entropy(capped, labels, reduction="none")
    close(loss.detach(), wanted.detach())
    for a, e in zip(
        found, torch.autograd.grad(wanted, exact, ct.double()), strict=True
    ):
        close(a, e)


def test_undefined_lanes_are_never_used():
    """Masked loads without `other` leave anything in dead lanes: here NaN."""
    x, w, ct = leaf(3, 5), leaf(5), torch.randn(3, 5)
    expected = torch.autograd.grad(rms_reference(x, w), (x, w), ct)
    plain = evaluate.run

    def poisoned(*args: object, **kwargs: object) -> object:
        return plain(*args, **{**kwargs, "poison": True})  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "run", poisoned)
        y = torch.empty(3, 5)
        rms_norm[(3,)](x, w, y, 5, 5, 1e-5, BLOCK=8)
        actual = torch.autograd.grad(y, (x, w), ct)
    for a, e in zip(actual, expected, strict=True):
        close(a, e)


# -- ties --


@differentiable
@triton.jit
def distances(p_ptr, q_ptr, sum_ptr, larger_ptr, n_cols, BLOCK: tl.constexpr):
    """Total variation of two rows, and the larger of each two numbers."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    p = tl.load(p_ptr + row * n_cols + cols, mask=mask, other=0.0)
    q = tl.load(q_ptr + row * n_cols + cols, mask=mask, other=0.0)
    tl.store(sum_ptr + row, 0.5 * tl.sum(tl.abs(p - q), axis=0))
    tl.store(larger_ptr + row * n_cols + cols, tl.maximum(p, q), mask=mask)


def test_ties(device: str):
    """Liger-Kernel#1373: TVD where p equals q.

    By the documented convention `abs` has gradient 0 there, and `maximum` of two
    tensors gives half to each.
    """
    p = torch.tensor([[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]], device=device)
    q = torch.tensor([[1.0, 3.0, 2.0], [4.0, 4.0, 5.0]], device=device)
    p.requires_grad_()
    q.requires_grad_()
    total, larger = torch.empty(2, device=device), torch.empty(2, 3, device=device)
    distances[(2,)](p, q, total, larger, 3, BLOCK=4)
    ct = torch.tensor([2.0, 6.0], device=device)
    found = torch.autograd.grad(total, (p, q), ct, retain_graph=True)
    signs = torch.tensor([[0.0, -1.0, 1.0], [0.0, 0.0, -3.0]], device=device)
    close(found[0], signs)
    close(found[1], -signs)
    ct = torch.tensor([[2.0, 5.0, 7.0], [4.0, 6.0, 8.0]], device=device)
    found = torch.autograd.grad(larger, (p, q), ct)
    share = torch.tensor([[0.5, 0.0, 1.0], [0.5, 0.5, 0.0]], device=device)
    close(found[0], share * ct)
    close(found[1], (1 - share) * ct)
