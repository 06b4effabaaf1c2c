"""Binds a launch's arguments to parameters, and types them as Triton does."""

from __future__ import annotations

import difflib
import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    **{
        getattr(torch, f"uint{bits}"): f"*u{bits}"
        for bits in (16, 32, 64)
        if hasattr(torch, f"uint{bits}")
    },
    torch.float8_e4m3fn: "*fp8e4nv",
    torch.float8_e5m2: "*fp8e5",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
}

SCALARS = frozenset("i1 i8 i16 i32 i64 u8 u16 u32 u64 fp16 bf16 fp32 fp64".split())
"""Annotations of parameters that Triton follows, whatever number is passed."""

Values = tuple[Any, ...]
"""Every parameter's argument, in the kernel's order."""

Key = tuple[object, ...]
"""What a specialisation depends on: dtypes, kinds of numbers, values of constexprs."""

Grid = Sequence[int] | Callable[[dict[str, Any]], Sequence[int]]

OPTIONS = frozenset(
    "num_warps num_stages num_ctas maxnreg enable_fp_fusion debug warmup extern_libs "
    "launch_cooperative_grid launch_pdl ptx_options ir_override sanitize_overflow "
    "instrumentation_mode".split()
)
"""Keywords of a launch that are no parameters, in every version of Triton."""

_HALF = 1 << 31

Pick = Callable[[Sequence[Any]], tuple[Any, ...]]


def picker(indices: Sequence[int]) -> Pick:
    """What takes the elements at `indices` out of a sequence."""
    if len(indices) > 1:
        return operator.itemgetter(*indices)
    if len(indices) == 1:
        (index,) = indices
        return lambda sequence: (sequence[index],)
    return lambda sequence: ()


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Where each parameter's argument is among args, kwargs and defaults."""

    pick: Pick
    defaults: tuple[object, ...]


class Binder:
    """Binds arguments to the parameters of one jit function."""

    def __init__(self, fn: object) -> None:
        self.parameters = frontend.parameters(fn)
        self.names = tuple(p.name for p in self.parameters)
        self.kernel = str(frontend.unwrap(fn).__name__)
        self._patterns: dict[tuple[object, ...], _Pattern] = {}
        fixed = [i for i, p in enumerate(self.parameters) if p.is_constexpr]
        self._fixed = picker(fixed)
        self._free = picker([i for i in range(len(self.names)) if i not in fixed])

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Values, Key]:
        """The arguments in order, and what of them the kernel is specialised to.

        Keyword arguments that are no parameters are launch options, and left out.

        Raises:
            LaunchError: too many arguments, or one is missing or given twice.
        """
        form = (len(args), *kwargs)
        pattern = self._patterns.get(form)
        if pattern is None:
            pattern = self._patterns[form] = self._pattern(len(args), tuple(kwargs))
        values = pattern.pick((*args, *kwargs.values(), *pattern.defaults))
        fixed = self._fixed(values)
        types = tuple([type(v) for v in fixed])  # True, 1 and 1.0 are equal
        if float in types:  # and so are 0.0 and -0.0
            fixed = tuple([repr(v) if type(v) is float else v for v in fixed])
        free = [
            "i32" if type(v) is int and -_HALF <= v < _HALF
            else v.dtype if isinstance(v, Tensor)
            else _kind(v)
            for v in self._free(values)
        ]  # fmt: skip
        return values, (*free, fixed, types)

    def _pattern(self, count: int, keywords: tuple[str, ...]) -> _Pattern:
        if count > len(self.names):
            raise self._error(f"takes {len(self.names)} arguments, got {count}")
        where = {name: index for index, name in enumerate(self.names[:count])}
        for index, name in enumerate(keywords, start=count):
            if name not in self.names and name not in launch_options():
                close = difflib.get_close_matches(name, self.names, 1)
                raise self._error(
                    f"has no parameter `{name}`",
                    f"did you mean `{close[0]}`?" if close else "",
                )
            if name in where:
                raise self._error(f"got two values for `{name}`")
            where[name] = index
        defaults: list[object] = []
        for param in self.parameters:
            if param.name in where:
                continue
            if not param.has_default:
                raise self._error(f"lacks its argument `{param.name}`")
            where[param.name] = count + len(keywords) + len(defaults)
            defaults.append(param.default)
        return _Pattern(picker([where[n] for n in self.names]), tuple(defaults))

    def types(self, values: Values) -> tuple[dict[str, Any], dict[str, object]]:
        """Triton's type of each run-time argument, and the constexprs.

        Raises:
            LaunchError: an argument is of a kind that no kernel parameter can be.
        """
        signature: dict[str, Any] = {}
        constexprs: dict[str, object] = {}
        for param, value in zip(self.parameters, values, strict=True):
            if param.is_constexpr or value is None or _is_constant(value):
                constexprs[param.name] = getattr(value, "value", value)
            elif param.annotation in SCALARS and isinstance(value, int | float):
                signature[param.name] = param.annotation
            else:
                signature[param.name] = self._type(param.name, value)
        return signature, constexprs

    def _type(self, name: str, value: Any) -> str:
        if isinstance(value, Tensor):
            if value.dtype not in POINTERS:
                raise self._error(f"cannot take `{name}` of dtype {value.dtype}")
            return POINTERS[value.dtype]
        if isinstance(value, bool):
            return "i1"
        if isinstance(value, int):
            return str(_kind(value))
        if isinstance(value, float):
            return "fp32"
        if isinstance(value, tuple):
            raise self._error(
                f"takes no tuple at run time, `{name}` is one",
                hint="pass its elements as arguments of their own, or make it a "
                "constexpr",
            )
        kind = type(value).__name__
        raise self._error(
            f"cannot take `{name}` of type `{kind}`",
            hint="pass the tensor that it describes, and make the descriptor in the "
            "kernel: tl.make_tensor_descriptor"
            if kind == "TensorDescriptor"
            else "",
        )

    def _error(self, fact: str, hint: str = "") -> LaunchError:
        return LaunchError(f"`{self.kernel}` {fact}", hint=hint)


