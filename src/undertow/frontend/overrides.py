"""Derivatives of the user's own for helper functions, and how a capture sees them.

Triton inlines helpers, and what is inlined cannot be told apart any more. So while a
kernel is captured, a call of a helper with a rule leaves two calls that stay: of the
rule, with zeros for cotangents, and of a marker that the results pass through::

    %dx = tt.call @undertow.rule.softplus_vjp(%x, %zeros)
    %y2 = tt.call @undertow.custom(%y, %dx)

`calls` lifts them to a `custom` op. When Triton compiles a kernel itself, it sees the
helper and nothing else.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from undertow.errors import CaptureError, UnsupportedError
from undertow.frontend.places import place
from undertow.frontend.stops import Zeros, function_name

T = TypeVar("T")

PREFIX = "undertow."
RULE, CUSTOM, STOP = f"{PREFIX}rule.", f"{PREFIX}custom", f"{PREFIX}stop"
"""What the names of the functions begin with whose calls stay in the TTIR."""

_ATTRIBUTE = "undertow_override"
_KNOWN: list[Override] = []
_capturing: ContextVar[Zeros | None] = ContextVar("undertow_capturing", default=None)


@dataclass(eq=False)
class Override:
    """What is known of the derivative of `helper`: `rule`, once it was given."""

    helper: Any
    rule: Any = None


def custom_vjp(helper: T) -> T:
    """Lets a helper function have a derivative of the user's own.

    >>> @undertow.custom_vjp
    ... @triton.jit
    ... def softplus(x): ...
    >>> @softplus.vjp
    ... @triton.jit
    ... def softplus_vjp(x, d_y): return d_y * tl.sigmoid(x)

    The rule takes the helper's arguments and a cotangent of each value that it returns,
    and returns a cotangent for each of its arguments that are floats, in their order.

    Args:
        helper: a function decorated with `triton.jit`. It is returned itself, and
            called in kernels as before; derivatives of kernels that were captured
            earlier do not change.

    Raises:
        CaptureError: `helper` is no jit function, or has a rule already.
    """
    if getattr(helper, _ATTRIBUTE, None) is not None:
        raise CaptureError(f"`{_name(helper)}` is declared with `custom_vjp` already")
    override = Override(_jit(helper, "@undertow.custom_vjp"))

    def vjp(rule: T) -> T:
        """Takes `rule` for the derivative of the helper."""
        if override.rule is not None:
            raise CaptureError(
                f"`{_name(helper)}` has a rule already, `{_name(override.rule)}`",
                hint="define the helper anew, and its rule after it",
            )
        override.rule = _jit(rule, f"@{_name(helper)}.vjp")
        return rule

    declared: Any = helper  # Triton's class has none of these attributes
    declared.vjp = vjp
    setattr(declared, _ATTRIBUTE, override)
    _KNOWN.append(override)
    return helper


def _jit(fn: Any, decorator: str) -> Any:
    from triton.runtime.jit import JITFunction

    if isinstance(fn, JITFunction) or type(fn).__name__ == "InterpretedFunction":
        return fn
    raise CaptureError(
        f"expected a function decorated with `triton.jit`, got `{_name(fn)}` of type"
        f" `{type(fn).__name__}`",
        hint=f"`{decorator}` stands above `@triton.jit`",
    )


def _name(fn: Any) -> str:
    return str(getattr(fn, "__name__", fn))


def digest() -> str | None:
    """A digest of all declarations: what is captured may depend on any.

    None if Triton cannot read one of them, which it says when it compiles that one.
    """
    try:
        keys = sorted(
            f"{o.helper.cache_key} {o.rule.cache_key if o.rule else None}"
            for o in _KNOWN
        )
    except Exception:  # also in Triton's interpreter, where nothing is captured
        return None
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()


# -- while a kernel is captured --


@contextmanager
def visible(zeros: Zeros) -> Generator[None]:
    """Lets calls of helpers leave marks in the TTIR: those with rules, and `zeros`."""
    _watch()
    token = _capturing.set(zeros)
    try:
        yield
    finally:
        _capturing.reset(token)


@functools.cache
def _watch() -> None:
    """Puts a look at each call of a helper into Triton's code generator, for good."""
    from triton.compiler.code_generator import CodeGenerator

    from undertow.frontend import markers

    plain = CodeGenerator.call_JitFunction

    @functools.wraps(plain)
    def watched(
        self: Any, fn: Any, args: Any, kwargs: Any, caller_context: Any = None
    ) -> Any:
        if fn is markers.stop:  # of a variable, which may hold anything
            return _stopped(functools.partial(plain, self), args[0])
        result = plain(self, fn, args, kwargs, caller_context)
        context, zeros = caller_context or self.caller_context, _capturing.get()
        if zeros is None or isinstance(context, _InRule):
            return result
        call = functools.partial(plain, self)
        if fn is markers.stop_gradient or zeros.has(function_name(fn)):
            stopped = _stopped(call, result)
            if _plain(stopped) is None:
                raise UnsupportedError(
                    f"`{_name(fn)}` returns nothing that could have derivative zero",
                    loc=place(fn),
                    hint="let it pass what it stores through `undertow.stop_gradient`",
                )
            return stopped
        override: Override | None = getattr(fn, _ATTRIBUTE, None)
        if override is None:
            return result
        bound = _bound(fn, args, kwargs)
        return _with_rule(call, self.semantic, override, bound, result)

    CodeGenerator.call_JitFunction = watched


