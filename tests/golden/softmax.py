import triton
import triton.language as tl


@triton.jit
def softmax_bwd(
    d_y_ptr,
    x_ptr,
    d_x_ptr,
    d_y_stride_0,
    d_y_stride_1,
    x_stride,
    n_cols,
    BLOCK: tl.constexpr,
):
    """Backward of `softmax` (norms.py:10).

    Recomputed: x, e, y. Saved: nothing.
    d_x: plain store, each element is written once (if x_stride >= n_cols, tested at
        launch).
    """
    tl.static_assert(BLOCK == 64)
    # -- primal sweep (recomputed) --
    row = tl.program_id(0)  # norms.py:11
    cols = tl.arange(0, BLOCK)  # norms.py:12
    mask = cols < n_cols  # norms.py:13
    x_offset = row * x_stride  # norms.py:14
    x = tl.load(x_ptr + x_offset + cols, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))  # norms.py:16
    sum_e = tl.sum(e, axis=0)  # norms.py:17
    y = e / sum_e
    # -- reverse sweep --
    d_y = tl.load(
        d_y_ptr + row * d_y_stride_0 + cols * d_y_stride_1, mask=mask, other=0.0
    )  # norms.py:18
    # norms.py:14
    d_x_factor = d_y / sum_e - tl.sum(tl.where(mask, d_y * y / sum_e, 0.0), axis=0)
    d_x = d_x_factor * e
    tl.store(d_x_ptr + x_offset + cols, d_x, mask=mask)
