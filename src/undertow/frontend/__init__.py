"""From a Triton kernel to Undertow's IR: capture TTIR, read its text, lift it.

Triton is imported when a kernel is captured, never before: `lift_text` works without
it.
"""

from undertow.frontend.capture import (
    Parameter,
    capture,
    capture_text,
    launch_options,
    parameters,
    unwrap,
)
from undertow.frontend.lift import lift_text
from undertow.frontend.promises import NO_PROMISES, Promises

__all__ = [
    "NO_PROMISES",
    "Parameter",
    "Promises",
    "capture",
    "capture_text",
    "launch_options",
    "lift_text",
    "parameters",
    "unwrap",
]
