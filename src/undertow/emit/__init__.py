"""Emission: a kernel as readable, deterministic Triton source."""

from undertow.emit.backward import emit_backward
from undertow.emit.source import emit

__all__ = ["emit", "emit_backward"]
