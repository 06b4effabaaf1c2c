"""Liger-Kernel: losses, norms, activations, rotary embeddings, mixture of experts."""

from __future__ import annotations

import inspect
from typing import Any
from unittest import mock

import torch
from liger_kernel import ops
from liger_kernel.ops import grpo_loss as grpo
from liger_kernel.ops import mhc
from liger_kernel.ops import mlp as gated_mlp
from liger_kernel.ops import softmax as softmaxes
from liger_kernel.ops import swiglu as swiglus
from liger_kernel.ops.attn_res import LigerAttnResFunction
from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction
from liger_kernel.ops.fused_ce_tvd import LigerFusedCETVDFunction
from liger_kernel.ops.fused_linear_kl_div import LigerFusedLinearKLDivFunction
from liger_kernel.ops.fused_moe import LigerFusedMoEFunction
from liger_kernel.ops.grpo_loss import GrpoLossFunction
from liger_kernel.ops.vocab_parallel_cross_entropy import LigerVocabParallelCEFunction
from torch import Tensor

from benchmarks.coverage.inputs import Inputs
from benchmarks.coverage.workloads import workload

liger = workload("liger")
ROWS, COLS = 5, 37


# -- activations --


@liger()
def geglu(draw: Inputs) -> Tensor:
    a, b = draw.normal(ROWS, COLS), draw.normal(ROWS, COLS)
    return ops.LigerGELUMulFunction.apply(a, b)


@liger()
def swiglu(draw: Inputs) -> Tensor:
    a, b = draw.normal(ROWS, COLS), draw.normal(ROWS, COLS)
    return ops.LigerSiLUMulFunction.apply(a, b, 1.5, 0.5)


@liger()
def swiglu_tiled(draw: Inputs) -> Tensor:
    narrow = {"_should_tile": lambda _: True, "_SWIGLU_TILE": 16}
    with mock.patch.multiple(swiglus, **narrow):
        return swiglu(draw)


@liger()
def swiglu_fused_gate_up(draw: Inputs) -> Tensor:
    return swiglus.LigerFusedGateUpSiLUMulFunction.apply(draw.normal(ROWS, 2 * COLS))


@liger()
def relu_squared(draw: Inputs) -> Tensor:
    return ops.LigerReLUSquaredFunction.apply(draw.normal(ROWS, COLS))


@liger()
def dyt(draw: Inputs) -> Tensor:
    x, alpha = draw.normal(ROWS, COLS), draw.uniform(1, low=0.5)
    return ops.LigerDyTFunction.apply(x, alpha, draw.normal(COLS), draw.normal(COLS))


@liger()
def mlp(draw: Inputs) -> Tensor:
    x, gate, up = draw.normal(2, 3, 16), draw.normal(32, 16), draw.normal(32, 16)
    with mock.patch.object(Tensor, "is_cuda", True):
        return gated_mlp.LigerMLPFunction.apply(x, gate, up, draw.normal(16, 32))


# -- norms --


def _rms_norm(draw: Inputs, mode: str, by_row: bool) -> Tensor:
    x, w = draw.normal(ROWS, COLS), draw.normal(COLS)
    return ops.LigerRMSNormFunction.apply(x, w, 1e-5, 1.0, mode, False, by_row)


@liger()
def rms_norm(draw: Inputs) -> Tensor:
    return _rms_norm(draw, "llama", True)


@liger()
def rms_norm_gemma(draw: Inputs) -> Tensor:
    return _rms_norm(draw, "gemma", True)


@liger()
def rms_norm_of_blocks(draw: Inputs) -> Tensor:
    x, w = draw.normal(32 * 1024 + 1, 3), draw.normal(3)
    return ops.LigerRMSNormFunction.apply(x, w, 1e-5, 0.0, "llama", False, None)


@liger()
def fused_add_rms_norm(draw: Inputs) -> Any:
    x, r, w = draw.normal(ROWS, COLS), draw.normal(ROWS, COLS), draw.normal(COLS)
    return ops.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-5, 0.5, "llama", False)


@liger()
def modulated_rms_norm(draw: Inputs) -> Tensor:
    x, w = draw.normal(2, ROWS, COLS), draw.normal(COLS)
    scale, shift = draw.normal(2, COLS), draw.normal(2, COLS)
    return ops.LigerModulatedRMSNormFunction.apply(x, w, scale, shift, 1e-5)


