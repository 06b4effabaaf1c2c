"""What can go wrong, as a tree of causes.

::

    UndertowError
    ├── CaptureError      the kernel could not be turned into IR
    ├── UnsupportedError  it uses something without a derivative, or not in the language
    ├── LaunchError       these arguments cannot be launched or differentiated
    ├── CheckError        a check found a difference, a race, an access out of bounds
    └── IRError           a bug of ours: a pass made invalid IR

Each says the whole fact in one line, then where in the user's source, why it matters
there, and a way out. `str(error)` is the text the command line prints.
"""

from __future__ import annotations

import linecache
import os
from typing import Protocol


class Place(Protocol):
    """Where something stands in the user's source (`ir.Loc` is one)."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...


class UndertowError(Exception):
    """Base of all errors raised on purpose.

    Args:
        fact: the whole fact in lower case, the user's objects in backticks.
        loc: the place in the user's source.
        kernel: the kernel's name.
        why: why it matters here, such as the path to an output; one line or several.
        hint: a way out.
    """

    def __init__(
        self,
        fact: str,
        *,
        loc: Place | None = None,
        kernel: str = "",
        why: str | tuple[str, ...] = (),
        hint: str = "",
    ) -> None:
        self.fact, self.loc, self.kernel, self.hint = fact, loc, kernel, hint
        self.why = (why,) if isinstance(why, str) else why
        super().__init__(fact)

    def __str__(self) -> str:
        lines = [self.fact]
        if self.loc is not None and self.loc.line:
            inside = f", in kernel `{self.kernel}`" if self.kernel else ""
            lines.append(f"  --> {_short(self.loc.file)}:{self.loc.line}{inside}")
            source = linecache.getline(self.loc.file, self.loc.line).rstrip()
            if source:
                lines.append(f"   | {source}")
        elif self.kernel:
            lines.append(f"  --> kernel `{self.kernel}`")
        lines += [f"  = {reason}" for reason in self.why]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class CaptureError(UndertowError):
    """The kernel could not be turned into IR."""


class UnsupportedError(UndertowError):
    """The kernel uses something that has no derivative or is outside the language."""


class LaunchError(UndertowError):
    """These arguments cannot be launched or differentiated."""


class CheckError(UndertowError):
    """A check found a difference, a race or an access out of bounds."""


class IRError(UndertowError):
    """A bug of ours: a pass made invalid IR."""


def _short(path: str) -> str:
    """`path` relative to the working directory if it lies below it."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative
