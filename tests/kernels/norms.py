"""Normalisations, one row a program."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, x_stride, y_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * y_stride + cols, y, mask=mask)


@triton.jit
def rms_norm(x_ptr, w_ptr, y_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(y_ptr + row * stride + cols, x * rstd * w, mask=mask)


@triton.jit
def _moments(x, mask, n_cols, eps):
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / n_cols
    return mean, centred, 1.0 / tl.sqrt(var + eps)


@triton.jit
def layer_norm(
    x_ptr,
    w_ptr,
    b_ptr,
    y_ptr,
    mean_ptr,
    rstd_ptr,
    x_stride,
    y_stride,
    n_cols,
    eps,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    x_ptr += row * x_stride
    y_ptr += row * y_stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean, centred, rstd = _moments(x, mask, n_cols, eps)
    w = tl.load(w_ptr + cols, mask=mask)
    b = tl.load(b_ptr + cols, mask=mask)
    tl.store(y_ptr + cols, centred * rstd * w + b, mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def l2_norm(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0).to(tl.float32)
    norm = tl.sqrt(tl.sum(x * x))
    y = x / tl.maximum(norm, eps)
    tl.store(y_ptr + row * n_cols + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def weighted_loss(
    logits_ptr,
    labels_ptr,
    weights_ptr,
    loss_ptr,
    stride,
    n_classes,
    BLOCK: tl.constexpr,
):
    """Cross entropy of one token a program, times the token's weight."""
    token = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_classes
    label = tl.load(labels_ptr + token)
    weight = tl.load(weights_ptr + token).to(tl.float32)
    logits = tl.load(
        logits_ptr + token * stride + cols, mask=mask, other=-float("inf")
    ).to(tl.float32)
    peak = tl.max(logits, axis=0)
    lse = peak + tl.log(tl.sum(tl.exp(logits - peak), axis=0))
    chosen = tl.sum(tl.where(cols == label, logits, 0.0), axis=0)
    tl.store(loss_ptr + token, weight * (lse - chosen))


@triton.jit
def kl_divergence(p_ptr, log_q_ptr, loss_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    """sum of p (log p - log q) over a row, with p a probability."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    p = tl.load(p_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    log_q = tl.load(log_q_ptr + row * stride + cols, mask=mask, other=0.0)
    terms = p * (tl.log(tl.maximum(p, eps)) - log_q.to(tl.float32))
    tl.store(loss_ptr + row, tl.sum(terms, axis=0))