@liger()
def layer_norm(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(ROWS, COLS), draw.normal(COLS), draw.normal(COLS)
    return ops.LigerLayerNormFunction.apply(x, w, b, 1e-5)


@liger()
def group_norm(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(2, 6, 11), draw.normal(6), draw.normal(6)
    return ops.LigerGroupNormFunction.apply(x, w, b, 6, 3, 1e-5)


@liger()
def poly_norm(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(ROWS, COLS), draw.normal(3), draw.normal()
    return ops.LigerPolyNormFunction.apply(x, w, b, 1e-5, False)


# -- attention and rotary embeddings --


@liger()
def softmax(draw: Inputs) -> Tensor:
    return ops.LigerSoftmaxFunction.apply(draw.normal(ROWS, COLS))


@liger()
def softmax_of_blocks(draw: Inputs) -> Tensor:
    with mock.patch.object(softmaxes, "calculate_settings", lambda _: (16, 4)):
        return ops.LigerSoftmaxFunction.apply(draw.normal(ROWS, COLS))


@liger()
def sparsemax(draw: Inputs) -> Tensor:
    return ops.LigerSparsemaxFunction.apply(draw.normal(ROWS, COLS), -1)


@liger()
def multi_token_attention(draw: Inputs) -> Tensor:
    scores, weight = draw.normal(1, 2, 9, 9), draw.normal(2, 2, 3, 3)
    bias = draw.normal(2)
    return ops.LigerMultiTokenAttentionFunction.apply(scores, weight, bias, 1, 1)


@liger()
def neighborhood_attention(draw: Inputs) -> Tensor:
    q, k, v = (draw.normal(1, 2, 11, 8) for _ in range(3))
    return ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 3, 1)


@liger()
def attention_residuals(draw: Inputs) -> Tensor:
    blocks, query, norm = draw.normal(3, 2, 4, 17), draw.normal(17), draw.normal(17)
    return LigerAttnResFunction.apply(blocks, query, norm, 1e-6)


def _angles(draw: Inputs, *size: int) -> tuple[Tensor, Tensor]:
    angle = draw.uniform(*size, high=6.0, grad=False).repeat(*[1] * (len(size) - 1), 2)
    return angle.cos(), angle.sin()


@liger()
def rope(draw: Inputs) -> Any:
    q, k = draw.normal(2, 3, 5, 8), draw.normal(2, 1, 5, 8)
    return ops.LigerRopeFunction.apply(q, k, *_angles(draw, 1, 5, 4))


@liger()
def qwen2vl_mrope(draw: Inputs) -> Any:
    q, k = draw.normal(2, 3, 5, 8), draw.normal(2, 1, 5, 8)
    return ops.LigerQwen2VLMRopeFunction.apply(q, k, *_angles(draw, 3, 2, 5, 4), [1, 1])


@liger()
def llama4_rope(draw: Inputs) -> Any:
    q, k = draw.normal(2, 5, 3, 8), draw.normal(2, 5, 1, 8)
    angle = draw.uniform(5, 4, high=6.0, grad=False)
    return ops.LigerLlama4RopeFunction.apply(q, k, torch.polar(angle * 0 + 1, angle))


@liger()
def embedding(draw: Inputs) -> Tensor:
    return LigerEmbeddingFunction.apply(draw.normal(11, 8), draw.integers(11, 3, 7))


# -- losses --


@liger(fixed={"HAS_GRADIENTS": False}, beside=True)
def cross_entropy(draw: Inputs) -> Tensor:
    x, y = draw.normal(ROWS, COLS), draw.integers(COLS, ROWS)
    y[2] = -100
    call = ops.LigerCrossEntropyFunction.apply
    return call(x, y, None, -100, 1e-2, 0.1, "mean", 20.0, True)[:1]


@liger(fixed={"HAS_GRADIENTS": False}, beside=True)
def fused_linear_cross_entropy(draw: Inputs) -> Tensor:
    x, w, y = draw.normal(7, 8), draw.normal(COLS, 8), draw.integers(COLS, 7)
    return ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, y)[0]


@liger()
def vocab_parallel_cross_entropy(draw: Inputs) -> Tensor:
    x, y = draw.normal(ROWS, 2, COLS), draw.integers(COLS, ROWS, 2)
    call = LigerVocabParallelCEFunction.apply
    return call(x, y, None, -100, 0.0, "megatron", "global")


@liger(beside=True, apart=("dX_ptr",))
def jsd(draw: Inputs) -> Tensor:
    x = draw.normal(ROWS, COLS).log_softmax(-1)
    y = draw.normal(ROWS, COLS, grad=False).log_softmax(-1)
    return ops.LigerJSDFunction.apply(x, y, None, 0.3, -100)


@liger(beside=True, apart=("dX_ptr",))
def fused_linear_jsd(draw: Inputs) -> Tensor:
    x, w = draw.normal(7, 8), draw.normal(COLS, 8)
    y, v = draw.normal(7, 8, grad=False), draw.normal(COLS, 8, grad=False)
    return ops.LigerFusedLinearJSDFunction.apply(x, w, y, v)


@liger(beside=True)
def fused_linear_kl_div(draw: Inputs) -> Tensor:
    x, w = draw.normal(7, 8), draw.normal(COLS, 8)
    q = draw.normal(7, COLS, grad=False).softmax(-1)
    return LigerFusedLinearKLDivFunction.apply(x, w, q)


@liger()
def kl_div(draw: Inputs) -> Tensor:
    x = draw.normal(ROWS, COLS).log_softmax(-1)
    y = draw.normal(ROWS, COLS, grad=False).softmax(-1)
    return ops.LigerKLDivLossFunction.apply(x, y, "batchmean", False)


@liger(beside=True)
def tvd(draw: Inputs) -> Tensor:
    p = draw.normal(ROWS, COLS).softmax(-1)
    q = draw.normal(ROWS, COLS, grad=False).softmax(-1)
    return ops.LigerTVDLossFunction.apply(p, q, None, "batchmean", -100)


@liger()
def fused_ce_tvd(draw: Inputs) -> Any:
    x, y = draw.normal(ROWS, COLS), draw.normal(ROWS, COLS, grad=False)
    target = draw.integers(COLS, ROWS)
    target[1] = -100
    return LigerFusedCETVDFunction.apply(x, y, target, -100)


def _grpo(draw: Inputs, level: str, kind: str) -> Tensor:
    batch, length = 2, 5
    logits = draw.normal(batch, length + 1, COLS)
    old, ref = (draw.normal(batch, length, grad=False) - 3 for _ in range(2))
    ids = draw.integers(COLS, batch, length)
    advantages = draw.normal(batch, grad=False)
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, -2:] = 0
    return GrpoLossFunction.apply(
        logits, old, ref, ids, advantages, mask, 0.9, 0.04, 0.2, 0.4, False,
        kind, None, True, level,
    )[0]  # fmt: skip


