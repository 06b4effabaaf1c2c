"""The ways to read addresses as digits of programs, lanes, quotients and remainders."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from undertow.analysis.digits import (
    FAR,
    Condition,
    Digit,
    best_order,
    distinct,
    gapless,
)
from undertow.analysis.launch import Bound, Launch, at_launch
from undertow.analysis.polynomials import ONE, ZERO, Polynomial, Symbol

MAX_DIGITS = 6
"""Orders are searched exhaustively; real addresses have two to four digits."""
MAX_BOUNDS = 4
"""So are the subsets of a mask's conjuncts."""

Weights = dict[Symbol, Polynomial]
"""Coefficients of varying symbols."""


@dataclass(frozen=True, slots=True)
class Site:
    """One place that touches a buffer: its address, and what its mask says."""

    address: Polynomial
    shape: tuple[int, ...]
    bounds: tuple[Bound | None, ...]
    turns: tuple[Symbol | None, ...] = ()
    """The loops around it; None where the number of turns is not known at launch."""


@dataclass(frozen=True, slots=True)
class Division:
    """A dividend that quotient and remainder determine, read as digits itself.

    Attributes:
        dividend: x in ``x // by`` and ``x % by``.
        by: what it is divided by.
        extent: x is below it wherever an access is made.
        highest: x is no higher in any lane, masked or not.
        floor: coefficients and a start of x, none of which may be negative.
        digits: what x is made of.
    """

    dividend: Polynomial
    by: Polynomial
    extent: Polynomial
    highest: Polynomial
    floor: tuple[Polynomial, ...]
    digits: tuple[Digit, ...]

    def holds(self, launch: Launch) -> bool:
        """Whether x determines its digits, and is no negative or wrapped number."""
        return (
            at_launch(self.by, launch) >= 1
            and all(at_launch(p, launch) >= 0 for p in self.floor)
            and at_launch(self.highest, launch) < 1 << 31
            and distinct(self.digits, launch)
        )

    def even(self, launch: Launch) -> bool:
        """Whether every quotient meets every remainder."""
        extent = at_launch(self.extent, launch)
        dense = gapless(self.digits, launch)
        whole = dense is not None and dense >= extent and extent >= 0
        return whole and extent % at_launch(self.by, launch) == 0


