import triton
import triton.language as tl


@triton.jit
def online_softmax_bwd(
    d_y_ptr,
    x_ptr,
    d_x_ptr,
    d_y_stride_0,
    d_y_stride_1,
    stride,
    n_cols,
    BLOCK: tl.constexpr,
):
    """Backward of `online_softmax` (loops.py:73).

    Recomputed: new, total. Saved: nothing.
    d_x: summed by atomic_add in float32; several accesses may meet at one address.
    """
    tl.static_assert(BLOCK == 16)
    # -- primal sweep (recomputed) --
    row = tl.program_id(0)  # loops.py:75
    new = tl.full((), -float("inf"), tl.float32)
    for start in range(0, n_cols, BLOCK):  # loops.py:78
        cols = start + tl.arange(0, BLOCK)  # loops.py:79
        x = tl.load(
            x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf")
        )  # loops.py:80
        new = tl.maximum(new, tl.max(x, axis=0))  # loops.py:83
    total = tl.full((), 0.0, tl.float32)  # loops.py:77
    for start in range(0, n_cols, BLOCK):  # loops.py:78
        cols = start + tl.arange(0, BLOCK)  # loops.py:79
        x = tl.load(
            x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf")
        )  # loops.py:80
        total += tl.sum(tl.exp(x - new), axis=0)  # loops.py:84
    # -- reverse sweep --
    d_total = tl.full((), 0.0, tl.float32)  # loops.py:77
    for start in range(0, n_cols, BLOCK):  # loops.py:86
        cols = start + tl.arange(0, BLOCK)  # loops.py:87
        mask = cols < n_cols  # loops.py:89
        row_offset = row * stride
        # loops.py:88
        x = tl.load(x_ptr + row_offset + cols, mask=mask, other=-float("inf"))
        d_y = tl.load(
            d_y_ptr + row * d_y_stride_0 + cols * d_y_stride_1, mask=mask, other=0.0
        )  # loops.py:92
        exp_x_minus_new = tl.exp(x - new)  # loops.py:91
        d_x = d_y / total * exp_x_minus_new
        # atomic: several accesses may meet at one address
        # loops.py:88
        tl.atomic_add(d_x_ptr + row_offset + cols, d_x, mask=mask, sem="relaxed")
        y = exp_x_minus_new / total  # loops.py:91
        d_total -= tl.sum(tl.where(mask, d_y * y / total, 0.0), axis=0)  # loops.py:87
    for start in range(0, n_cols, BLOCK):  # loops.py:78
        cols = start + tl.arange(0, BLOCK)  # loops.py:79
        mask = cols < n_cols  # loops.py:81
        row_offset = row * stride
        # loops.py:80
        x = tl.load(x_ptr + row_offset + cols, mask=mask, other=-float("inf"))
        d_x = d_total * tl.exp(x - new)  # loops.py:84
        # loops.py:80
        tl.atomic_add(d_x_ptr + row_offset + cols, d_x, mask=mask, sem="relaxed")
