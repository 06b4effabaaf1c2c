"""MLIR locations: from `loc(callsite(#loc5 at #loc9))` to a line of the user's.

A location is a tree. The place of an op is the outermost frame of its call sites, so
that an op inlined from Triton's standard library stands where the user called it.
"""

from __future__ import annotations

import re

from undertow.errors import CaptureError
from undertow.ir import UNKNOWN, Loc

_DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_TOKEN = re.compile(
    r'\s*(?:(?P<file>"(?:[^"\\]|\\.)*"):(?P<line>\d+):(?P<column>\d+)'
    r"(?: to (?:\d*:)*\d+)?"
    r'|(?P<name>"(?:[^"\\]|\\.)*")(?P<open>\()?'
    r"|(?P<ref>#loc\d*)|(?P<callsite>callsite\()|(?P<unknown>unknown)"
    r"|(?P<fused>fused(?:<[^\[]*>)?\[))"
)
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")


class Locations:
    """The `#loc` definitions of a module, resolved on demand.

    Triton before 3.8 counts columns from 0, which shows at `def`; they are made to
    start at 1.
    """

    def __init__(self, lines: list[str]) -> None:
        matches = map(_DEFINITION.match, lines)
        self._texts = {m[1]: m[2] for m in matches if m}
        self._known: dict[str, Loc] = {}
        self._shift = int(any(text.endswith(":0") for text in self._texts.values()))

    def resolve(self, text: str) -> Loc:
        """The user's place for the inside of a `loc(...)`."""
        if text not in self._known:
            place, end = self._parse(text, 0)
            if text[end:].strip():
                raise CaptureError(f"unreadable location `loc({text})` in the TTIR")
            self._known[text] = place
        return self._known[text]

    def _parse(self, text: str, at: int) -> tuple[Loc, int]:
        match = _TOKEN.match(text, at)
        if match is None:
            raise CaptureError(f"unreadable location `loc({text})` in the TTIR")
        end = match.end()
        match match.lastgroup:
            case "unknown":
                return UNKNOWN, end
            case "ref":
                return self._reference(match["ref"]), end
            case "column":
                column = int(match["column"]) + self._shift
                return Loc(unquote(match["file"]), int(match["line"]), column), end
            case "callsite":
                callee, end = self._parse(text, end)
                caller, end = self._parse(text, _skip(text, end, " at "))
                return _outermost(caller, callee), _skip(text, end, ")")
            case "fused":
                return self._fused(text, end)
            case "open":
                child, end = self._parse(text, end)
                return _named(unquote(match["name"]), child), _skip(text, end, ")")
            case _:
                return _named(unquote(match["name"]), UNKNOWN), end

    def _reference(self, name: str) -> Loc:
        if name not in self._texts:
            raise CaptureError(f"location `{name}` is not defined in the TTIR")
        return self.resolve(self._texts[name])

    def _fused(self, text: str, at: int) -> tuple[Loc, int]:
        first, at = self._parse(text, at)
        while text.startswith(",", at):
            other, at = self._parse(text, at + 1)
            first = _outermost(first, other)
        return first, _skip(text, at, "]")


def unquote(text: str) -> str:
    """The contents of an MLIR string literal."""
    return _ESCAPE.sub(
        lambda m: chr(int(m[1], 16)) if len(m[1]) == 2 else m[1], text[1:-1]
    )


def _named(name: str, child: Loc) -> Loc:
    return Loc(child.file, child.line, child.column, name)


def _outermost(outer: Loc, inner: Loc) -> Loc:
    """The outer place if it is known, with the outer name if there is one."""
    place = outer if outer.known else inner
    return Loc(place.file, place.line, place.column, outer.name or inner.name)


def _skip(text: str, at: int, expected: str) -> int:
    if not text.startswith(expected, at):
        raise CaptureError(f"unreadable location `loc({text})` in the TTIR")
    return at + len(expected)
