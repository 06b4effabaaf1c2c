"""One kernel for one set of dtypes and constexprs: its IR, roles and backwards."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from undertow import evaluate
from undertow.analysis.launch import Launch
from undertow.errors import UnsupportedError
from undertow.ir import Builder, DType, Kernel, PointerType, Value
from undertow.runtime.arguments import picker
from undertow.runtime.derivation import Derivation
from undertow.transform.differentiate import differentiate, roles
from undertow.transform.rebuild import Env, rebuild, with_body
from undertow.transform.roles import indices

LOCK = threading.RLock()
"""Held while a kernel is captured or derived: Triton's front end is not for threads."""

EVALUATING = threading.Lock()

MAX_KEPT = 4096
"""Geometries kept in memory for a specialisation; training repeats a handful."""

TORCH: dict[str, torch.dtype] = {
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}


class Specialisation:
    """A captured kernel, with everything derived from it so far.

    Attributes:
        forward: the kernel as captured, or with aliased parameters made one.
        stored: the pointers it stores to, in its order.
        outputs: those of them that point to floats.
        changed: those of the outputs that it also reads or adds to.
        tensors: the pointers it stores to, then those that it only loads.
        scalars: its other parameters.
        take_tensors: takes those of `tensors` out of a launch's values.
        take_scalars: those of `scalars`.
        unique: those of its pointers that hold no integer twice, as the user promises.
        kept: what was decided for launches of one geometry.
    """

    def __init__(
        self, forward: Kernel, names: Sequence[str], unique: Collection[str] = ()
    ) -> None:
        found = roles(forward)
        self.unique = tuple(unique)
        pointers = [p.name for p in forward.pointers]
        self.forward = forward
        self.names = tuple(names)
        self.stored = tuple(n for n in pointers if n in found.stored)
        floats = [p.name for p in forward.pointers if element(p).is_float]
        self.outputs = frozenset(n for n in self.stored if n in floats)
        self.changed = self.outputs & (found.loaded | found.added)
        self.tensors = (*self.stored, *(n for n in pointers if n in found.inputs))
        self.scalars = tuple(p.name for p in forward.params if p.name not in pointers)
        for axis in range(3):
            if f"grid{axis}" in self.scalars:
                raise UnsupportedError(
                    f"a parameter is called `grid{axis}`, as the analysis calls the "
                    "number of programs",
                    kernel=forward.name,
                    hint="rename it",
                )
        self.take_tensors = picker([self.names.index(n) for n in self.tensors])
        self.take_stored = picker([self.names.index(n) for n in self.stored])
        self.take_scalars = picker([self.names.index(n) for n in self.scalars])
        self.kept: dict[object, Any] = {}
        self._derivations: dict[object, Derivation] = {}
        self._aliased: dict[object, Specialisation] = {}
        self._read: list[int] = []
        self._take_read = picker(())

    def derivation(
        self,
        wrt: frozenset[str],
        outputs: frozenset[str],
        atomic: frozenset[str] = frozenset(),
        readable: frozenset[str] | None = None,
    ) -> Derivation:
        """The backward for these inputs and outputs.

        It may read the outputs called `readable`, by default all of them.

        Raises:
            UnsupportedError: there is none.
        """
        readable = self.outputs if readable is None else readable
        key = wrt, outputs, atomic, readable
        found = self._derivations.get(key)
        if found is None:
            with LOCK:
                found = Derivation(
                    differentiate(
                        self.forward,
                        wrt,
                        outputs,
                        unique=self.unique,
                        atomic=atomic,
                        followed=True,
                        readable=readable,
                    )
                )
                self._derivations[key] = found
        return found

    def with_aliases(self, pairs: Mapping[str, str]) -> Specialisation:
        """The kernel in which the first parameter of each pair is the second one."""
        key = tuple(pairs.items())
        found = self._aliased.get(key)
        if found is None:
            merged = merge_parameters(self.forward, pairs)
            unique = {pairs.get(name, name) for name in self.unique}
            kept = sorted(unique.intersection(indices(merged)))
            found = self._aliased[key] = Specialisation(merged, self.names, kept)
        return found

    # -- decisions, by what they depend on --

    def numbers(self, scalars: Sequence[Any]) -> tuple[Any, ...]:
        """Those integer arguments that decisions made so far have looked at."""
        return self._take_read(scalars)

    def launch(self, scalars: Sequence[Any], grid: tuple[int, int, int]) -> Launch:
        """Integer arguments and grid; that a decision looked at one is recorded."""
        return _Numbers(self, scalars, grid)

    def read(self, name: str) -> None:
        """From now on what is kept depends on the scalar `name`."""
        index = self.scalars.index(name)
        if index not in self._read:
            self._read.append(index)
            self._take_read = picker(self._read)

    def keep(self, key: object, decision: Any) -> None:
        """Keeps a decision under a key that holds the `numbers` at its end."""
        if len(self.kept) >= MAX_KEPT:
            self.kept.clear()
        self.kept[key] = decision


class _Numbers(Mapping[str, int]):
    """The numbers of one launch by name.

    A seed or a step changes in every launch. Only what decisions look at becomes part
    of the key under which they are kept, or every launch would be decided anew.
    """

    def __init__(
        self, owner: Specialisation, scalars: Sequence[Any], grid: tuple[int, int, int]
    ) -> None:
        named = zip(owner.scalars, scalars, strict=True)
        self._owner = owner
        self._integers = {n: int(v) for n, v in named if isinstance(v, int)}
        self._grid = {f"grid{axis}": extent for axis, extent in enumerate(grid)}

    def __getitem__(self, name: str) -> int:
        if name in self._integers:
            self._owner.read(name)
            return self._integers[name]
        return self._grid[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._integers
        yield from self._grid

    def __len__(self) -> int:
        return len(self._integers) + len(self._grid)


def element(pointer: Value) -> DType:
    assert isinstance(pointer.type, PointerType)
    return pointer.type.element


def merge_parameters(kernel: Kernel, merge: Mapping[str, str]) -> Kernel:
    """`kernel` in which accesses to one parameter go to another one."""
    b = Builder()
    env: Env = {p: kernel.param(merge.get(p.name, p.name)) for p in kernel.params}
    rebuild(b, kernel.body.ops, env)
    return with_body(kernel, b.block)


def run_on_cpu(
    kernel: Kernel, values: Mapping[str, Any], grid: tuple[int, int, int]
) -> None:
    """Executes `kernel` with the evaluator, which is not for threads."""
    arguments = {p.name: values[p.name] for p in kernel.params}
    with EVALUATING:
        evaluate.run(kernel, arguments, grid)
