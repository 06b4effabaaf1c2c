"""Binds a launch's arguments to a kernel's parameters, and types them as Triton does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from undertow import frontend
from undertow.errors import LaunchError

POINTERS: dict[torch.dtype, str] = {
    torch.bool: "*i1",
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.float8_e4m3fn: "*fp8e4nv",
    torch.float8_e5m2: "*fp8e5",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
}

Key = tuple[object, ...]
"""What a specialisation depends on: dtypes, kinds of numbers, values of constexprs."""


@dataclass(slots=True)
class Bound:
    """The arguments of one launch.

    Attributes:
        values: every parameter's argument, in the kernel's order.
        key: what of them the kernel is specialised to.
        options: launch options that are no parameters, such as num_warps.
    """

    values: dict[str, Any]
    key: Key
    options: dict[str, Any]


class Binder:
    """Binds arguments to the parameters of one jit function."""

    def __init__(self, fn: object) -> None:
        self.parameters = frontend.parameters(fn)
        self.names = tuple(p.name for p in self.parameters)
        self.kernel = frontend.unwrap(fn).__name__
        self._known = frozenset(self.names)
        self._rows = tuple(
            (p.name, p.is_constexpr, p.has_default, p.default) for p in self.parameters
        )

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any], meta: Mapping[str, Any]) -> Bound:
        """Arguments by parameter; `meta` are constexprs that a tuner or heuristic adds.

        Raises:
            LaunchError: too many arguments, or one is missing or given twice.
        """
        if len(args) > len(self.names):
            raise self._error(f"takes {len(self.names)} arguments, got {len(args)}")
        given = dict(zip(self.names, args, strict=False))
        options: dict[str, Any] = {}
        for name, value in kwargs.items():
            if name not in self._known:
                options[name] = value
            elif name in given:
                raise self._error(f"got two values for `{name}`")
            else:
                given[name] = value
        values: dict[str, Any] = {}
        key: list[object] = []
        for name, is_constexpr, has_default, default in self._rows:
            if name in given:
                value = given[name]
            elif name in meta:
                value = meta[name]
            elif has_default:
                value = default
            else:
                raise self._error(f"lacks its argument `{name}`")
            values[name] = value
            key.append(self._key(value, is_constexpr))
        return Bound(values, tuple(key), options)

    def _key(self, value: Any, is_constexpr: bool) -> object:
        if isinstance(value, Tensor):
            return value.dtype
        if is_constexpr or value is None:
            try:
                hash(value)
            except TypeError:
                return repr(value)
            return type(value), value  # True, 1 and 1.0 are equal but not the same
        if isinstance(value, bool):
            return bool
        if isinstance(value, int):
            return "i32" if -(2**31) <= value < 2**31 else "i64"
        return type(value)

    def types(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, object]]:
        """Triton's type of each run-time argument, and the constexprs.

        Raises:
            LaunchError: an argument is of a kind that no kernel parameter can be.
        """
        signature: dict[str, Any] = {}
        constexprs: dict[str, object] = {}
        for param in self.parameters:
            value = values[param.name]
            if param.is_constexpr or value is None:
                constexprs[param.name] = getattr(value, "value", value)
            elif _is_constant(value):
                constexprs[param.name] = value
            else:
                signature[param.name] = self._type(param.name, value)
        return signature, constexprs

    def _type(self, name: str, value: Any) -> Any:
        if isinstance(value, Tensor):
            if value.dtype not in POINTERS:
                raise self._error(f"cannot take `{name}` of dtype {value.dtype}")
            return POINTERS[value.dtype]
        if isinstance(value, bool):
            return "i1"
        if isinstance(value, int):
            return "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
        if isinstance(value, float):
            return "fp32"
        if isinstance(value, tuple):
            raise self._error(
                f"takes no tuple at run time, `{name}` is one",
                hint="pass its elements as arguments of their own, or make it a constexpr",
            )
        raise self._error(f"cannot take `{name}` of type {type(value).__name__}")

    def _error(self, fact: str, hint: str = "") -> LaunchError:
        return LaunchError(f"`{self.kernel}` {fact}", hint=hint)


def _is_constant(value: Any) -> bool:
    """Objects that Triton folds into the kernel wherever they are passed."""
    return isinstance(value, str) or type(value).__name__ in ("dtype", "constexpr", "JITFunction")


Grid = tuple[int, ...] | Callable[[dict[str, Any]], tuple[int, ...]]


def grid_extents(grid: Grid, values: Mapping[str, Any]) -> tuple[int, int, int]:
    """The grid of a launch as three extents.

    Raises:
        LaunchError: the grid is not one to three whole numbers.
    """
    raw: Any = grid(dict(values)) if callable(grid) else grid
    extents = tuple(raw) if isinstance(raw, tuple | list) else (raw,)
    if not 1 <= len(extents) <= 3 or not all(isinstance(e, int) for e in extents):
        raise LaunchError(f"a grid is one to three integers, got {raw!r}")
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z
