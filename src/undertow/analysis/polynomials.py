"""Integer polynomials over the symbols an address is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from undertow.ir import Value

SymbolKind = Literal["program", "lane", "grid", "scalar", "opaque"]


@dataclass(frozen=True, slots=True)
class Symbol:
    """One unknown of an address.

    Kinds: ``program`` (the program id along an axis) and ``lane`` (the position along an axis
    of the access) are what addresses are compared over; ``grid`` (the number of programs
    along an axis) and ``scalar`` (an integer argument, or a value computed from arguments
    alone) are known at launch; ``opaque`` may be anything in each program and lane.
    """

    kind: SymbolKind
    axis: int = 0
    value: Value | None = None

    @property
    def known_at_launch(self) -> bool:
        return self.kind in ("grid", "scalar")

    @property
    def varies(self) -> bool:
        return self.kind in ("program", "lane")

    def __str__(self) -> str:
        if self.value is not None:
            return self.value.name or "?"
        return f"{ {'program': 'pid', 'lane': 'lane', 'grid': 'programs'}[self.kind] }{self.axis}"


Monomial = tuple[Symbol, ...]


def _order(symbol: Symbol) -> tuple[str, int, str, int]:
    value = symbol.value
    return (
        symbol.kind,
        symbol.axis,
        value.name if value else "",
        id(value) if value else 0,
    )


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of integer coefficients times products of symbols."""

    terms: Mapping[Monomial, int]

    @staticmethod
    def constant(number: int) -> Polynomial:
        return Polynomial({(): number} if number else {})

    @staticmethod
    def symbol(symbol: Symbol) -> Polynomial:
        return Polynomial({(symbol,): 1})

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Polynomial({m: c for m, c in terms.items() if c})

    def __neg__(self) -> Polynomial:
        return Polynomial({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + (-other)

    def __mul__(self, other: Polynomial) -> Polynomial:
        total = Polynomial({})
        for m1, c1 in self.terms.items():
            terms = {
                tuple(sorted(m1 + m2, key=_order)): c1 * c2
                for m2, c2 in other.terms.items()
            }
            total += Polynomial(terms)
        return total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    @property
    def number(self) -> int | None:
        """The value of a polynomial without symbols, else None."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset(s for m in self.terms for s in m)

    @property
    def known_at_launch(self) -> bool:
        return all(s.known_at_launch for s in self.symbols)

    def substitute(self, replace: Mapping[Symbol, Polynomial]) -> Polynomial:
        """The polynomial with symbols replaced by polynomials."""
        total = Polynomial({})
        for monomial, coefficient in self.terms.items():
            product = Polynomial.constant(coefficient)
            for symbol in monomial:
                product *= replace.get(symbol, Polynomial.symbol(symbol))
            total += product
        return total

    def linear_in(
        self, variables: Iterable[Symbol]
    ) -> tuple[dict[Symbol, Polynomial], Polynomial] | None:
        """Coefficients of `variables` and the rest, if each term has at most one of them."""
        wanted = set(variables)
        coefficients: dict[Symbol, Polynomial] = {}
        rest = Polynomial({})
        for monomial, coefficient in self.terms.items():
            found = [s for s in monomial if s in wanted]
            if len(found) > 1:
                return None
            left = Polynomial(
                {tuple(s for s in monomial if s not in wanted): coefficient}
            )
            if found:
                known = coefficients.get(found[0], Polynomial({}))
                coefficients[found[0]] = known + left
            else:
                rest += left
        return coefficients, rest

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        for monomial, coefficient in sorted(self.terms.items(), key=_print_order):
            sign = " - " if coefficient < 0 else " + "
            factors = [str(s) for s in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            text += sign + "*".join(factors)
        return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _print_order(term: tuple[Monomial, int]) -> tuple[bool, int, str]:
    monomial, _ = term
    return (not monomial, -len(monomial), "*".join(map(str, monomial)))
