"""Numbers known at launch, as Python expressions of the launch's arguments."""

from __future__ import annotations

from undertow.analysis.polynomials import Polynomial, Symbol
from undertow.cli.messages import CommandError
from undertow.ir import Value

_INFIX = {"add": "+", "sub": "-", "mul": "*", "sdiv": "//", "srem": "%"}
_CALLS = {"smax": "max", "smin": "min"}


def host(value: Value) -> str:
    """A scalar known at launch as a Python expression of the launch's arguments."""
    op = value.op
    if op is None:
        return value.name
    if op.opcode == "const":
        return str(op.attrs["value"])
    if op.opcode == "num_programs":
        return extent(op.int_attr("axis"))
    if op.opcode == "cast":
        return host(op.operands[0])
    parts = [host(v) for v in op.operands]
    if op.opcode in _INFIX:
        return f"({f' {_INFIX[op.opcode]} '.join(parts)})"
    if op.opcode in _CALLS:
        return f"{_CALLS[op.opcode]}({', '.join(parts)})"
    raise CommandError(
        f"--wrapper cannot compute `{value.name or op.opcode}` at launch",
        hint="wrap the kernel by undertow.differentiable instead",
    )


def extent(axis: int) -> str:
    """How many programs there are along an axis."""
    return f"grid[{axis}]"


def polynomial_text(polynomial: Polynomial) -> str:
    """A polynomial known at launch, likewise."""
    terms: list[str] = []
    for monomial, coefficient in polynomial.terms.items():
        factors = [_symbol(s) for s in monomial]
        if coefficient != 1 or not factors:
            factors.insert(0, str(coefficient))
        terms.append(" * ".join(factors))
    return " + ".join(terms).replace("+ -", "- ") or "0"


def _symbol(symbol: Symbol) -> str:
    if symbol.value is not None:
        return host(symbol.value)
    if symbol.kind == "grid":
        return extent(symbol.axis)
    if symbol.of is not None and symbol.by is not None:
        sign = "//" if symbol.kind == "quotient" else "%"
        return f"(({polynomial_text(symbol.of)}) {sign} ({polynomial_text(symbol.by)}))"
    raise CommandError(
        f"--wrapper cannot compute `{symbol}` at launch",
        hint="wrap the kernel by undertow.differentiable instead",
    )
