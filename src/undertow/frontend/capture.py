"""Captures a kernel's TTIR through Triton's own front end. No GPU is needed.

This is the only module that calls Triton (with `crosscheck`); it does so when a kernel
is captured. Triton's bindings are untyped, and its classes moved between versions.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from undertow.errors import CaptureError, UndertowError, UnsupportedError
from undertow.frontend import overrides
from undertow.frontend.places import place
from undertow.frontend.promises import NO_PROMISES, Promises
from undertow.frontend.stops import Zeros, with_stops
from undertow.ir import Kernel, Loc

_TARGET = ("cuda", 90, 32)
"""Compute capability 9.0: the TTIR does not depend on it."""

_REWRITES = ("add_rewrite_tensor_pointer", "add_rewrite_tensor_descriptor_to_pointer")
"""Passes from block pointers (gone in Triton 3.8) and descriptors to plain pointers."""

_MISSING = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a jit function.

    `annotation` is text (empty if there is none); `default` is None without
    `has_default`.
    """

    name: str
    is_constexpr: bool
    annotation: str = ""
    has_default: bool = False
    default: object = None


def unwrap(fn: object) -> Any:
    """The jit function inside `triton.autotune` and `triton.heuristics`.

    Raises:
        CaptureError: `fn` is something else, or was made for Triton's interpreter.
    """
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    inner: Any = fn
    while isinstance(inner, Autotuner | Heuristics):
        inner = inner.fn
    if type(inner).__name__ == "InterpretedFunction":
        raise CaptureError(
            f"`{_name(inner)}` was made for Triton's interpreter and has no TTIR",
            why="TRITON_INTERPRET=1 was set when it was decorated",
            hint="capture it in a process without TRITON_INTERPRET:"
            " CPU tensors need no interpreter",
        )
    if not isinstance(inner, JITFunction):
        raise CaptureError(
            f"expected a function decorated with `triton.jit`, got `{_name(inner)}`"
            f" of type `{type(inner).__name__}`"
        )
    return inner


def parameters(fn: object) -> tuple[Parameter, ...]:
    """The parameters of a jit function in order."""
    return tuple(
        Parameter(
            p.name,
            bool(p.is_constexpr),
            str(p.annotation or ""),
            p.default is not _MISSING,
            None if p.default is _MISSING else p.default,
        )
        for p in unwrap(fn).params
    )


def capture(
    fn: object,
    signature: Mapping[str, Any],
    constexprs: Mapping[str, object],
    promises: Promises = NO_PROMISES,
) -> Kernel:
    """The kernel `fn` as IR, for given types and constexprs.

    Args:
        fn: a function decorated with `triton.jit`, also under autotune or heuristics.
        signature: Triton's type of each parameter passed at run time (`"*bf16"`,
        `"i32"`,
            `"fp32"`, `"i1"`); a tuple of types for a tuple, with `"constexpr"` for
            elements whose value stands in `constexprs`.
        constexprs: the values fixed at capture, by name; a parameter that is None
        belongs
            here. A tuple parameter with constexpr elements has a tuple of their values
            (None elsewhere). Annotated constexprs that are left out take their
            defaults.
        promises: what of it has no derivative.

    Raises:
        CaptureError: Triton does not compile it, or its TTIR cannot be read.
        UnsupportedError: it uses something outside of Undertow's language.
    """
    from undertow.frontend.crosscheck import crosscheck
    from undertow.frontend.lift import lift
    from undertow.frontend.ttir import parse_module
    from undertow.frontend.variables import name_variables

    jit = unwrap(fn)
    types, values = _arguments(jit, signature, constexprs)
    zeros = Zeros(promises.zero)
    stopped = with_stops(jit, promises.stop_gradient)
    module, _context = _module(stopped, types, values, zeros)
    funcs = parse_module(str(module))
    crosscheck(funcs, module, jit.__name__)
    names = [name for key, type_ in types.items() for name in _flat_names(key, type_)]
    fixed = {p.name: values[p.name] for p in parameters(jit) if p.name in values}
    kernel = lift(funcs, names=names, constexprs=fixed, zeros=zeros)
    zeros.check(jit)
    return name_variables(kernel)


def launch_options() -> frozenset[str]:
    """The keywords of a launch that are no parameters, such as `num_warps`."""
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    backend: Any = backends["nvidia"].compiler(GPUTarget(*_TARGET))
    names = {field.name for field in fields(backend.parse_options({}))}
    return frozenset(
        names | {"warmup", "waves_per_eu", "matrix_instr_nonkdim", "kpack"}
    )


def capture_text(
    fn: object, signature: Mapping[str, Any], constexprs: Mapping[str, object]
) -> str:
    """The TTIR of `fn`, inlined and canonicalised; arguments as for `capture`."""
    jit = unwrap(fn)
    arguments = _arguments(jit, signature, constexprs)
    module, _context = _module(jit, *arguments, Zeros())
    return str(module)


