import triton
import triton.language as tl


@triton.jit
def embedding_bwd(
    d_out_ptr,
    index_ptr,
    d_weight_ptr,
    d_out_stride_0,
    d_out_stride_1,
    dim,
    BLOCK: tl.constexpr,
):
    """Backward of `embedding` (indexing.py:10).

    Recomputed: nothing. Saved: nothing.
    d_weight: summed by atomic_add in float32; the address depends on `index`, a value
        of each program.
    """
    tl.static_assert(BLOCK == 32)
    # -- primal sweep (recomputed) --
    token = tl.program_id(0)  # indexing.py:11
    cols = tl.arange(0, BLOCK)  # indexing.py:12
    mask = cols < dim  # indexing.py:13
    index = tl.load(index_ptr + token)  # indexing.py:14
    # -- reverse sweep --
    d_vector = tl.load(
        d_out_ptr + token * d_out_stride_0 + cols * d_out_stride_1, mask=mask, other=0.0
    ).to(tl.float32)  # indexing.py:16
    # atomic: the address depends on `index`, a value of each program
    # indexing.py:15
    tl.atomic_add(d_weight_ptr + index * dim + cols, d_vector, mask=mask, sem="relaxed")