@liger()
def grpo_loss(draw: Inputs) -> Tensor:
    return _grpo(draw, "token", "grpo")


@liger(differs="it holds the importance weights constant")
def grpo_loss_cispo(draw: Inputs) -> Tensor:
    return _grpo(draw, "token", "cispo")


@liger()
def grpo_loss_of_sequences(draw: Inputs) -> Tensor:
    selected = inspect.unwrap(grpo.fused_selective_log_softmax)  # without its no_grad
    with mock.patch.object(grpo, "fused_selective_log_softmax", selected):
        return _grpo(draw, "sequence", "grpo")


# -- hyper-connections and experts --


@liger()
def mhc_coefficients(draw: Inputs) -> Any:
    streams, width = 4, 5
    many = streams * streams + 2 * streams
    x, phi = draw.normal(7, streams, width), draw.normal(streams * width, many)
    b, alphas = draw.normal(many), [draw.normal() for _ in range(3)]
    return mhc.LigerMHCCoeffsFunction.apply(
        x, phi, b, *alphas, True, 3, 1e-6, 1e-4, 1e-6, 2.0
    )


@liger()
def mhc_pre(draw: Inputs) -> Tensor:
    return mhc.LigerMHCPreFunction.apply(draw.normal(7, 4, 5), draw.uniform(7, 4))


@liger()
def mhc_post(draw: Inputs) -> Tensor:
    x, f = draw.normal(7, 4, 5), draw.normal(7, 5)
    post, res = draw.uniform(7, 4), draw.uniform(7, 4, 4)
    return mhc.LigerMHCPostResFunction.apply(x, f, post, res)


@liger()
def fused_moe(draw: Inputs) -> Tensor:
    tokens, experts, width, inner = 9, 3, 16, 16
    x, up = draw.normal(tokens, width), draw.normal(experts, 2 * inner, width)
    down, weights = draw.normal(experts, width, inner), draw.uniform(tokens, 2)
    chosen = draw.uniform(tokens, experts, grad=False).topk(2).indices.int()
    return LigerFusedMoEFunction.apply(x, up, down, chosen, weights)
