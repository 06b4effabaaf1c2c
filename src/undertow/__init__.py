"""Undertow writes the backward of a Triton kernel as readable Triton source.

>>> import undertow
>>> kernel = undertow.differentiable(kernel)  # launches are now differentiable

Nothing is imported until it is used: neither torch nor triton.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.errors import (
    CaptureError,
    CheckError,
    IRError,
    LaunchError,
    UndertowError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from undertow.frontend.markers import stop_gradient
    from undertow.frontend.overrides import custom_vjp
    from undertow.runtime.derivation import Derivation, derive
    from undertow.runtime.differentiable import Differentiable, differentiable

__version__ = "0.1.0"

_LAZY = {
    "Derivation": "undertow.runtime.derivation",
    "Differentiable": "undertow.runtime.differentiable",
    "custom_vjp": "undertow.frontend.overrides",
    "derive": "undertow.runtime.derivation",
    "differentiable": "undertow.runtime.differentiable",
    "stop_gradient": "undertow.frontend.markers",
}

__all__ = [
    "CaptureError",
    "CheckError",
    "Derivation",
    "Differentiable",
    "IRError",
    "LaunchError",
    "UndertowError",
    "UnsupportedError",
    "custom_vjp",
    "derive",
    "differentiable",
    "stop_gradient",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'undertow' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
