"""Whether each address is touched once over the whole grid.

An address is a sum of digits: coefficients times program ids, lanes, and quotients and
remainders of those. If the digits are told apart by the address, and they tell programs
and lanes apart, no two meet. What cannot be proved of symbolic coefficients becomes a
condition that is tested at launch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from undertow.analysis.addresses import backwards
from undertow.analysis.digits import Condition, Digit
from undertow.analysis.launch import Bound, Launch
from undertow.analysis.polynomials import ZERO, Polynomial, Symbol
from undertow.analysis.readings import (
    Reading,
    Site,
    Spread,
    Weights,
    divided,
    indices,
    ways_to_read,
)

__all__ = ["Condition", "Exclusive", "Reading", "Shared", "Site", "exclusive"]

MEETING = "several accesses may meet at one address"
UNPROVED = "the address was not proved to differ between lanes and programs"


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Each address is touched at most once, under conditions.

    Attributes:
        readings: the ways to read the address as digits, the likeliest one first.
        unread: grid axes that no program looks at, which must have extent 1.
    """

    readings: tuple[Reading, ...]
    unread: tuple[int, ...]

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What is left to test at launch, in the reading that leaves least."""
        return self.readings[0].conditions

    @property
    def promised(self) -> tuple[str, ...]:
        """The buffers of which the user promises that they hold no integer twice."""
        return tuple(dict.fromkeys(p.of for p in self.readings[0].promises))

    def holds(self, launch: Launch) -> bool:
        """Whether it is so in this launch, by whichever reading its numbers allow."""
        if any(launch[f"grid{axis}"] != 1 for axis in self.unread):
            return False
        return any(reading.distinct(launch) for reading in self.readings)

    def covers(self, size: int, launch: Launch) -> bool:
        """Whether the elements 0 … size − 1 are all touched, and no others."""
        return self.holds(launch) and any(
            reading.distinct(launch) and reading.covers(size, launch)
            for reading in self.readings
        )


@dataclass(frozen=True, slots=True)
class Shared:
    """An address may be touched several times, and why.

    Attributes:
        reason: in words.
        axis: the grid axis whose programs all touch the same addresses, if that is why.
        certain: whether it is so in every launch.
    """

    reason: str
    axis: int | None = None
    certain: bool = False


def exclusive(
    sites: Sequence[Site], axes: Iterable[int], *, guarded: bool = False
) -> Exclusive | Shared:
    """Whether `sites`, all in one buffer, touch each address at most once.

    Args:
        sites: the accesses; each executes in every program.
        axes: the grid axes whose program id the kernel reads. An axis it does not read
            must have extent 1, which becomes a condition.
        guarded: whether some of them execute under a branch.
    """
    axes = sorted(set(axes))
    opaque = _opaque(sites)
    if opaque is not None:
        return opaque
    parts = [site.address.linear_in(site.address.varying) for site in sites]
    linear = [part for part in parts if part is not None]
    if len(linear) < len(parts):
        return Shared("the address is not linear in program ids and lanes")
    weights = linear[0][0]
    spread = _spread([start for _, start in linear])
    alike = all(s.shape == sites[0].shape for s in sites)
    if spread is None or not alike or any(other != weights for other, _ in linear):
        return Shared(MEETING)
    missing = _missing(sites[0], axes, weights)
    if missing is not None:
        return missing
    readings = list(ways_to_read(sites, weights, spread, not guarded))
    if not readings:
        return Shared(UNPROVED if len(sites) == 1 else MEETING)
    readings.sort(key=lambda r: (len(r.conditions), not r.whole))
    unread = tuple(axis for axis in range(3) if axis not in axes)
    return Exclusive(tuple(readings), unread)


def _opaque(sites: Sequence[Site]) -> Shared | None:
    for site in sites:
        for symbol in sorted(site.address.symbols, key=str):
            if symbol.kind == "opaque":
                return Shared(
                    f"the address depends on `{symbol}`, a value of each program"
                )
            guard = (Bound(*pair) for pair in symbol.guard)
            if any(bound not in site.bounds for bound in guard):
                return Shared(
                    f"`{symbol}` is in the address also where it was not loaded"
                )
    return None


def _missing(site: Site, axes: Sequence[int], weights: Weights) -> Shared | None:
    """A program axis or lane axis that the address does not tell apart."""
    places = indices(weights)
    told = set(weights).union(*(places or {}).values())
    for of, _ in divided(told):
        told |= of.symbols
    for axis in axes:
        program = Symbol("program", axis)
        if program not in told and any(_within(s, program) for s in told):
            return Shared(f"only a digit of program axis {axis} is in the address")
        if program not in told:
            return Shared(f"shared along program axis {axis}", axis=axis)
    for turn in site.turns:
        if turn is None:
            return Shared("how often its loop turns is not known at launch")
        if turn not in told and backwards(turn) not in told:
            return Shared(f"every turn of the loop over `{turn}` has the same address")
    for axis, extent in enumerate(site.shape):
        if extent > 1 and Symbol("lane", axis) not in told:
            return Shared(
                f"every lane along axis {axis} has the same address", certain=True
            )
    return None


def _within(symbol: Symbol, sought: Symbol) -> bool:
    """Whether a symbol is a quotient or remainder of what `sought` is part of."""
    inner = symbol.of.symbols if symbol.of is not None else ()
    return any(s == sought or _within(s, sought) for s in inner)


# -- several sites: equal but for where they start --


def _spread(starts: Sequence[Polynomial]) -> Spread | None:
    """The starts of several accesses as one digit: 0, 1, 2, 3 or 0, half."""
    first = starts[0]
    if len(starts) == 1:
        return Spread((), first)
    deltas = [s - first for s in starts]
    unit = _unit(deltas)
    if unit is None:
        return None
    multiples = [_multiple(d, unit) for d in deltas]
    counts = [m for m in multiples if m is not None]
    if len(set(counts)) != len(deltas):
        return None
    extent = Polynomial.constant(max(counts) - min(counts) + 1)
    dense = extent.number == len(counts)
    reach = extent if dense else ZERO
    lowest = first + Polynomial.constant(min(counts)) * unit
    return Spread((Digit(unit, extent, reach),), lowest)


def _unit(deltas: Sequence[Polynomial]) -> Polynomial | None:
    """What all of `deltas` may be multiples of."""
    unit = next((d for d in deltas if d.terms), None)
    if unit is None:
        return None
    if unit.number is not None:
        numbers = [d.number for d in deltas if d.number is not None]
        return Polynomial.constant(math.gcd(*numbers))
    return -unit if next(iter(unit.terms.values())) < 0 else unit


def _multiple(polynomial: Polynomial, unit: Polynomial) -> int | None:
    """The integer m with polynomial = m · unit, or None."""
    if not polynomial.terms:
        return 0
    monomial, coefficient = next(iter(polynomial.terms.items()))
    divisor = unit.terms.get(monomial)
    if divisor is None or coefficient % divisor:
        return None
    m = coefficient // divisor
    return m if polynomial == Polynomial.constant(m) * unit else None
