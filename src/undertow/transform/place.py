"""Decides where each contribution to a gradient goes.

The reverse sweep adds every contribution atomically. Here contributions of one program
to one address are merged, and those that no other program or lane can meet become plain
stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from undertow.analysis.addresses import Addresses
from undertow.analysis.exclusive import Exclusive, Shared, Site, exclusive
from undertow.analysis.launch import Bound
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
from undertow.transform.fold import constant
from undertow.transform.rebuild import Env, Handlers, copy

Path = tuple[tuple[Op, int], ...]
"""The regions around an op: each an `if` or `for`, and which of its regions."""

Placed = tuple[Op, Path]


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


def visit(block: Block, path: Path = ()) -> Iterator[Placed]:
    """Every op with the branches around it."""
    for op in block.ops:
        yield op, path
        for index, region in enumerate(op.regions):
            yield from visit(region, (*path, (op, index)))


def apart(a: Path, b: Path) -> bool:
    """Whether two ops stand in different branches of one `if`, so that one runs."""
    branches = dict(a)
    return any(op in branches and branches[op] != index for op, index in b)


def find(
    addresses: Addresses, ops: list[Placed], axes: Collection[int]
) -> Exclusive | Shared:
    """Whether the accesses `ops`, in one buffer, touch each address at most once."""
    sites: list[Site] = []
    paths: list[list[Path]] = []
    alike: dict[object, list[int]] = {}
    for op, path in ops:
        access = Access.of(op)
        shape = access.value.shape if access.value is not None else op.result.shape
        turns = tuple(addresses.turn(o) for o, _ in path if o.is_loop)
        address = addresses.access(op)
        bounds = (
            *addresses.bounds(op),
            *inexact(addresses, path),
            *_taken(addresses, path),
        )
        site = Site(address, shape, bounds, turns)
        places = alike.setdefault((address, shape, turns), [])
        for index in places:
            known = sites[index]
            if all(apart(path, other) for other in paths[index]):
                paths[index].append(path)
                if known.bounds != site.bounds:  # the union of both
                    both = (b for b in known.bounds if b in site.bounds)
                    sites[index] = Site(address, shape, (*both, None), turns)
                break
        else:
            places.append(len(sites))
            sites.append(site)
            paths.append([path])
    guarded = any(o.opcode == "if" for _, path in ops for o, _ in path)
    return exclusive(sites, axes, guarded=guarded)


def _taken(addresses: Addresses, path: Path) -> list[Bound]:
    """What is known to hold where an op executes, from the branches around it."""
    branches = ((op, index) for op, index in path if op.opcode == "if")
    found = (b for op, index in branches for b in addresses.taken(op, index))
    return [bound for bound in found if bound is not None]


def inexact(addresses: Addresses, path: Path) -> list[None]:
    """A conjunct that says nothing for each loop that may end early in a program."""
    loops = (op for op, _ in path if op.opcode == "for")
    return [None for loop in loops if not addresses.exact(loop)]


# -- what was decided --


@dataclass
class Placing:
    """The placements found, and the rewriting they ask for.

    Attributes:
        placements: of each gradient pointer that anything is added to.
        fresh: for each gradient pointer the one that replaces it.
        element: for each gradient pointer with plain stores, its elements' dtype.
        merged: contributions to be added to a later one in the same block.
    """

    placements: Mapping[Value, Placement]
    fresh: Mapping[Value, Value]
    element: Mapping[Value, DType]
    merged: Mapping[Op, Op]

    def handlers(self, b: Builder) -> Handlers:
        """What `rebuild` does with the contributions."""
        pending: dict[Op, list[Value]] = {}

        def contribution(op: Op, env: Env) -> None:
            access = Access.of(op)
            assert access.value is not None
            value = env[access.value]
            for earlier in pending.pop(op, []):
                if constant(earlier) != 0.0:
                    value = b.pointwise("add", earlier, value)
            later = self.merged.get(op)
            if later is None:
                self._write(b, access, value, env)
            else:
                pending.setdefault(later, []).append(value)

        def start(op: Op, env: Env) -> None:
            """The zero that an overwritten element's gradient starts from."""
            if op.operands[0] in self.element:
                contribution(op, env)
            else:
                copy(b, op, env)

        return {"atomic_add": contribution, "store": start}

    def _write(self, b: Builder, access: Access, value: Value, env: Env) -> None:
        element = self.element.get(access.base)
        value = value if element is None else b.cast(value, element)
        mask = access.mask and env[access.mask]
        offsets = tuple(env[v] for v in access.offsets)
        emit = b.atomic_add if element is None else b.store
        emit(Access(env[access.base], offsets, value, mask, None))


