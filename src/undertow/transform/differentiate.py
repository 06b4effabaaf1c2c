"""From a forward kernel to its backward kernel, with the facts a launch needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from undertow.analysis.activity import Activity, activity
from undertow.analysis.addresses import Addresses
from undertow.analysis.exclusive import Exclusive, Shared
from undertow.errors import UndertowError, UnsupportedError
from undertow.ir import (
    Access,
    Block,
    DType,
    Kernel,
    Op,
    PointerType,
    Value,
    cotangent_dtype,
    verify,
    walk,
)
from undertow.rules import RULES, Zero
from undertow.transform.cotangent_layout import StridedCotangent, by_own_strides
from undertow.transform.place import Placement, find, place, program_axes, visit
from undertow.transform.rebuild import simplify
from undertow.transform.variables import name_variables
from undertow.transform.reverse import REVERSE, Buffers, reverse


@dataclass(frozen=True, slots=True)
class Roles:
    """What a kernel does with each of its pointers, by parameter name."""

    loaded: frozenset[str]
    stored: frozenset[str]

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
    loaded: set[str] = set()
    stored: set[str] = set()
    for op in walk(kernel.body):
        if op.opcode in ("load", "store", "atomic_add"):
            (loaded if op.opcode == "load" else stored).add(op.operands[0].name)
    return Roles(frozenset(loaded), frozenset(stored))


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradient of one input.

    Attributes:
        of: the input's parameter.
        name: the parameter of the backward kernel that receives the gradient.
        dtype: of the elements of that buffer; float32 where contributions are added.
        placement: how contributions reach it.
        in_place: whether the buffer starts as the cotangent of what the forward left there,
            rather than undefined or zero.
    """

    of: str
    name: str
    dtype: DType
    placement: Placement
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class OutputStores:
    """Whether the stores to an output are proved to write each element once."""

    of: str
    finding: Exclusive | Shared
    guarded: bool
    """A mask or branch that the analysis cannot read may keep programs apart."""


@dataclass(frozen=True, slots=True)
class Backward:
    """A derived backward kernel.

    Attributes:
        forward: the simplified forward.
        kernel: the backward, whose parameters are cotangents, primal pointers, gradients,
            then scalars.
        cotangents: how each active output's cotangent is addressed.
        gradients: one for each differentiated input that has a gradient at all.
        zeros: differentiated inputs on which no active output depends.
        stores: what is known of the forward's stores.
        recomputed: names of the values that the backward computes again.
    """

    forward: Kernel
    kernel: Kernel
    cotangents: tuple[StridedCotangent, ...]
    gradients: tuple[Gradient, ...]
    zeros: tuple[str, ...]
    stores: tuple[OutputStores, ...]
    recomputed: tuple[str, ...]


def differentiate(
    kernel: Kernel,
    wrt: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    *,
    atomic: Collection[str] = (),
) -> Backward:
    """Derives the backward of `kernel`.

    Args:
        kernel: the forward.
        wrt: parameters to differentiate; by default every float pointer that is loaded.
        outputs: parameters with a cotangent; by default every float pointer stored to.
        atomic: inputs whose gradient must not be a plain store, because what that needs of
            the strides does not hold in the launch at hand.

    Raises:
        UnsupportedError: something on the way from `wrt` to `outputs` has no derivative, or
            an overwritten input is needed.
    """
    forward = name_variables(simplify(kernel))
    try:
        return verify_backward(_differentiate(forward, wrt, outputs, atomic))
    except UndertowError as error:
        error.kernel = error.kernel or kernel.name
        raise


def verify_backward(backward: Backward) -> Backward:
    verify(backward.kernel)
    return backward


def _differentiate(
    forward: Kernel,
    wrt: Collection[str] | None,
    outputs: Collection[str] | None,
    atomic: Collection[str],
) -> Backward:
    found = roles(forward)
    _refuse_unordered(forward, found)
    floats = [p for p in forward.pointers if _element(p).is_float]
    inputs = [
        p for p in floats if (p.name in found.loaded if wrt is None else p.name in wrt)
    ]
    targets = [p for p in floats
               if p.name in found.stored and (outputs is None or p.name in outputs)]  # fmt: skip
    active = activity(forward, inputs, targets, _passes)
    names = _Names(forward)
    cotangents = {p: Value(PointerType(_element(p)), names.cotangent(p, p in inputs))
                  for p in targets if _useful(forward, p, active)}  # fmt: skip
    gradients = {p: Value(PointerType(cotangent_dtype(_element(p))), names.gradient(p))
                 for p in inputs}  # fmt: skip
    body = reverse(forward, active, Buffers(cotangents, gradients))
    overwritten = [p for p in inputs if p.name in found.stored]
    axes = program_axes(forward)
    body, fresh, placements = place(
        body,
        {g: _element(p) for p, g in gradients.items()},
        axes,
        in_place=[gradients[p] for p in overwritten],
        atomic=[g for p, g in gradients.items() if p.name in atomic],
    )
    body, layouts = by_own_strides(
        body, {c: p for p, c in cotangents.items()}, names.fresh
    )
    _refuse_overwritten(forward, body, found)
    plans = tuple(
        Gradient(p.name, g.name, _element(fresh[g]), placements[g], p in overwritten)
        for p, g in gradients.items() if g in placements
    )  # fmt: skip
    params = _parameters(forward, body, cotangents.values(), fresh.values(), layouts)
    name = f"{forward.name.removesuffix('_fwd').removesuffix('_forward')}_bwd"
    return Backward(
        forward,
        Kernel(name, params, body, forward.loc, forward.constexprs),
        layouts,
        plans,
        tuple(p.name for p, g in gradients.items() if g not in placements),
        _output_stores(forward, targets, axes),
        _recomputed(body),
    )


