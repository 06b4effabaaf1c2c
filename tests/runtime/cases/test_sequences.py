"""Sequences: windows, masks and lengths that a backward by hand got wrong."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from undertow import differentiable

from ..comparison import close, leaf

LOG2_E = math.log2(math.e)


# -- windows --


@differentiable
@triton.jit
def causal_conv(
    x_ptr, w_ptr, before_ptr, y_ptr, after_ptr, T, D, W: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """silu of a window of W tokens; states hold the W tokens before and at the end."""
    batch = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < D
    x_ptr += batch * T * D
    y_ptr += batch * T * D
    state = (batch * D + d) * W
    for t in range(T):
        acc = tl.zeros((BLOCK,), tl.float32)
        for i in tl.static_range(W):
            at = t - W + 1 + i
            x = tl.load(x_ptr + at * D + d, mask=mask & (at >= 0), other=0.0)
            x += tl.load(before_ptr + state + W + at, mask=mask & (at < 0), other=0.0)
            acc += x * tl.load(w_ptr + d * W + i, mask=mask, other=0.0)
        tl.store(y_ptr + t * D + d, acc * tl.sigmoid(acc), mask=mask)
    for i in tl.static_range(W):
        at = T - W + i
        x = tl.load(x_ptr + at * D + d, mask=mask & (at >= 0), other=0.0)
        x += tl.load(before_ptr + state + W + at, mask=mask & (at < 0), other=0.0)
        tl.store(after_ptr + state + i, x, mask=mask)


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_window_longer_than_the_sequence(length: int, device: str):
    """flash-linear-attention#1140: a window of 4 tokens, and T = 1 and 2.

    The gradient of the state at the end went to other tokens, and what remains in it of
    the state before got none.
    """
    batch, dim, width = 2, 5, 4
    x, w = leaf(batch, length, dim, device=device), leaf(dim, width, device=device)
    before = leaf(batch, dim, width, device=device)
    y = torch.empty(batch, length, dim, device=device)
    after = torch.empty(batch, dim, width, device=device)
    causal_conv[(batch, 1)](x, w, before, y, after, length, dim, W=width, BLOCK=8)
    cts = [torch.randn_like(t) for t in (y, after)]
    found = torch.autograd.grad((y, after), (x, w, before), cts)

    exact = [t.detach().double().requires_grad_() for t in (x, w, before)]
    tokens = torch.cat([exact[2], exact[0].mT], 2)
    windows = tokens.unfold(2, width, 1)[:, :, 1:]
    wanted = F.silu((windows * exact[1][:, None]).sum(-1)).mT, tokens[:, :, -width:]
    close(y.detach(), wanted[0].detach())
    close(after.detach(), wanted[1].detach())
    expected = torch.autograd.grad(wanted, exact, [ct.double() for ct in cts])
    for a, e in zip(found, expected, strict=True):
        close(a, e)


@differentiable
@triton.jit
def dilated_taps(x_ptr, w_ptr, y_ptr, n, dilation, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(3):
        source = at + (tap - 1) * dilation
        x = tl.load(x_ptr + source, mask=(source >= 0) & (source < n), other=0.0)
        acc += x * tl.load(w_ptr + tap)
    tl.store(y_ptr + at, acc, mask=at < n)


@pytest.mark.parametrize("dilation", [1, 2, 8])
def test_lost_updates(dilation: int, device: str):
    """cherimoya#25: taps at l - d, l and l + d, whose backward loads, adds, stores.

    Lanes of one program and of several meet at one element, and each must count.
    """
    x, w, n = leaf(20, device=device), leaf(3, device=device), 20
    y, ct = torch.empty(n, device=device), torch.randn(n, device=device)
    dilated_taps[(3,)](x, w, y, n, dilation, BLOCK=8)
    found = torch.autograd.grad(y, (x, w), ct)
    exact = [t.detach().double().requires_grad_() for t in (x, w)]
    wanted = F.conv1d(
        exact[0].view(1, 1, n),
        exact[1].view(1, 1, 3),
        padding=dilation,
        dilation=dilation,
    ).flatten()
    close(y.detach(), wanted.detach())
    for a, e in zip(
        found, torch.autograd.grad(wanted, exact, ct.double()), strict=True
    ):
        close(a, e)


# -- attention --


@differentiable
@triton.jit
def cross_attention(
    q_ptr, k_ptr, v_ptr, o_ptr, M, N, shift, scale,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Query m sees the keys up to m + `shift`; without a key its row is 0."""
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d, mask=m[:, None] < M, other=0.0)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    end = N
    if CAUSAL:
        end = tl.minimum(N, tl.maximum((tl.program_id(0) + 1) * BLOCK + shift, 0))
    for start in range(0, end, BLOCK):
        n = start + tl.arange(0, BLOCK)
        k = tl.load(k_ptr + n[:, None] * D + d, mask=n[:, None] < N, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d, mask=n[:, None] < N, other=0.0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        keep = n[None, :] < N
        if CAUSAL:
            keep = keep & (m[:, None] + shift >= n[None, :])
        s = tl.where(keep, s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        safe = tl.where(new == -float("inf"), 0.0, new)
        p = tl.exp2(s - safe[:, None])
        alpha = tl.exp2(top - safe)
        total = total * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * alpha[:, None], input_precision="ieee")
        top = new
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(o_ptr + m[:, None] * D + d, o, mask=m[:, None] < M)


def check_attention(m: int, n: int, shift: int, causal: bool, device: str) -> None:
    """Compares with the same in float64."""
    dim, scale = 16, 0.25
    q, k, v = (leaf(rows, dim, device=device) for rows in (m, n, n))
    o = torch.full((m, dim), torch.nan, device=device)
    cross_attention[(triton.cdiv(m, 16),)](
        q, k, v, o, m, n, shift, scale * LOG2_E, CAUSAL=causal, BLOCK=16, D=dim
    )
    ct = torch.randn(m, dim, device=device)
    found = torch.autograd.grad(o, (q, k, v), ct)
    exact = [t.detach().double().requires_grad_() for t in (q, k, v)]
    wanted = attended(*exact, scale, shift if causal else n)
    close(o.detach(), wanted.detach())
    for a, e in zip(
        found, torch.autograd.grad(wanted, exact, ct.double()), strict=True
    ):
        close(a, e)


def attended(q: Tensor, k: Tensor, v: Tensor, scale: float, shift: int) -> Tensor:
    rows = torch.arange(len(q), device=q.device)[:, None]
    seen = rows + shift >= torch.arange(len(k), device=q.device)
    blind = ~seen.any(1, keepdim=True)
    scores = (q @ k.T * scale).masked_fill(~(seen | blind), -torch.inf)
    return (scores.softmax(1) @ v).masked_fill(blind, 0.0)


@pytest.mark.parametrize("corner", ["upper_left", "lower_right"])
@pytest.mark.parametrize(("m", "n"), [(5, 9), (9, 5), (37, 20), (20, 37)])
def test_q_and_k_lengths_differ(m: int, n: int, corner: str, device: str):
    """ffpa-attn PR 300: causal, 5 queries and 9 keys, and the other way about.

    The forward's diagonal ended in the lower right corner, the backward's began in the
    upper left one. With 9 queries and 5 keys some queries see no key at all.
    """
    shift = n - m if corner == "lower_right" else 0
    check_attention(m, n, shift, True, device)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_non_causal_branch_never_tested(causal: bool, device: str):
    """triton#5660, #4174, #7216: the attention tutorial with `causal=False`.

    Its backward masked the diagonal whatever the flag said.
    """
    check_attention(37, 37, 0, causal, device)
