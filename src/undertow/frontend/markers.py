"""Functions of Triton's language that tell the lift what derivatives to leave alone.

`stop_gradient` is for users, the others are put in by `overrides` while it captures.
"""
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import triton
import triton.language as tl  # noqa: F401 (the interpreter asks for it)


@triton.jit
def stop_gradient(x):
    """Returns `x`, whose derivative is taken to be zero from here on."""
    return x


@triton.jit
def stop(x):
    """Marks a value of derivative zero."""
    return x


@triton.jit
def custom(outputs, cotangents):
    """Marks what a helper returned, with what its rule returned beside it."""
    return outputs
