"""One launch that is to be recorded, between the user's call and autograd."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from undertow.errors import LaunchError, UndertowError
from undertow.runtime.arguments import Grid, Key, Values, grid_extents
from undertow.runtime.geometry import aliases, near
from undertow.runtime.recording import Recording, record, refuse_memoryless
from undertow.runtime.specialisation import Specialisation

LAUNCH_OPTIONS = ("num_warps", "num_stages", "maxnreg")
"""Options of the forward's launch that its backward takes over."""


def _with_pairs(error: UndertowError, pairs: Mapping[str, str]) -> UndertowError:
    """An error about arguments that were made one, saying which ones."""
    same = copy.copy(error)
    same.why = (
        *error.why,
        *(f"`{a}` and `{b}` are the same memory in this launch"
          for b, a in pairs.items()),
    )  # fmt: skip
    return same


class Kernel(Protocol):
    """What executes the forward of a call."""

    def execute(self, call: Call) -> None: ...


class Call:
    """One launch with gradients; it does not outlive the launch.

    Attributes:
        kernel: what is launched.
        grid: as the user gave it.
        args: likewise.
        kwargs: likewise.
        specialisation: the kernel, with arguments made one that are one tensor.
        key: of the specialisation.
        values: every parameter's argument.
        extents: the grid as three numbers.
        options: launch options that the backward takes over.
        recording: how it is recorded.
        tensors: the arguments of `specialisation.tensors`.
        scalars: those of `specialisation.scalars`.
        swapped: fresh tensors that the kernel writes to, by the id of the user's.
        result: what Triton's launch returned.
    """

    __slots__ = (
        "args", "extents", "grid", "kernel", "key", "kwargs", "options", "recording",
        "result", "scalars", "specialisation", "swapped", "tensors", "values",
    )  # fmt: skip

    def __init__(
        self, kernel: Kernel, grid: Grid, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.kernel, self.grid, self.args, self.kwargs = kernel, grid, args, kwargs
        self.swapped: dict[int, Tensor] | None = None
        self.result: Any = None

    def bind(
        self,
        specialisation: Specialisation,
        key: Key,
        values: Values,
        keywords: dict[str, Any],
    ) -> None:
        """Binds it to a kernel.

        Finds how it is recorded, and makes arguments one that are one tensor.

        Args:
            specialisation: the kernel.
            key: of the specialisation.
            values: every parameter's argument.
            keywords: the keyword arguments, with what tuners and heuristics add.

        Raises:
            UndertowError: there is no gradient to be had.
        """
        self.specialisation, self.key, self.values = specialisation, key, values
        self.options = {n: keywords[n] for n in LAUNCH_OPTIONS if n in keywords}
        self.extents = grid_extents(self.grid, specialisation.names, values)
        recording = self._look_up()
        written = recording.written
        try:
            meet = near(self.tensors, recording.reach, written)
        except RuntimeError:
            refuse_memoryless(specialisation, self.tensors)
            raise
        if meet:
            refuse_memoryless(specialisation, self.tensors)  # their address is 0
            kernel, names = specialisation.forward.name, specialisation.tensors
            pairs = aliases(kernel, names, self.tensors, written)
            if pairs:
                try:
                    self.specialisation = specialisation.with_aliases(pairs)
                    self._look_up()
                except UndertowError as error:
                    raise _with_pairs(error, pairs) from None
        if self.recording.scattered:
            self.recording.check_data(self.tensors, self.scalars)

    def _look_up(self) -> Recording:
        spec = self.specialisation
        tensors = self.tensors = spec.take_tensors(self.values)
        scalars = self.scalars = spec.take_scalars(self.values)
        try:
            geometry = tuple(
                [(t.shape, t.stride(), t.requires_grad, t.is_neg()) for t in tensors]
            )
        except RuntimeError:
            refuse_memoryless(spec, tensors)
            raise
        key = (geometry, self.extents, spec.numbers(scalars))
        recording = spec.kept.get(key)
        if recording is None:
            recording = record(spec, tensors, scalars, self.extents)
            spec.keep((geometry, self.extents, spec.numbers(scalars)), recording)
        self.recording: Recording = recording
        return recording

    def settle(
        self,
        specialisation: Specialisation,
        key: Key,
        values: Values,
        keywords: dict[str, Any],
    ) -> None:
        """Follows a tuner's choice, made while the forward was launched.

        Raises:
            UndertowError: that configuration has no gradient, or another one.
        """
        if key == self.key:
            self.options = {n: keywords[n] for n in LAUNCH_OPTIONS if n in keywords}
            return
        before = self.recording
        self.bind(specialisation, key, values, keywords)
        same = self.recording.passed == before.passed
        if not same or self.recording.silent != before.silent:
            raise LaunchError(
                "autotune chose a configuration that reads or writes other arguments "
                "than the others do",
                kernel=specialisation.forward.name,
            )
