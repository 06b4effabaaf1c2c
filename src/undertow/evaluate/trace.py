"""What a sanitized run writes down, and what follows from it.

Every access is kept as three vectors (address, program, lane), so races are found by
sorting after the run and the memory it takes is that of the accesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from undertow.evaluate.reach import extent
from undertow.ir import Loc

Action = Literal["load", "store", "atomic_add"]
ACTIONS: dict[str, Action] = {
    "load": "load",
    "store": "store",
    "atomic_add": "atomic_add",
}


@dataclass(frozen=True, slots=True)
class Race:
    """Two programs, or two lanes of one store, that meet at an element.

    `kind` is "store" where both write and "load" where the second only reads; `count`
    is the number of elements at which the two ops do so, the first one is described.
    """

    param: str
    kind: Literal["store", "load"]
    offset: int
    programs: tuple[int, int]
    locs: tuple[Loc, Loc]
    count: int


@dataclass(frozen=True, slots=True)
class OutOfBounds:
    """An access outside its tensor: the first faulty lane, and how many there are."""

    param: str
    action: Action
    loc: Loc
    program: int
    lane: int
    offset: int
    extent: int
    count: int


@dataclass(frozen=True, slots=True)
class Undefined:
    """A load that leaves lanes undefined; `leaks` if their value changes an output."""

    param: str
    loc: Loc
    leaks: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What a sanitized run found; empty after any other run.

    `unwritten` counts, for each parameter stored to, the elements never written.
    """

    races: tuple[Race, ...] = ()
    out_of_bounds: tuple[OutOfBounds, ...] = ()
    unwritten: Mapping[str, int] = field(default_factory=lambda: dict[str, int]())
    undefined: tuple[Undefined, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing in it is a fault; an unwritten element alone is none."""
        return not (
            self.races or self.out_of_bounds or any(u.leaks for u in self.undefined)
        )


@dataclass(frozen=True, slots=True)
class Site:
    """A memory op: its number, what it does to which parameter, and where.

    `shape` is the shape of the access.
    """

    number: int
    action: Action
    param: str
    shape: tuple[int, ...]
    loc: Loc


@dataclass(frozen=True, slots=True)
class Event:
    """The lanes of one execution of a memory op that touched memory."""

    site: Site
    address: Tensor
    program: Tensor
    lane: Tensor


@dataclass(slots=True)
class Trace:
    """Collects events while programs run, and by the number of a site its faults."""

    events: list[Event] = field(default_factory=lambda: list[Event]())
    out_of_bounds: dict[int, OutOfBounds] = field(
        default_factory=lambda: dict[int, OutOfBounds]()
    )
    undefined: dict[int, Site] = field(default_factory=lambda: dict[int, Site]())


# -- conclusions -----------------------------------------------------------------------


def races(trace: Trace, tensors: Mapping[str, Tensor]) -> tuple[Race, ...]:
    """Races among the events, also between parameters that share a storage."""
    groups: dict[int, list[Event]] = {}
    for event in trace.events:
        storage = tensors[event.site.param].untyped_storage().data_ptr()
        groups.setdefault(storage, []).append(event)
    return tuple(race for events in groups.values() for race in _races(events, tensors))


def _races(events: list[Event], tensors: Mapping[str, Tensor]) -> Iterable[Race]:
    writes = [e for e in events if e.site.action != "load"]
    if not writes:
        return []
    table = _sorted(writes, tensors)
    address, program, number, event = table
    sites = {e.site.number: e.site for e in events}
    atomic = _atomic(number, sites)
    same = (address[1:] == address[:-1]) & ~(atomic[1:] & atomic[:-1])
    once = event[1:] == event[:-1]  # lanes of one execution, not of two turns of a loop
    meet = same & ((program[1:] != program[:-1]) | once)
    at = meet.nonzero().flatten()
    pairs = torch.stack([table[:, at], table[:, at + 1]])
    found = _described(pairs, "store", sites, tensors)
    loads = [e for e in events if e.site.action == "load"]
    return [*found, *_read_races(loads, table, sites, tensors)] if loads else found


def _read_races(
    loads: list[Event],
    writes: Tensor,
    sites: dict[int, Site],
    tensors: Mapping[str, Tensor],
) -> list[Race]:
    """Loads of an element whose first or last writer is another program."""
    reads = _sorted(loads, tensors)
    found: list[Tensor] = []
    last = writes.shape[1] - 1
    for right in (False, True):
        at = torch.searchsorted(
            writes[0].contiguous(), reads[0].contiguous(), right=right
        )
        at = (at - 1 if right else at).clamp(0, last)
        other = writes[:, at]
        meet = (other[0] == reads[0]) & (other[1] != reads[1])
        found.append(torch.stack([other[:, meet], reads[:, meet]]))
    first, second = found
    return _described(first if first.shape[2] else second, "load", sites, tensors)


def _sorted(events: list[Event], tensors: Mapping[str, Tensor]) -> Tensor:
    """Rows address (bytes in the storage), program, number, event; in that order."""
    rows: list[Tensor] = []
    for index, event in enumerate(events):
        tensor = tensors[event.site.param]
        address = (event.address + tensor.storage_offset()) * tensor.element_size()
        number = torch.full_like(address, event.site.number)
        position = torch.full_like(address, index)
        rows.append(torch.stack([address, event.program, number, position]))
    table = torch.cat(rows, dim=1)
    for row in (3, 2, 1, 0):  # a stable sort by the last key first is lexicographic
        table = table[:, table[row].argsort(stable=True)]
    return table


def _atomic(number: Tensor, sites: dict[int, Site]) -> Tensor:
    numbers = [n for n, site in sites.items() if site.action == "atomic_add"]
    return torch.isin(
        number, torch.tensor(numbers, dtype=number.dtype, device=number.device)
    )


def _described(
    pairs: Tensor,
    kind: Literal["store", "load"],
    sites: dict[int, Site],
    tensors: Mapping[str, Tensor],
) -> list[Race]:
    """One race for each pair of ops in `pairs` (2, 4, n), the lowest address first."""
    found: list[Race] = []
    kinds = torch.unique(pairs[:, 2], dim=1) if pairs.shape[2] else pairs[:, 2]
    for first, second in kinds.T.tolist():
        mine = pairs[:, :, (pairs[0, 2] == first) & (pairs[1, 2] == second)]
        site = sites[second]
        tensor = tensors[site.param]
        offset = int(mine[0, 0, 0]) // tensor.element_size() - int(
            tensor.storage_offset()
        )
        programs = (int(mine[0, 1, 0]), int(mine[1, 1, 0]))
        locs = (sites[first].loc, site.loc)
        count = int(torch.unique(mine[0, 0]).numel())
        found.append(Race(site.param, kind, offset, programs, locs, count))
    return found


def unwritten(
    trace: Trace, tensors: Mapping[str, Tensor], stored: Iterable[str]
) -> dict[str, int]:
    """For each parameter in `stored`, the elements of its tensor that nothing wrote."""
    counts: dict[str, int] = {}
    for name in sorted(set(stored)):
        tensor = tensors[name]
        reach = torch.zeros(extent(tensor), dtype=torch.bool, device=tensor.device)
        for event in trace.events:
            if event.site.param == name and event.site.action != "load":
                reach[event.address] = True
        view = reach.as_strided(tensor.shape, tensor.stride())
        counts[name] = int((~view).sum())
    return counts
