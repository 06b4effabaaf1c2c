"""The types and constexprs to derive a kernel for."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from undertow import frontend
from undertow.check.example import configured
from undertow.cli.messages import CommandError
from undertow.cli.pointers import pointer_parameters
from undertow.cli.target import Target, innermost
from undertow.errors import CaptureError
from undertow.ir import Kernel, Op, Value, walk
from undertow.runtime.derivation import capture

FLOATS = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "fp64": "fp64"}
TYPES = tuple(
    "i1 i8 i16 i32 i64 u8 u16 u32 u64 fp16 bf16 fp32 fp64 fp8e4nv fp8e5".split()
)


@dataclass(frozen=True, slots=True)
class Given:
    """What the user said about a kernel's arguments."""

    dtype: str | None = None
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    constexprs: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel is captured with.

    Attributes:
        types: Triton's type of each parameter passed at run time.
        constexprs: the values of the others.
        assumed: scalars whose type is a guess.
    """

    types: dict[str, str]
    constexprs: dict[str, object]
    assumed: frozenset[str] = frozenset()


def given(dtype: str | None, signature: str | None, constexprs: Iterable[str]) -> Given:
    """Reads the options `--dtype`, `--signature` and `--constexpr`."""
    if dtype is not None and dtype not in FLOATS:
        raise CommandError(
            f"`{dtype}` is no dtype of floats", hint=f"one of {', '.join(FLOATS)}"
        )
    types: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in (signature or "").split(","))):
        name, colon, type_ = (piece.strip() for piece in part.partition(":"))
        if not colon or not name:
            raise CommandError(
                f"`{part}` in --signature is not of the form name:type",
                hint='for example --signature "x_ptr:*bf16,n:i32"',
            )
        if type_.removeprefix("*") not in TYPES:
            raise CommandError(
                f"`{type_}` is no type of Triton's",
                hint=f"one of {', '.join(TYPES)}, or a pointer such as *fp32",
            )
        types[name] = type_
    values = dict(_constexpr(text) for text in constexprs)
    return Given(dtype, types, values)


def _constexpr(text: str) -> tuple[str, object]:
    name, equals, value = (piece.strip() for piece in text.partition("="))
    if not equals or not name or not value:
        raise CommandError(
            f"`{text}` in --constexpr is not of the form NAME=value",
            hint="for example --constexpr BLOCK=256",
        )
    if value.startswith("tl."):
        import triton.language as tl

        found = getattr(tl, value.removeprefix("tl."), None)
        if isinstance(found, tl.dtype):
            return name, found
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


# -- from the options and the kernel --


def infer(target: Target, options: Given, example: Signature | None) -> Signature:
    """The signature by options, example, annotations, defaults, source, in this order.

    Raises:
        CommandError: a name is unknown, or a constexpr has no value.
        CaptureError: Triton does not compile the kernel.
    """
    params = frontend.parameters(target.kernel)
    known = [p.name for p in params]
    for name in (*options.types, *options.constexprs):
        require_parameter(target.name, name, known)
    if example is not None and not set(known) <= {*example.types, *example.constexprs}:
        example = None
    pointers = pointer_parameters(innermost(target.kernel))
    tuned = configured(target.kernel, options.constexprs)
    types: dict[str, str] = {}
    constexprs: dict[str, object] = {}
    guessed: set[str] = set()
    missing: list[str] = []
    for param in params:
        fixed = _fixed(param, options, tuned, example)
        if fixed:
            constexprs[param.name] = fixed[0]
        elif param.is_constexpr:
            missing.append(param.name)
        else:
            type_, sure = _type(param, options, example, pointers)
            types[param.name] = type_
            if not sure:
                guessed.add(param.name)
    if missing:
        raise _no_values(target, missing)
    return _with_floats(target, Signature(types, constexprs, frozenset(guessed)))


def _fixed(
    param: frontend.Parameter,
    options: Given,
    tuned: Mapping[str, object],
    example: Signature | None,
) -> tuple[object] | None:
    """The value of a parameter fixed at capture, in a tuple; None for another one."""
    if param.name in options.types:
        return None
    for source in (options.constexprs, example.constexprs if example else {}, tuned):
        if param.name in source:
            return (source[param.name],)
    typed = example is not None and param.name in example.types
    by_default = param.has_default and (param.is_constexpr or param.default is None)
    if by_default and not typed:
        return (param.default,)
    return None


def _type(
    param: frontend.Parameter,
    options: Given,
    example: Signature | None,
    pointers: frozenset[str],
) -> tuple[str, bool]:
    """The type of a run-time parameter, and whether it is more than a guess."""
    name = param.name
    if name in options.types:
        return options.types[name], True
    if example is not None and name in example.types:
        type_ = example.types[name]
        is_float = type_.removeprefix("*") in FLOATS
        if type_.startswith("*") and is_float and options.dtype:
            return f"*{options.dtype}", True
        return type_, True
    if param.annotation.removeprefix("*") in TYPES:
        return param.annotation, True
    if name in pointers:
        return f"*{options.dtype or 'fp32'}", True
    match param.default if param.has_default else None:
        case bool():
            return "i1", True
        case float():
            return "fp32", True
        case int():
            return "i32", True
        case _:
            return "i32", False


def require_parameter(kernel: str, name: str, known: Iterable[str]) -> None:
    """Raises CommandError if the kernel has no parameter `name`."""
    known = list(known)
    if name in known:
        return
    near = difflib.get_close_matches(name, known, 1)
    raise CommandError(
        f"`{kernel}` has no parameter `{name}`",
        why=f"its parameters are {', '.join(known)}",
        hint=f"did you mean `{near[0]}`" if near else "",
    )


def _no_values(target: Target, names: list[str]) -> CommandError:
    one = len(names) == 1
    listed = ", ".join(f"`{name}`" for name in names)
    pass_ = " ".join(f"--constexpr {name}=…" for name in names)
    return CommandError(
        f"constexpr{'' if one else 's'} {listed} of `{target.name}` "
        f"{'needs a value' if one else 'need values'}",
        hint=f"pass {pass_}, or write an `example` beside the kernel",
    )


# -- scalars of which nothing is known --


def _with_floats(target: Target, signature: Signature) -> Signature:
    """`signature` with guesses made fp32 where the kernel only uses them as floats."""
    if not signature.assumed:
        return signature
    kernel = captured(target, signature)
    floats = {n: "fp32" for n in signature.assumed if only_as_float(kernel, n)}
    return Signature(
        {**signature.types, **floats}, signature.constexprs, signature.assumed
    )


def captured(target: Target, signature: Signature) -> Kernel:
    """The kernel as IR; an error says which types were assumed."""
    try:
        known = signature.types, signature.constexprs
        return capture(target.kernel, *known, target.promises)
    except CaptureError as error:
        types = ", ".join(f"{n}:{t}" for n, t in signature.types.items())
        error.hint = (
            error.hint or f"types taken: {types}; others are given with --signature"
        )
        raise


def only_as_float(kernel: Kernel, name: str) -> bool:
    """Whether an integer parameter is only ever converted to a float, such as `eps`."""
    uses: dict[Value, list[Op]] = {}
    for op in walk(kernel.body):
        for operand in op.operands:
            uses.setdefault(operand, []).append(op)
    pending = [p for p in kernel.params if p.name == name]
    converted = False
    while pending:
        value = pending.pop()
        for op in uses.get(value, []):
            if op.opcode == "cast" and op.result.is_float:
                converted = True
            elif op.opcode in ("broadcast", "expand_dims") or _with_number(op, value):
                pending.append(op.result)
            else:
                return False
    return converted


def _with_number(op: Op, value: Value) -> bool:
    """Whether `op` is integer arithmetic on `value` and constants."""
    if op.opcode not in ("add", "sub", "mul", "neg"):
        return False
    others = [v for v in op.operands if v is not value]
    return all(v.op is not None and v.op.opcode == "const" for v in others)
