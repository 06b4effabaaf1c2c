"""Flash Linear Attention: activations, norms, losses, convolutions, gates."""

from __future__ import annotations

import importlib
from typing import Any
from unittest import mock

import torch
from fla.modules import activations, token_shift
from fla.modules.activations.ops import ELUPlusOneFunction
from fla.modules.causal_conv1d import causal_conv1d as convolution
from fla.modules.fused_bitlinear import layer_norm_linear_quant
from fla.modules.fused_cross_entropy.ops import cross_entropy_loss
from fla.modules.fused_kl_div.ops import fused_kl_div_loss
from fla.modules.fused_linear_cross_entropy.ops import fused_linear_cross_entropy_loss
from fla.modules.grpo.ops import fused_grpo_loss
from fla.modules.norm import fused_norm_gate, l2norm, layernorm, layernorm_gated
from fla.modules.rotary.ops import rotary_embedding
from fla.ops.attnres import fused_attnres
from fla.ops.common.gate import fused_beta_sigmoid
from fla.ops.gated_delta_rule.gate import fused_gdn_gate
from fla.ops.gsa.gate import fused_additive_gate
from fla.ops.kda.gate import fused_kda_gate
from fla.ops.rwkv7.channel_mixing import channel_mixing_rwkv7
from fla.ops.rwkv7.fused_addcmul import fused_addcmul_rwkv7
from fla.ops.rwkv7.fused_k_update import fused_k_rwkv7
from fla.ops.rwkv7.gate_output_correction import gate_output_correction
from fla.ops.utils import mean_pooling, sinkhorn
from torch import Tensor

from benchmarks.coverage.inputs import Inputs
from benchmarks.coverage.workloads import workload

fla = workload("fla")
softplus: Any = importlib.import_module("fla.ops.utils.softplus")  # not its function
ROWS, COLS = 5, 37

for _name in ("softplus", "softplus2"):  # what it calls where there is no PTX to inline
    setattr(softplus, f"{_name}_nv", getattr(softplus, f"{_name}_triton"))


# -- activations --


def _activation(name: str, arguments: int) -> None:
    def call(draw: Inputs) -> Tensor:
        inputs = [draw.normal(ROWS, COLS) for _ in range(arguments)]
        return getattr(activations, name)(*inputs)

    fla(name)(call)


for _name, _arguments in {
    "logsigmoid": 1,
    "sigmoid": 1,
    "swish": 1,
    "swiglu": 2,
    "sigmoidglu": 2,
    "powglu": 2,
}.items():
    _activation(_name, _arguments)


@fla()
def elu_p1(draw: Inputs) -> Tensor:
    return ELUPlusOneFunction.apply(draw.normal(ROWS, COLS))  # elu_p1 is not for CPUs


# -- norms --


