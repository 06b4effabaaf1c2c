"""Prints `docs/reference/verdicts.md`: what becomes of each op of Triton, and why.

Nothing is said here. What an op is lifted to, or why it is refused, stands in the
tables of `undertow.frontend`; what its derivative is, in `undertow.rules`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from undertow.emit.expressions import Expressions  # noqa: E402
from undertow.emit.spelling import CALLS  # noqa: E402
from undertow.emit.text import OPERATORS  # noqa: E402
from undertow.frontend import libdevice  # noqa: E402
from undertow.frontend.pointwise import FLOAT_CASTS, OPCODES  # noqa: E402
from undertow.frontend.refusals import (  # noqa: E402
    ATOMICS,
    DROPPED,
    REFUSED,
    Refusal,
    atomic,
)
from undertow.frontend.table import DIALECTS, KEPT, LIFTED  # noqa: E402
from undertow.ir import F32, OPS, Builder, Value, scalar  # noqa: E402
from undertow.rules import (  # noqa: E402
    RULES,
    Expr,
    Linear,
    Pointwise,
    Special,
    Structural,
    Unsupported,
    Zero,
)
from undertow.transform.fold import fold  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "verdicts.md"
VERSIONS = ROOT / "tests" / "fixtures" / "opcodes"

HEAD = """\
# Verdicts

<!-- `python tools/verdicts.py` writes this page: change the tables that it reads. -->

What becomes of each op that Triton {versions} can write in a kernel's intermediate
representation, TTIR. Each has one verdict:

- *rule*: it is differentiated. `d_y` stands for the gradient of its result `y`, `d_a`
  for that of its operand `a`.
- *structural*: it moves elements, or control. So does its transpose, the other way.
- *zero*: no derivative flows through it, for the reason given.
- *refused*: so is a kernel that uses it, with the line that does.

An op with a rule may be refused on some operands, such as `tt.dot` of integers: see
[Limits](../limits.md). At ties and kinks the
[conventions](../concepts/conventions.md) hold.
"""
OTHERS, FUNCTIONS = "Other dialects", "Functions of libdevice"
SECTIONS = {
    **dict.fromkeys((*DIALECTS, OTHERS), ""),
    FUNCTIONS: "Kernels call them by `tt.extern_elementwise`.\n\n",
}
"""The headings, and what stands below them."""


class Verdict(NamedTuple):
    """A line of the page."""

    section: str
    name: str
    written: str
    kind: str
    how: str


TITLES = "| op | written | verdict | how, or why |\n|---|---|---|---|\n"


def page() -> str:
    """The text of the page."""
    versions = sorted(path.stem for path in VERSIONS.iterdir())
    text, found = HEAD.format(versions=f"{versions[0]} to {versions[-1]}"), verdicts()
    for section, note in SECTIONS.items():
        lines = sorted(verdict for verdict in found if verdict.section == section)
        text += f"\n## {section}\n\n{note}" + "".join([TITLES, *map(_row, lines)])
    return text


def _row(verdict: Verdict) -> str:
    name, written, kind, how = (cell.replace("|", "\\|") for cell in verdict[1:])
    return f"| `{name}` | {written} | {kind} | {how} |\n"


def verdicts() -> list[Verdict]:
    """One for each op, each kind of atomic operation, and each known function."""
    return [
        *(_lifted(name, opcode) for name, opcode in LIFTED.items()),
        *(_verdict(name, "", "structural", how) for name, how in KEPT.items()),
        *(_verdict(name, "", "zero", why) for name, why in DROPPED.items()),
        *(_refused(name, refusal) for name, refusal in REFUSED.items()),
        *(_refused(f"tt.atomic_rmw {kind}", atomic(kind)) for kind in ATOMICS),
        *(_function(name, opcode) for name, opcode in libdevice.OPCODES.items()),
        *(_unknown(name) for name in libdevice.UNKNOWN),
    ]


def _verdict(name: str, written: str, kind: str, how: str) -> Verdict:
    dialect = name.split(".")[0]
    section = dialect if dialect in DIALECTS else OTHERS
    return Verdict(section, name, written, kind, how)


def _lifted(name: str, opcode: str) -> Verdict:
    kind, how = _rule(opcode)
    if (opcode == "cast" and name not in FLOAT_CASTS) or _of_integers(name):
        integers = RULES["and"]
        assert isinstance(integers, Zero)
        kind, how = "zero", integers.reason
    return _verdict(name, _written(opcode) if name in OPCODES else "", kind, how)


def _of_integers(name: str) -> bool:
    return name in OPCODES and name.startswith("arith.") and name.endswith("i")


def _function(name: str, opcode: str) -> Verdict:
    return Verdict(FUNCTIONS, name, _written(opcode), *_rule(opcode))


def _unknown(name: str) -> Verdict:
    return Verdict(FUNCTIONS, name, f"`libdevice.{name}`", *_rule("extern"))


def _rule(opcode: str) -> tuple[str, str]:
    match RULES[opcode]:
        case Zero(reason):
            return "zero", reason
        case Unsupported(reason):
            return "refused", f"where a derivative flows through it: {reason}"
        case Structural():
            return "structural", "the elements of `d_y` go back where they came from"
        case Special(how):
            moves = OPS[opcode].kind in ("structural", "control")
            return "structural" if moves else "rule", how
        case Linear(signs):
            shares = zip(_names(opcode), signs, strict=True)
            return "rule", _code(f"d_{n} = {'-' * (s < 0)}d_y" for n, s in shares)
        case Pointwise(maps):
            return "rule", _code(_partials(opcode, maps))


def _names(opcode: str) -> str:
    arity = OPS[opcode].arity or 0
    return "x" if arity == 1 else "abc"[:arity]


def _code(lines: Iterable[str]) -> str:
    return ", ".join(f"`{line}`" for line in lines)


def _partials(opcode: str, maps: Iterable[Callable[..., Expr] | None]) -> Iterator[str]:
    """The rule's own mathematics, as a kernel would write it."""
    b, names = Builder(fold), _names(opcode)
    values = [
        Value(scalar(F32), name, is_argument=True) for name in ("d_y", *names, "y")
    ]
    given = [Expr(b, value) for value in values]
    write = Expressions(names={}, extents={}, assemblies={})
    for name, partial in zip(names, maps, strict=True):
        share = "0" if partial is None else write.text(partial(*given).value).text
        yield f"d_{name} = {share}"


def _written(opcode: str) -> str:
    """The op in Triton's language, where a call or an operator says it."""
    if opcode in CALLS:
        return f"`{CALLS[opcode]}({', '.join(_names(opcode))})`"
    return f"`a {OPERATORS[opcode][0]} b`" if opcode in OPERATORS else ""


def _refused(name: str, refusal: Refusal) -> Verdict:
    """What the error says; its fact is left to the first two columns if they do."""
    named = re.fullmatch("(`[^`]*`) is not supported", refusal.fact)
    written = named[1] if named and named[1] != f"`{name}`" else ""
    parts = ("" if named else refusal.fact, refusal.why, refusal.hint)
    return _verdict(name, written, "refused", "; ".join(part for part in parts if part))


if __name__ == "__main__":
    print(page(), end="")