# -- the decision --


def place(
    body: Block,
    gradients: Mapping[Value, DType],
    axes: Collection[int],
    *,
    in_place: Collection[Value] = (),
    atomic: Collection[Value] = (),
    unique: Collection[str] = (),
) -> Placing:
    """Places the contributions to each gradient.

    Args:
        body: body of the backward kernel as `reverse` builds it.
        gradients: the gradient pointers, and the dtype of the inputs they belong to.
        axes: the grid axes whose program id the forward reads.
        in_place: gradient pointers of buffers that the forward overwrites.
        atomic: gradient pointers whose condition for plain stores failed at launch.
        unique: buffers that hold no integer twice, by name.

    Raises:
        UnsupportedError: an overwritten buffer whose gradient is not a plain store.
    """
    addresses = Addresses(unique)
    merged = _merges(body, addresses, gradients)
    placements: dict[Value, Placement] = {}
    for base, ops in _contributions(body, gradients).items():
        left = [(op, path) for op, path in ops if op not in merged]
        finding = find(addresses, left, axes)
        if base in atomic:
            finding = Shared("the strides of this launch let addresses meet")
        if base in in_place:
            _check_in_place(base, ops, merged, finding)
        placements[base] = Placement(finding, len(ops) - len(left))
    plain = {base: gradients[base] for base, p in placements.items() if p.plain}
    fresh = {
        base: Value(PointerType(plain[base]), base.name) if base in plain else base
        for base in gradients
    }
    return Placing(placements, fresh, plain, merged)


def _contributions(
    body: Block, gradients: Collection[Value]
) -> dict[Value, list[Placed]]:
    found: dict[Value, list[Placed]] = {base: [] for base in gradients}
    for op, path in visit(body):
        if OPS[op.opcode].kind == "memory" and op.operands[0] in found:
            found[op.operands[0]].append((op, path))
    return {base: ops for base, ops in found.items() if ops}


def _merges(
    block: Block, addresses: Addresses, bases: Collection[Value]
) -> dict[Op, Op]:
    """For each contribution, the next one of its block to the same lanes, if any.

    The address, the mask and the shape must be the same: two loads of one address under
    different masks are not merged, and so are not told apart either. A `store` among
    them is the zero that an overwritten element starts from.
    """
    found: dict[Op, Op] = {}
    last: dict[tuple[Value, Polynomial, Value | None, tuple[int, ...]], Op] = {}
    for op in block.ops:
        for region in op.regions:
            found.update(_merges(region, addresses, bases))
        if op.opcode not in ("atomic_add", "store") or op.operands[0] not in bases:
            continue
        access = Access.of(op)
        assert access.value is not None
        key = (access.base, addresses.access(op), access.mask, access.value.shape)
        if key in last:
            found[last[key]] = op
        last[key] = op
    return found


def _check_in_place(
    base: Value,
    ops: list[Placed],
    merged: Mapping[Op, Op],
    finding: Exclusive | Shared,
) -> None:
    """Each element read must be one the same lane overwrites, and no one else's."""
    started: set[Op] = set()
    for op, _ in ops:
        if (op.opcode == "store" or op in started) and op in merged:
            started.add(merged[op])
    alone = any(op.opcode == "atomic_add" and op not in started for op, _ in ops)
    if not alone and isinstance(finding, Exclusive):
        return
    reason = "it reads elements it does not overwrite"
    if isinstance(finding, Shared) and not alone:
        reason = finding.reason
    raise UnsupportedError(
        f"`{base.name.removeprefix('d_')}` is read and overwritten, and its gradient "
        "is no plain store",
        loc=ops[0][0].loc,
        why=reason,
        hint="write to another tensor",
    )
