"""Kernels that together use the whole language, with the types they are captured for.

`tools/capture_fixtures.py` prints the TTIR of each for several versions of Triton.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from triton.language.extra import libdevice


class Case(NamedTuple):
    """A kernel, and what to capture it for."""

    fn: Any
    signature: dict[str, Any]
    constexprs: dict[str, Any]


@triton.jit
def scale(x_ptr, w_ptr, y_ptr, n, unused, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    w = tl.load(w_ptr)
    tl.store(y_ptr + offs, x * w, mask=mask)


@triton.jit
def layer_norm(x_ptr, w_ptr, y_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n
    centred = tl.where(mask, x - mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / n
    rstd = 1 / tl.sqrt(var + eps)
    w = tl.load(w_ptr + cols, mask=mask)
    y = centred * rstd * w
    tl.store(y_ptr + row * stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * n + cols, e / tl.sum(e, axis=0), mask=cols < n)


@triton.jit
def _gate(a, b):
    sig = tl.sigmoid(b)
    return a * sig, a + sig


@triton.jit
def helpers(
    x_ptr, y_ptr, BLOCK: tl.constexpr, POWER: tl.constexpr, NEGATE: tl.constexpr
):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    gated, total = _gate(x, x)
    y = gated
    for _ in tl.static_range(POWER):
        y = y * total
    if NEGATE:
        y = -y
    tl.store(y_ptr + offs, y)


@triton.jit
def branches(x_ptr, y_ptr, n, flag, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if n > 5:
        p = x_ptr + n
        scale = 2.0
    else:
        p = x_ptr + 7
        scale = 3.0
    x = tl.load(p + offs) * scale
    if flag:
        tl.store(y_ptr + offs, x)


@triton.jit
def early_return(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs) * 2)


@triton.jit
def nested_returns(x_ptr, y_ptr, n, flag):
    pid = tl.program_id(0)
    y_ptr += 3 * pid
    x = tl.load(x_ptr + pid)
    if pid > n:
        x = x * 2
        if flag:
            tl.store(y_ptr, x)
            return
    else:
        x = x + 2
    tl.store(y_ptr + 1, x)
    if n > 4:  # noqa: SIM102, two branches are meant
        if pid > 5:
            return
    tl.store(y_ptr + 2, x + n)


@triton.jit
def casts(x_ptr, y_ptr, i_ptr, flag, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    i = tl.load(i_ptr + offs)
    h = x.to(tl.float16) + 1.5
    b = x.to(tl.bfloat16) - 2.5
    e = x.to(tl.float8e5).to(tl.float32)
    d = x.to(tl.float64) + float("inf")
    bits = x.to(tl.int32, bitcast=True) ^ -5
    u = bits.to(tl.uint32) // 3
    y = e + h + b + u + d.to(tl.float32) + x.to(tl.int16) + x.to(tl.uint8) + flag
    y += i.to(tl.int64) + i.to(tl.int8) + i.to(tl.uint16).to(tl.int32)
    tl.store(y_ptr + offs, y)


@triton.jit
def integers(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    a = tl.load(x_ptr + offs)
    u = a.to(tl.uint32)
    y = (a + n) * 3 - (a // 5) + a % 7 + (a << 2) + (a >> 1) + (0 - a) + tl.abs(a)
    y = (y & 255) | (a ^ n)
    y += tl.minimum(a, n) + tl.maximum(a, 9)
    v = (
        u // 5
        + u % 7
        + (u >> 3)
        + tl.umulhi(u, u)
        + tl.minimum(u, 4)
        + tl.maximum(u, 5)
    )
    y = tl.where((a < 3) & (u < 9) | (a >= n) & (u > 1), y, v.to(tl.int32))
    y = tl.where((a != 3) ^ (u >= 9) ^ (a == n) ^ (a <= 0) ^ (a > 8) ^ (u <= 2), y, 0)
    tl.store(y_ptr + offs, y)


@triton.jit
def maths(x_ptr, z_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    z = tl.load(z_ptr + offs)
    y = tl.exp(x) + tl.exp2(x) + tl.log(x) + tl.log2(x) + tl.sqrt(x) + tl.rsqrt(x)
    y += tl.sin(x) + tl.cos(x) + tl.erf(x) + tl.floor(x) + tl.ceil(x) + tl.abs(x)
    y += tl.fma(x, z, y) + tl.div_rn(x, z) + tl.sqrt_rn(x) + (x / z) + (x % z) - (-x)
    y += tl.clamp(x, 0.0, 1.0) + tl.maximum(x, z) + tl.minimum(x, z)
    y += tl.clamp(x, z, y, propagate_nan=tl.PropagateNan.ALL)
    y += tl.maximum(x, z, propagate_nan=tl.PropagateNan.ALL)
    y += tl.minimum(x, z, propagate_nan=tl.PropagateNan.ALL)
    y = tl.where((x == z) | (x != y) | (x < 0) | (x <= z) | (x > y) | (x >= 3), y, x)
    tl.store(y_ptr + offs, y)


@triton.jit
def library(x_ptr, z_ptr, y_ptr, i_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    z = tl.load(z_ptr + offs)
    i = tl.load(i_ptr + offs)
    y = libdevice.tanh(x) + libdevice.erf(x) + libdevice.rsqrt(x) + libdevice.pow(x, z)
    y += libdevice.fast_expf(x) + libdevice.exp10(x) + libdevice.pow(x, i)
    y += libdevice.div_rn(x, z) + libdevice.fast_dividef(x, z) + libdevice.atan2(x, z)
    y += libdevice.log1p(x) + libdevice.expm1(x) + libdevice.nearbyint(x)
    y = tl.where(libdevice.isnan(x) | libdevice.isinf(z), y, z)
    tl.store(y_ptr + offs, y)


@triton.jit
def shapes(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)[:, None]
    cols = tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + rows * N + cols)
    t = tl.trans(x)
    tl.store(y_ptr + cols.reshape(N, 1) * M + rows.reshape(1, M), t)
    pairs = tl.reshape(x, (M, N // 2, 2))
    a, b = tl.split(pairs)
    back = tl.join(b, a).reshape(M, N)
    cube = tl.permute(tl.reshape(back, (M, 2, N // 2)), (2, 0, 1))
    flat = tl.reshape(cube, (M * N,)) + tl.full((M * N,), 3.0, tl.float32)
    tl.store(y_ptr + tl.arange(0, M * N), flat)


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def reductions(x_ptr, i_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)[:, None]
    cols = tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + rows * N + cols)
    i = tl.load(i_ptr + rows * N + cols)
    line = tl.sum(x, axis=0) + tl.max(x, axis=0) + tl.min(x, axis=0)
    line += tl.reduce(x, 0, _product)
    tl.store(y_ptr + tl.arange(0, N), line)
    column = tl.sum(x, axis=1, keep_dims=True) + tl.max(i, axis=1, keep_dims=True)
    column += tl.min(i.to(tl.uint32), axis=1, keep_dims=True)
    column += tl.xor_sum(i, axis=1, keep_dims=True) + tl.sum(x > 0, 1, keep_dims=True)
    tl.store(y_ptr + rows, column)
    whole = (
        tl.sum(x)
        + tl.max(x)
        + tl.min(i)
        + tl.sum(i.to(tl.int8))
        + tl.sum(i.to(tl.int8), dtype=tl.int64)
    )
    whole += tl.max(i.to(tl.uint32)) + tl.max(x.to(tl.bfloat16))
    tl.store(y_ptr, whole + tl.reduce_or(tl.sum(i, 0), 0))


@triton.jit
def extremes(x_ptr, i_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)[:, None]
    cols = tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + rows * N + cols)
    i = tl.load(i_ptr + rows * N + cols)
    best, where = tl.max(x, axis=1, return_indices=True)
    tl.store(y_ptr + tl.arange(0, M), best + where)
    where = tl.argmin(x, axis=0) + tl.argmax(i, axis=0, tie_break_left=False)
    where += tl.argmin(i.to(tl.uint32), 0)
    tl.store(y_ptr + tl.arange(0, N), where)
    tl.store(y_ptr, tl.argmax(tl.sum(x, axis=0), axis=0))


@triton.jit
def booleans(m_ptr, x_ptr, y_ptr, flag, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    keep = tl.load(m_ptr + offs, mask=offs < 9, other=0)
    x = tl.load(x_ptr + offs, mask=keep, other=0.0)
    x = tl.where(flag, x, -x)
    tl.store(m_ptr + offs, x > 0)
    tl.store(y_ptr + offs, x * keep, mask=keep)


@triton.jit
def tuples(xs, y_ptr, pair, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(xs[0] + offs) + tl.load(xs[1])
    tl.store(y_ptr + offs, x * pair[0] + pair[1])


@triton.jit
def descriptor(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    desc = tl.make_tensor_descriptor(x_ptr, [n, n], [n, 1], [BLOCK, BLOCK])
    x = desc.load([0, BLOCK])
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs[:, None] * n + offs[None, :], x)


@triton.jit
def notes(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.assume(n > 0)
    offs = tl.arange(0, BLOCK) + tl.num_programs(1)
    x = tl.load(x_ptr + offs, eviction_policy="evict_last", cache_modifier=".ca")
    tl.device_print("x: %d\n", x)
    tl.debug_barrier()
    tl.atomic_add(y_ptr + offs, x, mask=offs < n)
    tl.store(y_ptr + 2 * offs, x, eviction_policy="evict_first", cache_modifier=".wt")


def _types(*pointers: str, **rest: Any) -> dict[str, Any]:
    return {**dict.fromkeys(pointers, "*fp32"), **rest}


_BLOCK = {"BLOCK": 16}
_TILE = {"M": 4, "N": 8}

_XY = _types("x_ptr", "y_ptr")
_XYN = {**_XY, "n": "i32"}
_HALF = {"x_ptr": "*bf16", "w_ptr": "*fp32", "y_ptr": "*bf16", "stride": "i32"}
_TUPLE = {"xs": ("*fp32", "*fp32"), "y_ptr": "*fp32", "pair": ("i32", "constexpr")}

CASES: dict[str, Case] = {
    "scale": Case(
        scale,
        {**_types("x_ptr", "w_ptr", "y_ptr"), "n": "i32", "unused": "i32"},
        _BLOCK,
    ),
    "layer_norm": Case(layer_norm, {**_HALF, "n": "i32", "eps": "fp32"}, _BLOCK),
    "softmax": Case(softmax, _XYN, _BLOCK),
    "helpers": Case(helpers, _XY, {**_BLOCK, "POWER": 2, "NEGATE": True}),
    "branches": Case(branches, {**_XYN, "flag": "i1"}, _BLOCK),
    "early_return": Case(early_return, _XYN, _BLOCK),
    "nested_returns": Case(nested_returns, {**_XYN, "flag": "i1"}, {}),
    "casts": Case(casts, {**_XY, "i_ptr": "*i32", "flag": "i1"}, _BLOCK),
    "integers": Case(integers, {"x_ptr": "*i32", "y_ptr": "*i32", "n": "i32"}, _BLOCK),
    "maths": Case(maths, _types("x_ptr", "z_ptr", "y_ptr"), _BLOCK),
    "library": Case(library, _types("x_ptr", "z_ptr", "y_ptr", i_ptr="*i32"), _BLOCK),
    "shapes": Case(shapes, _XY, _TILE),
    "reductions": Case(reductions, {**_XY, "i_ptr": "*i32"}, _TILE),
    "extremes": Case(extremes, {**_XY, "i_ptr": "*i32"}, _TILE),
    "booleans": Case(booleans, {**_XY, "m_ptr": "*i1", "flag": "i1"}, _BLOCK),
    "tuples": Case(tuples, _TUPLE, {**_BLOCK, "pair": (None, 5)}),
    "descriptor": Case(descriptor, _XYN, _BLOCK),
    "notes": Case(notes, _XYN, _BLOCK),
}
