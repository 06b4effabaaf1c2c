"""Finds the kernel that `file.py::kernel` names, by importing the file."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from undertow.cli.messages import CommandError
from undertow.errors import UndertowError
from undertow.frontend import NO_PROMISES, Promises
from undertow.ir import Loc


@dataclass(frozen=True, slots=True)
class Target:
    """A kernel in a user's file.

    Attributes:
        path: the file.
        module: what importing it gave.
        name: the kernel's name in it.
        kernel: the object with that name, without `undertow.differentiable`.
        promises: what is promised of it, see `undertow.differentiable`.
    """

    path: Path
    module: ModuleType
    name: str
    kernel: Any
    promises: Promises = NO_PROMISES


def find(target: str, promises: Promises = NO_PROMISES) -> Target:
    """The kernel called `file.py::kernel`; of a file with one kernel the file suffices.

    The `promises` are made besides those of its `undertow.differentiable`.

    Raises:
        CommandError: there is no such file or kernel, or the file cannot be imported.
    """
    file, separator, name = target.partition("::")
    path = existing(file)
    module = import_file(path)
    kernels = {n: k for n, k in vars(module).items() if is_kernel(k)}
    own = [n for n, k in kernels.items() if defined_in(k, module)] or list(kernels)
    if not separator and len(own) == 1:
        name = own[0]
    if name not in kernels:
        raise _no_kernel(file, name, own, name in vars(module))
    kernel = without_gradients(kernels[name])
    if kernel is not kernels[name]:
        promises = kernels[name].promises | promises
    return Target(path, module, name, kernel, promises)


def existing(file: str) -> Path:
    """The path of a Python file that is there."""
    path = Path(file)
    if path.suffix == ".py" and path.is_file():
        return path
    where = path.parent if path.parent.is_dir() else Path()
    near = difflib.get_close_matches(path.name, [p.name for p in where.glob("*.py")], 1)
    hint = f"there is `{where / near[0]}`" if near else ""
    if path.exists():
        raise CommandError(f"`{file}` is not a Python file",
                           hint="kernels are named file.py::kernel")  # fmt: skip
    raise CommandError(f"there is no file `{file}`", hint=hint)


def _no_kernel(file: str, name: str, known: list[str], other: bool) -> CommandError:
    if not known:
        fact = f"`{file}` has no kernel"
        return CommandError(fact, hint="decorate a function with `triton.jit`")
    listed = ", ".join(f"`{n}`" for n in known)
    if not name:
        return CommandError(
            f"`{file}` has {len(known)} kernel{'s'[: len(known) - 1]}: {listed}",
            hint=f"name one: {file}::{known[0]}",
        )
    fact = f"`{file}` has no kernel `{name}`"
    if other:
        fact = f"`{name}` in `{file}` is not decorated with `triton.jit`"
    near = difflib.get_close_matches(name, known, 1)
    return CommandError(
        fact,
        why=f"its kernels are {listed}",
        hint=f"did you mean {file}::{near[0]}" if near else "",
    )


# -- importing --


def import_file(path: Path) -> ModuleType:
    """Imports a file under a name of its own, with its directory on `sys.path`.

    Nothing is written next to it.

    Raises:
        CommandError: it raises an exception.
    """
    whole = path.resolve()
    name = f"{whole.stem}_{hashlib.sha256(str(whole).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, whole)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    loader = spec.loader
    sys.modules[name] = module
    sys.dont_write_bytecode = True
    if str(whole.parent) not in sys.path:
        sys.path.insert(0, str(whole.parent))
    try:
        call(str(path), whole, lambda: loader.exec_module(module), "be imported")
    except CommandError:
        del sys.modules[name]
        raise
    return module


def call(shown: str, path: Path, action: Callable[[], Any], verb: str) -> Any:
    """Runs the user's code; what it raises becomes an error that shows where."""
    try:
        return action()
    except UndertowError:
        raise
    except (Exception, SystemExit) as error:
        kind = type(error).__name__
        raise CommandError(
            f"`{shown}` cannot {verb}: {kind}: {_message(error)}",
            loc=_place(error, path),
        ) from error


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    return str(error).strip().split("\n")[0]


def _place(error: BaseException, path: Path) -> Loc | None:
    """The innermost line of the user's file that the error went through."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Loc(error.filename, error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename) == path]
    return Loc(own[-1].filename, own[-1].lineno or 0) if own else None


# -- what is a kernel --


def is_kernel(value: object) -> bool:
    """Whether `value` is a jit function, whatever it is wrapped in."""
    inner = innermost(value)
    return type(inner).__name__ in ("JITFunction", "InterpretedFunction")


def innermost(value: Any) -> Any:
    """The jit function inside autotune, heuristics and `undertow.differentiable`."""
    while type(value).__name__ in ("Autotuner", "Heuristics", "Differentiable"):
        value = value.fn
    return value


def without_gradients(kernel: Any) -> Any:
    """The kernel that `undertow.differentiable` wraps."""
    return kernel.fn if type(kernel).__name__ == "Differentiable" else kernel


def defined_in(kernel: object, module: ModuleType) -> bool:
    """Whether the kernel was written in this module, not imported by it."""
    return bool(getattr(innermost(kernel), "__module__", "") == module.__name__)