def _arguments(
    jit: Any, signature: Mapping[str, Any], constexprs: Mapping[str, object]
) -> tuple[dict[str, Any], dict[str, object]]:
    """A type for each parameter in order, and constexprs with defaults filled in."""
    params = parameters(jit)
    unknown = [
        n for n in (*signature, *constexprs) if n not in {p.name for p in params}
    ]
    if unknown:
        raise CaptureError(
            f"`{jit.__name__}` has no parameter `{unknown[0]}`",
            hint=f"its parameters are {', '.join(p.name for p in params)}",
        )
    types: dict[str, Any] = {}
    values = dict(constexprs)
    for param in params:
        if param.name in signature:
            types[param.name] = signature[param.name]
            continue
        if param.name not in values:
            if not (param.is_constexpr and param.has_default):
                what = "a value" if param.is_constexpr else "a type"
                raise CaptureError(
                    f"parameter `{param.name}` of `{jit.__name__}` needs {what}"
                )
            values[param.name] = param.default
        types[param.name] = "constexpr"
    return types, values


def _module(
    jit: Any, types: dict[str, Any], values: dict[str, object], zeros: Zeros
) -> tuple[Any, Any]:
    """The module, and the context that owns it: keep both."""
    from triton._C.libtriton import ir, passes
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if jit.is_gluon():
        raise UnsupportedError(
            f"`{jit.__name__}` is written in Gluon, which is not supported",
            loc=Loc(jit.fn.__code__.co_filename, jit.starting_line_number),
            kernel=jit.__name__,
            why="it programs threads and shared memory, which have no derivative",
            hint="write the kernel in `triton.language`",
        )
    target = GPUTarget(*_TARGET)
    backend: Any = backends["nvidia"].compiler(target)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    options = backend.parse_options({"enable_fp_fusion": True})
    constants = dict(_paths(jit, types, values))
    try:
        source = ASTSource(jit, types, constants)
        with overrides.visible(zeros):
            module = source.make_ir(
                target,
                options,
                backend.get_codegen_implementation(options),
                backend.get_module_map(),
                context,
            )
        manager = ir.pass_manager(context)
        passes.common.add_inliner(manager)
        for name in _REWRITES:
            add = getattr(passes.ttir, name, None)
            if add is not None:
                add(manager)
        passes.common.add_canonicalizer(manager)
        passes.common.add_cse(manager)
        passes.common.add_symbol_dce(manager)
        manager.run(module, "undertow_capture")
    except Exception as error:  # Triton raises whatever went wrong inside
        own = _own(error)
        if own is not None:
            own.kernel = jit.__name__
            raise own.with_traceback(None) from None
        message = str(error).strip().splitlines()
        raise CaptureError(
            f"Triton does not compile `{jit.__name__}`: {_cause(error)}",
            loc=_error_place(jit, error),
            kernel=jit.__name__,
            why=tuple(message),
        ) from error
    return module, context


def _paths(
    jit: Any, types: dict[str, Any], values: dict[str, object]
) -> Iterator[tuple[tuple[int, ...], object]]:
    """Constexprs by position, as Triton keeps them: a path for elements of tuples."""
    for index, name in enumerate(jit.arg_names):
        if types[name] == "constexpr":
            yield (index,), values[name]
        elif isinstance(types[name], tuple):
            yield from _tuple_paths((index,), name, types[name], values.get(name))


def _tuple_paths(
    path: tuple[int, ...], name: str, types: tuple[Any, ...], values: Any
) -> Iterator[tuple[tuple[int, ...], object]]:
    for index, type_ in enumerate(types):
        if type_ != "constexpr" and not isinstance(type_, tuple):
            continue
        if not isinstance(values, tuple) or len(values) != len(types):
            raise CaptureError(
                f"the constexpr elements of tuple `{name}` need values",
                hint=f"pass a tuple of {len(types)} as the constexpr `{name}`",
            )
        if type_ == "constexpr":
            yield (*path, index), values[index]
        else:
            yield from _tuple_paths((*path, index), name, type_, values[index])


def _flat_names(name: str, type_: Any) -> Iterator[str]:
    """The names of a parameter's run-time values: `xs.0`, `xs.1` for a tuple."""
    if isinstance(type_, tuple):
        for index, element in enumerate(type_):
            yield from _flat_names(f"{name}.{index}", element)
    elif type_ != "constexpr":
        yield name


def _own(error: BaseException | None) -> UndertowError | None:
    """The error of `overrides` that Triton wrapped."""
    while error is not None and not isinstance(error, UndertowError):
        error = error.__cause__ or error.__context__
    return error


def _cause(error: BaseException) -> str:
    """The innermost reason in one line: Triton wraps it once for each helper called."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = getattr(error, "error_message", None) or str(error)
    lines = [line for line in str(text).strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def _error_place(jit: Any, error: BaseException) -> Loc | None:
    line = getattr(getattr(error, "node", None), "lineno", None)
    if line is None:
        return None
    start = place(jit)
    return Loc(start.file, start.line + line - 1)


def _name(fn: object) -> str:
    return str(getattr(fn, "__name__", fn))
