"""Loads, stores and atomic additions of all programs at once.

An access is checked before it is made, so torch never sees an index out of range: what
lies outside the tensor raises, or is written down and left out in a sanitized run.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from undertow.errors import LaunchError
from undertow.evaluate.dtypes import is_small_float, wrapped
from undertow.evaluate.launch import Buffer, Launch, Poison, coordinates
from undertow.evaluate.trace import Event, OutOfBounds, Site

_VERBS = {"load": "reads", "store": "writes", "atomic_add": "adds to"}


def address(offsets: list[Tensor], rank: int, device: torch.device) -> Tensor:
    """The sum of the offsets in 64 bits, as a tensor of programs and `rank` axes."""
    total: Tensor | None = None
    for offset in offsets:
        if offset.dim() == 1 and rank:
            offset = offset.view(-1, *(1,) * rank)
        total = offset.to(torch.int64) if total is None else total + offset
    if total is None:
        return torch.zeros((1,) * (rank + 1), dtype=torch.int64, device=device)
    return total


def load(
    launch: Launch,
    site: Site,
    offsets: Tensor,
    mask: Tensor | None,
    other: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """The elements at `offsets`; lanes that are off give `other`, or are undefined."""
    buffer = launch.buffers[site.param]
    on = _with_active(launch, mask, offsets.dim())
    index, on = _inside(launch, site, buffer, offsets, on)
    if launch.trace is not None:
        _record(launch, site, index, on)
        if mask is not None and other is None:
            launch.trace.undefined[site.number] = site
    if buffer.extent:
        found = _bits(buffer.flat).index_select(0, index.reshape(-1)).view(index.shape)
        found = found.view(buffer.flat.dtype).to(dtype)
    else:
        found = torch.zeros(index.shape, dtype=dtype, device=index.device)
    if on is None:
        return found
    if other is not None:
        return torch.where(on, found, other)
    return torch.where(on, found, _undefined(launch.poison, site, dtype))


def store(
    launch: Launch, site: Site, offsets: Tensor, value: Tensor, mask: Tensor | None
) -> None:
    """Writes `value`; where two lanes meet, one of them wins."""
    index, value, buffer = _targets(launch, site, offsets, value, mask, whole=False)
    _bits(buffer.flat).scatter_(0, index, _bits(value))


def atomic_add(
    launch: Launch, site: Site, offsets: Tensor, value: Tensor, mask: Tensor | None
) -> None:
    """Adds `value` in program order; half buffers are rounded once a chunk."""
    index, value, buffer = _targets(launch, site, offsets, value, mask, whole=True)
    target = buffer.flat
    if not is_small_float(target.dtype):
        target.index_add_(0, index, value)
        return
    places, slots = torch.unique(index, return_inverse=True)
    sums = target[places].to(torch.float32)
    target[places] = sums.index_add_(0, slots, value.to(torch.float32)).to(target.dtype)


def _bits(x: Tensor) -> Tensor:
    """`x`, or its bytes if it holds 8-bit floats, which few torch functions know."""
    return x.view(torch.int8) if x.dtype.itemsize == 1 else x


# -- which lanes take part -------------------------------------------------------------


def _with_active(launch: Launch, mask: Tensor | None, rank: int) -> Tensor | None:
    if launch.active is None:
        return mask
    active = launch.active.view(-1, *(1,) * (rank - 1))
    return active if mask is None else mask & active


def _inside(
    launch: Launch, site: Site, buffer: Buffer, offsets: Tensor, on: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """`offsets` with every lane inside the buffer, and the lanes that are on."""
    if _fits(offsets, buffer.extent):
        return offsets, on
    if on is not None:
        offsets = torch.where(on, offsets, 0)
        if _fits(offsets, buffer.extent):
            return offsets, on
    outside = (offsets < 0) | (offsets >= buffer.extent)
    outside = outside if on is None else outside & on
    if outside.any():
        _out_of_bounds(launch, site, buffer, offsets, outside)
    offsets = offsets.masked_fill(outside, 0)
    return offsets, ~outside if on is None else on & ~outside


def _fits(offsets: Tensor, extent: int) -> bool:
    low, high = offsets.aminmax()
    return int(low) >= 0 and int(high) < extent


def _targets(
    launch: Launch,
    site: Site,
    offsets: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    whole: bool,
) -> tuple[Tensor, Tensor, Buffer]:
    """Index and value vectors of the lanes that write.

    With `whole` every lane of every program counts, also where all hold the same; a
    store of the same value to the same place needs to be made only once.
    """
    buffer = launch.buffers[site.param]
    on = _with_active(launch, mask, value.dim())
    index, on = _inside(launch, site, buffer, offsets, on)
    if launch.trace is not None:
        _record(launch, site, index, on)
    lanes = torch.broadcast_shapes(
        index.shape, value.shape, on.shape if on is not None else ()
    )
    if whole:
        lanes = (launch.count, *site.shape)
    index, value = index.expand(lanes), value.expand(lanes)
    if on is None or on.all():  # the selection costs ten times what this test costs
        index, value = index.reshape(-1), value.reshape(-1)
    else:
        on = on.expand(lanes)
        index, value = index.masked_select(on), value.masked_select(on)
    return index, value.to(buffer.flat.dtype), buffer


def _undefined(poison: Poison | None, site: Site, dtype: torch.dtype) -> Tensor | float:
    if poison is None or poison.only not in (None, site.number):
        return 0
    if dtype == torch.bool:
        return True
    if dtype.is_floating_point:
        return poison.number
    return wrapped(poison.integer, dtype.itemsize * 8)


# -- reports ---------------------------------------------------------------------------


def _record(launch: Launch, site: Site, index: Tensor, on: Tensor | None) -> None:
    assert launch.trace is not None
    lanes = (launch.count, *site.shape)
    index = index.expand(lanes).reshape(launch.count, -1)
    if on is None:
        program, lane = torch.ones_like(index, dtype=torch.bool).nonzero(as_tuple=True)
    else:
        program, lane = on.expand(lanes).reshape(index.shape).nonzero(as_tuple=True)
    event = Event(site, index[program, lane], program + launch.start, lane)
    launch.trace.events.append(event)


def _out_of_bounds(
    launch: Launch, site: Site, buffer: Buffer, offsets: Tensor, outside: Tensor
) -> None:
    lanes = (launch.count, *site.shape)
    spread = outside.expand(lanes).reshape(launch.count, -1)
    program, lane = spread.nonzero()[0].tolist()
    offset = int(offsets.expand(lanes).reshape(launch.count, -1)[program, lane])
    program += launch.start
    if launch.trace is not None:
        found = OutOfBounds(
            site.param, site.action, site.loc, program, lane, offset, buffer.extent,
            int(spread.sum()),
        )  # fmt: skip
        before = launch.trace.out_of_bounds.get(site.number)
        if before is not None:  # of another turn or chunk
            found = replace(before, count=before.count + found.count)
        launch.trace.out_of_bounds[site.number] = found
        return
    raise LaunchError(
        f"`{launch.kernel.name}` {_VERBS[site.action]} `{site.param}` out of bounds: "
        f"offset {offset} of {buffer.extent} elements",
        loc=site.loc,
        kernel=launch.kernel.name,
        why=f"program {coordinates(program, launch.grid)}, lane {lane}",
        hint="mask the access, or pass a tensor that reaches this far",
    )