@fla()
def layer_norm(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(ROWS, COLS), draw.normal(COLS), draw.normal(COLS)
    return layernorm.layer_norm(x, w, b, residual=draw.normal(ROWS, COLS))


@fla()
def layer_norm_of_rows(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(ROWS, 600), draw.normal(600), draw.normal(600)
    return layernorm.layer_norm(x, w, b)


@fla()
def rms_norm(draw: Inputs) -> Tensor:
    x, w = draw.normal(ROWS, COLS), draw.normal(COLS)
    return layernorm.rms_norm(x, w, None)


@fla()
def group_norm(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(ROWS, 36), draw.normal(36), draw.normal(36)
    return layernorm.group_norm(x, w, b, num_groups=3)


@fla(differs="it passes gradients straight through the rounding")
def layer_norm_quantised(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(2, 7), draw.normal(7), draw.normal(7)
    return layer_norm_linear_quant(x, w, b, draw.normal(11, 7), draw.normal(11))


@fla()
def layer_norm_with_gate(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(ROWS, COLS), draw.normal(COLS), draw.normal(COLS)
    z = draw.normal(ROWS, COLS)
    return layernorm_gated.layernorm_fn(x, w, b, z)


@fla()
def layer_norm_gated(draw: Inputs) -> Tensor:
    x, g = draw.normal(ROWS, COLS), draw.normal(ROWS, COLS)
    w, b = draw.normal(COLS), draw.normal(COLS)
    return fused_norm_gate.layer_norm_gated(x, g, w, b)


@fla()
def rms_norm_gated_of_rows(draw: Inputs) -> Tensor:
    x, g, w = draw.normal(ROWS, 600), draw.normal(ROWS, 600), draw.normal(600)
    return fused_norm_gate.rms_norm_gated(x, g, w, None)


@fla("l2norm")
def l2_norm(draw: Inputs) -> Tensor:
    return l2norm.l2norm(draw.normal(ROWS, COLS))


@fla("l2norm_of_rows")
def l2_norm_of_rows(draw: Inputs) -> Tensor:
    return l2norm.l2norm(draw.normal(ROWS, 600))


# -- losses --


@fla()
def cross_entropy(draw: Inputs) -> Any:
    x, y = draw.normal(ROWS, COLS), draw.integers(COLS, ROWS)
    y[1] = -100
    return cross_entropy_loss(x, y, label_smoothing=0.1, lse_square_scale=1e-2)[0]


@fla()
def cross_entropy_split(draw: Inputs) -> Any:
    x, y = draw.normal(2, 65_540), draw.integers(65_540, 2)
    return cross_entropy_loss(x, y, label_smoothing=0.1)[0]


@fla(beside=True)
def fused_linear_cross_entropy(draw: Inputs) -> Tensor:
    x, w, y = draw.normal(7, 8), draw.normal(COLS, 8), draw.integers(COLS, 7)
    return fused_linear_cross_entropy_loss(x, y, w)


@fla(beside=True)
def fused_kl_div(draw: Inputs) -> Tensor:
    x, w = draw.normal(7, 8), draw.normal(COLS, 8)
    y, v = draw.normal(7, 8, grad=False), draw.normal(COLS, 8, grad=False)
    return fused_kl_div_loss(x, y, w, v)


@fla(differs="it takes the gradient of a ratio whose value is 1")
def grpo_loss(draw: Inputs) -> Tensor:
    logits, ref = draw.normal(2, 6, COLS), draw.normal(2, 5, shift=-3, grad=False)
    ids, advantages = draw.integers(COLS, 2, 5), draw.normal(2, grad=False)
    mask = torch.ones(2, 5)
    mask[1, 3:] = 0
    return fused_grpo_loss(logits, ref, ids, advantages, 0.1, mask, False, False)


# -- convolutions, rotary embeddings, gates --


@fla()
def causal_conv1d(draw: Inputs) -> Any:
    x, w, b = draw.normal(2, 19, 12), draw.normal(12, 4), draw.normal(12)
    return convolution(x, w, b, residual=draw.normal(2, 19, 12), activation="silu")[0]


@fla(differs="it drops the gradient of the state's oldest element")
def causal_conv1d_with_state(draw: Inputs) -> Any:
    x, w, h = draw.normal(2, 19, 12), draw.normal(12, 4), draw.normal(2, 12, 4)
    return convolution(x, w, initial_state=h, output_final_state=True)


@fla()
def token_shift_short(draw: Inputs) -> Tensor:
    return token_shift.token_shift(draw.normal(2, 19, 12))


@fla()
def token_shift_long(draw: Inputs) -> Tensor:
    return token_shift.token_shift(draw.normal(1, 4100, 3))


@fla()
def rotary(draw: Inputs) -> Tensor:
    x, angle = draw.normal(2, 9, 3, 8), draw.uniform(9, 4, high=6.0, grad=False)
    return rotary_embedding(x, angle.cos(), angle.sin())


@fla()
def pooling(draw: Inputs) -> Tensor:
    return mean_pooling(draw.normal(2, 19, 3, 8), 8)


@fla("sinkhorn")
def sinkhorn_iterations(draw: Inputs) -> Tensor:
    with mock.patch.object(Tensor, "is_cuda", True):
        return sinkhorn(draw.normal(5, 4, 4), 3)


@fla()
def attention_residuals(draw: Inputs) -> Any:
    query, norm = draw.normal(16), draw.normal(16)
    residuals = [draw.normal(2, 5, 16) for _ in range(3)]
    with mock.patch.object(Tensor, "is_cuda", True):
        return fused_attnres(query, residuals, norm)


@fla()
def beta_sigmoid(draw: Inputs) -> Tensor:
    return fused_beta_sigmoid(draw.normal(2, 9, 3), 2.0)


@fla()
def delta_gate(draw: Inputs) -> Tensor:
    return fused_gdn_gate(draw.normal(2, 9, 3), draw.normal(3), draw.normal(3))


@fla()
def additive_gate(draw: Inputs) -> Any:
    x, h = draw.normal(2, 9, 3, 12), draw.normal(2, 1, 3, 12)
    return fused_additive_gate(x, h)


@fla()
def kda_gate(draw: Inputs) -> Tensor:
    return fused_kda_gate(draw.normal(2, 9, 3, 8), draw.normal(3), draw.normal(24))


@fla("channel_mixing_rwkv7")
def channel_mixing(draw: Inputs) -> Any:
    x, previous, k = draw.normal(2, 9, 16), draw.normal(2, 16), draw.normal(16)
    key, value = draw.normal(16, 32), draw.normal(32, 16)
    return channel_mixing_rwkv7(x, previous, k, key, value, False)


@fla("addcmul_rwkv7")
def addcmul(draw: Inputs) -> Any:
    x, delta = draw.normal(2, 9, 16), draw.normal(2, 9, 16)
    return fused_addcmul_rwkv7(x, delta, *(draw.normal(1, 1, 16) for _ in range(6)))


@fla("k_update_rwkv7")
def k_update(draw: Inputs) -> Tensor:
    return fused_k_rwkv7(draw.normal(2, 9, 16), draw.normal(2, 9, 16), draw.normal(16))


@fla("k_update_rwkv7_long")
def k_update_long(draw: Inputs) -> Tensor:
    k, a = draw.normal(1, 2100, 3), draw.normal(1, 2100, 3)
    return fused_k_rwkv7(k, a, draw.normal(3))


@fla("gate_output_correction")
def output_correction(draw: Inputs) -> Tensor:
    o, g = draw.normal(2, 9, 48), draw.normal(2, 9, 48)
    r, k, v = (draw.normal(2, 9, 3, 16) for _ in range(3))
    return gate_output_correction(o, r, k, draw.normal(3, 16), v, g)