@functools.cache
def launch_options() -> frozenset[str]:
    """Keywords that Triton takes for options of a launch, whatever the device."""
    known = set(OPTIONS)
    try:
        from triton.backends import backends
    except ImportError:
        return OPTIONS
    for backend in backends.values():
        module = sys.modules.get(backend.compiler.__module__)
        for found in vars(module).values() if module else ():
            if isinstance(found, type) and found.__name__.endswith("Options"):
                known.update(getattr(found, "__dataclass_fields__", ()))
    return frozenset(known)


def _kind(value: Any) -> object:
    """What Triton's type of a run-time argument depends on."""
    kind = type(value)
    if kind is int:
        if -_HALF <= value < _HALF:
            return "i32"
        return "i64" if -(1 << 63) <= value < 1 << 63 else "u64"
    if kind is float or kind is bool or value is None:
        return kind
    if isinstance(value, tuple):
        return tuple(
            [v.dtype if isinstance(v, Tensor) else _kind(v) for v in value]  # pyright: ignore
        )
    if isinstance(value, int | float):  # a subclass, such as an IntEnum
        return _kind(int(value) if isinstance(value, int) else float(value))
    return (kind, value) if _is_constant(value) else kind


def _is_constant(value: Any) -> bool:
    """Objects that Triton folds into the kernel wherever they are passed."""
    names = ("dtype", "constexpr", "JITFunction")
    return isinstance(value, str) or type(value).__name__ in names


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors that a kernel can reach, also by way of tuples, descriptors and such.

    Triton takes whatever has a `data_ptr` for a pointer.
    """
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from tensors_in(value)  # pyright: ignore[reportUnknownArgumentType]
        elif not isinstance(value, int | float | str | None):
            held = getattr(value, "__dict__", {}).values()
            yield from (tensor for tensor in held if isinstance(tensor, Tensor))


def grid_extents(
    grid: Grid, names: Sequence[str], values: Values
) -> tuple[int, int, int]:
    """The grid of a launch as three extents.

    Raises:
        LaunchError: the grid is not one to three whole numbers.
    """
    raw: Any = grid(dict(zip(names, values, strict=True))) if callable(grid) else grid
    try:
        return _extents(*raw)
    except TypeError:
        raise LaunchError(
            f"a grid is a tuple of one to three integers, got {raw!r}"
        ) from None


@functools.lru_cache(maxsize=1024)
def _extents(x: Any, y: Any = 1, z: Any = 1) -> tuple[int, int, int]:
    extents = operator.index(x), operator.index(y), operator.index(z)
    if min(extents) < 0:
        raise TypeError("negative")
    return extents
