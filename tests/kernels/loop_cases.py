# ruff: noqa: C408 - arguments read like those of a launch
"""Launches of kernels with loops and matrix products."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels import loops
from kernels.case import Case, blocks, case
from kernels.draw import Draw


@case("odd", m=37, n=29, k=45)
@case("even", m=32, n=32, k=32)
@case("small", m=5, n=3, k=2)
def matmul(
    draw: Draw, m: int, n: int, k: int, tile: tuple[int, int, int] = (16, 16, 16)
) -> Case:
    bm, bn, bk = tile
    return Case(
        loops.matmul,
        (blocks(m, bm) * blocks(n, bn),),
        dict(
            a_ptr=draw.normal(m, k),
            b_ptr=draw.normal(k, n),
            c_ptr=draw.output(m, n),
            M=m,
            N=n,
            K=k,
            a_stride_m=k,
            a_stride_k=1,
            b_stride_k=n,
            b_stride_n=1,
            c_stride_m=n,
            c_stride_n=1,
        ),
        dict(BM=bm, BN=bn, BK=bk, GROUP=2),
        ("c_ptr",),
        lambda a, b: F.leaky_relu(a @ b, 0.125),
    )


@case("padded", rows=5, cols=45)
@case("full", rows=3, cols=32)
def layer_norm_in_loops(draw: Draw, rows: int, cols: int, block: int = 16) -> Case:
    eps = 1e-3
    return Case(
        loops.layer_norm,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(cols + 3, 1)),
            w_ptr=draw.normal(cols),
            b_ptr=draw.normal(cols),
            y_ptr=draw.output(rows, cols, stride=(cols + 3, 1)),
            stride=cols + 3,
            n_cols=cols,
            eps=eps,
        ),
        dict(BLOCK=block),
        ("y_ptr",),
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, eps),
    )


@case("padded", rows=4, cols=45)
@case("full", rows=3, cols=32)
def online_softmax(draw: Draw, rows: int, cols: int) -> Case:
    return Case(
        loops.online_softmax,
        (rows,),
        dict(
            x_ptr=draw.normal(rows, cols),
            y_ptr=draw.output(rows, cols),
            stride=cols,
            n_cols=cols,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        lambda x: x.softmax(-1),
    )


@case("full", length=37, causal=False)
@case("causal", length=37, causal=True)
@case("causal_even", length=32, causal=True)
def attention(draw: Draw, length: int, causal: bool) -> Case:
    heads, dim, scale = 2, 16, 0.25

    def reference(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        scores = q @ k.mT * scale
        if causal:
            later = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        return scores.softmax(-1) @ v, scores.logsumexp(-1)

    return Case(
        loops.attention,
        (blocks(length, 16), heads),
        dict(
            q_ptr=draw.normal(heads, length, dim),
            k_ptr=draw.normal(heads, length, dim),
            v_ptr=draw.normal(heads, length, dim),
            o_ptr=draw.output(heads, length, dim),
            lse_ptr=draw.output(heads, length),
            T=length,
            scale=scale,
        ),
        dict(CAUSAL=causal, BM=16, BN=16, D=dim),
        ("o_ptr", "lse_ptr"),
        reference,
    )


@case("odd", batch=2, length=7, dim=20)
@case("one_turn", batch=1, length=1, dim=16)
@case("no_turn", batch=2, length=0, dim=5)
def recurrence(draw: Draw, batch: int, length: int, dim: int) -> Case:
    def reference(x: Tensor, g: Tensor, h: Tensor) -> Tensor:
        states: list[Tensor] = [torch.zeros(batch, 0, dim, dtype=x.dtype) * h.sum()]
        for t in range(length):
            gate = g[:, t].sigmoid()
            h = gate * h + (1 - gate) * (h * x[:, t]).sin()
            states.append(h[:, None])
        return torch.cat(states, 1) + 0 * (x.sum() + g.sum())

    return Case(
        loops.recurrence,
        (batch, blocks(dim, 16)),
        dict(
            x_ptr=draw.normal(batch, length, dim),
            g_ptr=draw.normal(batch, length, dim),
            h_ptr=draw.normal(batch, dim),
            y_ptr=draw.output(batch, length, dim),
            T=length,
            D=dim,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )


@case("odd", rows=7, cols=21)
def nested(draw: Draw, rows: int, cols: int) -> Case:
    def reference(x: Tensor, w: Tensor) -> Tensor:
        total = torch.zeros(cols, dtype=x.dtype)
        for row in range(rows):
            state = x[row]
            for turn in range(row % 3 + 1):
                state = (state * w[turn]).sin()
                if turn == 1:
                    state = state + x[row] * x[row]
            total = total + state
        return total

    return Case(
        loops.nested,
        (blocks(cols, 16),),
        dict(
            x_ptr=draw.normal(rows, cols),
            w_ptr=draw.normal(3, cols),
            y_ptr=draw.output(cols),
            n_rows=rows,
            n_cols=cols,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )


@case("odd", programs=3, turns=5)
@case("no_turn", programs=2, turns=0)
def loop_in_branch(draw: Draw, programs: int, turns: int) -> Case:
    def reference(x: Tensor) -> Tensor:
        own = x.view(programs, 16)
        windows = [x[i : i + 16] for i in range(turns)]
        shared = 0.5 * sum(windows, torch.zeros(16, dtype=x.dtype))
        return torch.cat([-own[0], *(row + shared for row in own[1:])])

    return Case(
        loops.loop_in_branch,
        (programs,),
        dict(
            x_ptr=draw.normal(programs * 16),
            y_ptr=draw.output(programs * 16),
            n=turns,
            flag=0,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )


def sines(x: Tensor) -> Tensor:
    state = torch.full(x.shape[1:], 0.5, dtype=x.dtype)
    for row in x:
        state = (state + row).sin()
    return state


@case("four_programs", programs=4, turns=5)
def truncated_turns(draw: Draw, programs: int, turns: int) -> Case:
    def reference(x: Tensor) -> Tensor:
        counts = [turns - (3 * pid + 1) // 8 for pid in range(programs)]
        return torch.stack([sines(own[:n]) for own, n in zip(x, counts, strict=True)])

    return Case(
        loops.truncated_turns,
        (programs,),
        dict(
            x_ptr=draw.normal(programs, turns, 8),
            y_ptr=draw.output(programs, 8),
            T=turns,
        ),
        dict(BLOCK=8),
        ("y_ptr",),
        reference,
    )


@case("fewer", count=3, turns=5)
@case("bounded", count=9, turns=5)
def loaded_turns(draw: Draw, count: int, turns: int) -> Case:
    return Case(
        loops.loaded_turns,
        (1,),
        dict(
            x_ptr=draw.normal(turns, 8),
            n_ptr=torch.tensor([count], dtype=torch.int32),
            y_ptr=draw.output(8),
            T=turns,
        ),
        dict(BLOCK=8),
        ("y_ptr",),
        lambda x, n: sines(x[: min(count, turns)]),
    )


@case("uneven", programs=3, rows=8)
@case("idle", programs=4, rows=2)
def grid_stride(draw: Draw, programs: int, rows: int) -> Case:
    cols = 13

    def reference(x: Tensor, w: Tensor) -> Tensor:
        return x * (x.square().mean(1, keepdim=True) + 2**-10).rsqrt() * w

    return Case(
        loops.grid_stride,
        (programs,),
        dict(
            x_ptr=draw.normal(rows, cols, stride=(cols + 2, 1)),
            w_ptr=draw.normal(cols),
            y_ptr=draw.output(rows, cols, stride=(cols + 2, 1)),
            stride=cols + 2,
            n_rows=rows,
            n_cols=cols,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )


@case("uneven", rows=8, each=3)
@case("even", rows=8, each=4)
def chunks(draw: Draw, rows: int, each: int) -> Case:
    def reference(x: Tensor) -> Tensor:
        found: list[Tensor] = []
        for part in x.split(each):
            h = torch.ones(16, dtype=x.dtype)
            for row in part:
                h = (h * row).sin() + h
                found.append(h)
        return torch.stack(found)

    return Case(
        loops.chunks,
        (blocks(rows, each),),
        dict(
            x_ptr=draw.normal(rows, 16),
            y_ptr=draw.output(rows, 16),
            n_rows=rows,
            rows_per_program=each,
        ),
        dict(BLOCK=16),
        ("y_ptr",),
        reference,
    )
