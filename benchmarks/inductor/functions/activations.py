"""Activations, with and without gates, and softmaxes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.inductor.functions.table import SIZE, Function, named, normal, one, two

FUNCTIONS = (
    *named(
        one,
        (
            F.celu,
            F.elu,
            F.gelu,
            F.hardshrink,
            F.hardsigmoid,
            F.hardswish,
            F.hardtanh,
            F.leaky_relu,
            F.logsigmoid,
            F.mish,
            F.relu,
            F.relu6,
            F.rrelu,
            F.selu,
            F.silu,
            F.softplus,
            F.softshrink,
            F.softsign,
            F.tanhshrink,
            torch.sigmoid,
        ),
    ),
    Function("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), one),
    Function("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x), one),
    Function("softplus_beta", lambda x: F.softplus(x, beta=3.0, threshold=2.0), one),
    Function("threshold", lambda x: F.threshold(x, 0.2, -0.3), one),
    Function("prelu", F.prelu, normal(SIZE, (37,))),
    Function("glu", F.glu, normal((13, 74))),
    Function("swiglu", lambda x, y: F.silu(x) * y, two),
    Function("geglu", lambda x, y: F.gelu(x) * y, two),
    Function("reglu", lambda x, y: F.relu(x) * y, two),
    Function("squared_relu", lambda x: F.relu(x).square(), one),
    Function("snake", lambda x, a: x + torch.sin(a * x).square() / (1 + a * a), two),
    Function(
        "softcap", lambda x: 30.0 * torch.tanh(x / 30.0), normal(SIZE, scale=20.0)
    ),
    Function("bias_gelu", lambda x, b: F.gelu(x + b), normal(SIZE, (37,))),
    Function("swish_beta", lambda x, b: x * torch.sigmoid(b * x), normal(SIZE, (37,))),
    Function("maxout", lambda x: x.view(13, 3, 12).amax(1), normal((13, 36))),
    Function("crelu", lambda x: torch.cat((F.relu(x), F.relu(-x)), 1), one),
    Function("lstm_cell", lambda g, c: _lstm(g, c), normal((11, 52), (11, 13))),
    Function(
        "gru_cell", lambda x, h, s: _gru(x, h, s), normal((11, 39), (11, 39), (11, 13))
    ),
    Function("softmax", lambda x: torch.softmax(x, -1), one),
    Function("softmax_of_columns", lambda x: torch.softmax(x, 0), one),
    Function("softmax_long", lambda x: torch.softmax(x, -1), normal((3, 3001))),
    Function("log_softmax", lambda x: torch.log_softmax(x, -1), one),
    Function("softmin", lambda x: F.softmin(x, -1), one),
    Function("softmax_masked", lambda x: _causal(x), normal((5, 17, 17))),
    Function(
        "softmax_temperature",
        lambda x, t: torch.softmax(x / (1 + t * t), -1),
        normal(SIZE, (13, 1)),
    ),
)


def _lstm(gates, cell):
    i, f, g, o = gates.chunk(4, 1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _gru(x, h, state):
    xr, xz, xn = x.chunk(3, 1)
    hr, hz, hn = h.chunk(3, 1)
    reset, update = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    new = torch.tanh(xn + reset * hn)
    return (1 - update) * new + update * state


def _causal(scores):
    size = scores.shape[-1]
    mask = torch.ones(size, size, dtype=torch.bool, device=scores.device).tril()
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
