"""What the commands print: consoles, errors, source text.

Output that is piped has no colours and does not depend on the width of a terminal.
"""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from undertow.errors import UndertowError

WIDTH = 88
"""Columns of what is printed elsewhere than on a terminal."""


class CommandError(UndertowError):
    """The command line names something that is not there, or leaves something out."""


def console(*, stderr: bool = False) -> Console:
    """A console for standard output or standard error."""
    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(file=stream, highlight=False)
    return Console(
        file=stream,
        highlight=False,
        width=WIDTH,
        color_system=None,
        force_terminal=False,
    )


def show_error(error: UndertowError) -> None:
    """Prints an error to standard error as STYLE has it: fact, place, reasons, hint."""
    text = Text.assemble(("error", "bold red"), ": ")
    for number, line in enumerate(str(error).splitlines()):
        text.append("\n" if number else "")
        if line.startswith("hint: "):
            text.append("hint", "bold green").append(line.removeprefix("hint"))
        elif line.startswith(("  -->", "   |", "  =")):
            head = line[:5]
            text.append(head, "bold blue").append(line[len(head) :])
        else:
            text.append(line, "bold" if not number else "")
    console(stderr=True).print(text, soft_wrap=True)


def show_source(source: str) -> None:
    """Prints Python source, highlighted on a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.write(source)
        return
    from rich.syntax import Syntax

    console().print(Syntax(source, "python", background_color="default"))


def columns(*headers: str) -> Table:
    """A table without lines; with a header if any is named."""
    table = Table(
        box=None, show_header=any(headers), header_style="bold", pad_edge=False,
        padding=(0, 2, 0, 0), expand=False,
    )  # fmt: skip
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def show(table: Table) -> None:
    """Prints a table without blanks at the ends of its lines."""
    target = console()
    with target.capture() as captured:
        target.print(table)
    for line in captured.get().splitlines():
        target.out(line.rstrip(), highlight=False)
