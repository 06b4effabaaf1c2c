"""What a backward launch does, decided once for each geometry.

Everything here depends on sizes, strides, integer arguments and the grid, never on
data, so a training loop decides once and then looks the plan up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from undertow.analysis.ceiling import ceiling
from undertow.analysis.exclusive import Exclusive
from undertow.analysis.launch import Launch
from undertow.runtime.arguments import Pick, picker
from undertow.runtime.derivation import Derivation
from undertow.runtime.geometry import (
    Layout,
    is_dense,
    meets_itself,
    outputs_strides,
    own_strides,
)
from undertow.runtime.specialisation import TORCH, Specialisation, element
from undertow.transform.cotangent_layout import StridedCotangent
from undertow.transform.differentiate import Backward, Gradient
from undertow.transform.tapes import Tape

Start = str
"""``empty``: every element is written. ``zero``. ``cotangent``: of what it became."""


@dataclass(frozen=True, slots=True)
class CotangentPlan:
    """Where one cotangent goes.

    Attributes:
        index: its place among the outputs.
        strides: the output's, if it is first copied into them, else None.
    """

    index: int
    strides: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class GradientPlan:
    """How one gradient buffer starts, and what becomes of it.

    Attributes:
        slot: its place among the tensors that autograd sees.
        layout: of the input, and with the dtype its gradient has in the end.
        dtype: of the buffer.
        dense: whether the layout has no gaps, so that the buffer is an ordinary tensor.
        start: what stands in it before the launch.
        cotangent: the place of its cotangent among the outputs, if it is overwritten.
        expanded: whether elements of the input share memory.
    """

    slot: int
    layout: Layout
    dtype: torch.dtype
    dense: bool
    start: Start
    cotangent: int | None = None
    expanded: bool = False


@dataclass(frozen=True, slots=True)
class TapePlan:
    """A buffer for what a loop carries.

    Attributes:
        dtype: of its elements.
        numel: their number, or that for each turn if the turns are counted.
        counted: which of the counted loops it belongs to, if any.
    """

    dtype: torch.dtype
    numel: int
    counted: int | None = None

    def sized(self, turns: Sequence[int]) -> TapePlan:
        """The buffer for these numbers of turns of the counted loops."""
        if self.counted is None:
            return self
        return TapePlan(self.dtype, max(1, self.numel * turns[self.counted]))

    @property
    def bytes(self) -> int:
        return self.numel * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Plan:
    """A backward launch.

    Attributes:
        derivation: the kernel.
        cotangents: those it reads.
        gradients: the buffers it writes.
        zeros: slots, and layouts, of inputs that no output depends on.
        passed_on: slots of buffers that are only added to, and the places of their
            cotangents among the outputs.
        tapes: buffers that live as long as the launch.
        numbers: values of the cotangents' stride parameters, and of the loops' turns;
            those of the counted ones come last, and start as 0.
        take: takes the kernel's arguments out of (saved, cotangents, buffers, tapes,
            scalars, numbers).
        atomic: inputs whose gradient is summed in no fixed order.
        take_counted: takes the arguments of the kernel that counts turns out of
            (saved, scalars).
    """

    derivation: Derivation
    cotangents: tuple[CotangentPlan, ...]
    gradients: tuple[GradientPlan, ...]
    zeros: tuple[tuple[int, Layout], ...]
    passed_on: tuple[tuple[int, int], ...]
    tapes: tuple[TapePlan, ...]
    numbers: tuple[int, ...]
    take: Pick
    atomic: tuple[str, ...]
    take_counted: Pick | None


def settle(
    specialisation: Specialisation,
    wrt: frozenset[str],
    outputs: frozenset[str],
    launch: Launch,
    readable: frozenset[str],
) -> Derivation:
    """The backward whose plain stores are proved for this launch.

    It reads those outputs at the most that are `readable`.

    Raises:
        UnsupportedError: there is none.
    """
    derivation = specialisation.derivation(wrt, outputs)
    if not readable.issuperset(derivation.backward.read_back):
        derivation = specialisation.derivation(wrt, outputs, readable=readable)
    else:
        readable = specialisation.outputs
    atomic = frozenset(
        g.of
        for g in derivation.backward.gradients
        if isinstance(g.placement.finding, Exclusive)
        and not g.placement.finding.holds(launch)
    )
    if not atomic:
        return derivation
    return specialisation.derivation(wrt, outputs, atomic, readable)


def make_plan(
    specialisation: Specialisation,
    derivation: Derivation,
    layouts: Mapping[str, Layout],
    slots: Mapping[str, int],
    saved: Sequence[str],
    given: Mapping[str, tuple[int, ...]],
    launch: Launch,
) -> Plan:
    """Plans the backward of one launch.

    Args:
        specialisation: the forward.
        derivation: its backward, as `settle` gives it.
        layouts: of the forward's tensors.
        slots: places of the tensors that autograd sees.
        saved: names of the tensors that were saved.
        given: strides of the cotangents there are, by output.
        launch: integer arguments and grid.
    """
    backward, stored = derivation.backward, specialisation.stored
    cotangents: list[CotangentPlan] = []
    numbers: dict[str, int] = {}
    for ct in backward.cotangents:
        values, copied = _addressed(ct, layouts[ct.of], given[ct.of], launch)
        numbers.update(zip((s.name for s in ct.strides), values, strict=False))
        cotangents.append(CotangentPlan(stored.index(ct.of), copied))
    zeros = [*backward.zeros, *(n for n in backward.passed_on if n not in given)]
    tapes = [_tape(tape, backward, launch, numbers) for tape in backward.tapes]
    numbers |= dict.fromkeys(backward.counted, 0)
    pool = [
        *saved,
        *(ct.name for ct in backward.cotangents),
        *(g.name for g in backward.gradients),
        *(tape.pointer.name for tape in backward.tapes),
        *specialisation.scalars,
        *numbers,
    ]
    return Plan(
        derivation,
        tuple(cotangents),
        tuple(
            _gradient(g, layouts[g.of], slots[g.of], specialisation, given, launch)
            for g in backward.gradients
        ),
        tuple((slots[name], layouts[name]) for name in zeros),
        tuple((slots[n], stored.index(n)) for n in backward.passed_on if n in given),
        tuple(tapes),
        tuple(numbers.values()),
        picker([pool.index(p.name) for p in backward.kernel.params]),
        tuple(
            g.of
            for g in backward.gradients
            if g.of not in stored and not isinstance(g.placement.finding, Exclusive)
        ),
        _counted(backward, [*saved, *specialisation.scalars]),
    )


def _counted(backward: Backward, pool: Sequence[str]) -> Pick | None:
    if backward.counter is None:
        return None
    return picker([pool.index(p.name) for p in backward.counter.params[1:]])


def _tape(
    tape: Tape, backward: Backward, launch: Launch, numbers: dict[str, int]
) -> TapePlan:
    """The size of a tape; the number of turns joins the kernel's `numbers`."""
    programs = launch["grid0"] * launch["grid1"] * launch["grid2"]
    dtype = TORCH[element(tape.pointer).name]
    if tape.turns.name in backward.counted:
        loop = backward.counted.index(tape.turns.name)
        return TapePlan(dtype, programs * tape.size, loop)
    turns = max(1, ceiling(tape.trips, launch) or 0)
    numbers[tape.turns.name] = turns
    return TapePlan(dtype, max(1, programs * turns * tape.size))


