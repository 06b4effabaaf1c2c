"""The source of a forward kernel, with everything of the user's that it needs."""

from __future__ import annotations

import ast
import builtins
import types
from dataclasses import dataclass, field
from typing import Any

import undertow
from undertow.cli.messages import CommandError
from undertow.cli.target import innermost, is_kernel

_STOP = "_stop_gradient"


@dataclass
class Source:
    """Import lines, constants and functions, in the order in which they are needed."""

    imports: dict[str, None] = field(default_factory=dict[str, None])
    constants: dict[str, str] = field(default_factory=dict[str, str])
    functions: dict[str, str] = field(default_factory=dict[str, str])


def forward_source(kernel: Any) -> Source:
    """Copies a jit function, and the helpers, constants and imports it refers to.

    Raises:
        CommandError: it refers to an object that cannot be written down.
    """
    found = Source()
    _add(innermost(kernel), innermost(kernel).__name__, found, set())
    return found


def _add(jit: Any, name: str, found: Source, busy: set[str]) -> None:
    if name in found.functions or name in busy:
        return
    busy.add(name)
    text = str(jit.src).rstrip()
    scope = jit.fn.__globals__
    for used in _free_names(text):
        if scope.get(used) is undertow:
            text = text.replace(f"{used}.stop_gradient(", f"{_STOP}(")
            _add(undertow.stop_gradient, _STOP, found, busy)
        elif used in scope:
            _reference(jit.__name__, used, scope[used], found, busy)
        elif not hasattr(builtins, used):
            raise _unknown(jit.__name__, used)
    if jit.__name__ != name:
        text = text.replace(f"def {jit.__name__}(", f"def {name}(", 1)
    found.functions[name] = f"@triton.jit\n{text}"


def _reference(
    kernel: str, name: str, value: Any, found: Source, busy: set[str]
) -> None:
    if isinstance(value, types.ModuleType):
        short = value.__name__.rpartition(".")[2]
        as_name = "" if name == value.__name__ else f" as {name}"
        if short == name and "." in value.__name__:
            found.imports[f"from {value.__name__.rpartition('.')[0]} import {name}"] = (
                None
            )
        else:
            found.imports[f"import {value.__name__}{as_name}"] = None
    elif type(value).__name__ == "constexpr" and _plain(value.value):
        found.constants[name] = f"{name} = tl.constexpr({value.value!r})"
        found.imports["import triton.language as tl"] = None
    elif str(getattr(value, "__module__", "")).startswith("triton."):
        module = "triton.language" if _in_language(value) else value.__module__
        original = getattr(value, "__name__", str(value))
        as_name = "" if original == name else f" as {name}"
        found.imports[f"from {module} import {original}{as_name}"] = None
    elif is_kernel(value):
        _add(innermost(value), name, found, busy)
    elif _plain(value):
        found.constants[name] = f"{name} = {value!r}"
    else:
        raise _unknown(kernel, name)


def _in_language(value: Any) -> bool:
    import triton.language

    return hasattr(triton.language, getattr(value, "__name__", str(value)))


def _plain(value: object) -> bool:
    return isinstance(value, int | float | bool | str)


def _free_names(text: str) -> list[str]:
    """Names that a function reads and does not bind itself."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    bound = {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
    used: dict[str, None] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                used[node.id] = None
            else:
                bound.add(node.id)
    return [name for name in used if name not in bound]


def _unknown(kernel: str, name: str) -> CommandError:
    return CommandError(
        f"`{kernel}` refers to `{name}`, which cannot be copied into a file",
        hint="derive without --wrapper, and launch the backward from your own module",
    )
