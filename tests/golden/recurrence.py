import triton
import triton.language as tl


@triton.jit
def recurrence_bwd(
    d_y_ptr,
    x_ptr,
    g_ptr,
    h_ptr,
    d_x_ptr,
    d_g_ptr,
    d_h_ptr,
    h_tape_ptr,
    d_y_stride_0,
    d_y_stride_1,
    T,
    D,
    t_turns,
    BLOCK: tl.constexpr,
):
    """Backward of `recurrence` (loops.py:134).

    Recomputed: h. Tape: h, as each turn of the loop finds it.
    d_x: plain store, each element is written once.
    d_g: plain store, each element is written once.
    d_h: plain store, each element is written once.
    """
    tl.static_assert(BLOCK == 16)
    # -- primal sweep (recomputed) --
    batch = tl.program_id(0)  # loops.py:136
    pid_1 = tl.program_id(1)  # loops.py:137
    lanes = tl.arange(0, BLOCK)
    d = pid_1 * BLOCK + lanes
    mask = d < D  # loops.py:138
    batch_offset = batch * D  # loops.py:139
    h = tl.load(h_ptr + batch_offset + d, mask=mask)
    tl.debug_barrier()  # loops.py:140
    n_programs_1 = tl.cast(tl.num_programs(1), tl.int64)
    offset = (tl.program_id(2) * n_programs_1 + pid_1) * tl.num_programs(0)
    program = offset + batch
    program_offset = program * t_turns
    for t in range(T):
        tl.store(h_tape_ptr + (program_offset + t) * BLOCK + lanes, h)
        at = (batch * T + t) * D + d  # loops.py:141
        x = tl.load(x_ptr + at, mask=mask)  # loops.py:142
        g = tl.load(g_ptr + at, mask=mask)  # loops.py:143
        g_2 = 1.0 / (tl.exp(-g) + 1.0)
        h = g_2 * h + (1.0 - g_2) * tl.sin(h * x)  # loops.py:144
    # -- reverse sweep --
    tl.debug_barrier()  # loops.py:140
    d_h = tl.zeros((BLOCK,), tl.float32)  # loops.py:141
    for t in range(T):  # loops.py:140
        t_2 = T - 1 - t  # loops.py:141
        h_2 = tl.load(h_tape_ptr + (program_offset + t_2) * BLOCK + lanes)
        offset_2 = batch * T + t_2
        at = offset_2 * D + d
        x = tl.load(x_ptr + at, mask=mask)  # loops.py:142
        g = tl.load(g_ptr + at, mask=mask)  # loops.py:143
        d_y = tl.load(
            d_y_ptr + offset_2 * d_y_stride_0 + d * d_y_stride_1, mask=mask, other=0.0
        )  # loops.py:145
        d_h += d_y
        h_2_x = h_2 * x  # loops.py:144
        d_g = d_h * h_2 - d_h * tl.sin(h_2_x)
        g_2 = 1.0 / (tl.exp(-g) + 1.0)  # loops.py:143
        d_x_factor = 1.0 - g_2  # loops.py:144
        tl.store(d_g_ptr + at, d_g * g_2 * d_x_factor, mask=mask)  # loops.py:143
        d_h_d_x_factor_cos_h_2_x = d_h * d_x_factor * tl.cos(h_2_x)  # loops.py:144
        d_x = d_h_d_x_factor_cos_h_2_x * h_2
        tl.store(d_x_ptr + at, d_x, mask=mask)  # loops.py:142
        d_h = d_h_d_x_factor_cos_h_2_x * x + d_h * g_2  # loops.py:144
    tl.store(d_h_ptr + batch_offset + d, d_h, mask=mask)  # loops.py:139
