import triton
import triton.language as tl


@triton.jit
def attention_bwd(
    d_o_ptr,
    d_lse_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    d_q_ptr,
    d_k_ptr,
    d_v_ptr,
    d_o_stride,
    d_lse_stride_0,
    d_lse_stride_1,
    T,
    scale,
):
    """Backward of `attention` (loops.py:96).

    Recomputed: q. Read back from outputs: o_ptr, lse_ptr. Saved: nothing.
    d_q: plain store, each element is written once.
    d_k: summed by atomic_add in float32; shared along program axis 0.
    d_v: summed by atomic_add in float32; shared along program axis 0.
    """
    # -- primal sweep (recomputed) --
    start = tl.program_id(0)  # loops.py:101
    pid_1 = tl.program_id(1)  # loops.py:102
    pid_1_offset = pid_1 * T
    head = pid_1_offset * 16
    lanes = tl.arange(0, 16)  # loops.py:103
    m = start * 16 + lanes
    mask = m < T  # loops.py:105
    m_offsets = m[:, None] * 16  # loops.py:106
    q = tl.load(
        q_ptr + head + m_offsets + lanes[None, :], mask=mask[:, None], other=0.0
    )
    end = tl.minimum((start + 1) * 16, T)  # loops.py:110
    # loops.py:130
    lse = tl.load(lse_ptr + pid_1_offset + m, mask=mask, other=float("inf"))
    # loops.py:128
    o = tl.load(o_ptr + head + m_offsets + lanes[None, :], mask=mask[:, None])
    # -- reverse sweep --
    d_lse = tl.load(
        d_lse_ptr + pid_1 * d_lse_stride_0 + m * d_lse_stride_1, mask=mask, other=0.0
    )  # loops.py:130
    d_o = tl.load(
        d_o_ptr + (head + m_offsets + lanes[None, :]) * d_o_stride,
        mask=mask[:, None],
        other=0.0,
    )  # loops.py:128
    d_total = d_lse - tl.sum(d_o * o, axis=1)  # loops.py:127
    d_q = tl.zeros((16, 16), tl.float32)
    for first in range(0, end, 16):  # loops.py:111
        n = first + lanes  # loops.py:112
        mask_2 = n < T  # loops.py:113
        n_offsets = n[:, None] * 16  # loops.py:114
        k = tl.load(
            k_ptr + head + n_offsets + lanes[None, :], mask=mask_2[:, None], other=0.0
        )
        v = tl.load(
            v_ptr + head + n_offsets + lanes[None, :], mask=mask_2[:, None], other=0.0
        )  # loops.py:115
        mask_3 = m[:, None] >= n[None, :]  # loops.py:119
        keep = mask_2[None, :] & mask_3
        k_2 = tl.trans(k)  # loops.py:116
        s = tl.dot(q, k_2, input_precision="ieee") * scale
        s_2 = tl.where(keep, s, -float("inf"))  # loops.py:120
        p = tl.exp(s_2 - lse[:, None])  # loops.py:123
        d_v_part = tl.trans(tl.where(mask[:, None], p, 0.0))  # loops.py:125
        d_v = tl.dot(d_v_part, d_o, input_precision="ieee")
        # atomic: shared along program axis 0
        tl.atomic_add(
            d_v_ptr + head + n_offsets + lanes[None, :],
            d_v,
            mask=mask_2[:, None],
            sem="relaxed",
        )  # loops.py:115
        mask_4 = mask[:, None] & mask_2[None, :] & mask_3  # loops.py:116
        d_p_term = tl.dot(d_o, tl.trans(v), input_precision="ieee")  # loops.py:125
        d_p = d_p_term + d_total[:, None]  # loops.py:124
        d_s = d_p * p  # loops.py:123
        d_q_part = tl.where(mask_4, d_s * scale, 0.0)  # loops.py:116
        d_k = tl.trans(tl.dot(tl.trans(q), d_q_part, input_precision="ieee"))
        # atomic: shared along program axis 0
        tl.atomic_add(
            d_k_ptr + head + n_offsets + lanes[None, :],
            d_k,
            mask=mask_2[:, None],
            sem="relaxed",
        )  # loops.py:114
        d_q_part_2 = tl.trans(tl.where(mask_2[None, :], k_2, 0.0))  # loops.py:116
        d_q += tl.dot(d_q_part, d_q_part_2, input_precision="ieee")  # loops.py:112
    # loops.py:106
    tl.store(d_q_ptr + head + m_offsets + lanes[None, :], d_q, mask=mask[:, None])
