"""Whether each address is touched once over the whole grid.

An address is a sum of digits: a coefficient times an index that runs over an extent. If the
digits can be ordered so that each coefficient is at least the span of all smaller ones plus
one, different indices give different addresses (a mixed-radix number system). What cannot
be proved of symbolic coefficients becomes a condition that is tested at launch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from undertow.analysis.addresses import Bound, Launch, at_launch
from undertow.analysis.polynomials import Polynomial, Symbol

ONE = Polynomial.constant(1)
MAX_DIGITS = 6
"""Orders are searched exhaustively; addresses of real kernels have two to four digits."""


@dataclass(frozen=True, slots=True)
class Condition:
    """``large >= small``, tested at launch."""

    large: Polynomial
    small: Polynomial

    def holds(self, launch: Launch) -> bool:
        return at_launch(self.large, launch) >= at_launch(self.small, launch)

    def __str__(self) -> str:
        return f"{self.large} >= {self.small}"


@dataclass(frozen=True, slots=True)
class Digit:
    """An index that runs over 0 … extent − 1, and the coefficient it has in an address.

    `parts` are the digits inside an index that a mask bounds as a whole, such as
    ``pid * BLOCK + lane < n``; `reach` is the extent it would have without the mask.
    """

    coefficient: Polynomial
    extent: Polynomial
    reach: Polynomial
    parts: tuple[Digit, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """One place that touches a buffer: its address, and what its mask says."""

    address: Polynomial
    shape: tuple[int, ...]
    bounds: tuple[Bound | None, ...]


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Each address is touched at most once, under conditions.

    Attributes:
        conditions: what is left to test at launch, in the order of digits that leaves least.
        choices: the ways to read the address as digits; the first one goes with `conditions`.
        lowest: the lowest address.
        unread: grid axes that no program looks at, which must have extent 1.
        whole: whether the first choice describes exactly what is touched: every conjunct of
            every mask is one of its extents.
    """

    conditions: tuple[Condition, ...]
    choices: tuple[tuple[Digit, ...], ...]
    lowest: Polynomial
    unread: tuple[int, ...]
    whole: bool

    def holds(self, launch: Launch) -> bool:
        """Whether it is so in this launch, by whichever order its numbers allow."""
        if any(launch[f"grid{axis}"] != 1 for axis in self.unread):
            return False
        return any(_distinct(digits, launch) for digits in self.choices)

    def covers(self, size: int, launch: Launch) -> bool:
        """Whether the elements 0 … size − 1 are all touched, and no others."""
        if not self.whole or at_launch(self.lowest, launch) != 0:
            return False
        touched, highest = 1, 0
        for digit in self.choices[0]:
            extent = _exact_extent(digit, launch)
            if extent is None:
                return False
            touched *= extent
            highest += at_launch(digit.coefficient, launch) * (extent - 1)
        return touched == size == highest + 1


