"""Lists a library's forward kernels that have a hand-written backward beside them.

Nothing is launched: the code of each `autograd.Function` is searched for the kernels
that it names, directly or through other functions. A kernel counts if a forward names
it and the backward beside that forward names a kernel too.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from benchmarks.coverage.launches import qualified


def census(package: str, skipped: tuple[str, ...] = ()) -> set[str]:
    """The kernels, by module and name.

    Args:
        package: what is imported, with all that is below it.
        skipped: prefixes of modules that are for other machines.
    """
    found: set[str] = set()
    for module in _modules(package, skipped):
        for function in _functions(module):
            backward = named(function.backward)
            if backward:
                found |= named(function.forward) - backward
    return {kernel for kernel in found if kernel.startswith(package)}


def _modules(package: str, skipped: tuple[str, ...]) -> Iterator[ModuleType]:
    root = importlib.import_module(package)
    for info in pkgutil.walk_packages(root.__path__, f"{package}.", lambda _: None):
        if info.name.startswith(skipped):
            continue
        try:
            with warnings.catch_warnings(action="ignore"):
                importlib.import_module(info.name)
        except Exception as error:  # it needs what is not here
            print(f"not imported: {info.name}: {error!r}", file=sys.stderr)
            continue
        yield sys.modules[info.name]


def _functions(module: ModuleType) -> Iterator[Any]:
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, torch.autograd.Function)
            and value.__module__ == module.__name__
        ):
            yield value


def named(function: Any) -> set[str]:
    """The kernels that the code of `function` names, also by way of others."""
    found: set[str] = set()
    seen: set[int] = set()
    todo = [function]
    while todo:
        value = _unwrapped(todo.pop())
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, JITFunction):
            found.add(qualified(value))
        elif isinstance(value, FunctionType):
            todo += _mentioned(value)
        elif isinstance(value, type) and issubclass(value, torch.autograd.Function):
            todo.append(value.forward)
    return found


def _unwrapped(value: Any) -> Any:
    """What tuners, heuristics and decorators are around."""
    while True:
        if isinstance(value, JITFunction):
            return value
        if isinstance(value, FunctionType | staticmethod):
            inner = getattr(value, "__wrapped__", value)
        else:
            inner = getattr(value, "fn", value)
        if inner is value:
            return value
        value = inner


def _mentioned(function: FunctionType) -> Iterator[Any]:
    cells = [c.cell_contents for c in function.__closure__ or () if _filled(c)]
    yield from cells
    for code in _codes(function.__code__):
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, ModuleType):
                yield from (getattr(value, n, None) for n in code.co_names)
            else:
                yield value


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
