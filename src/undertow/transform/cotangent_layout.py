"""Reads each cotangent by its own strides.

A cotangent may be expanded, transposed or a slice, and then the output's addresses are
wrong for it. An address such as ``row * stride + cols`` is a sum of indices times
coefficients; where the coefficients are the output's strides, the indices are its
coordinates, and the same coordinates times the cotangent's strides address the
cotangent. Its strides become parameters (``d_y_stride_0``); whether the coefficients
are strides of the output is tested at launch, and a cotangent that fails the test is
first copied into the output's layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from undertow.analysis.addresses import Addresses
from undertow.analysis.launch import Bound, Launch, Ranges
from undertow.analysis.polynomials import ZERO, Polynomial
from undertow.ir import I32, Access, Block, Builder, Op, Value, scalar, walk
from undertow.transform.rebuild import Env, Handlers, copy
from undertow.transform.terms import Term, terms


@dataclass(frozen=True, slots=True)
class Index:
    """A coordinate: a polynomial over programs and lanes, and the access's bounds."""

    polynomial: Polynomial
    bounds: tuple[Bound | None, ...]
    shape: tuple[int, ...]

    def range(self, launch: Launch) -> tuple[int, int] | None:
        """Lowest and highest value in this launch, or None if that is not known."""
        return Ranges(self.shape, self.bounds, launch).of(self.polynomial)


@dataclass(frozen=True, slots=True)
class StridedCotangent:
    """How the backward addresses the cotangent of one output.

    Attributes:
        of: the output's parameter.
        name: the pointer to the cotangent.
        strides: the stride parameters of the backward, empty if the cotangent must have
            the output's layout.
        coefficients: for each, what multiplies that coordinate in the forward; None is
            1.
        indices: for each, the coordinate at every place that reads the cotangent.
    """

    of: str
    name: str
    strides: tuple[Value, ...] = ()
    coefficients: tuple[Value | None, ...] = ()
    indices: tuple[tuple[Index, ...], ...] = ()


Groups = dict[Value | None, list[Term]]
"""The terms of an address by their coefficient."""


def by_own_strides(
    body: Block, sources: Mapping[Value, Value], fresh: Callable[[str], str]
) -> dict[Value, StridedCotangent]:
    """Gives each cotangent strides of its own where its address allows it.

    Args:
        body: the backward's body.
        sources: cotangent pointers and the outputs they belong to.
        fresh: makes a new parameter's name from a wish.
    """
    addresses = Addresses()
    loads: dict[Value, list[Op]] = {pointer: [] for pointer in sources}
    for op in walk(body):
        if op.opcode == "load" and op.operands[0] in loads:
            loads[op.operands[0]].append(op)
    return {
        pointer: _plan(pointer, sources[pointer], ops, addresses, fresh)
        for pointer, ops in loads.items()
    }


def layout_handlers(b: Builder, plans: Mapping[Value, StridedCotangent]) -> Handlers:
    """What `rebuild` does with the loads of cotangents."""

    def load(op: Op, env: Env) -> None:
        plan = plans.get(op.operands[0])
        if plan is not None and plan.strides:
            _strided_load(b, op, plan, env)
        else:
            copy(b, op, env)

    return {"load": load}


def _plan(
    pointer: Value,
    output: Value,
    loads: list[Op],
    addresses: Addresses,
    fresh: Callable[[str], str],
) -> StridedCotangent:
    groups = [_groups(op) for op in loads]
    if not groups or any(set(g) != set(groups[0]) for g in groups):
        return StridedCotangent(output.name, pointer.name)
    coefficients = sorted(groups[0], key=lambda c: c is None)  # the unit stride last
    stem = f"{pointer.name.removesuffix('_ptr')}_stride"
    several = len(coefficients) > 1
    wishes = [f"{stem}_{i}" if several else stem for i in range(len(coefficients))]
    indices = tuple(
        tuple(
            _index(op, group[coefficient], addresses)
            for op, group in zip(loads, groups, strict=True)
        )
        for coefficient in coefficients
    )
    strides = tuple(Value(scalar(I32), fresh(wish)) for wish in wishes)
    return StridedCotangent(
        output.name, pointer.name, strides, tuple(coefficients), indices
    )


def _groups(op: Op) -> Groups:
    groups: Groups = {}
    for offset in Access.of(op).offsets:
        for term in terms(offset):
            groups.setdefault(term.coefficient, []).append(term)
    return groups or {None: []}


def _index(op: Op, group: list[Term], addresses: Addresses) -> Index:
    total = ZERO
    for term in group:
        total += term.polynomial(addresses)
    return Index(total, tuple(addresses.bounds(op)), op.result.shape)


def _strided_load(b: Builder, op: Op, plan: StridedCotangent, env: Env) -> None:
    access, groups = Access.of(op), _groups(op)
    offsets: list[Value] = []
    for coefficient, stride in zip(plan.coefficients, plan.strides, strict=True):
        group = groups[coefficient]
        if group:
            index = group[0].build(b, env)
            for term in group[1:]:
                index = _sum(b, index, term.build(b, env))
            offsets.append(_scaled(b, index, stride))
    mask, other = access.mask and env[access.mask], access.other and env[access.other]
    new = Access(env[access.base], tuple(offsets), None, mask, other)
    attrs = {k: v for k, v in op.attrs.items() if k not in ("mask", "other")}
    result = b.load(new, op.result.tensor_type, **attrs)
    result.name, env[op.result] = op.result.name, result


def _sum(b: Builder, x: Value, y: Value) -> Value:
    shape = x.shape or y.shape
    x, y = b.broadcast(x, shape), b.broadcast(y, shape)
    wider = max(x.tensor_type.dtype, y.tensor_type.dtype, key=lambda d: d.bits)
    return b.pointwise("add", b.cast(x, wider), b.cast(y, wider))


def _scaled(b: Builder, index: Value, stride: Value) -> Value:
    wide = b.cast(stride, index.tensor_type.dtype)
    return b.pointwise("mul", index, b.broadcast(wide, index.shape))
