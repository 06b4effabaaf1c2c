import triton
import triton.language as tl


@triton.jit
def relax_bwd(
    d_y_ptr,
    x_ptr,
    w_ptr,
    budget_ptr,
    d_x_ptr,
    d_w_ptr,
    y_tape_ptr,
    d_y_stride_0,
    d_y_stride_1,
    n,
    loop_turns,
    BLOCK: tl.constexpr,
):
    """Backward of `relax` (whiles.py:10).

    Recomputed: y, w, budget. Tape: y, as each turn of the loop finds it; `loop_turns`:
    the most turns of a program, counted by `relax_turns`.
    d_x: plain store, each element is written once.
    d_w: summed by atomic_add in float32; shared along program axis 0.
    """
    tl.static_assert(BLOCK == 16)
    # -- primal sweep (recomputed) --
    pid = tl.program_id(0)  # whiles.py:12
    cols = tl.arange(0, BLOCK)  # whiles.py:13
    mask = cols < n  # whiles.py:14
    pid_offset = pid * n  # whiles.py:15
    y = tl.load(x_ptr + pid_offset + cols, mask=mask, other=0.0)
    w = tl.load(w_ptr + cols, mask=mask)  # whiles.py:16
    budget = tl.load(budget_ptr + pid)  # whiles.py:17
    tl.debug_barrier()  # whiles.py:18
    n_programs_1 = tl.cast(tl.num_programs(1), tl.int64)
    offset = tl.program_id(2) * n_programs_1 + tl.program_id(1)
    program = offset * tl.num_programs(0) + pid
    program_offset = program * loop_turns
    again = budget > 0.5
    turn = tl.full((), 0, tl.int32)
    while again:
        tl.store(y_tape_ptr + (program_offset + turn) * BLOCK + cols, y)
        y = tl.sin(y * w) + y * 0.5  # whiles.py:19
        budget -= 1.0  # whiles.py:20
        again = budget > 0.5  # whiles.py:18
        turn += 1
    # -- reverse sweep --
    d_y = tl.load(
        d_y_ptr + pid * d_y_stride_0 + cols * d_y_stride_1, mask=mask, other=0.0
    )  # whiles.py:21
    tl.debug_barrier()  # whiles.py:18
    d_w = tl.zeros((BLOCK,), tl.float32)  # whiles.py:15
    for i in range(turn):  # whiles.py:18
        # whiles.py:19
        y_2 = tl.load(y_tape_ptr + (program_offset + (turn - 1 - i)) * BLOCK + cols)
        d_y_cos_y_2_w = d_y * tl.cos(y_2 * w)
        d_y = d_y * 0.5 + d_y_cos_y_2_w * w
        d_y = tl.where(mask, d_y, 0.0)
        d_w_2 = d_y_cos_y_2_w * y_2
        d_w += tl.where(mask, d_w_2, 0.0)
    # atomic: shared along program axis 0
    tl.atomic_add(d_w_ptr + cols, d_w, mask=mask, sem="relaxed")  # whiles.py:16
    tl.store(d_x_ptr + pid_offset + cols, d_y, mask=mask)  # whiles.py:15


@triton.jit
def relax_turns(turns_ptr, budget_ptr):
    """Counts for `relax_bwd` how often loops turn in each program: `loop_turns`."""
    pid = tl.program_id(0)  # whiles.py:12
    budget = tl.load(budget_ptr + pid)  # whiles.py:17
    again = budget > 0.5  # whiles.py:18
    turn = tl.full((), 0, tl.int32)
    while again:
        budget -= 1.0  # whiles.py:20
        again = budget > 0.5  # whiles.py:18
        turn += 1
    n_programs_1 = tl.cast(tl.num_programs(1), tl.int64)  # whiles.py:21
    offset = tl.program_id(2) * n_programs_1 + tl.program_id(1)
    program = offset * tl.num_programs(0) + pid
    tl.store(turns_ptr + program, turn)
