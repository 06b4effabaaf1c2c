import triton
import triton.language as tl


@triton.jit
def quantised_bwd(
    d_y_ptr, x_ptr, s_ptr, d_x_ptr, d_s_ptr, d_y_stride, n, BLOCK: tl.constexpr
):
    """Backward of `quantised` (overrides.py:60).

    Recomputed: x, scale, q. Saved: nothing.
    d_x: plain store, each element is written once.
    d_s: summed by atomic_add in float32; shared along program axis 0.
    Derivatives given by the user: clip_gradient_vjp, straight_through_vjp.
    """
    tl.static_assert(BLOCK == 64)
    # -- primal sweep (recomputed) --
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # overrides.py:62
    mask = offs < n  # overrides.py:63
    x = tl.load(x_ptr + offs, mask=mask)  # overrides.py:64
    scale = tl.load(s_ptr)  # overrides.py:65
    x_over_scale = x / scale  # overrides.py:66
    q = tl.floor(x_over_scale + 0.5).to(tl.bfloat16)
    # -- reverse sweep --
    d_y = tl.load(d_y_ptr + offs * d_y_stride, mask=mask, other=0.0)  # overrides.py:67
    d_q = d_y * scale
    d_x_part = tl.clamp(d_q, -0.5, 0.5)  # overrides.py:44
    # overrides.py:66
    d_scale_part = tl.where(mask, d_y * q - d_x_part * x_over_scale / scale, 0.0)
    d_scale = tl.sum(d_scale_part, axis=0)
    # atomic: shared along program axis 0
    tl.atomic_add(d_s_ptr, d_scale, sem="relaxed")  # overrides.py:65
    d_x = d_x_part / scale  # overrides.py:66
    tl.store(d_x_ptr + offs, d_x, mask=mask)  # overrides.py:64
