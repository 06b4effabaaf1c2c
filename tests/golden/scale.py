import triton
import triton.language as tl


@triton.jit
def scale_bwd(
    d_y_ptr, x_ptr, w_ptr, d_x_ptr, d_w_ptr, d_y_stride, n, BLOCK: tl.constexpr
):
    """Backward of `scale` (pointwise.py:11).

    Recomputed: x, w. Saved: nothing.
    d_x: plain store, each element is written once.
    d_w: plain store, each element is written once.
    """
    tl.static_assert(BLOCK == 64)
    # -- primal sweep (recomputed) --
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # pointwise.py:12
    mask = offs < n  # pointwise.py:13
    x = tl.load(x_ptr + offs, mask=mask)  # pointwise.py:14
    w = tl.load(w_ptr + offs, mask=mask)  # pointwise.py:15
    exp_x = tl.exp(x)  # pointwise.py:16
    # -- reverse sweep --
    d_y = tl.load(d_y_ptr + offs * d_y_stride, mask=mask, other=0.0)  # pointwise.py:16
    d_w = d_y * exp_x
    tl.store(d_w_ptr + offs, d_w, mask=mask)  # pointwise.py:15
    d_x = d_y * w * exp_x  # pointwise.py:16
    tl.store(d_x_ptr + offs, d_x, mask=mask)  # pointwise.py:14
