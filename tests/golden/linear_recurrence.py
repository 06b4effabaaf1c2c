import triton
import triton.language as tl


@triton.jit
def _recurrence(a, x, b, y):
    return a * b, x * b + y


@triton.jit
def linear_recurrence_bwd(
    d_h_ptr,
    a_ptr,
    x_ptr,
    d_a_ptr,
    d_x_ptr,
    d_h_stride,
    n_steps,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Backward of `linear_recurrence` (combines.py:82).

    Recomputed: a, x. Saved: nothing.
    d_a: plain store, each element is written once.
    d_x: plain store, each element is written once.
    """
    tl.static_assert(CHANNELS == 4)
    tl.static_assert(BLOCK == 16)
    # -- primal sweep (recomputed) --
    steps = tl.arange(0, BLOCK)  # combines.py:92
    channels = tl.arange(0, CHANNELS)  # combines.py:93
    offsets = steps[:, None] * CHANNELS + channels[None, :]  # combines.py:94
    mask = steps < n_steps  # combines.py:95
    a = tl.load(a_ptr + offsets, mask=mask[:, None])  # combines.py:100
    x = tl.load(x_ptr + offsets, mask=mask[:, None])  # combines.py:101
    _gain, term = tl.associative_scan((a, x), 0, _recurrence)  # combines.py:102
    # -- reverse sweep --
    # combines.py:103
    d_h = tl.load(d_h_ptr + offsets * d_h_stride, mask=mask[:, None], other=0.0)
    d_x_part = tl.where(mask[:, None], a, 0.0)  # combines.py:102
    offsets_2 = tl.minimum(steps[:, None] + 1, 15)
    d_x_part_2 = tl.gather(d_x_part, tl.broadcast_to(offsets_2, (BLOCK, CHANNELS)), 0)
    d_x_part_3 = tl.where((steps != 15)[:, None], d_x_part_2, 0.0)
    _gain_2, d_x = tl.associative_scan((d_x_part_3, d_h), 0, _recurrence, reverse=True)
    tl.store(d_x_ptr + offsets, d_x, mask=mask[:, None])  # combines.py:101
    offsets_3 = tl.maximum(steps[:, None] - 1, 0)  # combines.py:102
    d_a_factor = tl.gather(term, tl.broadcast_to(offsets_3, (BLOCK, CHANNELS)), 0)
    d_a = d_x * tl.where((steps != 0)[:, None], d_a_factor, 0.0)
    tl.store(d_a_ptr + offsets, d_a, mask=mask[:, None])  # combines.py:100
