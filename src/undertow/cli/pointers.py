"""Finds out from a kernel's source which of its parameters are pointers.

A parameter is one if its name says so (`x_ptr`), or if an address starts with it: in
``tl.load(x + offsets)``, also through assignments and calls of other jit functions.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_BY_ADDRESS = (
    "load store atomic_add atomic_max atomic_min atomic_xchg atomic_cas atomic_and "
    "atomic_or atomic_xor make_block_ptr make_tensor_descriptor"
).split()


def pointer_parameters(jit: Any) -> frozenset[str]:
    """Names of the parameters of a jit function that are pointers."""
    return _pointers(jit, set())


def looks_like_pointer(name: str) -> bool:
    """Whether the name says that it is a pointer."""
    words = name.lower().split("_")
    return any(w in ("ptr", "ptrs", "pointer") for w in words) or words[-1].endswith(
        "ptr"
    )


def _pointers(jit: Any, seen: set[str]) -> frozenset[str]:
    names = [p.name for p in jit.params]
    found = {name for name in names if looks_like_pointer(name)}
    key = f"{jit.__module__}.{jit.__name__}"
    if key in seen:
        return frozenset(found)
    seen.add(key)
    tree = ast.parse(textwrap.dedent(_source(jit)))
    flow = _Flow(tree, frozenset(names), frozenset(found))
    for address in _addresses(tree, jit.fn.__globals__, seen):
        base = flow.base(address)
        if base:
            found.add(base)
    return frozenset(found)


def _source(jit: Any) -> str:
    raw = jit.raw_src
    return raw if isinstance(raw, str) else "".join(raw)


def _addresses(
    tree: ast.AST, scope: Mapping[str, Any], seen: set[str]
) -> Iterator[ast.expr]:
    """Expressions that are pointers: addresses, and `x` in `x.dtype.element_ty`."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Attribute(value=value), attr="element_ty"):
                yield value
            case ast.Call():
                yield from _of_call(node, scope, seen)
            case _:
                pass


def _of_call(
    node: ast.Call, scope: Mapping[str, Any], seen: set[str]
) -> Iterator[ast.expr]:
    match node.func:
        case ast.Attribute(attr=name) if name in _BY_ADDRESS:
            yield from node.args[:1]
            yield from (k.value for k in node.keywords if k.arg in ("pointer", "base"))
        case ast.Name(id=name) if hasattr(scope.get(name), "params"):
            helper: Any = scope[name]
            passed = zip((p.name for p in helper.params), node.args, strict=False)
            wanted = _pointers(helper, seen)
            yield from (arg for param, arg in passed if param in wanted)
            yield from (k.value for k in node.keywords if k.arg in wanted)
        case _:
            pass


@dataclass
class _Flow:
    """What the names of a function are assigned."""

    tree: ast.AST
    params: frozenset[str]
    named: frozenset[str]
    """Parameters known as pointers by their names."""
    values: dict[str, list[ast.expr]] = field(default_factory=dict[str, list[ast.expr]])

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value:
                self._assign(node.target, node.value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.values.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, part in zip(target.elts, value.elts, strict=False):
                self._assign(one, part)

    def base(self, address: ast.expr) -> str:
        """The parameter an address starts from: a named pointer, or the first term."""
        terms = list(dict.fromkeys(self._terms(address, set())))
        return next((t for t in terms if t in self.named), terms[0] if terms else "")

    def _terms(self, node: ast.expr, seen: set[str]) -> Iterator[str]:
        match node:
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                yield from self._terms(left, seen)
                yield from self._terms(right, seen)
            case ast.Name(id=name) if name not in seen:
                seen.add(name)
                if name in self.params:
                    yield name
                for value in self.values.get(name, []):
                    yield from self._terms(value, seen)
            case ast.Call(func=ast.Attribute(value=value, attr="to")):
                yield from self._terms(value, seen)
            case _:
                return
