"""Kernels that are refused, marked where, and a few that need care to capture."""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from triton.language.extra import libdevice


class Case(NamedTuple):
    """A kernel, what to capture it for, and the fact of the refusal (empty: none)."""

    fn: Any
    signature: dict[str, Any]
    constexprs: dict[str, Any]
    message: str = ""


@triton.jit
def swapped_in_loop(x_ptr, y_ptr, n):
    p, q = x_ptr, y_ptr
    for _ in range(n):  # here
        p, q = q, p
    tl.store(p, 1.0)


@triton.jit
def int_dot(x_ptr, y_ptr, n):
    offs = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    x = tl.load(x_ptr + offs).to(tl.int8)
    tl.store(y_ptr + offs, tl.dot(x, x))  # here


@triton.jit
def float8_dot(x_ptr, y_ptr, n):
    offs = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    x = tl.load(x_ptr + offs).to(tl.float8e5)
    tl.store(y_ptr + offs, tl.dot(x, x))  # here


@triton.jit
def dot_scaled(x_ptr, y_ptr, n):
    offs = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    x = tl.load(x_ptr + offs).to(tl.float8e5)
    scale = tl.full((64, 2), 127, tl.uint8)
    y = tl.dot_scaled(x, scale, "e5m2", x, scale, "e5m2")  # here
    tl.store(y_ptr + offs, y)


@triton.jit
def histogram(x_ptr, y_ptr, n):
    offs = tl.arange(0, 16)
    x = tl.load(x_ptr + offs).to(tl.int32)
    tl.store(y_ptr + offs, tl.histogram(x, 16))  # here


@triton.jit
def cat(x_ptr, y_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(y_ptr + tl.arange(0, 32), tl.cat(x, x, can_reorder=True))  # here


@triton.jit
def reorder(x_ptr, y_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :])
    flat = tl.reshape(x, (16,), can_reorder=True)  # here
    tl.store(y_ptr + tl.arange(0, 16), flat)


@triton.jit
def inline_asm(x_ptr, y_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    y = tl.inline_asm_elementwise("nop", "=r,r", [x], tl.float32, False, 1)  # here
    tl.store(y_ptr + tl.arange(0, 16), y)


@triton.jit
def bits(x_ptr, y_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(y_ptr + tl.arange(0, 16), libdevice.popc(x.to(tl.int32)))  # here


@triton.jit
def atomic_max(x_ptr, y_ptr, n):
    tl.atomic_max(x_ptr, tl.load(y_ptr))  # here


@triton.jit
def atomic_min(x_ptr, y_ptr, n):
    tl.atomic_min(x_ptr, tl.load(y_ptr))  # here


@triton.jit
def atomic_xchg(x_ptr, y_ptr, n):
    tl.atomic_xchg(x_ptr, tl.load(y_ptr))  # here


@triton.jit
def atomic_and(i_ptr, y_ptr, n):
    tl.atomic_and(i_ptr, n)  # here


@triton.jit
def atomic_or(i_ptr, y_ptr, n):
    tl.atomic_or(i_ptr, n)  # here


@triton.jit
def atomic_xor(i_ptr, y_ptr, n):
    tl.atomic_xor(i_ptr, n)  # here


@triton.jit
def atomic_cas(i_ptr, y_ptr, n):
    tl.atomic_cas(i_ptr, 0, n)  # here


@triton.jit
def atomic_result(x_ptr, y_ptr, n):
    old = tl.atomic_add(x_ptr, 1.0)  # here
    tl.store(y_ptr, old)


@triton.jit
def volatile(x_ptr, y_ptr, n):
    tl.store(y_ptr, tl.load(x_ptr, volatile=True))  # here


@triton.jit
def chosen(x_ptr, y_ptr, n):
    if n > 3:  # here
        p = x_ptr
    else:
        p = y_ptr
    tl.store(p, 1.0)


@triton.jit
def address(i_ptr, y_ptr, n):
    p = tl.load(i_ptr).to(tl.pointer_type(tl.float32))  # here
    tl.store(p, 1.0)


@triton.jit
def recast(x_ptr, y_ptr, n):
    p = x_ptr.to(tl.pointer_type(tl.int32))  # here
    tl.store(y_ptr, tl.load(p))


@triton.jit
def _smaller(a, b):
    while a * a < b:
        a += b
    return a


@triton.jit
def custom_reduce(x_ptr, y_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(y_ptr, tl.reduce(x, 0, _smaller))  # here


@triton.jit
def returning(x_ptr, y_ptr, n):
    return tl.load(x_ptr) + n  # here


@triton.jit
def optional(x_ptr, b_ptr):
    x = tl.load(x_ptr)
    if b_ptr is not None:
        x += tl.load(b_ptr)
    tl.store(x_ptr, x)


@triton.jit
def with_default(x_ptr, N: tl.constexpr = 8):
    tl.store(x_ptr + tl.arange(0, N), 1.0)


@triton.jit
def annotated(x_ptr, n: tl.int64):
    tl.store(x_ptr, n)


@triton.jit
def block_pointer(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x_ptr, (n, n), (n, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    block = tl.advance(block, (0, BLOCK))
    x = tl.load(block, boundary_check=(0, 1), padding_option="zero")
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs[:, None] * n + offs[None, :], x)


@triton.jit
def wrong(x_ptr):
    tl.store(x_ptr + tl.arange(0, 3), 1.0)  # here


@triton.jit
def _bad(x_ptr):
    tl.store(x_ptr + tl.arange(0, 3), 1.0)


@triton.jit
def wrong_helper(x_ptr):
    _bad(x_ptr)  # here


_XYN = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
_IYN = {"i_ptr": "*i32", "y_ptr": "*fp32", "n": "i32"}

CASES: dict[str, Case] = {
    **{
        fn.__name__: Case(fn, _XYN, {}, message)
        for fn, message in [
            (swapped_in_loop, "a pointer chosen at run time is not supported"),
            (int_dot, "`tl.dot` of integers (`i8`) is not supported"),
            (float8_dot, "`tl.dot` of 8-bit floats (`f8e5m2`) is not supported"),
            (dot_scaled, "`tl.dot_scaled` is not supported"),
            (histogram, "`tl.histogram` is not supported"),
            (cat, "`tl.cat` is not supported"),
            (reorder, "`can_reorder=True` is not supported"),
            (inline_asm, "inline assembly with side effects is not supported"),
            (bits, "the external function `__nv_popc` is not supported"),
            (
                atomic_result,
                "the old value that `tl.atomic_add` returns is not supported",
            ),
            (volatile, "`volatile=True` is not supported"),
            (chosen, "a pointer chosen at run time is not supported"),
            (recast, "a pointer to `f32` used as one to `i32` is not supported"),
            (
                custom_reduce,
                "`tl.reduce` with a function that branches is not supported",
            ),
            (returning, "a function that returns a value is not a kernel"),
            (atomic_max, "`tl.atomic_max` is not supported"),
            (atomic_min, "`tl.atomic_min` is not supported"),
            (atomic_xchg, "`tl.atomic_xchg` is not supported"),
        ]
    },
    **{
        fn.__name__: Case(fn, _IYN, {}, f"`tl.{fn.__name__}` is not supported")
        for fn in (atomic_cas, atomic_and, atomic_or, atomic_xor)
    },
    "address": Case(
        address, {**_IYN, "i_ptr": "*i64"}, {},
        "a pointer made from an integer is not supported",
    ),
    "optional": Case(optional, {"x_ptr": "*fp32"}, {}),
    "block_pointer": Case(block_pointer, _XYN, {"BLOCK": 16}),
}  # fmt: skip
