"""A kernel with an example of two sizes."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm(x_ptr, w_ptr, y_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(y_ptr + row * stride + cols, x * rstd * w, mask=mask)


def example():
    x = torch.randn(3, 11)
    w, y = torch.randn(11), torch.empty_like(x)
    return (3,), (x, w, y, x.stride(0), 11, 1e-6), {"BLOCK": 16}


def in_halves(n=10):
    x = torch.randn(n, dtype=torch.bfloat16)[None]
    w, y = torch.randn_like(x[0]), torch.empty_like(x)
    return 1, {
        "x_ptr": x,
        "w_ptr": w,
        "y_ptr": y,
        "stride": 128,
        "n_cols": n,
        "eps": 1e-6,
        "BLOCK": 128,
    }
