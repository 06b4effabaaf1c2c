"""What a kernel does with its buffers, and what of it cannot be differentiated."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NoReturn

from undertow.analysis.addresses import Addresses
from undertow.analysis.exclusive import Exclusive, Shared
from undertow.analysis.launch import uniform
from undertow.errors import UnsupportedError
from undertow.ir import Access, Block, Kernel, Op, PointerType, Value, walk
from undertow.transform.fold import constant
from undertow.transform.place import Path, Placed, apart, find, inexact, visit


@dataclass(frozen=True, slots=True)
class Roles:
    """What a kernel does with each of its pointers, by parameter name.

    Attributes:
        loaded: those that it reads.
        stored: those that it writes, by stores or by atomic additions.
        added: those of them that it adds to.
    """

    loaded: frozenset[str]
    stored: frozenset[str]
    added: frozenset[str] = frozenset()

    @property
    def inputs(self) -> frozenset[str]:
        return self.loaded - self.stored

    @property
    def outputs(self) -> frozenset[str]:
        return self.stored

    @property
    def in_place(self) -> frozenset[str]:
        return self.loaded & self.stored


def roles(kernel: Kernel) -> Roles:
    """Reads the roles of the pointers off the memory ops."""
    found: dict[str, set[str]] = {"load": set(), "store": set(), "atomic_add": set()}
    for op in walk(kernel.body):
        if op.opcode in found:
            found[op.opcode].add(op.operands[0].name)
    loaded, stored, added = map(frozenset, found.values())
    return Roles(loaded, stored | added, added)


@dataclass(frozen=True, slots=True)
class OutputStores:
    """Whether the stores to an output are proved to write each element once.

    Attributes:
        of: the output's parameter.
        finding: what was proved; a store that a later one writes over is left out.
        guarded: a mask or branch that the analysis cannot read may keep programs apart.
        several: the gradient is right only if the finding holds, since stores of one
            program that met would each pass the cotangent on.
    """

    of: str
    finding: Exclusive | Shared
    guarded: bool
    several: bool = False


def output_stores(
    forward: Kernel,
    targets: Iterable[Value],
    axes: Collection[int],
    followed: bool,
    unique: Collection[str] = (),
) -> tuple[OutputStores, ...]:
    """What is known of the stores to each of `targets` that has any.

    Raises:
        UnsupportedError: several stores of one program may meet, which one is the last
            is not known, and they are not `followed` in each launch.
    """
    addresses = Addresses(unique)
    found: list[OutputStores] = []
    for target in targets:
        ops = last_stores(forward, target)
        if not ops:  # only added to, where any number of additions may meet
            continue
        finding = find(addresses, ops, axes)
        several = not _one_at_a_time(ops)
        if several and isinstance(finding, Shared) and not followed:
            raise UnsupportedError(
                f"`{target.name}` is stored to several times, perhaps at one address",
                loc=ops[-1][0].loc,
                kernel=forward.name,
                why="only the last value stored has a gradient; " + finding.reason,
                hint="store to each element once",
            )
        unread = any(
            None in (*addresses.bounds(op), *inexact(addresses, path))
            for op, path in ops
        )
        guarded = unread or any(o.opcode == "if" for _, path in ops for o, _ in path)
        found.append(OutputStores(target.name, finding, guarded, several))
    return tuple(found)


def last_stores(forward: Kernel, target: Value) -> list[Placed]:
    """The stores to `target` but for those that a later one surely writes over.

    It does so lane by lane at the same offsets, whenever the earlier one executes; the
    sweep then gives the earlier one's lanes no cotangent.
    """
    kept: list[Placed] = []
    later: dict[tuple[tuple[Value, ...], tuple[int, ...]], list[Path]] = {}
    for op, path in reversed(list(visit(forward.body))):
        if op.opcode != "store" or op.operands[0] is not target:
            continue
        access = Access.of(op)
        assert access.value is not None
        paths = later.setdefault((access.offsets, access.value.shape), [])
        if not any(path[: len(known)] == known for known in paths):
            kept.append((op, path))
        paths.append(path)
    return kept[::-1]


def _one_at_a_time(ops: list[Placed]) -> bool:
    """Whether no program executes two of `ops`, or one of them twice."""
    if any(o.is_loop for _, path in ops for o, _ in path):
        return False
    return all(apart(a, b) for i, (_, a) in enumerate(ops) for _, b in ops[i + 1 :])


# -- refusals --


def refuse_no_indices(forward: Kernel, unique: Collection[str]) -> None:
    """Refuses a promise on what is no buffer of integers that is only loaded."""
    known = indices(forward)
    for name in unique:
        if name not in known:
            listed = ", ".join(f"`{n}`" for n in known) or "there is none"
            raise UnsupportedError(
                f"`{name}` of `unique` is no pointer to integers that are only loaded",
                kernel=forward.name,
                hint=f"these are: {listed}" if known else listed,
            )


def indices(kernel: Kernel) -> tuple[str, ...]:
    """The pointers to integers that a kernel loads and does not store to."""
    inputs = roles(kernel).inputs
    return tuple(
        p.name
        for p in kernel.pointers
        if isinstance(p.type, PointerType)
        and p.type.element.is_int
        and p.name in inputs
    )


def _refuse_step(loop: Op) -> None:
    """Refuses a step that is not known at launch, where it is seen to be positive."""
    step = loop.operands[2]
    number = constant(step)
    if (number is not None and number < 1) or not uniform(step):
        raise UnsupportedError(
            "a loop's step is not known to be positive",
            loc=loop.loc,
            why="it depends on the program or on data",
            hint="make the step an argument or a constexpr",
        )


def _refuse_crossing(loop: Op) -> None:
    """Refuses a loop that may load in one turn what it stored in an earlier one."""
    ops = list(walk(loop.regions[0]))
    written = {op.operands[0]: op for op in ops if op.opcode == "store"}
    for op in ops:
        if op.opcode == "load" and op.operands[0] in written:
            line = written[op.operands[0]].loc.line
            raise UnsupportedError(
                f"`{op.operands[0].name}` is read and written in one loop",
                loc=op.loc,
                why=f"a later turn may read what line {line} wrote",
                hint="write to another tensor",
            )


def refuse_unordered(forward: Kernel) -> None:
    """Refuses loads of what the kernel itself has written, in whatever order.

    Of what it adds to atomically, loads and stores are refused wherever they stand:
    other programs' additions come before or after them.
    """
    placed = list(visit(forward.body))
    added = {op.operands[0]: op for op, _ in placed if op.opcode == "atomic_add"}
    for op, _ in placed:
        if op.opcode == "for":
            _refuse_step(op)
        if op.is_loop:
            _refuse_crossing(op)
    written: dict[Value, list[Placed]] = {}
    for op, path in placed:
        if op.opcode in ("load", "store") and op.operands[0] in added:
            _refuse_accumulated(op, added[op.operands[0]])
        if op.opcode == "store":
            written.setdefault(op.operands[0], []).append((op, path))
        elif op.opcode == "load":
            for earlier, other in written.get(op.operands[0], ()):
                if not apart(path, other):
                    _refuse_read_again(op, earlier)


def _refuse_read_again(op: Op, earlier: Op) -> NoReturn:
    raise UnsupportedError(
        f"`{op.operands[0].name}` is read after it was written",
        loc=op.loc,
        why=f"it was written on line {earlier.loc.line}",
        hint="keep the value in a variable, or use two launches",
    )


def _refuse_accumulated(op: Op, addition: Op) -> NoReturn:
    verb = "read" if op.opcode == "load" else "written"
    raise UnsupportedError(
        f"`{op.operands[0].name}` is {verb} and added to atomically in one kernel",
        loc=op.loc,
        why=f"line {addition.loc.line} adds to it, and which programs have done so by "
        "then is left open",
        hint="use two launches, or fill the buffer before the launch",
    )


def refuse_overwritten(body: Block, in_place: Collection[Value]) -> None:
    """Refuses a backward that reads what the forward has written over."""
    for op in walk(body):
        if op.opcode == "load" and op.operands[0] in in_place:
            raise UnsupportedError(
                f"`{op.operands[0].name}` is overwritten, and its old value is needed "
                "for the gradient",
                loc=op.loc,
                hint="write to another tensor",
            )
