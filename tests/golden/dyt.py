import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def dyt_bwd(
    d_y_ptr,
    x_ptr,
    alpha_ptr,
    w_ptr,
    d_x_ptr,
    d_alpha_ptr,
    d_w_ptr,
    d_b_ptr,
    d_y_stride_0,
    d_y_stride_1,
    stride,
    n_cols,
    BLOCK: tl.constexpr,
):
    """Backward of `dyt` (pointwise.py:71).

    Recomputed: alpha, w, x. Saved: nothing.
    d_x: plain store, each element is written once (if stride >= n_cols, tested at
        launch).
    d_alpha: summed by atomic_add in float32; shared along program axis 0.
    d_w: summed by atomic_add in float32; shared along program axis 0.
    d_b: summed by atomic_add in float32; shared along program axis 0.
    """
    tl.static_assert(BLOCK == 64)
    # -- primal sweep (recomputed) --
    pid = tl.program_id(0)  # pointwise.py:73
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n_cols  # pointwise.py:74
    alpha = tl.load(alpha_ptr)  # pointwise.py:75
    w = tl.load(w_ptr + lanes, mask=mask)  # pointwise.py:76
    pid_offset = pid * stride  # pointwise.py:78
    x = tl.load(x_ptr + pid_offset + lanes, mask=mask)
    tanh_alpha_x = libdevice.tanh(alpha * x)  # pointwise.py:79
    # -- reverse sweep --
    d_y = tl.load(
        d_y_ptr + pid * d_y_stride_0 + lanes * d_y_stride_1, mask=mask, other=0.0
    )  # pointwise.py:80
    d_alpha_part = d_y * w * (1.0 - tanh_alpha_x * tanh_alpha_x)  # pointwise.py:79
    d_x = d_alpha_part * alpha
    tl.store(d_x_ptr + pid_offset + lanes, d_x, mask=mask)  # pointwise.py:78
    # atomic: shared along program axis 0
    tl.atomic_add(d_b_ptr + lanes, d_y, mask=mask, sem="relaxed")  # pointwise.py:77
    d_w = d_y * tanh_alpha_x  # pointwise.py:79
    # atomic: shared along program axis 0
    tl.atomic_add(d_w_ptr + lanes, d_w, mask=mask, sem="relaxed")  # pointwise.py:76
    d_alpha = tl.sum(tl.where(mask, d_alpha_part * x, 0.0), axis=0)  # pointwise.py:79
    # atomic: shared along program axis 0
    tl.atomic_add(d_alpha_ptr, d_alpha, sem="relaxed")  # pointwise.py:75
