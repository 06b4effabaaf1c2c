"""`undertow check`: runs the checks and prints their outcomes as they come."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from rich.text import Text

from undertow.check.example import sizes
from undertow.check.launch import subject
from undertow.check.outcomes import Check
from undertow.check.run import Options, check
from undertow.cli.derive import check_names
from undertow.cli.examples import example_of, find_example
from undertow.cli.messages import CommandError, console
from undertow.cli.target import find
from undertow.frontend import Promises

_MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("–", "yellow")}
_INDENT = 22


def options(
    wrt: tuple[str, ...],
    outputs: tuple[str, ...],
    promises: Promises,
    device: str,
    seed: int,
    allow_unwritten: bool,
) -> Options:
    """The options of the checks; the device `auto` is a GPU if there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return Options(wrt, outputs, promises, device, seed, allow_unwritten)


def run(kernel: str, example: str | None, options: Options) -> bool:
    """Checks a kernel and says whether nothing is wrong.

    Raises:
        CommandError: there is no such kernel, no example of it, or no such input or
            output.
        UndertowError: it cannot be captured or differentiated.
    """
    target = find(kernel, options.promises)
    function = find_example(target, example)
    if function is None:
        raise CommandError(
            f"`{target.name}` has no example arguments",
            why="a function beside it returns them as (grid, kwargs)",
            hint=f"write {target.name}_example(), or pass --example file.py::function",
        )
    options = replace(options, promises=target.promises)
    if options.wrt or options.outputs or target.promises.unique:
        example_ = example_of(target, function, **sizes(function))
        zeros = replace(target.promises, unique=())
        forward = subject(target.kernel, example_, promises=zeros).forward
        check_names(target, forward, options.wrt, options.outputs)
    fine = True
    for outcome in check(target.kernel, function, options, partial(example_of, target)):
        show(outcome)
        fine = fine and outcome.ok is not False
    return fine


def show(outcome: Check) -> None:
    """Prints one line, and below it one for each fault if there are several."""
    mark, style = _MARKS[outcome.ok]
    line = Text.assemble((f"{outcome.name:<{_INDENT - 2}}", "bold"), (mark, style))
    details = list(outcome.details)
    text = outcome.text or (details.pop() if len(details) == 1 else "")
    line.append(f" {text}" if text else "")
    target = console()
    target.print(line, soft_wrap=True)
    for detail in details:
        target.print(Text(f"{'':<{_INDENT}}{detail}"), soft_wrap=True)
