import triton
import triton.language as tl


@triton.jit
def layer_norm_bwd(
    d_y_ptr,
    d_mean_ptr,
    d_rstd_ptr,
    x_ptr,
    w_ptr,
    d_x_ptr,
    d_w_ptr,
    d_b_ptr,
    d_y_stride_0,
    d_y_stride_1,
    d_mean_stride,
    d_rstd_stride,
    x_stride,
    n_cols,
    eps,
    BLOCK: tl.constexpr,
):
    """Backward of `layer_norm` (norms.py:41).

    Recomputed: x, mean, centred, var, w. Saved: nothing.
    d_x: plain store, each element is written once (if x_stride >= n_cols, tested at
        launch).
    d_w: summed by atomic_add in float32; shared along program axis 0.
    d_b: summed by atomic_add in float32; shared along program axis 0.
    """
    tl.static_assert(BLOCK == 64)
    # -- primal sweep (recomputed) --
    row = tl.program_id(0)  # norms.py:54
    x_offset = row * x_stride  # norms.py:55
    cols = tl.arange(0, BLOCK)  # norms.py:57
    mask = cols < n_cols  # norms.py:58
    x = tl.load(x_ptr + x_offset + cols, mask=mask, other=0.0)  # norms.py:59
    mean = tl.sum(x, axis=0) / n_cols  # norms.py:60
    x_minus_mean = x - mean
    centred = tl.where(mask, x_minus_mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / n_cols
    rsqrt_var_plus_eps = tl.rsqrt(var + eps)
    w = tl.load(w_ptr + cols, mask=mask)  # norms.py:61
    # -- reverse sweep --
    d_rstd = tl.load(d_rstd_ptr + row * d_rstd_stride)  # norms.py:65
    d_mean_out = tl.load(d_mean_ptr + row * d_mean_stride)  # norms.py:64
    d_y = tl.load(
        d_y_ptr + row * d_y_stride_0 + cols * d_y_stride_1, mask=mask, other=0.0
    )  # norms.py:63
    # atomic: shared along program axis 0
    tl.atomic_add(d_b_ptr + cols, d_y, mask=mask, sem="relaxed")  # norms.py:62
    d_w = d_y * (x_minus_mean * rsqrt_var_plus_eps)  # norms.py:61
    # atomic: shared along program axis 0
    tl.atomic_add(d_w_ptr + cols, d_w, mask=mask, sem="relaxed")
    d_y_w = d_y * w  # norms.py:63
    d_y_w_rsqrt_var_plus_eps = d_y_w * rsqrt_var_plus_eps
    term = d_rstd + tl.sum(tl.where(mask, d_y_w * centred, 0.0), axis=0)
    term_2 = rsqrt_var_plus_eps * rsqrt_var_plus_eps * rsqrt_var_plus_eps  # norms.py:60
    d_centred_term = term * term_2 / n_cols
    d_x_term = d_y_w_rsqrt_var_plus_eps - d_centred_term * x_minus_mean  # norms.py:59
    d_centred_term_2 = tl.where(mask, d_y_w_rsqrt_var_plus_eps, 0.0)  # norms.py:60
    d_centred = d_centred_term_2 - d_centred_term * centred
    d_mean = d_mean_out - tl.sum(tl.where(mask, d_centred, 0.0), axis=0)
    d_x = d_x_term + d_mean / n_cols  # norms.py:59
    tl.store(d_x_ptr + x_offset + cols, d_x, mask=mask)