@dataclass(frozen=True, slots=True)
class Promise:
    """That a buffer holds no integer twice: each tells from which place it was loaded.

    Attributes:
        of: the buffer.
        digits: what the place is made of.
    """

    of: str
    digits: tuple[Digit, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read an address as digits.

    Attributes:
        digits: those of the address, in the order that leaves the fewest conditions.
        conditions: what that order leaves to test.
        divisions: what further digits stand in quotients and remainders.
        start: the lowest address, if no index is negative.
        whole: whether it describes exactly what is touched: every conjunct of every
            mask is one of its extents.
        promises: what it takes the user's word for.
    """

    digits: tuple[Digit, ...]
    conditions: tuple[Condition, ...]
    divisions: tuple[Division, ...]
    start: Polynomial
    whole: bool
    promises: tuple[Promise, ...] = ()

    def distinct(self, launch: Launch) -> bool:
        spelled = (self.digits, *(promise.digits for promise in self.promises))
        return all(d.holds(launch) for d in self.divisions) and all(
            distinct(digits, launch) for digits in spelled
        )

    def covers(self, size: int, launch: Launch) -> bool:
        """Whether the elements 0 … size − 1 are all touched, and no others."""
        return (
            self.whole
            and at_launch(self.start, launch) == 0
            and all(division.even(launch) for division in self.divisions)
            and not self.promises  # which say nothing of the integers there are
            and gapless(self.digits, launch) == size
        )


@dataclass(frozen=True, slots=True)
class Spread:
    digits: tuple[Digit, ...]
    lowest: Polynomial


def ways_to_read(
    sites: Sequence[Site], weights: Weights, spread: Spread, unguarded: bool
) -> Iterator[Reading]:
    """With or without each bound that all sites share."""
    extents, places = _Extents(sites), indices(weights)
    if places is None:
        return
    numbers = [weights, *places.values()]
    usable = [
        b
        for b in extents.bounds
        if b.high.known_at_launch and any(_belongs(b, of) for of in numbers)
    ][:MAX_BOUNDS]
    told = set[Symbol]().union(*numbers)
    dividends = [of for of, _ in divided(told)]
    divisions = _divisions(told, extents)
    if divisions is None:
        return
    tested = [
        b for b in extents.bounds if b.low in dividends and b.high.known_at_launch
    ]
    conjuncts = [b for site in sites for b in site.bounds]
    for count in range(len(usable), -1, -1):
        for chosen in itertools.combinations(usable, count):
            best = _order(weights, extents, chosen, spread.digits)
            orders = [_order(of, extents, chosen) for of in places.values()]
            found = [order for order in orders if order is not None]
            if best is None or len(found) < len(places):
                continue
            used = [*chosen, *tested]
            whole = unguarded and all(b in used for b in conjuncts)
            start = spread.lowest + _reflected(weights, extents)
            conditions = [*best[0], *_divisible(divisions)]
            conditions += [c for order in found for c in order[0]]
            promises = tuple(
                Promise(symbol.value.name, digits)
                for symbol, (_, digits) in zip(places, found, strict=True)
                if symbol.value is not None
            )
            conditions = tuple(dict.fromkeys(conditions))
            yield Reading(best[1], conditions, divisions, start, whole, promises)


def indices(weights: Iterable[Symbol]) -> dict[Symbol, Weights] | None:
    """The loaded indices in an address, and how the place of each is made up.

    None if a place is not linear.
    """
    found: dict[Symbol, Weights] = {}
    for symbol in weights:
        if symbol.kind == "unique" and symbol.of is not None:
            parts = symbol.of.linear_in(symbol.of.varying)
            if parts is None:
                return None
            found[symbol] = parts[0]
    return found


def _belongs(bound: Bound, weights: Weights) -> bool:
    """Whether it bounds what a number is made of, and is no index but a position."""
    return all(s in weights and s.kind != "unique" for s in bound.low.varying)


def _order(
    weights: Weights,
    extents: _Extents,
    bounds: Iterable[Bound],
    more: Sequence[Digit] = (),
) -> tuple[list[Condition], tuple[Digit, ...]] | None:
    """The best order of the digits of one number, read with those bounds it has."""
    digits = _digits(weights, extents, [b for b in bounds if _belongs(b, weights)])
    if digits is None or len(digits) + len(more) > MAX_DIGITS:
        return None
    return best_order([*digits, *more])


def _divisible(divisions: Iterable[Division]) -> Iterator[Condition]:
    for by in dict.fromkeys(d.by for d in divisions if d.by.number is None):
        yield Condition(by, ONE)


class _Extents:
    """How many values varying symbols take: each one's are 0 … that − 1."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.shape = sites[0].shape
        self.bounds = [
            b for b in sites[0].bounds
            if b is not None and all(b in site.bounds for site in sites)
        ]  # fmt: skip

    def of(self, symbol: Symbol) -> Polynomial:
        if symbol.kind == "program":
            return Polynomial.symbol(Symbol("grid", symbol.axis))
        if symbol.kind == "lane":
            return Polynomial.constant(self.shape[symbol.axis])
        if symbol.kind == "turn" and symbol.by is not None:
            return symbol.by
        if symbol.kind == "unique":
            return FAR
        assert symbol.of is not None and symbol.by is not None
        if symbol.kind == "remainder":
            return symbol.by
        up = self.bounded(symbol.of) + symbol.by - ONE
        return Polynomial.symbol(Symbol("quotient", of=up, by=symbol.by))

    def natural(self, polynomial: Polynomial) -> Polynomial:
        """One more than its highest value, if no coefficient of it is negative."""
        parts = polynomial.linear_in(polynomial.varying)
        assert parts is not None
        total = parts[1] + ONE
        for symbol, weight in parts[0].items():
            total += weight * (self.of(symbol) - ONE)
        return total

    def bounded(self, polynomial: Polynomial) -> Polynomial:
        """The same, or what a mask says of it."""
        for bound in self.bounds:
            if bound.low == polynomial and bound.high.known_at_launch:
                return bound.high
        return self.natural(polynomial)


def _digits(
    weights: Weights, extents: _Extents, bounds: Sequence[Bound]
) -> list[Digit] | None:
    left = dict(weights)
    digits: list[Digit] = []
    for bound in bounds:
        digit = _bounded(left, extents, bound)
        if digit is None:
            return None
        digits.append(digit)
    for symbol, coefficient in left.items():
        if not coefficient.known_at_launch:
            return None
        digits.append(_natural(symbol, coefficient, extents))
    return digits


def _natural(symbol: Symbol, coefficient: Polynomial, extents: _Extents) -> Digit:
    """A digit that runs over all its values; reflected if it seems to run down."""
    extent = extents.of(symbol)
    coefficient = -coefficient if _runs_down(coefficient) else coefficient
    return Digit(coefficient, extent, extent)


def _runs_down(coefficient: Polynomial) -> bool:
    """Whether a coefficient is negative, if strides and sizes are positive."""
    numbers = coefficient.terms.values()
    return bool(numbers) and all(number < 0 for number in numbers)


def _reflected(weights: Weights, extents: _Extents) -> Polynomial:
    """How far the lowest address lies below the start, by digits that run down."""
    total = ZERO
    for symbol, coefficient in weights.items():
        if _runs_down(coefficient):
            total += coefficient * (extents.of(symbol) - ONE)
    return total


def _bounded(left: Weights, extents: _Extents, bound: Bound) -> Digit | None:
    """The digit whose index is `bound.low`; takes its symbols out of `left`."""
    inner = bound.low.linear_in(bound.low.varying)
    if inner is None or not inner[0] or not inner[1].known_at_launch:
        return None
    weights, start = inner
    numbers = [w.number for w in weights.values()]
    if not all(s in left for s in weights) or any(n is None or n <= 0 for n in numbers):
        return None
    unit = next((s for s, w in weights.items() if w == ONE), None)
    if unit is None or not left[unit].known_at_launch:
        return None
    outer = left[unit]
    if any(left[s] != w * outer for s, w in weights.items()):
        return None
    found = best_order([_natural(s, w, extents) for s, w in weights.items()])
    if found is None or found[0]:
        return None
    for symbol in weights:
        del left[symbol]
    extent = bound.high - start
    if len(found[1]) == 1:
        return Digit(outer, extent, found[1][0].reach)
    return Digit(outer, extent, extent, found[1])


# -- quotients and remainders --


def divided(told: Iterable[Symbol]) -> list[tuple[Polynomial, Polynomial]]:
    """What is divided, and by what, where an address tells both digits apart.

    A dividend told apart may itself hold both digits of another one.
    """
    told = set(told)
    found: dict[tuple[Polynomial, Polynomial], None] = {}
    while True:
        new = {
            (s.of, s.by): None
            for s in sorted(told, key=str)
            if s.kind == "quotient" and s.of is not None and s.by is not None
            and (s.of, s.by) not in found
            and Symbol("remainder", of=s.of, by=s.by) in told
        }  # fmt: skip
        if not new:
            return list(found)
        found.update(new)
        for of, _ in new:
            told.update(of.varying)


def _divisions(
    told: Iterable[Symbol], extents: _Extents
) -> tuple[Division, ...] | None:
    """None if a division is in the way of reading the address."""
    dividends = divided(told)
    told = set(told).union(*(of.varying for of, _ in dividends))
    if any(s.of and s.by and (s.of, s.by) not in dividends for s in told):
        return None  # a quotient without its remainder: nothing says what it spans
    starts: list[tuple[Weights, Polynomial]] = []
    for of, _ in dividends:
        parts = of.linear_in(of.varying)
        if parts is None:
            return None
        starts.append(parts)
    found: list[Division] = []
    for (of, by), (inner, rest) in zip(dividends, starts, strict=True):
        digits = tuple(_natural(s, w, extents) for s, w in inner.items())
        floor = (*inner.values(), rest)
        extent, highest = extents.bounded(of), extents.natural(of) - ONE
        found.append(Division(of, by, extent, highest, floor, digits))
    return tuple(found)