def _addressed(
    ct: StridedCotangent, output: Layout, strides: tuple[int, ...], launch: Launch
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Values of the stride parameters, and the strides to copy the cotangent into."""
    values = own_strides(ct, output, strides, launch)
    if values is not None:
        return values, None
    return outputs_strides(ct, launch), output.stride


def _gradient(
    gradient: Gradient,
    layout: Layout,
    slot: int,
    specialisation: Specialisation,
    given: Mapping[str, tuple[int, ...]],
    launch: Launch,
) -> GradientPlan:
    dtype = TORCH[gradient.dtype.name]
    dense = is_dense(layout.size, layout.stride)
    if gradient.of in specialisation.stored:  # what stood there before the forward
        where = specialisation.stored.index(gradient.of)
        if gradient.of not in given:
            return GradientPlan(slot, layout, dtype, dense, "zero")
        return GradientPlan(slot, layout, dtype, dense, "cotangent", where)
    finding, length = gradient.placement.finding, layout.span
    covered = (
        isinstance(finding, Exclusive)
        and length == layout.numel
        and finding.covers(length, launch)
        and all(launch[f"grid{axis}"] > 0 for axis in range(3))
    )
    pairs = zip(layout.size, layout.stride, strict=True)
    expanded = any(n > 1 and step == 0 for n, step in pairs)
    assert not meets_itself(layout)
    start = "empty" if covered else "zero"
    return GradientPlan(slot, layout, dtype, dense, start, expanded=expanded)
