import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _asm(a):
    return tl.inline_asm_elementwise(
        "tanh.approx.f32 $0, $1;",
        "=f,f",
        [a],
        dtype=tl.float32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _asm_2(a, b):
    return tl.inline_asm_elementwise(
        """
        {
            add.s32 $0, $1, $2;
        }
        """,
        "=r,r,r",
        [a, b],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def opaque_bwd(d_y_ptr, x_ptr, d_x_ptr, d_y_stride, n, BLOCK: tl.constexpr):
    """Backward of `opaque` (opaque.py:41).

    Recomputed: x, y. Saved: nothing.
    d_x: plain store, each element is written once.
    Derivatives given by the user: fast_tanh_vjp, bessel_vjp.
    """
    tl.static_assert(BLOCK == 32)
    # -- primal sweep (recomputed) --
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # opaque.py:42
    mask = offs < n  # opaque.py:43
    x = tl.load(x_ptr + offs, mask=mask)  # opaque.py:44
    y = _asm(x)  # opaque.py:45
    shifted = _asm_2(offs, tl.full((BLOCK,), 1, tl.int32))  # opaque.py:46
    # -- reverse sweep --
    d_y = tl.load(d_y_ptr + offs * d_y_stride, mask=mask, other=0.0)  # opaque.py:58
    d_y_shifted_f32 = d_y * shifted
    d_y_term = d_y_shifted_f32 * y * libdevice.j1(y)  # opaque.py:36
    d_y_2 = d_y_shifted_f32 * libdevice.j0(y) - d_y_term
    d_x = d_y_2 * (1.0 - y * y)  # opaque.py:24
    tl.store(d_x_ptr + offs, d_x, mask=mask)  # opaque.py:44
