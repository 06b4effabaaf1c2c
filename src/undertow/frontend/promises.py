"""What a user says of a kernel from outside of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promises:
    """Names, as `undertow.differentiable` takes them.

    Attributes:
        unique: pointers that hold no integer twice.
        stop_gradient: variables of the kernel whose values have no derivative.
        zero: helpers, operations and pointers whose derivatives are zero.
    """

    unique: tuple[str, ...] = ()
    stop_gradient: tuple[str, ...] = ()
    zero: tuple[str, ...] = ()

    @staticmethod
    def of(
        unique: Collection[str] = (),
        stop_gradient: Collection[str] = (),
        zero: Collection[str] = (),
    ) -> Promises:
        """With each name once."""
        given = (unique, stop_gradient, zero)
        return Promises(*(tuple(dict.fromkeys(names)) for names in given))

    def __or__(self, other: Promises) -> Promises:
        return Promises.of(
            (*self.unique, *other.unique),
            (*self.stop_gradient, *other.stop_gradient),
            (*self.zero, *other.zero),
        )


NO_PROMISES = Promises()
