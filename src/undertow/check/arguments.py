"""The arguments of an example by parameter, and their types as Triton sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from undertow import frontend
from undertow.check.example import Example, configured
from undertow.errors import CheckError
from undertow.runtime.arguments import POINTERS

_ANNOTATIONS = frozenset("i1 i8 i16 i32 i64 u8 u16 u32 u64 fp16 bf16 fp32 fp64".split())


def bind(fn: Any, example: Example) -> dict[str, Any]:
    """The example's arguments, tuned constexprs and defaults, in the kernel's order.

    Raises:
        CheckError: there are too many arguments, or one is missing, unknown or given
            twice.
    """
    params = frontend.parameters(fn)
    name = frontend.unwrap(fn).__name__
    if len(example.args) > len(params):
        raise CheckError(
            f"`{name}` takes {len(params)} arguments, "
            f"the example has {len(example.args)}"
        )
    known = [p.name for p in params]
    given = dict(zip(known, example.args, strict=False))
    for key in example.kwargs:
        if key in given:
            raise CheckError(f"the example gives `{key}` of `{name}` twice")
        if key not in known and key not in frontend.launch_options():
            raise CheckError(
                f"`{name}` has no parameter `{key}`, which the example gives",
                why=f"its parameters are {', '.join(known)}",
            )
    given = configured(fn, {**given, **example.kwargs})
    values: dict[str, Any] = {}
    for param in params:
        if param.name not in given and not param.has_default:
            raise CheckError(f"the example gives no `{param.name}` of `{name}`")
        values[param.name] = given.get(param.name, param.default)
    return values


def types(
    fn: Any, values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, object]]:
    """Triton's type of each run-time argument, and the constexprs.

    Raises:
        CheckError: an argument is of a kind that no kernel takes.
    """
    signature: dict[str, Any] = {}
    constexprs: dict[str, object] = {}
    for param in frontend.parameters(fn):
        value = values[param.name]
        type_ = None if param.is_constexpr else _type(value, param.annotation)
        if type_ is not None:
            signature[param.name] = type_
        elif isinstance(value, tuple) and not param.is_constexpr:
            raise CheckError(f"`{param.name}` is a tuple, which is not differentiated")
        else:
            constexprs[param.name] = getattr(value, "value", value)
    return signature, constexprs


def _type(value: Any, annotation: str) -> str | None:
    """The type of a run-time argument; None for what is fixed at capture."""
    if isinstance(value, Tensor):
        if value.dtype not in POINTERS:
            raise CheckError(f"Triton has no pointer to elements of {value.dtype}")
        return POINTERS[value.dtype]
    if isinstance(value, bool | int | float) and annotation in _ANNOTATIONS:
        return annotation
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, float):
        return "fp32"
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return "i32"
        return "i64" if value < 2**63 else "u64"
    return None
