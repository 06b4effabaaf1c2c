import triton
import triton.language as tl


@triton.jit
def rope_halves_bwd(
    d_q_out_ptr,
    cos_ptr,
    sin_ptr,
    d_q_ptr,
    d_q_out_stride_0,
    d_q_out_stride_1,
    stride,
    half,
    BLOCK: tl.constexpr,
):
    """Backward of `rope_halves` (pointwise.py:100).

    Recomputed: cos, sin. Saved: nothing.
    d_q: plain store, each element is written once (if stride >= 2*half, tested at
        launch).
    """
    tl.static_assert(BLOCK == 32)
    # -- primal sweep (recomputed) --
    row = tl.program_id(0)  # pointwise.py:102
    cols = tl.arange(0, BLOCK)  # pointwise.py:103
    mask = cols < half  # pointwise.py:104
    row_offset = row * stride  # pointwise.py:105
    cos = tl.load(cos_ptr + cols, mask=mask).to(tl.float32)  # pointwise.py:109
    sin = tl.load(sin_ptr + cols, mask=mask).to(tl.float32)  # pointwise.py:110
    # -- reverse sweep --
    d_q_out_offset = row * d_q_out_stride_0  # pointwise.py:112
    d_q_out = tl.load(
        d_q_out_ptr + d_q_out_offset + (cols + half) * d_q_out_stride_1,
        mask=mask,
        other=0.0,
    ).to(tl.float32)
    d_q_out_2 = tl.load(
        d_q_out_ptr + d_q_out_offset + cols * d_q_out_stride_1, mask=mask, other=0.0
    ).to(tl.float32)  # pointwise.py:111
    d_b = d_q_out * cos - d_q_out_2 * sin
    tl.store(d_q_ptr + row_offset + cols + half, d_b, mask=mask)  # pointwise.py:108
    d_a = d_q_out * sin + d_q_out_2 * cos  # pointwise.py:111
    tl.store(d_q_ptr + row_offset + cols, d_a, mask=mask)  # pointwise.py:107
