"""Flash Linear Attention: attention, recurrent and chunked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from fla.ops import (
    abc,
    attn,
    based,
    delta_rule,
    forgetting_attn,
    gated_delta_rule,
    gated_oja_rule,
    gdn2,
    gla,
    gsa,
    hgrn,
    kda,
    linear_attn,
    momentum_delta_rule,
    nsa,
    parallax,
    path_attn,
    precond_gated_delta_rule,
    precond_kda,
    rebased,
    retention,
    rwkv6,
    rwkv7,
    simple_gla,
    stickbreaking_attn,
    ttt,
    wall_attn,
)
from fla.ops.comba import chunk_comba
from fla.ops.gated_delta_product import chunk_gated_delta_product
from fla.ops.gated_oja_rule import chunk_kkt
from fla.ops.generalized_delta_rule import (
    chunk_dplr_delta_rule,
    chunk_iplr_delta_rule,
    fused_recurrent_iplr_delta_rule,
)
from fla.ops.log_linear_attn import chunk_log_linear_attn
from fla.ops.mesa_net import chunk_mesa_net
from fla.ops.rwkv4 import fused_recurrent_rwkv4
from fla.ops.utils import solve_tril
from torch import Tensor

from benchmarks.coverage.inputs import Inputs
from benchmarks.coverage.workloads import workload

fla = workload("fla")
BATCH, LENGTH, HEADS, WIDTH = 1, 70, 2, 16
"""A chunk of 64 and a part of one."""


def _tokens(draw: Inputs, count: int, **options: Any) -> list[Tensor]:
    size = (BATCH, LENGTH, HEADS, WIDTH)
    return [draw.normal(*size, scale=0.5, **options) for _ in range(count)]


def _log_decay(draw: Inputs, *last: int) -> Tensor:
    return -draw.uniform(BATCH, LENGTH, HEADS, *last, low=0.02, high=0.5)


def _beta(draw: Inputs) -> Tensor:
    return draw.uniform(BATCH, LENGTH, HEADS, low=0.1, high=0.9)


def _state(draw: Inputs) -> Tensor:
    return draw.normal(BATCH, HEADS, WIDTH, WIDTH, scale=0.3)


def _unit(x: Tensor) -> Tensor:
    return torch.nn.functional.normalize(x, dim=-1)


def _half(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.to(torch.bfloat16) for t in tensors)


# -- attention --


@fla()
def parallel_attn(draw: Inputs) -> Tensor:
    return attn.parallel_attn(*_tokens(draw, 3))


@fla()
def parallel_attn_grouped(draw: Inputs) -> Tensor:
    q = draw.normal(BATCH, LENGTH, 4, WIDTH)
    return attn.parallel_attn(q, *_tokens(draw, 2))


@fla()
def parallel_attn_varlen(draw: Inputs) -> Tensor:
    ends = torch.tensor([0, 23, LENGTH])
    return attn.parallel_attn(*_tokens(draw, 3), cu_seqlens=ends)


@fla()
def parallel_forgetting_attn(draw: Inputs) -> Tensor:
    q, k, v = _tokens(draw, 3)
    return forgetting_attn.parallel_forgetting_attn(q, k, v, _log_decay(draw))


@fla()
def parallel_parallax(draw: Inputs) -> Tensor:
    return parallax.parallel_parallax(*_half(*_tokens(draw, 4)))


@fla()
def parallel_path_attn(draw: Inputs) -> Any:
    q, k, v, w = _tokens(draw, 4)
    return path_attn.parallel_path_attn(q, k, v, _unit(w), _beta(draw))[0]


@fla()
def parallel_wall_attn(draw: Inputs) -> Any:
    q, k, v = _tokens(draw, 3)
    return wall_attn.parallel_wall_attn(q, k, v, _log_decay(draw, WIDTH))


@fla()
def parallel_stickbreaking_attn(draw: Inputs) -> Any:
    return stickbreaking_attn.parallel_stickbreaking_attn(*_tokens(draw, 3))


@fla()
def parallel_nsa(draw: Inputs) -> Any:
    q = draw.normal(BATCH, LENGTH, 16, WIDTH)
    k, v = draw.normal(BATCH, LENGTH, 1, WIDTH), draw.normal(BATCH, LENGTH, 1, WIDTH)
    gates = [draw.uniform(BATCH, LENGTH, 16) for _ in range(2)]
    return nsa.parallel_nsa(q, k, v, *gates, block_counts=2, block_size=16)


@fla()
def parallel_based(draw: Inputs) -> Tensor:
    return based.parallel_based(*_tokens(draw, 3), use_norm=False)


@fla()
def fused_chunk_based(draw: Inputs) -> Tensor:
    return based.fused_chunk_based(*_tokens(draw, 3), use_norm=False)


@fla()
def parallel_rebased(draw: Inputs) -> Tensor:
    return rebased.parallel_rebased(*_tokens(draw, 3), use_normalize=False)


@fla()
def parallel_simple_gla(draw: Inputs) -> Any:
    q, k, v = _tokens(draw, 3)
    return simple_gla.parallel_simple_gla(q, k, v, _log_decay(draw))[0]


@fla()
def parallel_retention(draw: Inputs) -> Any:
    return retention.parallel_retention(*_tokens(draw, 3))[0]


# -- recurrent --


@fla()
def fused_recurrent_gla(draw: Inputs) -> Any:
    q, k, v = _tokens(draw, 3)
    gk, h = _log_decay(draw, WIDTH), _state(draw)
    call = gla.fused_recurrent_gla
    return call(q, k, v, gk, initial_state=h, output_final_state=True)


@fla()
def fused_recurrent_simple_gla(draw: Inputs) -> Any:
    q, k, v = _tokens(draw, 3)
    return simple_gla.fused_recurrent_simple_gla(q, k, v, _log_decay(draw))[0]


@fla()
def fused_recurrent_linear_attn(draw: Inputs) -> Any:
    return linear_attn.fused_recurrent_linear_attn(*_tokens(draw, 3))[0]


@fla()
def fused_recurrent_delta_rule(draw: Inputs) -> Any:
    q, k, v = _tokens(draw, 3)
    h, call = _state(draw), delta_rule.fused_recurrent_delta_rule
    beta = _beta(draw)
    return call(q, _unit(k), v, beta, initial_state=h, output_final_state=True)


@fla()
def fused_recurrent_hgrn(draw: Inputs) -> Any:
    x, g = draw.normal(2, LENGTH, 24), -draw.uniform(2, LENGTH, 24, low=0.1)
    return hgrn.fused_recurrent_hgrn(x, g, output_final_state=True)


@fla("fused_recurrent_rwkv4")
def recurrent_rwkv4(draw: Inputs) -> Any:
    w, u, k, v = draw.normal(24), draw.normal(24), draw.normal(2, 9, 24), None
    v, state = draw.normal(2, 9, 24), draw.normal(2, 3, 1, 24, scale=0.3)
    return fused_recurrent_rwkv4(-w.exp(), u, k, v, state)


@fla()
def fused_recurrent_rwkv6(draw: Inputs) -> Any:
    r, k, v = _tokens(draw, 3)
    w, u = _log_decay(draw, WIDTH), draw.normal(HEADS, WIDTH)
    return rwkv6.fused_recurrent_rwkv6(r, k, v, w, u)[0]


@fla()
def fused_recurrent_gsa(draw: Inputs) -> Any:
    q, k, v, s = _tokens(draw, 4)
    return gsa.fused_recurrent_gsa(q, k, v, s, _log_decay(draw, WIDTH))[0]


@fla()
def fused_recurrent_iplr(draw: Inputs) -> Any:
    q, k, v, a = _tokens(draw, 4)
    a = _unit(a)
    return fused_recurrent_iplr_delta_rule(q, k, v, -a, a * 0.5)[0]


# -- chunked --


def _chunked(name: str, call: Callable[..., Any], gates: str = "", **options: Any):
    """Registers calls of ``call(q, k, v, *gates)``."""

    def made(draw: Inputs) -> Any:
        q, k, v = _tokens(draw, 3)
        extra = {
            "g": lambda: _log_decay(draw),
            "k": lambda: _log_decay(draw, WIDTH),
            "b": lambda: _beta(draw),
            "p": lambda: _unit(_tokens(draw, 1)[0]),
        }
        k = _unit(k)
        given = (q, k, v, *(extra[gate]() for gate in gates))
        if options.get("half"):
            given = _half(*given)
        keywords = {n: a for n, a in options.items() if n != "half"}
        made = call(*given, **keywords)
        return made[0] if isinstance(made, tuple) else made

    fla(name)(made)


_chunked("chunk_simple_gla", simple_gla.chunk_simple_gla, "g")
_chunked("fused_chunk_simple_gla", simple_gla.fused_chunk_simple_gla, "g")
_chunked("chunk_gla", gla.chunk_gla, "k")
_chunked("chunk_linear_attn", linear_attn.chunk_linear_attn, normalize=False)
_chunked("fused_chunk_linear_attn", linear_attn.fused_chunk_linear_attn)
_chunked("chunk_retention", retention.chunk_retention)
_chunked("chunk_delta_rule", delta_rule.chunk_delta_rule, "b", half=True)
_chunked("chunk_gated_delta_rule", gated_delta_rule.chunk_gated_delta_rule, "gb")
_chunked("chunk_comba", chunk_comba, "pgb")
_chunked("chunk_gated_oja_rule", gated_oja_rule.chunk_gated_oja_rule, "kb")
_chunked("chunk_kda", kda.chunk_kda, "kb")
_chunked("chunk_kda_safe", kda.chunk_kda, "kb", safe_gate=True, lower_bound=-5.0)


def _gdn2(draw: Inputs, **options: Any) -> Any:
    q, k, v = _tokens(draw, 3)
    g, b, w = _log_decay(draw, WIDTH), _log_decay(draw, WIDTH), _log_decay(draw, WIDTH)
    return gdn2.chunk_gdn2(q, _unit(k), v, g, -b, -w, **options)[0]


@fla()
def chunk_gdn2(draw: Inputs) -> Any:
    return _gdn2(draw)


@fla()
def chunk_gdn2_safe(draw: Inputs) -> Any:
    return _gdn2(draw, safe_gate=True, lower_bound=-5.0)


@fla()
def chunk_gated_delta_rule_with_gate(draw: Inputs) -> Any:
    q, k, v = _tokens(draw, 3)
    g, bias = draw.normal(BATCH, LENGTH, HEADS), draw.normal(HEADS)
    options = {"use_gate_in_kernel": True, "A_log": draw.normal(HEADS)}
    call = gated_delta_rule.chunk_gated_delta_rule
    return call(q, _unit(k), v, g, _beta(draw), dt_bias=bias, **options)[0]


@fla(beside=True)
def chunk_kkt_of_oja(draw: Inputs) -> Any:
    k, g = _tokens(draw, 1)[0], _log_decay(draw)
    return chunk_kkt.chunk_scaled_dot_kkt_fwd(k=k, g=g, beta=_beta(draw))


@fla(beside=True)
def solve_tril_of_16(draw: Inputs) -> Any:
    return solve_tril(draw.normal(BATCH, LENGTH, HEADS, 16, scale=0.1))


@fla(beside=True)
def solve_tril_of_32(draw: Inputs) -> Any:
    return solve_tril(draw.normal(BATCH, LENGTH, HEADS, 32, scale=0.1))


@fla("chunk_gated_delta_product")
def gated_delta_product(draw: Inputs) -> Any:
    q, g = _tokens(draw, 1)[0], _log_decay(draw)
    size = (BATCH, 2 * LENGTH, HEADS, WIDTH)
    k, v = draw.normal(*size), draw.normal(*size)
    beta = draw.uniform(*size[:3])
    half = _half(q, _unit(k), v)
    return chunk_gated_delta_product(*half, g, beta.to(torch.bfloat16), 2)[0]


@fla("chunk_dplr_delta_rule")
def dplr_delta_rule(draw: Inputs) -> Any:
    q, k, v, a = _half(*_tokens(draw, 4))
    a, gk = _unit(a), _log_decay(draw, WIDTH)
    return chunk_dplr_delta_rule(q, k, v, -a, a * 0.5, gk.to(q))[0]


@fla("chunk_iplr_delta_rule")
def iplr_delta_rule(draw: Inputs) -> Any:
    q, k, v, a = _half(*_tokens(draw, 4))
    a = _unit(a)
    return chunk_iplr_delta_rule(q, k, v, -a, a * 0.5)[0]


@fla()
def chunk_rwkv7(draw: Inputs) -> Any:
    r, k, v, a = _half(*_tokens(draw, 4))
    a, w = _unit(a), _log_decay(draw, WIDTH).to(r)
    return rwkv7.chunk_rwkv7(r, w, k, v, -a, a * 0.5)[0]


@fla()
def chunk_gla_wide(draw: Inputs) -> Any:
    q, k, v = (draw.normal(1, 40, 1, 272, scale=0.3) for _ in range(3))
    return gla.chunk_gla(q, k, v, -draw.uniform(1, 40, 1, 272, low=0.02, high=0.5))[0]


@fla()
def chunk_rwkv6_wide(draw: Inputs) -> Any:
    r, k, v = (draw.normal(1, 40, 1, 272, scale=0.3) for _ in range(3))
    w, u = -draw.uniform(1, 40, 1, 272, low=0.02, high=0.5), draw.normal(1, 272)
    return rwkv6.chunk_rwkv6(r, k, v, w, u)[0]


@fla()
def chunk_rwkv6(draw: Inputs) -> Any:
    r, k, v = _tokens(draw, 3)
    w, u = _log_decay(draw, WIDTH), draw.normal(HEADS, WIDTH)
    return rwkv6.chunk_rwkv6(r, k, v, w, u)[0]


@fla()
def chunk_gsa(draw: Inputs) -> Any:
    q, k, v, s = _tokens(draw, 4)
    return gsa.chunk_gsa(q, k, v, s, _log_decay(draw, WIDTH))[0]


@fla()
def chunk_abc(draw: Inputs) -> Any:
    q, k, v, s = _tokens(draw, 4)
    return abc.chunk_abc(q, k, v, s)[0]


@fla()
def chunk_hgrn(draw: Inputs) -> Any:
    x, g = draw.normal(2, 150, 24), -draw.uniform(2, 150, 24, low=0.1)
    return hgrn.chunk_hgrn(x, g)[0]


@fla("chunk_log_linear_attn")
def log_linear_attn(draw: Inputs) -> Any:
    q, k, v = (draw.normal(BATCH, LENGTH, HEADS, 64, scale=0.3) for _ in range(3))
    levels = draw.uniform(BATCH, LENGTH, HEADS, 8)
    return chunk_log_linear_attn(q, k, v, _log_decay(draw), levels)[0]


@fla("chunk_mesa_net")
def mesa_net(draw: Inputs) -> Any:
    q, k, v = _half(*_tokens(draw, 3))
    lamb = draw.uniform(HEADS, WIDTH, low=0.5)
    return chunk_mesa_net(
        q, _unit(k), v, _log_decay(draw), _beta(draw).to(q), lamb, max_CG_iteration=3
    )[0]


def _ttt(draw: Inputs, call: Callable[..., Any]) -> Any:
    q, k, v = _tokens(draw, 3)
    w, b = draw.normal(HEADS, WIDTH), draw.normal(HEADS, WIDTH)
    eta = draw.uniform(BATCH, LENGTH, HEADS, 1, high=0.02)
    return call(q, _unit(k), v, w, b, eta)[0]


@fla()
def chunk_ttt_linear(draw: Inputs) -> Any:
    return _ttt(draw, ttt.chunk_ttt_linear)


@fla()
def fused_chunk_ttt_linear(draw: Inputs) -> Any:
    return _ttt(draw, ttt.fused_chunk_ttt_linear)


@fla()
def chunk_precond_gated_delta_rule(draw: Inputs) -> Any:
    q, k, v = _tokens(draw, 3)
    call = precond_gated_delta_rule.chunk_precond_gated_delta_rule
    gates = _log_decay(draw), _log_decay(draw), _beta(draw), _beta(draw)
    return call(q, k, v, *gates)[0]


def _precond_kda(draw: Inputs, **options: Any) -> Any:
    q, k, v = _tokens(draw, 3)
    g, g_atk = _log_decay(draw, WIDTH), _log_decay(draw)
    call, beta = precond_kda.chunk_precond_kda, _beta(draw)
    return call(q, _unit(k), v, g, g_atk, _beta(draw), beta, **options)[0]


@fla()
def chunk_precond_kda(draw: Inputs) -> Any:
    return _precond_kda(draw)


@fla()
def chunk_precond_kda_safe(draw: Inputs) -> Any:
    return _precond_kda(draw, safe_gate=True, lower_bound=-5.0)


@fla()
def chunk_momentum_delta_rule(draw: Inputs) -> Any:
    q, k, v = _half(*_tokens(draw, 3))
    call = momentum_delta_rule.chunk_momentum_delta_rule
    return call(q, k, v, _log_decay(draw), _log_decay(draw), beta=_beta(draw))[0]
