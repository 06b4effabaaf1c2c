import triton
import triton.language as tl


@triton.jit
def attention_bwd(
    d_o_ptr,
    d_lse_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
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

    Recomputed: q, new, total, acc, o. Saved: nothing.
    d_q: plain store, each element is written once.
    d_k: summed by atomic_add in float32; shared along program axis 0.
    d_v: summed by atomic_add in float32; shared along program axis 0.
    """
    # -- primal sweep (recomputed) --
    start = tl.program_id(0)  # loops.py:101
    pid_1 = tl.program_id(1)  # loops.py:102
    head = pid_1 * T * 16
    lanes = tl.arange(0, 16)  # loops.py:103
    m = start * 16 + lanes
    inside = m[:, None] < T  # loops.py:105
    m_offsets = m[:, None] * 16  # loops.py:106
    q = tl.load(q_ptr + head + m_offsets + lanes[None, :], mask=inside, other=0.0)
    end = tl.minimum((start + 1) * 16, T)  # loops.py:110
    new = tl.full((16,), -float("inf"), tl.float32)  # loops.py:107
    for first in range(0, end, 16):  # loops.py:111
        n = first + lanes  # loops.py:112
        valid = n[:, None] < T  # loops.py:113
        k = tl.load(
            k_ptr + head + n[:, None] * 16 + lanes[None, :], mask=valid, other=0.0
        )  # loops.py:114
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # loops.py:116
        keep = n[None, :] < T  # loops.py:117
        keep_2 = keep & (m[:, None] >= n[None, :])  # loops.py:119
        s_2 = tl.where(keep_2, s, -float("inf"))  # loops.py:120
        new = tl.maximum(new, tl.max(s_2, axis=1))  # loops.py:121
    total = tl.zeros((16,), tl.float32)  # loops.py:108
    acc = tl.zeros((16, 16), tl.float32)
    for first in range(0, end, 16):  # loops.py:111
        n = first + lanes  # loops.py:112
        valid = n[:, None] < T  # loops.py:113
        n_offsets = n[:, None] * 16  # loops.py:114
        k = tl.load(k_ptr + head + n_offsets + lanes[None, :], mask=valid, other=0.0)
        # loops.py:115
        v = tl.load(v_ptr + head + n_offsets + lanes[None, :], mask=valid, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # loops.py:116
        keep = n[None, :] < T  # loops.py:117
        keep_2 = keep & (m[:, None] >= n[None, :])  # loops.py:119
        s_2 = tl.where(keep_2, s, -float("inf"))  # loops.py:120
        p = tl.exp(s_2 - new[:, None])  # loops.py:123
        total += tl.sum(p, axis=1)  # loops.py:124
        acc += tl.dot(p, v, input_precision="ieee")  # loops.py:125
    o = acc / total[:, None]  # loops.py:127
    mask = m < T  # loops.py:130
    # -- reverse sweep --
    d_lse = tl.load(
        d_lse_ptr + pid_1 * d_lse_stride_0 + m * d_lse_stride_1, mask=mask, other=0.0
    )  # loops.py:130
    d_o = tl.load(
        d_o_ptr + (head + m_offsets + lanes[None, :]) * d_o_stride,
        mask=inside,
        other=0.0,
    )  # loops.py:128
    d_acc = d_o / total[:, None]  # loops.py:127
    d_p_term = tl.where(inside, d_acc, 0.0)  # loops.py:111
    d_total_term = tl.sum(d_o * o / total[:, None], axis=1)  # loops.py:127
    d_total_term_2 = tl.where(tl.reshape(inside, (16,)), d_total_term, 0.0)
    d_total = tl.where(mask, d_lse / total, 0.0) - d_total_term_2
    d_q = tl.zeros((16, 16), tl.float32)
    for first in range(0, end, 16):  # loops.py:111
        n = first + lanes  # loops.py:112
        valid = n[:, None] < T  # loops.py:113
        n_offsets = n[:, None] * 16  # loops.py:114
        k = tl.load(k_ptr + head + n_offsets + lanes[None, :], mask=valid, other=0.0)
        # loops.py:115
        v = tl.load(v_ptr + head + n_offsets + lanes[None, :], mask=valid, other=0.0)
        keep = n[None, :] < T  # loops.py:117
        keep_2 = keep & (m[:, None] >= n[None, :])  # loops.py:119
        k_2 = tl.trans(k)  # loops.py:116
        s = tl.dot(q, k_2, input_precision="ieee") * scale
        s_2 = tl.where(keep_2, s, -float("inf"))  # loops.py:120
        p = tl.exp(s_2 - new[:, None])  # loops.py:123
        d_v_part = tl.trans(tl.where(inside, p, 0.0))  # loops.py:125
        d_v = tl.dot(d_v_part, d_p_term, input_precision="ieee")
        # atomic: shared along program axis 0
        tl.atomic_add(
            d_v_ptr + head + n_offsets + lanes[None, :], d_v, mask=valid, sem="relaxed"
        )  # loops.py:115
        # loops.py:125
        d_p_term_2 = tl.dot(d_p_term, tl.trans(v), input_precision="ieee")
        d_p = d_p_term_2 + d_total[:, None]  # loops.py:124
        d_s = d_p * p  # loops.py:123
        d_q_part = tl.where(keep_2, d_s * scale, 0.0)  # loops.py:116
        d_k = tl.trans(tl.dot(tl.trans(q), d_q_part, input_precision="ieee"))
        # atomic: shared along program axis 0
        tl.atomic_add(
            d_k_ptr + head + n_offsets + lanes[None, :], d_k, mask=valid, sem="relaxed"
        )  # loops.py:114
        d_q_part_2 = tl.trans(tl.where(keep, k_2, 0.0))  # loops.py:116
        d_q += tl.dot(d_q_part, d_q_part_2, input_precision="ieee")  # loops.py:112
    # loops.py:106
    tl.store(d_q_ptr + head + m_offsets + lanes[None, :], d_q, mask=inside)
