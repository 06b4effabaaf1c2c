"""Reads each cotangent by its own strides.

A cotangent may be expanded, transposed or a slice, and then the output's addresses are wrong
for it. An address such as ``row * stride + cols`` is a sum of indices times coefficients; where
the coefficients are the output's strides, the indices are its coordinates, and the same
coordinates times the cotangent's strides address the cotangent. The coefficients become
parameters (``d_y_stride_0``); whether they are strides of the output is tested at launch,
and a cotangent that fails the test is first copied into the output's layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from undertow.analysis.addresses import Addresses, Bound, Launch, at_launch, uniform
from undertow.analysis.polynomials import Polynomial, Symbol
from undertow.ir import I32, Access, Block, Builder, Op, Value, scalar, walk
from undertow.transform.fold import fold
from undertow.transform.rebuild import Env, copy_op, remove_dead

LANEWISE = ("broadcast", "expand_dims", "transpose", "reshape")


@dataclass(frozen=True, slots=True)
class Index:
    """A coordinate: a polynomial over program ids and lanes, and the access's bounds."""

    polynomial: Polynomial
    bounds: tuple[Bound | None, ...]
    shape: tuple[int, ...]

    def range(self, launch: Launch) -> tuple[int, int] | None:
        """Lowest and highest value in this launch, or None if that is not known."""
        varying = [s for s in self.polynomial.symbols if s.varies]
        parts = self.polynomial.linear_in(varying)
        if parts is None or not all(
            s.varies or s.known_at_launch for s in self.polynomial.symbols
        ):
            return None
        coefficients, rest = parts
        low = high = at_launch(rest, launch)
        for symbol, coefficient in coefficients.items():
            if not coefficient.known_at_launch:
                return None
            reach = at_launch(coefficient, launch) * (self._extent(symbol, launch) - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        for bound in self.bounds:
            if bound and bound.low == self.polynomial and bound.high.known_at_launch:
                high = min(high, at_launch(bound.high, launch) - 1)
        return low, high

    def _extent(self, symbol: Symbol, launch: Launch) -> int:
        if symbol.kind == "program":
            return launch[f"grid{symbol.axis}"]
        return self.shape[symbol.axis]


@dataclass(frozen=True, slots=True)
class StridedCotangent:
    """How the backward addresses the cotangent of one output.

    Attributes:
        of: the output's parameter.
        name: the pointer to the cotangent.
        strides: the stride parameters of the backward, empty if the cotangent must have the
            output's layout.
        coefficients: for each, what multiplies that coordinate in the forward; None is 1.
        indices: for each, the coordinate at every place that reads the cotangent.
    """

    of: str
    name: str
    strides: tuple[Value, ...] = ()
    coefficients: tuple[Value | None, ...] = ()
    indices: tuple[tuple[Index, ...], ...] = ()


Groups = dict[Value | None, list[Value]]
"""Indices by the coefficient that multiplies them."""


def by_own_strides(
    body: Block, sources: Mapping[Value, Value], fresh: Callable[[str], str]
) -> tuple[Block, tuple[StridedCotangent, ...]]:
    """Gives each cotangent of `sources` (pointer → output) strides of its own if possible.

    Args:
        body: the backward's body; it is used up.
        sources: cotangent pointers and the outputs they belong to.
        fresh: makes a new parameter's name from a wish.
    """
    b = Builder(fold)
    addresses = Addresses()
    loads = {pointer: [op for op in walk(body) if op.opcode == "load" and op.operands[0] is pointer]
             for pointer in sources}  # fmt: skip
    plans: dict[Value, StridedCotangent] = {}
    for pointer, output in sources.items():
        plans[pointer] = _plan(pointer, output, loads[pointer], addresses, fresh)
    env: Env = {v: v for op in walk(body) for v in op.operands if v.op is None}
    for plan in plans.values():
        env.update({s: s for s in plan.strides})
    _copy(b, body, plans, env)
    return remove_dead(b.block), tuple(plans.values())


def _plan(
    pointer: Value,
    output: Value,
    loads: list[Op],
    addresses: Addresses,
    fresh: Callable[[str], str],
) -> StridedCotangent:
    groups = [_groups(op) for op in loads]
    plain = StridedCotangent(output.name, pointer.name)
    if not groups or any(set(g) != set(groups[0]) for g in groups):
        return plain
    coefficients = sorted(groups[0], key=lambda c: c is None)
    stem = pointer.name.removesuffix("_ptr")
    wishes = [f"{stem}_stride_{i}" for i in range(len(coefficients))]
    if len(coefficients) == 1:
        wishes = [f"{stem}_stride"]
    strides = tuple(Value(scalar(I32), fresh(wish)) for wish in wishes)
    indices = tuple(
        tuple(
            _index(op, group[c], addresses)
            for op, group in zip(loads, groups, strict=True)
        )
        for c in coefficients
    )
    return StridedCotangent(
        output.name, pointer.name, strides, tuple(coefficients), indices
    )


def _index(op: Op, values: list[Value], addresses: Addresses) -> Index:
    total = Polynomial({})
    for value in values:
        total += addresses.of(value)
    return Index(total, tuple(addresses.bounds(op)), op.result.shape)


def _groups(op: Op) -> Groups:
    groups: Groups = {}
    for offset in Access.of(op).offsets:
        for addend in _addends(offset):
            coefficient, _ = _factor(addend)
            groups.setdefault(coefficient, []).append(_unscaled(addend))
    return groups or {None: []}


def _addends(value: Value) -> list[Value]:
    """The terms of a sum, with a scalar not spread over lanes."""
    op = value.op
    if op is not None and op.opcode == "add":
        return [term for operand in op.operands for term in _addends(operand)]
    if op is not None and op.opcode == "broadcast" and not op.operands[0].shape:
        return _addends(op.operands[0])
    return [value]


def _factor(addend: Value) -> tuple[Value | None, Value]:
    """(coefficient, index) of a term; the coefficient is a scalar known at launch, or 1."""
    op = addend.op
    if op is None or op.opcode in LANEWISE:
        return _factor(op.operands[0]) if op is not None else (None, addend)
    if op.opcode == "mul":
        for one, other in (op.operands, op.operands[::-1]):
            coefficient = _scalar(one)
            if coefficient is not None:
                return coefficient, other
    return None, addend


def _scalar(value: Value) -> Value | None:
    """The scalar behind a value that is the same, known at launch, in every lane."""
    while value.op is not None and value.op.opcode in ("broadcast", "cast"):
        value = value.op.operands[0]
    known = uniform(value) and not (value.op and value.op.opcode == "const")
    return value if known else None


def _unscaled(addend: Value) -> Value:
    """The index of a term as it stands in the body; where lanes move later, the term itself.

    Only its polynomial is wanted, and a coefficient is divided out of that by `_factor`'s
    index directly unless lanes move in between.
    """
    op = addend.op
    if op is not None and op.opcode in LANEWISE:
        b = Builder(fold)
        return _move(b, addend, lambda core: _factor(core)[1])
    return _factor(addend)[1]


def _move(b: Builder, value: Value, change: Callable[[Value], Value]) -> Value:
    """`value` with the innermost operand of its lane-moving ops changed."""
    op = value.op
    if op is None or op.opcode not in LANEWISE:
        return change(value)
    inner = _move(b, op.operands[0], change)
    return b.pure(
        op.opcode, (inner,), inner.tensor_type.with_shape(value.shape), dict(op.attrs)
    )


def _copy(
    b: Builder, block: Block, plans: Mapping[Value, StridedCotangent], env: Env
) -> None:
    for op in block.ops:
        plan = plans.get(op.operands[0]) if op.opcode == "load" else None
        if plan is not None and plan.strides:
            _strided_load(b, op, plan, env)
        elif op.regions:
            regions: list[Block] = []
            for region in op.regions:
                with b.region() as inner:
                    _copy(b, region, plans, dict(env))
                regions.append(inner)
            b.loc = op.loc
            types = [r.type for r in op.results]
            copies = b.emit(
                op.opcode, [env[v] for v in op.operands], types, dict(op.attrs), regions
            )
            for result, copy in zip(op.results, copies, strict=True):
                copy.name, env[result] = result.name, copy
        else:
            copy_op(b, op, env)


def _strided_load(b: Builder, op: Op, plan: StridedCotangent, env: Env) -> None:
    access = Access.of(op)
    b.loc = op.loc
    by_coefficient = dict(zip(plan.coefficients, plan.strides, strict=True))
    terms: dict[Value, Value] = {}
    for offset in access.offsets:
        for addend in _addends(offset):
            coefficient, _ = _factor(addend)
            index = _move(b, addend, lambda core: env[_factor(core)[1]])
            stride = by_coefficient[coefficient]
            known = terms.get(stride)
            terms[stride] = index if known is None else _sum(b, known, index)
    offsets = [_scaled(b, terms[s], s) for s in plan.strides if s in terms]
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
