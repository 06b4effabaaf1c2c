"""The lines written so far, with what can be taken back of them."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

from undertow.emit.layout import WIDTH, cast_of_load, fits, wrap
from undertow.emit.names import Names
from undertow.ir import Loc, Value


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a page was written: how much of each there was, and what was set."""

    lines: int
    given: int
    names: int
    explained: int
    place: str
    section: str | None
    on_demand: bool


@dataclass
class Page:
    """Lines, and the variables they assign.

    Attributes:
        names: the names that are taken.
        reasons: comments to put above the first access to a buffer, by its name.
        given: values and their variables.
        lines: the lines.
        explained: the buffers whose comment is written.
        place: the place in the user's source of the last line.
        section: the heading of the next line.
        on_demand: whether that section's values come when they are needed.
    """

    names: Names
    reasons: Mapping[str, str]
    given: dict[Value, str]
    lines: list[str] = field(default_factory=lambda: list[str]())
    explained: dict[str, None] = field(default_factory=lambda: dict[str, None]())
    place: str = ""
    section: str | None = None
    on_demand: bool = False

    def mark(self) -> Mark:
        return Mark(
            len(self.lines),
            len(self.given),
            len(self.names),
            len(self.explained),
            self.place,
            self.section,
            self.on_demand,
        )

    def rewind(self, mark: Mark) -> None:
        """Takes back what was written since `mark`."""
        del self.lines[mark.lines :]
        self.names.forget(mark.names)
        for held, length in (self.given, mark.given), (self.explained, mark.explained):
            while len(held) > length:
                held.popitem()
        self.place, self.section = mark.place, mark.section
        self.on_demand = mark.on_demand

    def line(
        self, depth: int, target: str, expression: str, loc: Loc, end: str = ""
    ) -> None:
        """A statement, its heading if it is the first of a section, and its origin."""
        indent = "    " * depth
        if self.section is not None:
            self.lines.append(f"{indent}# -- {self.section} --")
            self.section, self.place = None, ""
        place = f"{os.path.basename(loc.file)}:{loc.line}" if loc.known else ""
        comment = f"  # {place}" if place and place != self.place else ""
        self.place = place or self.place
        load, kind = cast_of_load(expression)
        whole = f"{indent}{target}{expression}"
        splits = load and fits(f"{indent}{target}{load}.to(") and not fits(whole)
        if splits and target.endswith(" = "):
            self.line(depth, target, load, loc)
            expression, comment = f"{target.removesuffix(' = ')}.to({kind})", ""
        statement = f"{indent}{target}{expression}{end}"
        if comment and fits(statement) and not fits(statement + comment):
            self.lines.append(f"{indent}{comment.lstrip()}")
            comment = ""
        self.lines += wrap(indent, target, expression, f"{end}{comment}")

    def word(self, depth: int, text: str) -> None:
        """A line such as `else:`."""
        self.lines.append("    " * depth + text)

    def explain(self, name: str, depth: int) -> None:
        """The comment above the first access to the buffer `name`, if it has one."""
        if name in self.reasons and name not in self.explained:
            self.explained[name] = None
            mark = f"{'    ' * depth}# "
            self.lines += textwrap.wrap(
                self.reasons[name], WIDTH, initial_indent=mark, subsequent_indent=mark
            )
