"""What the rows of the lift share: builder, values by name, and how to refuse."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from undertow.errors import CaptureError, UnsupportedError
from undertow.frontend.stops import Zeros
from undertow.frontend.ttir import MOp, MRegion, MType
from undertow.ir import DTYPES, Builder, DType, Loc, TensorType, Value

_FLOAT8 = {"f8E5M2": "f8e5m2", "f8E4M3FN": "f8e4m3"}


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer or a tensor of pointers: a parameter plus the sum of offsets.

    Offsets count elements; each is a scalar or has `shape`. `element` differs from the
    parameter's only for booleans, which Triton reads and writes as bytes.
    """

    base: Value
    element: str
    offsets: tuple[Value, ...] = ()
    shape: tuple[int, ...] = ()

    def with_offsets(
        self, offsets: tuple[Value, ...], shape: tuple[int, ...]
    ) -> Pointer:
        return Pointer(self.base, self.element, offsets, shape)


Operand: TypeAlias = Value | Pointer


class Lifter:
    """The state of one lift. Rows read operands with `values`, results go to `bind`."""

    bool_type = MType("i1")

    def __init__(self, kernel: str, zeros: Zeros) -> None:
        self.builder = Builder()
        self.kernel, self.zeros = kernel, zeros
        self.flags: dict[Value, Value] = {}
        """Integers that are 0 or 1, by the boolean that they were made from."""
        self.shuffled = False
        """Whether floats that were moved as bits are moved as floats now."""
        self.regions: list[MRegion] = []
        self._names: list[dict[str, Operand]] = [{}]

    # -- values by name --

    def define(self, name: str, operand: Operand) -> None:
        self._names[-1][name] = operand

    def operand(self, name: str, op: MOp) -> Operand:
        for scope in reversed(self._names):
            if name in scope:
                return scope[name]
        raise CaptureError(
            f"`{name}` is used by `{op.name}` but not defined", loc=op.loc
        )

    def operands(self, op: MOp) -> list[Operand]:
        return [self.operand(name, op) for name in op.operands]

    def value(self, name: str, op: MOp) -> Value:
        operand = self.operand(name, op)
        if isinstance(operand, Pointer):
            self.refuse(
                op,
                f"a pointer used as a value by `{op.name}` is not supported",
                hint="pointers may be offset, loaded from and stored to",
            )
        return operand

    def values(self, op: MOp) -> list[Value]:
        return [self.value(name, op) for name in op.operands]

    def bind(self, op: MOp, *results: Operand) -> None:
        if len(results) != len(op.results):
            raise CaptureError(f"`{op.name}` has {len(op.results)} results", loc=op.loc)
        for name, result in zip(op.results, results, strict=True):
            self.define(name, result)

    def stop(self, op: MOp) -> None:
        """Lets no derivative pass through the results of `op`."""
        for name in op.results:
            value = self.value(name, op)
            self.define(name, self.builder.pure("stop", (value,), value.type))

    @contextmanager
    def scope(self, region: MRegion | None = None) -> Generator[None]:
        """Names defined inside end with it; sibling regions use the same ones again."""
        self._names.append({})
        if region is not None:
            self.regions.append(region)
        try:
            yield
        finally:
            self._names.pop()
            if region is not None:
                self.regions.pop()

    def users(self, name: str) -> list[MOp]:
        """The ops that use `name`, defined in the innermost region."""
        return list(_users(self.regions[-1], name))

    # -- types --

    def dtype(self, op: MOp, element: str) -> DType:
        name = _FLOAT8.get(element, element)
        if name not in DTYPES:
            self.refuse(op, f"values of type `{element}` are not supported")
        return DTYPES[name]

    def tensor(self, op: MOp, type: MType) -> TensorType:
        if type.pointer:
            self.refuse(
                op,
                "a pointer that is not one of the kernel's arguments is not supported",
                why=f"`{op.name}` gives a pointer",
                hint="pass each pointer as an argument of its own",
            )
        return TensorType(self.dtype(op, type.element), type.shape)

    # -- refusing --

    def refuse(
        self, op: MOp | Loc, fact: str, *, why: str = "", hint: str = ""
    ) -> NoReturn:
        loc = op.loc if isinstance(op, MOp) else op
        reasons = (why,) if why else ()
        raise UnsupportedError(
            fact, loc=loc, kernel=self.kernel, why=reasons, hint=hint
        )


Row: TypeAlias = Callable[[Lifter, MOp], None]
"""Lifts one op."""


def _users(region: MRegion, name: str) -> Iterator[MOp]:
    for block in region.blocks:
        for op in block.ops:
            if name in op.operands or any(name in s.operands for s in op.successors):
                yield op
            for nested in op.regions:
                yield from _users(nested, name)
