"""Compares what was read from the text with the module that Triton holds.

A reader that misses an op gives a wrong gradient without an error, so each capture
counts: the same ops in the same order, with the same numbers of operands.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from undertow.errors import CaptureError
from undertow.frontend.ttir import MFunc, walk


def crosscheck(funcs: tuple[MFunc, ...], module: Any, kernel: str) -> None:
    """CaptureError if the tree differs from Triton's `module.walk`.

    Args:
        funcs: what `parse_module` read.
        module: Triton's module.
        kernel: the name for the message.
    """
    expected: list[tuple[str, int]] = []

    def count(op: Any) -> None:
        expected.append((op.get_name(), op.get_num_operands()))

    module.walk(count)
    for position, (read, held) in enumerate(zip_longest(walk(funcs), expected)):
        if read != held:
            raise CaptureError(
                f"the TTIR was misread at op {position}: read {_text(read)},"
                f" Triton holds {_text(held)}",
                kernel=kernel,
                hint="this is a fault of Undertow's reader; please report the kernel",
            )


def _text(op: tuple[str, int] | None) -> str:
    return f"`{op[0]}` of {op[1]} operands" if op else "no op"
