"""Where a jit function stands in the user's source."""

from __future__ import annotations

from typing import Any

from undertow.ir import Loc


def place(fn: Any) -> Loc:
    """The line of its `def`."""
    text = fn.raw_src if isinstance(fn.raw_src, list) else fn.raw_src.splitlines()
    skipped = (i for i, line in enumerate(text) if line.lstrip().startswith("def "))
    line = fn.starting_line_number + next(skipped, 0)
    return Loc(fn.fn.__code__.co_filename, line)
