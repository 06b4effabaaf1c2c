"""Inline assembly: a helper function of the emitted module for each text of it."""

from __future__ import annotations

from string import ascii_lowercase

from undertow.emit.text import dtype
from undertow.ir import Op

Assembly = tuple[str, ...]
"""Text, constraints, pack and dtypes, then the parameters of the function."""


def function_of(op: Op, known: dict[Assembly, str]) -> str:
    """The name of the function that stands for `op`, entered in `known`."""
    count = len(known)
    return known.setdefault(_assembly(op), f"_asm_{count + 1}" if count else "_asm")


def _assembly(op: Op) -> Assembly:
    types = [dtype(r.tensor_type.dtype) for r in op.results]
    made = types[0] if len(types) == 1 else f"({', '.join(types)})"
    parameters = ascii_lowercase[: len(op.operands)]
    asm, constraints = op.str_attr("asm"), op.str_attr("constraints")
    return asm, constraints, str(op.int_attr("pack")), made, *parameters


def helper(name: str, made_of: Assembly) -> str:
    """The function of that name."""
    asm, constraints, pack, made, *parameters = made_of
    return "\n".join(
        [
            "@triton.jit",
            f"def {name}({', '.join(parameters)}):",
            "    return tl.inline_asm_elementwise(",
            f"        {_literal(asm)},",
            f"        {_literal(constraints)},",
            f"        [{', '.join(parameters)}],",
            f"        dtype={made},",
            "        is_pure=True,",
            f"        pack={pack},",
            "    )",
        ]
    )


def _literal(text: str) -> str:
    """A string as a formatter leaves it, one of several lines on as many."""
    lines = text.replace("\t", " ").split("\n")
    whole = all(line == line.rstrip() for line in lines[:-1])
    plain = all(map(str.isprintable, lines)) and not text.endswith('"')
    if len(lines) > 1 and whole and plain and '"""' not in text:
        return '"""' + text.replace("\\", "\\\\") + '"""'
    quoted = repr(text)
    return quoted if '"' in text else f'"{quoted[1:-1]}"'
