"""Example arguments of a kernel: what a function beside it returns.

The function needs nothing of Undertow. It returns ``(grid, kwargs)`` or ``(grid, args,
kwargs)`` for one launch; the grid is an integer, a tuple, or a function of the
arguments by name. Its own parameters, if any, are sizes with defaults: `check` varies
them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from undertow import frontend
from undertow.errors import CheckError, UndertowError

Grid = Any


@dataclass(frozen=True, slots=True)
class Example:
    """One launch: ``kernel[grid](*args, **kwargs)``."""

    grid: Grid
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def make_example(function: Callable[..., Any], **sizes: int) -> Example:
    """Calls `function`, and checks what it returns.

    Raises:
        CheckError: it returns something else than a grid and arguments.
    """
    match function(**sizes):
        case (grid, tuple() | list() as args, Mapping() as kwargs):
            return Example(_grid(grid), tuple(args), dict(kwargs))
        case (grid, Mapping() as kwargs):
            return Example(_grid(grid), (), dict(kwargs))
        case other:
            raise CheckError(
                f"`{function.__name__}` returns {_shape(other)}",
                hint="return (grid, kwargs) or (grid, args, kwargs)",
            )


def sizes(function: Callable[..., Any]) -> dict[str, int]:
    """The parameters of `function` and their defaults.

    Raises:
        CheckError: a parameter has no default, or one that is no integer.
    """
    found: dict[str, int] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if type(parameter.default) is not int:
            raise CheckError(
                f"parameter `{name}` of `{function.__name__}` has no integer default",
                why="it is a size, which `check` varies",
                hint=f"write {name}=64",
            )
        found[name] = parameter.default
    return found


def configured(fn: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with the first configuration of autotuners, and what heuristics add.

    A heuristic that looks at arguments that are not there adds nothing.

    Raises:
        UndertowError: a heuristic raises something else.
    """
    found = dict(given)
    while fn is not frontend.unwrap(fn):
        if hasattr(fn, "configs"):
            found = {**fn.configs[0].kwargs, **found}
        else:
            for name, rule in fn.values.items():
                if name not in found:
                    found |= _ruled(name, rule, found)
        fn = fn.fn
    return found


def _ruled(name: str, rule: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {name: rule(dict(given))}
    except KeyError as error:
        if error.args and error.args[0] not in given:
            return {}
        fault: Exception = error
    except Exception as error:  # the rule is the user's
        fault = error
    raise UndertowError(
        f"the heuristic of `{name}` raises {type(fault).__name__}: {fault}",
        hint=f"give `{name}` itself",
    ) from fault


def _grid(grid: Any) -> Grid:
    if callable(grid):
        return grid
    return tuple(grid) if isinstance(grid, tuple | list) else (grid,)


def _shape(value: object) -> str:
    if isinstance(value, tuple):
        kinds = ", ".join(type(part).__name__ for part in value)
        return f"a tuple of ({kinds})"
    return f"a value of type `{type(value).__name__}`"
