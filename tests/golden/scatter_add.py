import triton
import triton.language as tl


@triton.jit
def weighted_histogram_bwd(
    d_sum_ptr, x_ptr, bin_ptr, d_x_ptr, d_sum_stride, n, bins, BLOCK: tl.constexpr
):
    """Backward of `weighted_histogram` (additions.py:49).

    Recomputed: x. Saved: nothing.
    d_x: plain store, each element is written once.
    """
    tl.static_assert(BLOCK == 8)
    # -- primal sweep (recomputed) --
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # additions.py:53
    mask = offs < n  # additions.py:54
    x = tl.load(x_ptr + offs, mask=mask)
    where = tl.load(bin_ptr + offs, mask=mask, other=-1)  # additions.py:55
    valid = (where >= 0) & (where < bins)  # additions.py:56
    # -- reverse sweep --
    # additions.py:57
    d_sum = tl.load(d_sum_ptr + where * d_sum_stride, mask=valid, other=0.0)
    d_x = tl.where(valid, 2.0 * (d_sum * x), 0.0)  # additions.py:54
    tl.store(d_x_ptr + offs, d_x, mask=mask)
