import triton
import triton.language as tl


@triton.jit
def matmul_bwd(
    d_c_ptr,
    a_ptr,
    b_ptr,
    d_a_ptr,
    d_b_ptr,
    d_c_stride_0,
    d_c_stride_1,
    M,
    N,
    K,
    a_stride_m,
    b_stride_k,
):
    """Backward of `matmul` (loops.py:10).

    Recomputed: acc. Saved: nothing.
    d_a: summed by atomic_add in float32; the address depends on `m`, a value of each
        program.
    d_b: summed by atomic_add in float32; the address depends on `n`, a value of each
        program.
    Each element of c_ptr must be written once, which is not proved: the address depends
    on `pid_n`, a value of each program.
    """
    # -- primal sweep (recomputed) --
    pid = tl.program_id(0)  # loops.py:17
    rows = (M + 15) // 16  # loops.py:18
    in_group = (N + 15) // 16 * 2  # loops.py:19
    first = pid // in_group * 2  # loops.py:20
    size = tl.minimum(rows - first, 2)  # loops.py:21
    offset = pid % in_group  # loops.py:22
    pid_m = first + offset % size
    pid_n = offset // size  # loops.py:23
    lanes = tl.arange(0, 16)  # loops.py:24
    offsets = pid_m * 16 + lanes
    m = offsets % M
    pid_n_offset = pid_n * 16  # loops.py:25
    offsets_2 = pid_n_offset + lanes
    n = offsets_2 % N
    a_offsets = m[:, None] * a_stride_m  # loops.py:27
    b_offsets = lanes[:, None] * b_stride_k  # loops.py:28
    offset_2 = (K + 15) // 16  # loops.py:30
    b_stride_k_offset = tl.cast(b_stride_k * 16, tl.int64)
    acc = tl.zeros((16, 16), tl.float32)
    for step in range(offset_2):
        step_2 = tl.cast(step, tl.int64)
        left = K - step * 16  # loops.py:31
        mask = lanes < left  # loops.py:32
        a = tl.load(
            a_ptr + a_offsets + lanes[None, :] + step_2 * 16,
            mask=mask[None, :],
            other=0.0,
        )
        b = tl.load(
            b_ptr + b_offsets + n[None, :] + step_2 * b_stride_k_offset,
            mask=mask[:, None],
            other=0.0,
        )  # loops.py:33
        acc = tl.dot(a, b, acc, input_precision="ieee")  # loops.py:34
    mask = offsets < M  # loops.py:40
    mask_2 = offsets_2 < N
    mask_3 = mask[:, None] & mask_2[None, :]
    # -- reverse sweep --
    # loops.py:42
    offsets_3 = tl.broadcast_to(offsets[:, None], (16, 16)) * d_c_stride_0
    d_c = tl.load(
        d_c_ptr + offsets_3 + (pid_n_offset + lanes[None, :]) * d_c_stride_1,
        mask=mask_3,
        other=0.0,
    )
    d_acc = tl.where(acc > 0.0, d_c, d_c * 0.125)  # loops.py:37
    d_a_part = tl.where(mask_3, d_acc, 0.0)  # loops.py:30
    for step in range(offset_2):
        left = K - step * 16  # loops.py:31
        mask_4 = lanes < left  # loops.py:32
        step_2 = tl.cast(step, tl.int64)  # loops.py:30
        step_2_offset = step_2 * 16
        a = tl.load(
            a_ptr + a_offsets + lanes[None, :] + step_2_offset,
            mask=mask_4[None, :],
            other=0.0,
        )  # loops.py:32
        b_offset = step_2 * b_stride_k_offset  # loops.py:30
        b = tl.load(
            b_ptr + b_offsets + n[None, :] + b_offset, mask=mask_4[:, None], other=0.0
        )  # loops.py:33
        d_b_part = tl.trans(tl.where(mask[:, None], a, 0.0))  # loops.py:34
        d_b = tl.dot(d_b_part, d_a_part, input_precision="ieee")
        # atomic: the address depends on `n`, a value of each program
        tl.atomic_add(
            d_b_ptr + b_offsets + n[None, :] + b_offset,
            d_b,
            mask=mask_4[:, None],
            sem="relaxed",
        )  # loops.py:33
        d_a_part_2 = tl.trans(tl.where(mask_2[None, :], b, 0.0))  # loops.py:34
        d_a = tl.dot(d_a_part, d_a_part_2, input_precision="ieee")
        # atomic: the address depends on `m`, a value of each program
        tl.atomic_add(
            d_a_ptr + a_offsets + lanes[None, :] + step_2_offset,
            d_a,
            mask=mask_4[None, :],
            sem="relaxed",
        )  # loops.py:32
