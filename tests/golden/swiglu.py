import triton
import triton.language as tl


@triton.jit
def swiglu_bwd(
    d_c_ptr,
    a_ptr,
    b_ptr,
    d_a_ptr,
    d_b_ptr,
    d_c_stride_0,
    d_c_stride_1,
    stride,
    n_cols,
    BLOCK: tl.constexpr,
):
    """Backward of `swiglu` (pointwise.py:25).

    Recomputed: a, b. Saved: nothing.
    d_a: plain store, each element is written once (if stride >= n_cols, tested at
        launch).
    d_b: plain store, each element is written once (if stride >= n_cols, tested at
        launch).
    """
    tl.static_assert(BLOCK == 64)
    # -- primal sweep (recomputed) --
    row = tl.program_id(0).to(tl.int64)  # pointwise.py:26
    row_offset = row * stride  # pointwise.py:27
    cols = tl.arange(0, BLOCK)  # pointwise.py:30
    mask = cols < n_cols  # pointwise.py:31
    # pointwise.py:32
    a = tl.load(a_ptr + row_offset + cols, mask=mask, other=0.0).to(tl.float32)
    sigmoid_a = 1.0 / (tl.exp(-a) + 1.0)  # pointwise.py:34
    # -- reverse sweep --
    d_c = tl.load(
        d_c_ptr + row * d_c_stride_0 + cols * d_c_stride_1, mask=mask, other=0.0
    ).to(tl.float32)  # pointwise.py:35
    d_b = d_c * (a * sigmoid_a).to(tl.bfloat16)  # pointwise.py:34
    tl.store(d_b_ptr + row_offset + cols, d_b, mask=mask)  # pointwise.py:33
    # pointwise.py:34
    b = tl.load(b_ptr + row_offset + cols, mask=mask, other=0.0).to(tl.float32)
    d_c_b = d_c * b
    d_a = d_c_b * sigmoid_a + d_c_b * a * sigmoid_a * (1.0 - sigmoid_a)
    tl.store(d_a_ptr + row_offset + cols, d_a, mask=mask)  # pointwise.py:32