def _element(pointer: Value) -> DType:
    assert isinstance(pointer.type, PointerType)
    return pointer.type.element


def _passes(op: Op) -> bool:
    """Whether a derivative can pass through `op`; a missing rule counts, so that it raises."""
    if isinstance(RULES[op.opcode], Zero):
        return False
    if op.opcode == "cast":
        return op.operands[0].is_float and op.result.is_float
    if op.opcode == "reduce":
        return not op.str_attr("kind").startswith("arg")
    return True


def _useful(forward: Kernel, output: Value, active: Activity) -> bool:
    return any(
        op.opcode == "store"
        and op.operands[0] is output
        and (value := Access.of(op).value) is not None
        and active.active(value)
        for op in walk(forward.body)
    )


class _Names:
    """Names of the new parameters: `d_` and the user's name, kept apart from the user's."""

    def __init__(self, forward: Kernel) -> None:
        self.taken = {p.name for p in forward.params} | set(forward.constexprs)

    def fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def gradient(self, param: Value) -> str:
        return self.fresh(f"d_{param.name}")

    def cotangent(self, param: Value, also_input: bool) -> str:
        if not also_input:
            return self.fresh(f"d_{param.name}")
        stem = param.name.removesuffix("_ptr")
        return self.fresh(f"d_{stem}_out{param.name.removeprefix(stem)}")


def _parameters(
    forward: Kernel,
    body: Block,
    cotangents: Iterable[Value],
    gradients: Iterable[Value],
    layouts: tuple[StridedCotangent, ...],
) -> tuple[Value, ...]:
    """Cotangents, primal pointers, gradients, scalars; only those the body uses."""
    used = {v for op in walk(body) for v in op.operands}
    pointers = [p for p in forward.pointers]
    scalars = [p for p in forward.params if p not in pointers]
    strides = [s for layout in layouts for s in layout.strides]
    ordered = [*cotangents, *pointers, *gradients, *strides, *scalars]
    return tuple(v for v in ordered if v in used)


def _refuse_unordered(forward: Kernel, found: Roles) -> None:
    for op in walk(forward.body):
        if op.opcode == "atomic_add":
            raise UnsupportedError(
                f"atomic updates of `{op.operands[0].name}` are not differentiated yet",
                loc=op.loc,
                why="programs add to one element in no fixed order",
                hint="store one partial result a program and sum outside of the kernel",
            )
    written: dict[str, Op] = {}
    for op, _ in visit(forward.body):
        name = op.operands[0].name if op.opcode in ("load", "store") else ""
        if op.opcode == "store":
            written.setdefault(name, op)
        elif op.opcode == "load" and name in written:
            raise UnsupportedError(
                f"`{name}` is read after it was written",
                loc=op.loc,
                why=f"it was written on line {written[name].loc.line}",
                hint="keep the value in a variable, or use two launches",
            )


def _refuse_overwritten(forward: Kernel, body: Block, found: Roles) -> None:
    for op in walk(body):
        if op.opcode == "load" and op.operands[0].name in found.in_place:
            if op.operands[0] not in forward.params:
                continue
            name = op.operands[0].name
            raise UnsupportedError(
                f"`{name}` is overwritten, and its old value is needed for the gradient",
                loc=op.loc,
                hint="write to another tensor",
            )


def _output_stores(
    forward: Kernel, targets: Iterable[Value], axes: Collection[int]
) -> tuple[OutputStores, ...]:
    addresses = Addresses()
    found: list[OutputStores] = []
    for target in targets:
        ops = [(op, path) for op, path in visit(forward.body)
               if op.opcode == "store" and op.operands[0] is target]  # fmt: skip
        unread = any(None in addresses.bounds(op) for op, _ in ops)
        guarded = unread or any(path for _, path in ops)
        found.append(OutputStores(target.name, find(addresses, ops, axes), guarded))
    return tuple(found)


def _recomputed(body: Block) -> tuple[str, ...]:
    """User's names of what stands between the two section headings."""
    names: dict[str, None] = {}
    for op in body.ops:
        if op.opcode == "section" and op.str_attr("title") == REVERSE:
            break
        for result in op.results:
            if result.name and result.is_float:
                names[result.name] = None
    return tuple(names)
