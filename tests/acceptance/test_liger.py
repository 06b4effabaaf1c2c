"""Liger's forward kernels, launched by Liger's own wrappers, against float64 PyTorch.

The kernels are imported as they are; each wrapper finds them made differentiable, so
that argument lists, grids and buffers are those of Liger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import undertow
from acceptance.launches import DTYPES, compare, label
from kernels.cases import gelu_tanh
from kernels.draw import Draw
from undertow.evaluate import TOLERANCES

ops = pytest.importorskip("liger_kernel.ops", reason="liger-kernel is not installed")

from liger_kernel.ops import (  # noqa: E402
    dyt,
    geglu,
    kl_div,
    layer_norm,
    relu_squared,
    rms_norm,
    rope,
    softmax,
    swiglu,
)

Results = tuple[Tensor, ...]


@dataclass(frozen=True)
class Peer:
    """One of Liger's forward kernels.

    Attributes:
        module: where kernel and wrapper stand.
        kernel: the kernel's name.
        inputs: float64 tensors to differentiate.
        wrapper: runs Liger's wrapper on them, in whatever dtype; gives the outputs.
        reference: the same in PyTorch.
    """

    module: Any
    kernel: str
    inputs: Mapping[str, Tensor]
    wrapper: Callable[..., Results]
    reference: Callable[..., Results]


ROWS, COLS, EPS = 5, 37, 1e-3


def _gate(
    module: Any, kernel: str, forward: Any, act: Callable[[Tensor], Tensor]
) -> Peer:
    draw = Draw(1)
    return Peer(
        module,
        kernel,
        {"a": draw.normal(ROWS, COLS), "b": draw.normal(ROWS, COLS)},
        lambda a, b: (forward(a, b)[2],),
        lambda a, b: (act(a) * b,),
    )


def _relu_squared() -> Peer:
    return Peer(
        relu_squared,
        "_relu_squared_forward_kernel",
        {"x": Draw(2).normal(ROWS, COLS)},
        lambda x: (relu_squared.relu_squared_forward(x),),
        lambda x: (F.relu(x).square(),),
    )


def _softmax() -> Peer:
    return Peer(
        softmax,
        "_softmax_single_block_forward_kernel",
        {"x": Draw(3).normal(ROWS, COLS)},
        lambda x: (softmax._softmax_forward(x)[0],),
        lambda x: (x.softmax(-1),),
    )


def _kl_div(reduction: str) -> Peer:
    draw = Draw(8)

    def wrapper(x: Tensor, target: Tensor) -> Results:
        return (kl_div.kldiv_forward_triton(x, target, True, reduction, EPS),)

    def reference(x: Tensor, target: Tensor) -> Results:
        loss = target.exp() * (target - x)
        return (loss if reduction == "none" else loss.sum(-1).sum(),)

    return Peer(
        kl_div,
        "_kldiv_kernel_forward",
        {"x": draw.normal(ROWS, COLS), "target": draw.normal(ROWS, COLS)},
        wrapper,
        reference,
    )


def _rms_norm(casting: str, offset: float) -> Peer:
    draw = Draw(4)

    def wrapper(x: Tensor, w: Tensor) -> Results:
        y, _, rstd, *_ = rms_norm.rms_norm_forward(x, w, EPS, offset, casting, True)
        return y, rstd

    def reference(x: Tensor, w: Tensor) -> Results:
        rstd = (x.square().mean(-1) + EPS).rsqrt()
        return x * rstd[:, None] * (w + offset), rstd

    return Peer(
        rms_norm,
        "_rms_norm_forward_kernel",
        {"x": draw.normal(ROWS, COLS), "w": draw.normal(COLS)},
        wrapper,
        reference,
    )


def _layer_norm() -> Peer:
    draw = Draw(5)

    def wrapper(x: Tensor, w: Tensor, b: Tensor) -> Results:
        y, _, mean, rstd, *_ = layer_norm.layer_norm_forward(x, w, b, EPS)
        return y, mean, rstd

    def reference(x: Tensor, w: Tensor, b: Tensor) -> Results:
        rstd = (x.var(-1, correction=0) + EPS).rsqrt()
        return F.layer_norm(x, (COLS,), w, b, EPS), x.mean(-1), rstd

    return Peer(
        layer_norm,
        "_layer_norm_forward_kernel",
        {"x": draw.normal(ROWS, COLS), "w": draw.normal(COLS), "b": draw.normal(COLS)},
        wrapper,
        reference,
    )


def _dyt() -> Peer:
    draw = Draw(6)
    return Peer(
        dyt,
        "_dyt_fwd_kernel",
        {
            "x": draw.normal(ROWS, COLS),
            "alpha": draw.uniform(1, low=0.5),
            "gamma": draw.normal(COLS),
            "beta": draw.normal(COLS),
        },
        lambda x, alpha, gamma, beta: (dyt.liger_dyt_fwd(x, alpha, gamma, beta),),
        lambda x, alpha, gamma, beta: ((alpha * x).tanh() * gamma + beta,),
    )


def _rope() -> Peer:
    draw = Draw(7)
    batch, heads, kv_heads, length, dim = 2, 3, 1, 5, 8
    angle = draw.uniform(1, length, dim // 2, high=6.0).repeat(1, 1, 2)
    cos, sin = (t.to(torch.bfloat16).double() for t in (angle.cos(), angle.sin()))

    def wrapper(q: Tensor, k: Tensor) -> Results:
        # the kernel works in place, where a leaf must not be touched
        q, k = (t.transpose(1, 2).contiguous().mul(1).transpose(1, 2) for t in (q, k))
        return rope.rope_forward(q, k, cos.to(q), sin.to(q))[:2]

    def rotated(x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    return Peer(
        rope,
        "_triton_rope",
        {
            "q": draw.normal(batch, heads, length, dim),
            "k": draw.normal(batch, kv_heads, length, dim),
        },
        wrapper,
        lambda q, k: (rotated(q), rotated(k)),
    )


PEERS: dict[str, Callable[[], Peer]] = {
    "geglu": lambda: _gate(
        geglu, "_geglu_tanh_forward_kernel", geglu.geglu_forward, gelu_tanh
    ),
    "swiglu": lambda: _gate(
        swiglu, "_swiglu_forward_kernel", swiglu.swiglu_forward, F.silu
    ),
    "relu_squared": _relu_squared,
    "softmax": _softmax,
    "kl_div": lambda: _kl_div("none"),
    "kl_div_sum": lambda: _kl_div("sum"),
    "rms_norm-llama": lambda: _rms_norm("llama", 0.0),
    "rms_norm-gemma": lambda: _rms_norm("gemma", 1.0),
    "rms_norm-none": lambda: _rms_norm("none", 0.0),
    "layer_norm": _layer_norm,
    "dyt": _dyt,
    "rope": _rope,
}


@pytest.fixture
def with_gradients(monkeypatch: pytest.MonkeyPatch) -> Callable[[Peer], None]:
    def replace(peer: Peer) -> None:
        kernel = getattr(peer.module, peer.kernel)
        monkeypatch.setattr(peer.module, peer.kernel, undertow.differentiable(kernel))

    return replace


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", DTYPES, ids=label)
@pytest.mark.parametrize("name", PEERS)
def test_gradients_of_a_peers_forward(
    name: str, dtype: torch.dtype, device: str, with_gradients: Callable[[Peer], None]
) -> None:
    peer = PEERS[name]()
    with_gradients(peer)
    exact = {n: t.clone().requires_grad_() for n, t in peer.inputs.items()}
    wanted = peer.reference(**exact)
    draw = Draw(8)
    cotangents = [draw.normal(*w.shape) for w in wanted]
    torch.autograd.backward(wanted, cotangents)

    leaves = {n: t.to(device, dtype).requires_grad_() for n, t in peer.inputs.items()}
    found = peer.wrapper(**leaves)
    given = [c.to(f) for c, f in zip(cotangents, found, strict=True)]
    torch.autograd.backward(found, given)

    tolerance = TOLERANCES[DTYPES[dtype]]
    compare(
        {str(i): f.detach() for i, f in enumerate(found)},
        {str(i): w.detach() for i, w in enumerate(wanted)},
        tolerance,
    )
    compare(
        {n: t.grad for n, t in leaves.items() if t.grad is not None},
        {n: t.grad for n, t in exact.items() if t.grad is not None},
        tolerance,
    )
