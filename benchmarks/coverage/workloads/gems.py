"""FlagGems: PyTorch's own operators.

Most of its backwards are functions of their own, as ATen has them; `_paired` puts one
beside its forward.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor

os.environ["GEMS_VENDOR"] = "nvidia"  # it asks nvidia-smi otherwise

import flag_gems
from flag_gems import fused, ops
from flag_gems.runtime.common import vendors
from flag_gems.utils.codegen_config_utils import CODEGEN_COFIGS
from flag_gems.utils.libentry import LibEntry, LibTuner
from triton.runtime.autotuner import Autotuner

from benchmarks.coverage.inputs import Inputs
from benchmarks.coverage.workloads import workload

gems = workload("gems")
ROWS, COLS = 5, 37


def _launch(self: Any, *args: Any, **kwargs: Any) -> None:
    self.fn.run(*args, **kwargs)


def _tune(self: Any, *args: Any, **kwargs: Any) -> None:
    self.cache = dict[Any, Any]()
    Autotuner.run(self, *args, **kwargs)


LibEntry.run, LibTuner.run = _launch, _tune  # its own remember, the latter on disk

_codegen: Any = CODEGEN_COFIGS[vendors.NVIDIA]
_codegen.prefer_block_pointer = False  # with them its code is not for Triton 3.8

_backward: Any = ops.attention._attn_bwd.fn  # its grid is for the largest of blocks
_backward.configs = [c for c in _backward.configs if c.kwargs["BLOCK_M2"] == 128]


class _Pair(torch.autograd.Function):
    """A forward, and a backward given cotangents, inputs and outputs."""

    @staticmethod
    def forward(
        ctx: Any,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        *inputs: Tensor,
    ) -> Any:
        outputs = forward(*inputs)
        ctx.backward_of, ctx.kept = backward, (inputs, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        inputs, outputs = ctx.kept
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        found = ctx.backward_of(cotangents[0], inputs, outputs)
        return None, None, *(found if isinstance(found, tuple | list) else (found,))


@contextlib.contextmanager
def _on_gpu() -> Iterator[None]:
    with mock.patch.object(Tensor, "is_cuda", True):
        yield


def _paired(
    name: str,
    shapes: Sequence[tuple[int, ...]],
    forward: Callable[..., Any],
    backward: Callable[..., Any],
) -> None:
    def call(draw: Inputs) -> Any:
        inputs = [draw.normal(*shape) for shape in shapes]
        made = _Pair.apply(forward, backward, *inputs)
        return made[0] if isinstance(made, tuple) else made

    gems(name)(call)


# -- activations --

ONE, TWO = [(ROWS, COLS)], [(ROWS, COLS), (ROWS, COLS)]

for _name in ("sigmoid", "tanh"):
    _paired(
        _name,
        ONE,
        getattr(ops, _name),
        lambda ct, _, y, name=_name: getattr(ops, f"{name}_backward")(ct, y[0]),
    )
_paired("silu", ONE, ops.silu, lambda ct, x, _: ops.silu_backward(ct, x[0]))
for _how in ("none", "tanh"):
    _paired(
        f"gelu_{_how}",
        ONE,
        lambda x, how=_how: ops.gelu(x, approximate=how),
        lambda ct, x, _, how=_how: ops.gelu_backward(ct, x[0], approximate=how),
    )
_paired(
    "threshold",
    ONE,
    lambda x: ops.threshold(x, 0.3, -1.0),
    lambda ct, x, _: ops.threshold_backward(ct, x[0], 0.3),
)
_paired("relu", ONE, ops.relu, lambda ct, x, _: ops.threshold_backward(ct, x[0], 0.0))
_paired(
    "elu",
    ONE,
    lambda x: ops.elu(x, 1.5, 1.2, 0.7),
    lambda ct, x, _: ops.elu_backward(ct, 1.5, 1.2, 0.7, False, x[0]),
)
_paired("glu", [(ROWS, 2 * COLS)], ops.glu, lambda ct, x, _: ops.glu_backward(ct, x[0]))
for _name in ("geglu", "reglu", "swiglu"):
    _paired(
        _name,
        [(ROWS, 2 * COLS)],
        _on_gpu()(getattr(fused, _name)),
        _on_gpu()(lambda ct, x, _, name=_name: getattr(fused, f"d{name}")(ct, x[0])),
    )


@gems()
def silu_and_mul(draw: Inputs) -> Tensor:
    return flag_gems.silu_and_mul(draw.normal(ROWS, COLS), draw.normal(ROWS, COLS))


@gems()
def gelu_and_mul(draw: Inputs) -> Tensor:
    a, b = draw.normal(ROWS, COLS), draw.normal(ROWS, COLS)
    return flag_gems.gelu_and_mul(a, b, "none")


@gems()
def gelu_and_mul_tanh(draw: Inputs) -> Tensor:
    a, b = draw.normal(ROWS, COLS), draw.normal(ROWS, COLS)
    return flag_gems.gelu_and_mul(a, b, "tanh")


# -- norms and softmax --

_paired(
    "softmax",
    ONE,
    lambda x: ops.softmax(x, -1),
    lambda ct, x, y: ops.softmax_backward(ct, y[0], -1, x[0].dtype),
)
_paired(
    "softmax_of_columns",
    ONE,
    lambda x: ops.softmax(x, 0),
    lambda ct, x, y: ops.softmax_backward(ct, y[0], 0, x[0].dtype),
)
_paired(
    "log_softmax",
    ONE,
    lambda x: ops.log_softmax(x, -1),
    lambda ct, x, y: ops.log_softmax_backward(ct, y[0], -1, x[0].dtype),
)
_paired(
    "log_softmax_of_columns",
    ONE,
    lambda x: ops.log_softmax(x, 0),
    lambda ct, x, y: ops.log_softmax_backward(ct, y[0], 0, x[0].dtype),
)
_paired(
    "scaled_softmax",
    [(2, 3, 5, 16)],
    lambda x: ops.scaled_softmax_forward(x.to(torch.bfloat16), 0.7),
    lambda ct, _, y: ops.scaled_softmax_backward(ct.clone(), y[0], 0.7).float(),
)
_MASK = [True, True, True]
_paired(
    "layer_norm",
    [(ROWS, COLS), (COLS,), (COLS,)],
    lambda x, w, b: ops.layer_norm(x, (COLS,), w, b),
    lambda ct, x, y: ops.layer_norm_backward(
        ct, x[0], (COLS,), y[1], y[2], x[1], x[2], _MASK
    ),
)
_paired(
    "layer_norm_of_rows",
    [(3, 301), (301,), (301,)],
    lambda x, w, b: ops.layer_norm(x, (301,), w, b),
    lambda ct, x, y: ops.layer_norm_backward(
        ct, x[0], (301,), y[1], y[2], x[1], x[2], _MASK
    ),
)
_paired(
    "layer_norm_long",
    [(3, 4100), (4100,), (4100,)],
    lambda x, w, b: ops.layer_norm(x, (4100,), w, b),
    lambda ct, x, y: ops.layer_norm_backward(
        ct, x[0], (4100,), y[1], y[2], x[1], x[2], _MASK
    ),
)
_paired(
    "group_norm",
    [(2, 6, 11), (6,), (6,)],
    lambda x, w, b: ops.group_norm(x, w, b, 2, 6, 11, 3),
    lambda ct, x, y: ops.group_norm_backward(
        ct, x[0], y[1], y[2], x[1], 2, 6, 11, 3, _MASK
    ),
)
_paired(
    "batch_norm",
    [(3, 4, 11), (4,), (4,)],
    lambda x, w, b: ops.batch_norm(x, w, b, None, None, True),
    lambda ct, x, y: ops.batch_norm_backward(
        ct, x[0], x[1], None, None, y[1], y[2], True, 1e-5, _MASK
    ),
)
_paired(
    "weight_norm_interface",
    [(ROWS, COLS), (ROWS, 1)],
    lambda v, g: ops.weight_norm_interface(v, g, 0),
    lambda ct, x, y: ops.weight_norm_interface_backward(ct, *x, y[1], 0),
)
_paired(
    "weight_norm_interface_last",
    [(ROWS, COLS), (1, COLS)],
    lambda v, g: ops.weight_norm_interface(v, g, 1),
    lambda ct, x, y: ops.weight_norm_interface_backward(ct, *x, y[1], 1),
)


@gems()
def rms_norm(draw: Inputs) -> Tensor:
    return ops.rms_norm(draw.normal(ROWS, COLS), (COLS,), draw.normal(COLS))


@gems()
def skip_layer_norm(draw: Inputs) -> Tensor:
    x, r = draw.normal(ROWS, COLS), draw.normal(ROWS, COLS)
    w, b = draw.normal(COLS), draw.normal(COLS)
    return fused.skip_layer_norm(x, r, (COLS,), w, b)


@gems()
def instance_norm(draw: Inputs) -> Tensor:
    return fused.instance_norm(draw.normal(2, 3, 11), draw.normal(3), draw.normal(3))


@gems()
def instance_norm_long(draw: Inputs) -> Tensor:
    return fused.instance_norm(draw.normal(1, 2, 301), draw.normal(2), draw.normal(2))


@gems()
def instance_norm_loop(draw: Inputs) -> Tensor:
    return fused.instance_norm(draw.normal(1, 2, 4200), draw.normal(2), draw.normal(2))


@gems(differs="it takes running statistics for those of the input")
def instance_norm_running(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(2, 3, 11), draw.normal(3), draw.normal(3)
    mean, var = draw.normal(3, grad=False), draw.uniform(3, low=0.5, grad=False)
    return fused.instance_norm(x, w, b, mean, var, False)


@gems()
def rms_norm_long(draw: Inputs) -> Tensor:
    return ops.rms_norm(draw.normal(2, 4200), (4200,), draw.normal(4200))


@gems()
def weight_norm(draw: Inputs) -> Tensor:
    return fused.weight_norm(draw.normal(3, 4, 5), draw.normal(1, 4, 1), 1)


# -- losses, indices, pooling --


@gems()
def cross_entropy_loss(draw: Inputs) -> Tensor:
    x, y = draw.normal(ROWS, COLS), draw.integers(COLS, ROWS)
    return fused.cross_entropy_loss(x, y, label_smoothing=0.1)


@gems()
def cross_entropy_loss_of_indices(draw: Inputs) -> Tensor:
    x, y = draw.normal(ROWS, COLS), draw.integers(COLS, ROWS)
    return fused.cross_entropy_loss(x, y, reduction="none")


@gems()
def cross_entropy_loss_of_probabilities(draw: Inputs) -> Tensor:
    x, p = draw.normal(ROWS, COLS), draw.normal(ROWS, COLS, grad=False).softmax(-1)
    return fused.cross_entropy_loss(x, p)


@gems()
def nll_loss(draw: Inputs) -> Any:
    x, y = draw.normal(ROWS, COLS), draw.integers(COLS, ROWS)
    w = draw.uniform(COLS, grad=False)

    def backward(ct: Tensor, given: Any, made: Any) -> Tensor:
        return ops.nll_loss_backward(ct, given[0], y, w, 1, -100, made[1])

    return _Pair.apply(lambda x: ops.nll_loss_forward(x, y, w), backward, x)[0]


@gems()
def nll_loss2d(draw: Inputs) -> Any:
    x, y = draw.normal(2, 7, 3, 5), draw.integers(7, 2, 3, 5)

    def backward(ct: Tensor, given: Any, made: Any) -> Tensor:
        return ops.nll_loss2d_backward(ct, given[0], y, None, 1, -100, made[1])

    return _Pair.apply(lambda x: ops.nll_loss2d_forward(x, y), backward, x)[0]


@gems()
def embedding(draw: Inputs) -> Any:
    w, i = draw.normal(11, COLS), draw.integers(11, 3, 4)

    def backward(ct: Tensor, *_: Any) -> Tensor:
        return ops.embedding_backward(ct, i, 11)

    return _Pair.apply(lambda w: ops.embedding(w, i), backward, w)


@gems()
def gather(draw: Inputs) -> Any:
    x, i = draw.normal(ROWS, COLS), draw.integers(ROWS, 3, COLS)

    def backward(ct: Tensor, given: Any, _: Any) -> Tensor:
        return ops.gather_backward(ct, given[0], 0, i, False)

    return _Pair.apply(lambda x: ops.gather(x, 0, i), backward, x)


@gems()
def dropout(draw: Inputs) -> Any:
    def backward(ct: Tensor, _: Any, made: Any) -> Tensor:
        return ops.dropout_backward(ct, made[1], 1 / 0.7)

    x = draw.normal(ROWS, COLS)
    with mock.patch("flag_gems.ops.dropout.philox_backend_seed_offset", _seeded):
        return _Pair.apply(lambda x: ops.dropout(x, 0.3), backward, x)[0]


def _seeded(*_: Any, **__: Any) -> tuple[int, int]:
    return 7, 0


@gems()
def max_pool2d(draw: Inputs) -> Any:
    x = draw.normal(2, 3, 9, 7)
    size = ([3, 3], [2, 2], [1, 1], [1, 1], False)

    def backward(ct: Tensor, given: Any, made: Any) -> Tensor:
        return ops.max_pool2d_backward(ct, given[0], made[1], *size)

    call = ops.max_pool2d_with_indices
    return _Pair.apply(lambda x: call(x, *size), backward, x)[0]


@gems()
def avg_pool2d(draw: Inputs) -> Any:
    x = draw.normal(2, 3, 9, 7)
    size = ([3, 3], [2, 2], [1, 1], False, True, None)

    def backward(ct: Tensor, given: Any, _: Any) -> Tensor:
        return ops.avg_pool2d_backward(ct, given[0], *size)

    return _Pair.apply(lambda x: ops.avg_pool2d(x, *size), backward, x)


# -- products --


@gems()
def conv2d(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(2, 4, 7, 6), draw.normal(6, 4, 3, 3), draw.normal(6)
    return ops.conv2d(x, w, b, 1, 1)


@gems()
def conv3d(draw: Inputs) -> Tensor:
    x, w, b = draw.normal(1, 3, 4, 5, 4), draw.normal(4, 3, 2, 2, 2), draw.normal(4)
    return ops.conv3d(x, w, b)


@gems()
def baddbmm(draw: Inputs) -> Tensor:
    bias, a, b = draw.normal(2, 9, 7), draw.normal(2, 9, 5), draw.normal(2, 5, 7)
    return ops.baddbmm(bias, a, b, beta=0.5, alpha=2.0)


@gems()
def outer(draw: Inputs) -> Tensor:
    return fused.outer(draw.normal(ROWS), draw.normal(COLS))


@gems()
def hadamard_transform(draw: Inputs) -> Tensor:
    return ops.hadamard_transform(draw.normal(ROWS, 16), 0.25)


def _attention(draw: Inputs, **options: Any) -> Tensor:
    q, k, v = (draw.normal(1, 2, 128, 16) for _ in range(3))
    call = ops.attention.ScaleDotProductAttention.apply
    return call(q, k, v, None, 0.0, options.get("causal", False), None, False)


@gems(differs="it is that of causal attention")
def attention(draw: Inputs) -> Tensor:
    return _attention(draw)


@gems()
def attention_causal(draw: Inputs) -> Tensor:
    return _attention(draw, causal=True)
