"""Finds the function that gives example arguments of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from undertow.check.example import Example, make_example, sizes
from undertow.cli.messages import CommandError
from undertow.cli.signature import Signature
from undertow.cli.target import Target, call, existing, import_file
from undertow.errors import CheckError


def find_example(target: Target, named: str | None) -> Callable[..., Any] | None:
    """The function `named` as file.py::function, else the one beside the kernel."""
    if named is None:
        scope = vars(target.module)
        return scope.get(f"{target.name}_example") or scope.get("example")
    file, separator, name = named.rpartition("::")
    module = import_file(existing(file)) if separator else target.module
    function = vars(module).get(name)
    if not callable(function):
        where = file or str(target.path)
        raise CommandError(f"`{where}` has no function `{name}`")
    return function


def example_of(target: Target, function: Callable[..., Any], **given: int) -> Example:
    """Calls an example function; what it raises is shown as the user's own error."""
    code = getattr(function, "__code__", None)
    path = target.path.resolve() if code is None else _path(code.co_filename)
    name = getattr(function, "__name__", "example")
    return call(name, path, lambda: make_example(function, **given), "give arguments")


def example_signature(target: Target, named: str | None) -> Signature | None:
    """Types and constexprs of the example, if there is one that fits the kernel."""
    function = find_example(target, named)
    if function is None:
        return None
    from undertow.check.arguments import bind, types

    example = example_of(target, function, **sizes(function))
    try:
        return Signature(*types(target.kernel, bind(target.kernel, example)))
    except CheckError:
        if named is None and f"{target.name}_example" not in vars(target.module):
            return None  # `example` is that of another kernel of the file
        raise


def _path(name: str) -> Any:
    from pathlib import Path

    return Path(name).resolve()