def _distinct(digits: Iterable[Digit], launch: Launch) -> bool:
    """Whether the digits form a mixed-radix number with these coefficients and extents."""
    span = 0
    numbers = [
        (at_launch(d.coefficient, launch), at_launch(d.extent, launch)) for d in digits
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


@dataclass(frozen=True, slots=True)
class Shared:
    """An address may be touched several times, and why."""

    reason: str


def _exact_extent(digit: Digit, launch: Launch) -> int | None:
    """How many values the digit takes, if they are 0 … that − 1."""
    extent = at_launch(digit.extent, launch)
    if not digit.parts:
        return max(0, min(extent, at_launch(digit.reach, launch)))
    span = 0
    for part in digit.parts:  # sorted by coefficient: gapless if each one starts where
        if at_launch(part.coefficient, launch) != span + 1:  # the smaller ones end
            return None
        span += (span + 1) * (at_launch(part.reach, launch) - 1)
    return max(0, min(extent, span + 1))


def exclusive(sites: Sequence[Site], axes: Iterable[int]) -> Exclusive | Shared:
    """Whether `sites`, all in one buffer, touch each address at most once.

    Args:
        sites: the accesses; each executes in every program.
        axes: the grid axes whose program id the kernel reads. An axis it does not read must
            have extent 1, which becomes a condition.
    """
    axes = sorted(set(axes))
    shared = _not_linear(sites) or _not_used(sites[0], axes)
    if shared is not None:
        return shared
    site = sites[0]
    variables = _variables(site, axes)
    split = [s.address.linear_in(variables) for s in sites]
    starts = [rest for part in split if part is not None for _, rest in [part]]
    spread = _spread(starts)
    if spread is None:
        return Shared("several accesses may meet at one address")
    unread = tuple(axis for axis in range(3) if axis not in axes)
    found: list[tuple[list[Condition], tuple[Digit, ...], bool]] = []
    common = [b for b in site.bounds if all(b in s.bounds for s in sites)]
    for digits, used in _digit_choices(site, variables, common):
        best = _best_order([*digits, *spread.digits])
        if best is not None:
            whole = all(b is not None and b in used for s in sites for b in s.bounds)
            found.append((*best, whole))
    if not found:
        return Shared("the address was not proved to differ between lanes and programs")
    found.sort(key=lambda f: (len(f[0]), not f[2]))
    conditions, _, whole = found[0]
    choices = tuple(order for _, order, _ in found)
    return Exclusive(tuple(conditions), choices, spread.lowest, unread, whole)


def _not_linear(sites: Sequence[Site]) -> Shared | None:
    for site in sites:
        for symbol in sorted(site.address.symbols, key=str):
            if symbol.kind == "opaque":
                return Shared(
                    f"the address depends on `{symbol}`, a value of each program"
                )
        varying = [s for s in site.address.symbols if s.varies]
        if site.address.linear_in(varying) is None:
            return Shared("the address is not linear in program ids and lanes")
    return None


def _not_used(site: Site, axes: Sequence[int]) -> Shared | None:
    for axis in axes:
        if Symbol("program", axis) not in site.address.symbols:
            return Shared(f"shared along program axis {axis}")
    for axis, extent in enumerate(site.shape):
        if extent > 1 and Symbol("lane", axis) not in site.address.symbols:
            return Shared(f"every lane along axis {axis} has the same address")
    return None


def _variables(site: Site, axes: Sequence[int]) -> dict[Symbol, Polynomial]:
    """The symbols an address must tell apart, and their extents."""
    extents = {Symbol("program", a): Polynomial.symbol(Symbol("grid", a)) for a in axes}
    for axis, extent in enumerate(site.shape):
        extents[Symbol("lane", axis)] = Polynomial.constant(extent)
    return extents


# -- several sites: equal but for where they start ------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spread:
    digits: tuple[Digit, ...]
    lowest: Polynomial


def _spread(starts: Sequence[Polynomial]) -> _Spread | None:
    """The starts of several accesses as one digit: 0, 1, 2, 3 or 0, half."""
    first = starts[0]
    if len(starts) == 1:
        return _Spread((), first)
    deltas = [s - first for s in starts]
    unit = next((d for d in deltas if d.terms), None)
    if unit is None:
        return None
    if unit.number is not None:
        numbers = [d.number for d in deltas]
        if any(n is None for n in numbers):
            return None
        known = [n for n in numbers if n is not None]
        unit = Polynomial.constant(math.gcd(*known))
    elif next(iter(unit.terms.values())) < 0:
        unit = -unit
    multiples = [_multiple(d, unit) for d in deltas]
    if any(m is None for m in multiples):
        return None
    counts = [m for m in multiples if m is not None]
    if len(set(counts)) != len(counts):
        return None
    extent = Polynomial.constant(max(counts) - min(counts) + 1)
    lowest = first + Polynomial.constant(min(counts)) * unit
    dense = extent.number == len(counts)
    reach = extent if dense else Polynomial.constant(0)
    return _Spread((Digit(unit, extent, reach),), lowest)


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


# -- digits --------------------------------------------------------------------------------------


def _digit_choices(
    site: Site, variables: dict[Symbol, Polynomial], bounds: Sequence[Bound | None]
) -> Iterator[tuple[list[Digit], list[Bound]]]:
    """Ways to read the address as digits: with or without each bound of the mask."""
    parts = site.address.linear_in(variables)
    assert parts is not None
    coefficients, _ = parts
    usable = [b for b in bounds if b is not None and b.low.symbols & variables.keys()]
    for count in range(len(usable), -1, -1):
        for chosen in itertools.combinations(usable, count):
            digits = _digits(coefficients, variables, chosen)
            if digits is not None and len(digits) <= MAX_DIGITS:
                yield digits, list(chosen)


def _digits(
    coefficients: dict[Symbol, Polynomial],
    variables: dict[Symbol, Polynomial],
    bounds: Sequence[Bound],
) -> list[Digit] | None:
    left = dict(coefficients)
    digits: list[Digit] = []
    for bound in bounds:
        digit = _bounded(left, variables, bound)
        if digit is None:
            return None
        digits.append(digit)
    for symbol, coefficient in left.items():
        if not coefficient.known_at_launch:
            return None
        digits.append(_natural(coefficient, variables[symbol]))
    return digits


def _natural(coefficient: Polynomial, extent: Polynomial) -> Digit:
    """A digit that runs over all of a grid axis or lane axis; reflected if it runs down."""
    number = coefficient.number
    if number is not None and number < 0:
        coefficient = -coefficient
    return Digit(coefficient, extent, extent)


def _bounded(
    left: dict[Symbol, Polynomial], variables: dict[Symbol, Polynomial], bound: Bound
) -> Digit | None:
    """The digit whose index is `bound.low`; takes its variables out of `left`."""
    inner = bound.low.linear_in(variables)
    if inner is None or not bound.high.known_at_launch:
        return None
    weights, start = inner
    if not start.known_at_launch or not all(s in left for s in weights):
        return None
    unit = min(weights, key=lambda s: abs(weights[s].number or 1 << 62))
    if weights[unit] != ONE:
        return None
    outer = left[unit]
    if any(left[s] != weights[s] * outer for s in weights):
        return None
    if not all(w.known_at_launch for w in weights.values()):
        return None
    parts = [_natural(w, variables[s]) for s, w in weights.items()]
    found = _best_order(parts)
    if found is None or found[0] or any((w.number or 0) <= 0 for w in weights.values()):
        return None
    for symbol in weights:
        del left[symbol]
    extent = bound.high - start
    if len(parts) == 1:
        return Digit(outer, extent, parts[0].reach)
    return Digit(outer, extent, extent, found[1])


# -- orders -----------------------------------------------------------------------------------


def _best_order(
    digits: Sequence[Digit],
) -> tuple[list[Condition], tuple[Digit, ...]] | None:
    """The order, smallest digit first, with the fewest conditions left to launch."""
    best: tuple[list[Condition], tuple[Digit, ...]] | None = None
    for order in itertools.permutations(digits):
        needed = _conditions(order, len(best[0]) if best else 1 << 30)
        if needed is not None and (best is None or len(needed) < len(best[0])):
            best = needed, order
            if not needed:
                break
    return best


def _conditions(order: Sequence[Digit], limit: int) -> list[Condition] | None:
    """What must hold for this order; None if it cannot hold or needs `limit` or more."""
    needed: list[Condition] = []
    span = Polynomial({})
    for digit in order:
        small = span + ONE
        margin = (digit.coefficient - small).number
        if margin is not None and margin < 0:
            return None
        if margin is None:
            needed.append(Condition(digit.coefficient, small))
            if len(needed) >= limit:
                return None
        span += digit.coefficient * (digit.extent - ONE)
    return needed
