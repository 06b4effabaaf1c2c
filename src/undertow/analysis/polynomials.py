"""Integer polynomials over the symbols an address is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from undertow.ir import Value

SymbolKind = Literal[
    "program", "lane", "turn", "grid", "scalar", "quotient", "remainder", "unique",
    "opaque",
]  # fmt: skip
_NAMES = {"program": "pid", "lane": "lane", "grid": "programs"}


@dataclass(frozen=True, slots=True)
class Symbol:
    """One unknown of an address.

    Kinds: ``program`` (the program id along an axis), ``lane`` (the position along an
    axis of the access) and ``turn`` (how often the loop over `value` has turned, out of
    `by` times) are what addresses are compared over; ``grid`` (the number of
    programs along an axis) and ``scalar`` (an integer argument, or a value computed
    from arguments alone) are known at launch; ``quotient`` and ``remainder`` are the
    digits of a division of `of` by `by`, rounded towards zero; ``unique`` is, wherever
    all of `guard` hold, the element at `of` of the buffer `value`, in which no integer
    stands twice, as the user promises; ``opaque`` may be anything in each program and
    lane. `origin` is the value that makes it so.
    """

    kind: SymbolKind
    axis: int = 0
    value: Value | None = None
    of: Polynomial | None = None
    by: Polynomial | None = None
    guard: tuple[tuple[Polynomial, Polynomial], ...] = ()
    """Pairs of which the first one must be less."""
    origin: Value | None = field(default=None, compare=False)

    @property
    def known_at_launch(self) -> bool:
        if self.of is not None and self.by is not None:
            return self.of.known_at_launch and self.by.known_at_launch
        return self.kind in ("grid", "scalar")

    @property
    def varies(self) -> bool:
        if self.of is not None:
            return any(s.varies for s in self.of.symbols)
        return self.kind in ("program", "lane", "turn")

    def substitute(self, meant: Mapping[Symbol, Polynomial]) -> Polynomial:
        """The symbol, or what stands for it; inside of what it is made of too."""
        if self.of is None:
            return meant.get(self, Polynomial({(self,): 1}))
        guard = tuple((a.substitute(meant), b.substitute(meant)) for a, b in self.guard)
        return Polynomial.symbol(
            replace(self, of=self.of.substitute(meant), guard=guard)
        )

    def __str__(self) -> str:
        if self.of is not None and self.by is not None:
            sign = "//" if self.kind == "quotient" else "%"
            return f"({self.of}) {sign} ({self.by})"
        value = self.origin or self.value
        if value is not None:
            return value.name or described(value)
        return f"{_NAMES[self.kind]}{self.axis}"


_SPELLED = {
    "smin": "tl.minimum", "smax": "tl.maximum", "umin": "tl.minimum",
    "umax": "tl.maximum", "select": "tl.where", "load": "tl.load",
}  # fmt: skip
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "sdiv": "//", "udiv": "//", "srem": "%",
    "urem": "%", "and": "&", "or": "|", "xor": "^", "shl": "<<", "sshr": ">>",
    "ushr": ">>",
}  # fmt: skip
_SAME = ("cast", "broadcast", "expand_dims", "reshape", "transpose", "splat")


def described(value: Value) -> str:
    """A value without a name of the user's, by the operation that computes it."""
    while not value.name and value.op is not None and value.op.opcode in _SAME:
        value = value.op.operands[0]
    op = value.op
    if value.name or op is None:
        return value.name or "turn"
    if op.opcode in _INFIX:
        return f"… {_INFIX[op.opcode]} …"
    if op.opcode == "if":
        return "if …"
    if op.opcode == "reduce":
        return f"tl.{op.str_attr('kind')}(…)"
    return f"{_SPELLED.get(op.opcode, f'tl.{op.opcode}')}(…)"


Monomial = tuple[Symbol, ...]


def _order(symbol: Symbol) -> tuple[str, int, str, int]:
    """Any order will do that is the same all the time; by name where that decides."""
    value = symbol.value
    return symbol.kind, symbol.axis, value.name if value else "", hash(symbol)


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
            terms = {_product(m1, m2): c1 * c2 for m2, c2 in other.terms.items()}
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

    @property
    def opaque(self) -> bool:
        """Whether loaded data, or what else cannot be followed, decide it."""
        return any(s.kind in ("opaque", "unique") for s in self.symbols)

    @property
    def varying(self) -> list[Symbol]:
        """The symbols that differ between programs or lanes, in order of appearance."""
        return list(dict.fromkeys(s for m in self.terms for s in m if s.varies))

    def substitute(self, meant: Mapping[Symbol, Polynomial]) -> Polynomial:
        """The polynomial with symbols replaced by polynomials."""
        total = Polynomial({})
        for monomial, coefficient in self.terms.items():
            product = Polynomial.constant(coefficient)
            for symbol in monomial:
                product *= symbol.substitute(meant)
            total += product
        return total

    def linear_in(
        self, variables: Iterable[Symbol]
    ) -> tuple[dict[Symbol, Polynomial], Polynomial] | None:
        """Coefficients of `variables` and the rest, if no term has two of them."""
        wanted = set(variables)
        coefficients: dict[Symbol, Polynomial] = {}
        rest = Polynomial({})
        for monomial, number in self.terms.items():
            found = [s for s in monomial if s in wanted]
            if len(found) > 1:
                return None
            left = Polynomial({tuple(s for s in monomial if s not in wanted): number})
            if found:
                known = coefficients.get(found[0])
                coefficients[found[0]] = left if known is None else known + left
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


ZERO, ONE = Polynomial.constant(0), Polynomial.constant(1)


def _product(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    return tuple(sorted(a + b, key=_order))


def _print_order(term: tuple[Monomial, int]) -> tuple[bool, int, str]:
    monomial, _ = term
    return (not monomial, -len(monomial), "*".join(map(str, monomial)))


def rejoin(polynomial: Polynomial) -> Polynomial:
    """``x // c * c + x % c`` as ``x``, wherever both digits stand with such weights."""
    parts = polynomial.linear_in(polynomial.varying)
    if parts is None:
        return polynomial
    coefficients, _ = parts
    for digit, weight in coefficients.items():
        if digit.kind != "remainder" or digit.of is None or digit.by is None:
            continue
        partner = Symbol("quotient", of=digit.of, by=digit.by)
        if coefficients.get(partner) == weight * digit.by:
            change = digit.of - Polynomial.symbol(digit)
            change -= digit.by * Polynomial.symbol(partner)
            return rejoin(polynomial + weight * change)
    return polynomial
