import triton
import triton.language as tl


@triton.jit
def runtime_branch_bwd(
    d_y_ptr, x_ptr, d_x_ptr, d_y_stride, n, squared, BLOCK: tl.constexpr
):
    """Backward of `runtime_branch` (control.py:24).

    Recomputed: x. Saved: nothing.
    d_x: plain store, each element is written once.
    """
    tl.static_assert(BLOCK == 32)
    # -- primal sweep (recomputed) --
    pid = tl.program_id(0)  # control.py:25
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # control.py:26
    mask = offs < n  # control.py:27
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)  # control.py:28
    # -- reverse sweep --
    d_y = tl.load(d_y_ptr + offs * d_y_stride, mask=mask, other=0.0)  # control.py:33
    if squared > pid:  # control.py:32
        d_x = tl.where(mask, 2.0 * (d_y * x), 0.0)  # control.py:30
    else:
        d_x = tl.where(mask, d_y + d_y * tl.cos(x), 0.0)  # control.py:32
    tl.store(d_x_ptr + offs, d_x, mask=mask)  # control.py:28