def _stopped(call: Callable[..., Any], value: Any) -> Any:
    """`value`, marked where it is a number, or holds numbers; constants stay so."""
    from triton import language as tl

    from undertow.frontend import markers

    if _is_number(value):
        return call(_kept(markers.stop, STOP), [value], {})
    if isinstance(value, tl.tuple):
        kind: Any = value.type
        return tl.tuple([_stopped(call, part) for part in value.values], kind)
    return value


class _InRule:
    """Triton's context of a call: helpers that a rule calls need no marks.

    Those that the kernel calls too are compiled once more for that, by another name.
    """

    def mangle(self) -> str:
        return "_in_rule"

    def initialize_callee(self, fn: Any, builder: Any) -> None:
        pass


def _bound(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(fn.fn).bind(*args, **kwargs)
    bound.apply_defaults()
    return {name: bound.arguments[name] for name in fn.arg_names}


def _kept(fn: Any, name: str) -> Any:
    """A function like `fn` that is not inlined, under another name."""
    kept = copy.copy(fn)
    kept.noinline = True
    kept.__module__, _, kept.__qualname__ = name.rpartition(".")
    return kept


def _with_rule(
    call: Callable[..., Any],
    semantic: Any,
    override: Override,
    arguments: dict[str, Any],
    result: Any,
) -> Any:
    """What a helper returned, marked, after a call of its rule."""
    from triton import language as tl

    from undertow.frontend import markers

    rule = override.rule
    if rule is None:
        name = _name(override.helper)
        raise CaptureError(
            f"`{name}` has no rule for its derivative",
            loc=place(override.helper),
            why="it was declared with `undertow.custom_vjp`",
            hint=f"decorate its derivative with `@{name}.vjp`",
        )
    outputs = list(result.values) if isinstance(result, tl.tuple) else [result]
    _check_helper(override, arguments, outputs)
    _check_arity(override, len(arguments), len(outputs))
    zeros = [semantic.full(_shape(y), 0.0, _cotangent_dtype(y)) for y in outputs]
    kept = _kept(rule, f"{RULE}{_name(rule)}:{_KNOWN.index(override)}")
    returned = call(kept, [*arguments.values(), *zeros], {}, _InRule())
    many = isinstance(returned, tl.tuple)
    given = _matched(override, arguments, returned.values if many else [returned])
    pair = [tl.tuple(outputs), tl.tuple(given)]
    name = f"{CUSTOM}{len(outputs)}"  # Triton 3.6 does not tell (x, y) from x, y
    marked = call(_kept(markers.custom, name), pair, {})
    return marked if isinstance(result, tl.tuple) else marked.values[0]


def _check_helper(
    override: Override, arguments: Mapping[str, Any], outputs: Sequence[Any]
) -> None:
    name = _name(override.helper)
    for argument, value in arguments.items():
        if not (_is_number(value) or _constant(value)):
            raise UnsupportedError(
                f"`{name}` has a rule, and takes more than numbers for `{argument}`",
                loc=place(override.helper),
                why="a gradient that goes into memory is no cotangent of an argument",
                hint="load before the call, and pass what was loaded",
            )
    if not outputs or not all(_is_number(y) and _is_float(y) for y in outputs):
        raise UnsupportedError(
            f"`{name}` has a rule, and returns something that is no float",
            loc=place(override.helper),
            why="its rule is given a cotangent of each value that it returns",
            hint="compute it in another function",
        )


def _check_arity(override: Override, arguments: int, outputs: int) -> None:
    rule, helper = override.rule, _name(override.helper)
    if len(rule.arg_names) != arguments + outputs:
        raise CaptureError(
            f"the rule `{_name(rule)}` takes {len(rule.arg_names)} arguments, and not"
            f" {arguments + outputs}",
            loc=place(rule),
            why=f"`{helper}` takes {arguments} and returns {outputs}",
            hint="a rule takes what the function takes, and a cotangent of each value"
            " that it returns",
        )


def _matched(
    override: Override, arguments: Mapping[str, Any], returned: Sequence[Any]
) -> list[Any]:
    """Of what a rule returned, the cotangents of arguments that are no literals."""
    helper, rule = override.helper, override.rule
    fixed = {p.name for p in helper.params if p.is_constexpr}
    floats = {n: v for n, v in arguments.items() if n not in fixed and _is_float(v)}
    if len(returned) != len(floats):
        names = ", ".join(f"`{name}`" for name in floats) or "none"
        raise CaptureError(
            f"the rule `{_name(rule)}` returns {len(returned)} values, and not"
            f" {len(floats)}",
            loc=place(rule),
            why=f"the arguments of `{_name(helper)}` that are floats: {names}",
            hint="a rule returns a cotangent for each of them, in their order;"
            " `tl.zeros_like(x)` where there is none",
        )
    found: list[Any] = []
    for (name, value), ct in zip(floats.items(), returned, strict=True):
        if not _is_number(value):
            continue
        if not (_is_number(ct) and _is_float(ct) and _shape(ct) == _shape(value)):
            raise CaptureError(
                f"the rule `{_name(rule)}` returns {_described(ct)} for `{name}`, which"
                f" is {_described(value)}",
                loc=place(rule),
                hint="a cotangent is made of floats and has the shape of its argument",
            )
        found.append(ct)
    return found


# -- Triton's values --


def _is_number(value: Any) -> bool:
    """Whether `value` is a number or a block of numbers that Triton computes."""
    from triton import language as tl

    dtype: Any = value.type if isinstance(value, tl.tensor) else None
    return dtype is not None and not dtype.scalar.is_ptr()


def _constant(value: Any) -> bool:
    from triton import language as tl

    return not isinstance(value, tl.core.base_value) or isinstance(value, tl.constexpr)


def _plain(value: Any) -> Any:
    """What a constant holds."""
    from triton import language as tl

    return value.value if isinstance(value, tl.constexpr) else value


def _is_float(value: Any) -> bool:
    if _is_number(value):
        return bool(value.type.scalar.is_floating())
    return isinstance(_plain(value), float)


def _shape(value: Any) -> list[int]:
    return [int(n) for n in value.type.shape] if value.type.is_block() else []


def _cotangent_dtype(value: Any) -> Any:
    from triton import language as tl

    wide = value.type.scalar.primitive_bitwidth == 64
    return tl.float64 if wide else tl.float32


def _described(value: Any) -> str:
    if not _is_number(value):
        return f"`{_plain(value)}`"
    shape = ", ".join(map(str, _shape(value)))
    return (
        f"{value.type.scalar} of shape ({shape})" if shape else f"{value.type.scalar}"
    )
