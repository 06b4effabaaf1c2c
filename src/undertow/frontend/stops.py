"""Derivatives that are zero because the user says so, without a change to the kernel.

Variables are stopped in the kernel's syntax tree, before Triton sees it, since neither
names nor values of their own are left of some in the TTIR. Helpers are stopped where
they are called, operations and loads when they are lifted.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from undertow.errors import CaptureError
from undertow.frontend.places import place

_STOP = "undertow_stop_gradient"


@dataclass
class Zeros:
    """What has derivative zero, by name, and what of it a kernel was seen to use."""

    names: Collection[str] = ()
    used: set[str] = field(default_factory=lambda: set[str]())

    def has(self, name: str) -> bool:
        """Whether `name`, which the kernel uses, has derivative zero."""
        if name not in self.names:
            return False
        self.used.add(name)
        return True

    def check(self, jit: Any) -> None:
        """CaptureError for a name that the kernel does not even mention."""
        for name in self.names:
            word = re.escape(name.rpartition(".")[2])
            if name not in self.used and not re.search(rf"\b{word}\b", jit.src):
                raise CaptureError(
                    f"`{name}` in `zero` is nothing that `{jit.__name__}` uses",
                    loc=place(jit),
                    kernel=jit.__name__,
                    hint="it may be a pointer, a helper function that is called,"
                    " `tl.inline_asm_elementwise`, or a function of libdevice",
                )


def function_name(fn: Any) -> str:
    """A helper's name as kernels write it, those of Triton's library with `tl.`."""
    library = fn.__module__.startswith("triton.language")
    return f"tl.{fn.__name__}" if library else str(fn.__name__)


# -- variables --


def with_stops(jit: Any, names: Collection[str]) -> Any:
    """A kernel like `jit`, in which what is assigned to variables has no derivative.

    Raises:
        CaptureError: nothing is assigned to one of them.
    """
    if not names:
        return jit
    from undertow.frontend.markers import stop

    tree = jit.parse()
    assigned = {name for node in ast.walk(tree) for name in _bound(node)}
    for name in names:
        if name not in assigned:
            raise CaptureError(
                f"nothing is assigned to `{name}` in `{jit.__name__}`",
                loc=place(jit),
                kernel=jit.__name__,
                hint="`stop_gradient` names variables of the kernel itself",
            )
    stopped = copy.copy(jit)
    tree = _Stopper(names).visit(tree)
    scope = {**jit.get_capture_scope(), _STOP: stop}
    stopped.parse = lambda: tree
    stopped.get_capture_scope = lambda: scope
    return stopped


class _Stopper(ast.NodeTransformer):
    """Puts ``x = stop_gradient(x)`` behind each assignment to a variable `x`."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def visit(self, node: ast.AST) -> Any:
        node = self.generic_visit(node)
        stops = [
            _placed(ast.parse(f"{name} = {_STOP}({name})").body[0], node)
            for name in _bound(node)
            if name in self.names and not _is_constexpr(node)
        ]
        return [node, *stops] if stops else node


def _bound(node: ast.AST) -> Iterator[str]:
    """The variables that a statement assigns to."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id


def _is_constexpr(node: ast.AST) -> bool:
    annotated = isinstance(node, ast.AnnAssign)
    return annotated and "constexpr" in ast.unparse(node.annotation)


def _placed(new: ast.stmt, old: ast.AST) -> ast.stmt:
    for node in ast.walk(new):
        ast.copy_location(node, old)
    return new
