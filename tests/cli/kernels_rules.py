"""Kernels with derivatives of the user's, right ones and others."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import undertow


@undertow.custom_vjp
@triton.jit
def softplus(x):
    return tl.where(x > 20, x, tl.log(1 + tl.exp(x)))


@softplus.vjp
@triton.jit
def softplus_vjp(x, d_y):
    return d_y * tl.sigmoid(x)


@triton.jit
def smooth(x_ptr, y_ptr, n, BLOCK: tl.constexpr = 64):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, softplus(x) * x, mask=offs < n)


def smooth_example():
    return (1,), (torch.randn(40), torch.empty(40), 40), {}


@undertow.custom_vjp
@triton.jit
def rounded(x):
    return tl.floor(x)


@rounded.vjp
@triton.jit
def rounded_vjp(x, d_y):
    return d_y


@triton.jit
def quantised(x_ptr, y_ptr, n, BLOCK: tl.constexpr = 64):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, rounded(x) * x, mask=offs < n)


def quantised_example():
    return (1,), (torch.randn(40), torch.empty(40), 40), {}


@undertow.custom_vjp
@triton.jit
def log_gamma(x):
    return libdevice.lgamma(x)


@log_gamma.vjp
@triton.jit
def log_gamma_vjp(x, d_y):
    """The digamma function, which no library that Triton calls has."""
    z = x + 8
    r = 1 / (z * z)
    digamma = tl.log(z) - 0.5 / z - r * (1 / 12 - r * (1 / 120 - r / 252))
    for k in tl.static_range(8):
        digamma -= 1 / (x + k)
    return d_y * digamma


@triton.jit
def gamma(x_ptr, y_ptr, n, BLOCK: tl.constexpr = 64):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, log_gamma(x) * x, mask=offs < n)


def gamma_example():
    return (1,), (torch.rand(40) + 0.5, torch.empty(40), 40), {}


@undertow.custom_vjp
@triton.jit
def wrong_gamma(x):
    return libdevice.lgamma(x)


@wrong_gamma.vjp
@triton.jit
def wrong_gamma_vjp(x, d_y):
    return d_y


@triton.jit
def wrong(x_ptr, y_ptr, n, BLOCK: tl.constexpr = 64):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, wrong_gamma(x), mask=offs < n)


wrong_example = gamma_example


@triton.jit
def detached(x_ptr, h_ptr, y_ptr, n, steps, BLOCK: tl.constexpr = 64):
    """Each turn of the loop takes what it starts from for a constant, in one factor."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    h = tl.load(h_ptr + offs, mask=offs < n)
    for t in range(steps):
        if t % 2 == 0:
            h = x * undertow.stop_gradient(tl.sin(h)) + 0.5 * h
        else:
            h = h * undertow.stop_gradient(x)
    tl.store(y_ptr + offs, h, mask=offs < n)


@undertow.differentiable(stop_gradient=("gate",))
@triton.jit
def gated(x_ptr, w_ptr, y_ptr, n, BLOCK: tl.constexpr = 64):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    w = tl.load(w_ptr + offs, mask=offs < n)
    gate = tl.sigmoid(x)
    tl.store(y_ptr + offs, gate * x * softplus(w), mask=offs < n)


def gated_example():
    return (2,), (torch.randn(70), torch.randn(70), torch.empty(70), 70), {}


def detached_example():
    n = 70
    return (2,), (torch.randn(n), torch.randn(n), torch.empty(n), n, 3), {}
