"""Writes a kernel as a module of Triton source that needs nothing of Undertow."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from undertow.emit.assembly import Assembly, helper
from undertow.emit.layout import WIDTH, signature
from undertow.emit.statements import Writer
from undertow.ir import I64, Kernel, TensorType, Value, walk
from undertow.transform.rebuild import undeclared

COMBINES = {
    "prod": ("a, b", "a * b"),
    "and": ("a, b", "a & b"),
    "or": ("a, b", "a | b"),
    "recurrence": ("a, x, b, y", "a * b, x * b + y"),
}
"""Combine functions that `tl` does not bring: arguments and result, by kind."""


def emit(
    kernel: Kernel,
    docstring: Iterable[str] = (),
    reasons: Mapping[str, str] | None = None,
    assemblies: dict[Assembly, str] | None = None,
) -> str:
    """The source of a module that defines `kernel`.

    Args:
        kernel: what to write. Constexprs that occur as extents become parameters.
        docstring: its lines, without indentation.
        reasons: comments above the first write to a buffer, by its parameter's name.
        assemblies: the functions of assembly that a module to join this with defines;
            new ones are entered.
    """
    kernel = undeclared(kernel)
    extents = constexpr_extents(kernel)
    assemblies = {} if assemblies is None else assemblies
    defined = set(assemblies)
    writer = Writer(kernel, extents, reasons or {}, assemblies)
    lines, expressions = writer.body()
    used = [name for name in kernel.constexprs if name in extents.values()]
    guards = [f"    tl.static_assert({n} == {kernel.constexprs[n]})" for n in used]
    parameters = [parameter(p) for p in kernel.params]
    parameters += [f"{n}: tl.constexpr" for n in used]
    body = [*_docstring(list(docstring)), *guards, *lines]
    text = "\n".join(["@triton.jit", *signature(kernel.name, parameters), *body])
    helpers = [
        _combine(name, *COMBINES[kind]) for kind, name in expressions.combines.items()
    ]
    new = [of for of in assemblies if of not in defined]
    helpers += [helper(assemblies[of], of) for of in new]
    imports = ["import triton", "import triton.language as tl"]
    if "libdevice." in text:
        imports.append("from triton.language.extra import libdevice")
    blocks = ["\n".join(imports), *helpers, text]
    return "\n\n\n".join(blocks) + "\n"


def joined(*modules: str) -> str:
    """One module with the kernels of several, which `emit` wrote."""
    parts = [split(module) for module in modules]
    imports = sorted({line for head, _ in parts for line in head}, key=_import_order)
    blocks = ["\n".join(imports), *(rest.strip("\n") for _, rest in parts)]
    return "\n\n\n".join(blocks) + "\n"


def _import_order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line


def split(module: str) -> tuple[list[str], str]:
    """The import lines of a module that `emit` wrote, and the rest."""
    lines = module.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("@"))
    return [line for line in lines[:head] if line], "\n".join(lines[head:])


def parameter(value: Value) -> str:
    """A parameter as it is declared.

    A small number would be taken for 32 bits, where the kernel computes in 64.
    """
    wide = isinstance(value.type, TensorType) and value.type.dtype is I64
    return f"{value.name}: tl.int64" if wide else value.name


def constexpr_extents(kernel: Kernel) -> dict[int, str]:
    """Names for the extents of ranges, where one constexpr alone has that value."""
    ends = {op.int_attr("end") for op in walk(kernel.body) if op.opcode == "range"}
    by_value: dict[int, list[str]] = {}
    for name, value in kernel.constexprs.items():
        if isinstance(value, int) and not isinstance(value, bool) and value in ends:
            by_value.setdefault(value, []).append(name)
    return {v: names[0] for v, names in by_value.items() if len(names) == 1}


def _docstring(lines: list[str]) -> list[str]:
    if not lines:
        return []
    wrapped = textwrap.wrap(lines[0], WIDTH - 7)  # the quotes stand before it
    for line in lines[1:]:
        indent = "    " if line.startswith(("- ", "d_")) else ""
        wrapped += textwrap.wrap(line, WIDTH - 4, subsequent_indent=indent) or [""]
    first, *rest = wrapped
    if not rest and len(first) <= WIDTH - 10:
        return [f'    """{first}"""']
    return [f'    """{first}', *(f"    {r}" if r else "" for r in rest), '    """']


def _combine(name: str, arguments: str, result: str) -> str:
    return f"@triton.jit\ndef {name}({arguments}):\n    return {result}"
