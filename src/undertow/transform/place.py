"""Decides where each contribution to a gradient goes.

The reverse sweep adds every contribution atomically. Here contributions of one program to
one address are merged, and those that no other program or lane can meet become plain stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from undertow.analysis.addresses import Addresses
from undertow.analysis.exclusive import Exclusive, Shared, Site, exclusive
from undertow.analysis.polynomials import Polynomial
from undertow.errors import UnsupportedError
from undertow.ir import (
    OPS,
    Access,
    Block,
    Builder,
    DType,
    Kernel,
    Op,
    PointerType,
    Value,
)
from undertow.transform.fold import constant, fold
from undertow.transform.rebuild import Env, copy_op, remove_dead

Path = tuple[tuple[Op, int], ...]
"""The branches around an op: each an `if` and which of its regions."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the gradient of one input goes.

    Attributes:
        finding: `Exclusive` for plain stores, `Shared` for `atomic_add`.
        merged: how many contributions were merged into others.
    """

    finding: Exclusive | Shared
    merged: int = 0

    @property
    def plain(self) -> bool:
        return isinstance(self.finding, Exclusive)


def program_axes(kernel: Kernel) -> set[int]:
    """The grid axes whose program id `kernel` reads."""
    return {
        op.int_attr("axis") for op, _ in visit(kernel.body) if op.opcode == "program_id"
    }


def visit(block: Block, path: Path = ()) -> Iterator[tuple[Op, Path]]:
    """Every op with the branches around it."""
    for op in block.ops:
        yield op, path
        for index, region in enumerate(op.regions):
            yield from visit(region, (*path, (op, index)))


def apart(a: Path, b: Path) -> bool:
    """Whether two ops stand in different branches of one `if`, so that only one runs."""
    branches = dict(a)
    return any(op in branches and branches[op] != index for op, index in b)


def find(
    addresses: Addresses, ops: list[tuple[Op, Path]], axes: Collection[int]
) -> Exclusive | Shared:
    """Whether the accesses `ops`, all to one buffer, touch each address at most once."""
    sites: list[Site] = []
    paths: list[list[Path]] = []
    for op, path in ops:
        access = Access.of(op)
        shape = access.value.shape if access.value is not None else op.result.shape
        site = Site(addresses.access(op), shape, tuple(addresses.bounds(op)))
        for known, others in zip(sites, paths, strict=True):
            same = known.address == site.address and known.shape == shape
            if same and all(apart(path, other) for other in others):
                others.append(path)
                if known.bounds != site.bounds:  # the union of both: bound by neither
                    sites[sites.index(known)] = Site(known.address, shape, (None,))
                break
        else:
            sites.append(site)
            paths.append([path])
    finding = exclusive(sites, axes)
    if isinstance(finding, Exclusive) and any(path for _, path in ops):
        return Exclusive(finding.conditions, finding.choices, finding.lowest,
                         finding.unread, whole=False)  # fmt: skip
    return finding


@dataclass
class Placer:
    """Rewrites the body of a backward kernel for the placements found."""

    element: Mapping[Value, DType]
    """For each gradient pointer that gets plain stores, the dtype of its elements."""
    merges: Mapping[Op, Op]
    """Contributions to be added to a later one in the same block."""
    b: Builder = field(default_factory=lambda: Builder(fold))
    pending: dict[Op, list[Value]] = field(
        default_factory=lambda: dict[Op, list[Value]]()
    )

    def ops(self, ops: Iterable[Op], env: Env) -> None:
        for op in ops:
            self.b.loc = op.loc
            if op.regions:
                self.regions(op, env)
            elif op.opcode == "atomic_add" or (
                op.opcode == "store" and op.operands[0] in self.element
            ):
                self.contribution(op, env)
            else:
                copy_op(self.b, op, env)

    def regions(self, op: Op, env: Env) -> None:
        blocks: list[Block] = []
        for region in op.regions:
            with self.b.region() as block:
                self.ops(region.ops, dict(env))
            blocks.append(block)
        self.b.loc = op.loc
        types = [r.type for r in op.results]
        copies = self.b.emit(
            op.opcode, [env[v] for v in op.operands], types, dict(op.attrs), blocks
        )
        for result, copy in zip(op.results, copies, strict=True):
            copy.name, env[result] = result.name, copy

    def contribution(self, op: Op, env: Env) -> None:
        access = Access.of(op)
        assert access.value is not None
        value = env[access.value]
        for earlier in self.pending.pop(op, []):
            if constant(earlier) != 0.0:
                value = self.b.pointwise("add", earlier, value)
        later = self.merges.get(op)
        if later is not None:
            self.pending.setdefault(later, []).append(value)
            return
        element = self.element.get(access.base)
        value = value if element is None else self.b.cast(value, element)
        mask = access.mask and env[access.mask]
        target = Access(
            env[access.base], tuple(env[v] for v in access.offsets), value, mask, None
        )
        emit = self.b.atomic_add if element is None else self.b.store
        emit(target)


def merges(
    block: Block, addresses: Addresses, bases: Collection[Value]
) -> dict[Op, Op]:
    """For each contribution, the next one of the same block to the same lanes, if any.

    A `store` among them is the zero that an overwritten element starts from.
    """
    found: dict[Op, Op] = {}
    last: dict[tuple[Value, Polynomial, Value | None, tuple[int, ...]], Op] = {}
    for op in block.ops:
        for region in op.regions:
            found.update(merges(region, addresses, bases))
        if op.opcode not in ("atomic_add", "store") or op.operands[0] not in bases:
            continue
        access = Access.of(op)
        assert access.value is not None
        key = (access.base, addresses.access(op), access.mask, access.value.shape)
        if key in last:
            found[last[key]] = op
        last[key] = op
    return found


def place(
    body: Block,
    gradients: Mapping[Value, DType],
    axes: Collection[int],
    *,
    in_place: Collection[Value] = (),
    atomic: Collection[Value] = (),
) -> tuple[Block, dict[Value, Value], dict[Value, Placement]]:
    """Places the contributions to each gradient.

    Args:
        body: body of the backward kernel as `reverse` builds it; it is used up.
        gradients: the gradient pointers, and the dtype of the inputs they belong to.
        axes: the grid axes whose program id the forward reads.
        in_place: gradient pointers of buffers that the forward overwrites.
        atomic: gradient pointers whose condition for plain stores failed at launch.

    Returns:
        The new body, for each gradient pointer the one that replaces it, and its placement.

    Raises:
        UnsupportedError: an overwritten buffer whose gradient is not a plain store.
    """
    addresses = Addresses()
    merged = merges(body, addresses, gradients)
    placements: dict[Value, Placement] = {}
    for base in gradients:
        ops = [(op, path) for op, path in visit(body)
               if OPS[op.opcode].kind == "memory" and op.operands[0] is base
               and op not in merged]  # fmt: skip
        if not ops:
            continue
        finding = find(addresses, ops, axes)
        if base in atomic:
            finding = Shared("the strides of this launch let addresses meet")
        if base in in_place:
            _check_in_place(base, ops, merged, finding)
        count = sum(op.operands[0] is base for op in merged)
        placements[base] = Placement(finding, count)
    fresh = {base: Value(PointerType(gradients[base]), base.name)
             if base in placements and placements[base].plain else base
             for base in gradients}  # fmt: skip
    element = {base: gradients[base] for base, new in fresh.items() if new is not base}
    placer = Placer(element, merged)
    env: Env = {v: v for op, _ in visit(body) for v in op.operands if v.op is None}
    env.update(fresh)
    placer.ops(body.ops, env)
    return remove_dead(placer.b.block), fresh, placements


def _check_in_place(
    base: Value,
    ops: list[tuple[Op, Path]],
    merged: Mapping[Op, Op],
    finding: Exclusive | Shared,
) -> None:
    """Every element read must be one the same lane overwrites, and no one else touches it."""
    starts = {op for op in merged if op.opcode == "store"}
    ends = {later for op, later in merged.items() if op in starts}
    alone = [op for op, _ in ops if op.opcode == "atomic_add" and op not in ends]
    name = base.name.removeprefix("d_")
    if alone or isinstance(finding, Shared):
        reason = "it reads elements it does not overwrite" if alone else ""
        if isinstance(finding, Shared):
            reason = finding.reason
        raise UnsupportedError(
            f"`{name}` is read and overwritten, and its gradient is no plain store",
            loc=ops[0][0].loc,
            why=reason,
            hint="write to another tensor",
        )
