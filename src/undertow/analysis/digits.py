"""Numbers spelled by digits: the mixed-radix systems that addresses are read as.

A digit is an index that runs over 0 … extent − 1, times a coefficient. If digits can be
ordered so that each coefficient is larger than the span of all smaller ones, different
indices spell different numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from undertow.analysis.launch import Launch, at_launch
from undertow.analysis.polynomials import ONE, ZERO, Polynomial

FAR = Polynomial.constant(1 << 62)
"""The extent of an index of which no more is known than that it is a number."""


@dataclass(frozen=True, slots=True)
class Condition:
    """``large >= small``, tested at launch."""

    large: Polynomial
    small: Polynomial

    @staticmethod
    def of(large: Polynomial, small: Polynomial) -> Condition:
        """``large >= small``; what they have in common stands on neither side."""
        if not any(m in small.terms for m in large.terms if m):
            return Condition(large, small)
        rest = (large - small).terms
        more = Polynomial({m: c for m, c in rest.items() if c > 0})
        return Condition(more, more - Polynomial(rest))

    def holds(self, launch: Launch) -> bool:
        return at_launch(self.large, launch) >= at_launch(self.small, launch)

    def __str__(self) -> str:
        return f"{self.large} >= {self.small}"


@dataclass(frozen=True, slots=True)
class Digit:
    """An index that runs over 0 … extent − 1, and the coefficient it has in a number.

    `parts` are the digits inside an index that a mask bounds as a whole, such as
    ``pid * BLOCK + lane < n``; `reach` is the extent it would have without the mask.
    """

    coefficient: Polynomial
    extent: Polynomial
    reach: Polynomial
    parts: tuple[Digit, ...] = ()

    def values(self, launch: Launch) -> int | None:
        """How many values it takes, if they are 0 … that − 1; else None."""
        extent = at_launch(self.extent, launch)
        reach = at_launch(self.reach, launch)
        if self.parts:
            dense = gapless(self.parts, launch)
            if dense is None:
                return None
            reach = dense
        return max(0, min(extent, reach))


def distinct(digits: Iterable[Digit], launch: Launch) -> bool:
    """Whether different indices spell different numbers in this launch."""
    span = 0
    numbers = [  # an index that runs down tells as much apart as one that runs up
        (abs(at_launch(d.coefficient, launch)), at_launch(d.extent, launch))
        for d in digits
    ]
    if any(extent <= 0 for _, extent in numbers):
        return True
    for coefficient, extent in sorted(numbers):
        if extent == 1:
            continue
        if coefficient <= span:
            return False
        span += coefficient * (extent - 1)
    return True


def gapless(digits: Iterable[Digit], launch: Launch) -> int | None:
    """n if the digits spell each of 0 … n − 1 once in this launch, else None."""
    total = 1
    numbers = [(at_launch(d.coefficient, launch), d.values(launch)) for d in digits]
    if any(values == 0 for _, values in numbers):
        return 0
    for coefficient, values in sorted(numbers, key=lambda n: n[0]):
        if values == 1:
            continue
        if values is None or coefficient != total:
            return None
        total *= values
    return total


def best_order(
    digits: Sequence[Digit],
) -> tuple[list[Condition], tuple[Digit, ...]] | None:
    """The order, smallest digit first, with the fewest conditions left to launch.

    A digit that may be any number comes last; None if there are two.
    """
    best: tuple[list[Condition], tuple[Digit, ...]] | None = None
    last = tuple(digit for digit in digits if digit.extent == FAR)
    if len(last) > 1:
        return None
    for first in itertools.permutations(d for d in digits if d.extent != FAR):
        order = (*first, *last)
        needed = _conditions(order, len(best[0]) if best else len(order) + 1)
        if needed is not None:
            best = needed, order
            if not needed:
                break
    return best


def _conditions(order: Sequence[Digit], limit: int) -> list[Condition] | None:
    """What this order needs; None if it cannot hold, or needs `limit` or more."""
    needed: list[Condition] = []
    span = ZERO
    for digit in order:
        small = span + ONE
        margin = (digit.coefficient - small).number
        hopeless = margin is None and digit.coefficient == ONE  # only if all else is 1
        if hopeless or (margin is not None and margin < 0):
            return None
        if margin is None:
            condition = Condition.of(digit.coefficient, small)
            if condition not in needed:
                needed.append(condition)
            if len(needed) >= limit:
                return None
        span += digit.coefficient * (digit.extent - ONE)
    return needed
