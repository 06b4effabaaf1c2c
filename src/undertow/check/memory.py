"""Faults in how a kernel uses memory, in words."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.evaluate import OutOfBounds, Race, Report, Undefined
from undertow.ir import Loc

_VERBS = {"load": "reads", "store": "writes", "atomic_add": "adds to"}


def races(report: Report) -> list[str]:
    return [_race(r) for r in report.races]


def _race(race: Race) -> str:
    first, second = race.programs
    places = _lines(loc for loc in race.locs)
    where = f"offset {race.offset} of {race.param} ({places}; {_elements(race.count)})"
    if race.kind == "load":
        return f"program {second} reads {where} while program {first} writes it"
    if first == second:
        return f"two lanes of program {first} write {where}"
    return f"programs {first} and {second} both write {where}"


def out_of_bounds(report: Report) -> list[str]:
    return [_outside(o) for o in report.out_of_bounds]


def _outside(fault: OutOfBounds) -> str:
    return (
        f"program {fault.program} {_VERBS[fault.action]} {fault.param} at offset "
        f"{fault.offset} of {_elements(fault.extent)} ({_lines([fault.loc])}, lane "
        f"{fault.lane}; {fault.count} in all)"
    )


def unwritten(report: Report, names: Iterable[str]) -> list[str]:
    """Outputs of which elements are left as they were."""
    return [
        f"{_elements(report.unwritten[name])} of {name}"
        for name in names
        if report.unwritten.get(name)
    ]


def undefined(report: Report) -> tuple[list[str], list[str]]:
    """Loads with undefined lanes: those that change an output, and those contained."""
    leaking = [_named(u) for u in report.undefined if u.leaks]
    contained = [_named(u) for u in report.undefined if not u.leaks]
    return leaking, contained


def _named(found: Undefined) -> str:
    return f"{found.loc.name or found.param} ({_lines([found.loc])})"


def _lines(locs: Iterable[Loc]) -> str:
    lines = sorted({loc.line for loc in locs})
    return ("line " if len(lines) == 1 else "lines ") + " and ".join(map(str, lines))


def _elements(count: int) -> str:
    return f"{count} element" if count == 1 else f"{count} elements"
