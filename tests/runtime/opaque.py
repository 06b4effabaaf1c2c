"""A kernel with inline assembly and a function that is known by name only."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

import undertow


@undertow.custom_vjp
@triton.jit
def fast_tanh(x):
    return tl.inline_asm_elementwise(
        "tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@fast_tanh.vjp
@triton.jit
def fast_tanh_vjp(x, d_y):
    y = fast_tanh(x)
    return d_y * (1.0 - y * y)


@undertow.custom_vjp
@triton.jit
def bessel(x):
    return libdevice.j0(x)


@bessel.vjp
@triton.jit
def bessel_vjp(x, d_y):
    return d_y * libdevice.j1(x) * -1.0


@undertow.differentiable
@triton.jit
def opaque(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = fast_tanh(x)
    shifted = tl.inline_asm_elementwise(
        """
        {
            add.s32 $0, $1, $2;
        }
        """,
        "=r,r,r",
        [offs, 1],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )
    tl.store(y_ptr + offs, y * bessel(y) * shifted, mask=mask)
