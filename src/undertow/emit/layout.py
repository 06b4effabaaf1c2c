"""Line lengths: statements as `ruff format` would leave them."""

from __future__ import annotations

from collections.abc import Callable

WIDTH = 88
MAX_EXPRESSION = 66
"""Longer expressions are taken apart, so that a statement fits on a line."""
MAX_OPERAND = 76
"""The same for an argument, which may stand on a line of its own."""
MAX_CALL = 120
"""The same for a load or store, which may be split between its arguments."""


def fits(line: str) -> bool:
    return len(line) <= WIDTH


def wrap(indent: str, target: str, expression: str, comment: str) -> list[str]:
    """The lines of ``target expression  # comment``.

    One that is too long is split in its last call if what stands before it fits, else
    in its first brackets, or put in brackets if it ends in none.
    """
    line = f"{indent}{target}{expression}{comment}"
    if fits(line):
        return [line]
    opening = expression.find("(")
    closing = closing_of(expression, opening) if opening >= 0 else 0
    if not closing or not expression.endswith(")"):
        whole = target.endswith(" = ") and fits(f"{indent}    {expression}")
        opened, inner = f"{indent}{target}(", f"{indent}    {expression}"
        return [opened, inner, f"{indent}){comment}"] if whole else [line]
    last = opening_of(expression)
    if last > closing and fits(f"{indent}{target}{expression[: last + 1]}"):
        opening, closing = last, len(expression) - 1
    head, tail = expression[: opening + 1], f"{expression[closing:]}{comment}"
    arguments = expression[opening + 1 : closing]
    inner = f"{indent}    {arguments}"
    if fits(inner):
        return [f"{indent}{target}{head}", inner, f"{indent}{tail}"]
    if not _calls(expression, opening):  # a comma would make it a tuple
        parts = [f"{indent}    {term}" for term in _terms(arguments)]
    else:
        parts = [
            line
            for part in arguments_of(arguments)
            for line in _argument(f"{indent}    ", part)
        ]
    return [f"{indent}{target}{head}", *parts, f"{indent}{tail}"]


def _calls(text: str, opening: int) -> bool:
    """Whether the bracket at `opening` is that of a call."""
    before = text[opening - 1 : opening]
    return before.isidentifier() or before.isdigit() or before == "]"


def closing_of(text: str, opening: int) -> int:
    """The position of the bracket that closes the one at `opening`."""
    depth = 0
    for position in range(opening, len(text)):
        depth += (text[position] in "([") - (text[position] in ")]")
        if depth == 0:
            return position
    raise ValueError(f"unbalanced brackets in {text!r}")


def opening_of(text: str) -> int:
    """The position of the bracket that the last character closes."""
    depth = 0
    for position in reversed(range(len(text))):
        depth += (text[position] in ")]") - (text[position] in "([")
        if depth == 0:
            return position
    raise ValueError(f"unbalanced brackets in {text!r}")


def _argument(indent: str, part: str) -> list[str]:
    """An argument on its own lines; a sum or product is split before its signs."""
    if fits(f"{indent}{part},"):
        return [f"{indent}{part},"]
    terms = _terms(part)
    return [*(f"{indent}{term}" for term in terms[:-1]), f"{indent}{terms[-1]},"]


_OPERATORS = (
    (" == ", " != ", " < ", " <= ", " > ", " >= "),
    (" | ",),
    (" ^ ",),
    (" & ",),
    (" << ", " >> "),
    (" + ", " - "),
    (" * ", " / ", " // ", " % "),
)
"""Those that bind least first."""


def _terms(text: str) -> list[str]:
    """The terms of a sum, or of what else binds least, with the signs before them."""
    parts = [text]
    for operators in _OPERATORS:
        parts = _split(text, lambda at, signs=operators: text.startswith(signs, at))
        if len(parts) > 1:
            break
    return parts


def arguments_of(text: str) -> list[str]:
    """The arguments of a call, split at the commas outside of any bracket."""
    parts = _split(text, lambda position: text[position] == ",")
    return [part.removeprefix(",").strip() for part in parts]


def _split(text: str, at: Callable[[int], bool]) -> list[str]:
    """Splits `text` before the positions outside of brackets for which `at` holds."""
    parts, depth, start = list[str](), 0, 0
    for position, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and at(position):
            parts.append(text[start:position].strip())
            start = position
    return [*parts, text[start:].strip()]


def signature(name: str, parameters: list[str]) -> list[str]:
    """A `def` line, split as little as it must be."""
    line = f"def {name}({', '.join(parameters)}):"
    if fits(line):
        return [line]
    inner = f"    {', '.join(parameters)}"
    if fits(inner):
        return [f"def {name}(", inner, "):"]
    return [f"def {name}(", *(f"    {p}," for p in parameters), "):"]


def cast_of_load(expression: str) -> tuple[str, str]:
    """The load and the dtype of ``tl.load(...).to(dtype)``; else empty."""
    if not expression.startswith("tl.load("):
        return "", ""
    end = closing_of(expression, len("tl.load")) + 1
    load, move = expression[:end], expression[end:]
    cast = move.startswith(".to(") and "(" not in move[4:]
    return (load, move[4:-1]) if cast else ("", "")
