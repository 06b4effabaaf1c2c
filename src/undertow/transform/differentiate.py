"""From a forward kernel to its backward kernel, with the facts a launch needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from undertow.analysis.activity import Activity, activity, reinterprets
from undertow.analysis.exclusive import Exclusive
from undertow.analysis.read_back import StandIns, read_backs
from undertow.analysis.stabilisers import stabilisers
from undertow.errors import UndertowError, UnsupportedError
from undertow.ir import (
    Access,
    Block,
    Builder,
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
from undertow.transform.cotangent_layout import (
    StridedCotangent,
    by_own_strides,
    layout_handlers,
)
from undertow.transform.fold import fold
from undertow.transform.induction import induction
from undertow.transform.place import Placement, Placing, place, program_axes
from undertow.transform.rebuild import parameters, rebuild, remove_dead, simplify
from undertow.transform.reverse import REVERSE, reverse
from undertow.transform.roles import (
    OutputStores,
    Roles,
    output_stores,
    refuse_no_indices,
    refuse_overwritten,
    refuse_unordered,
    roles,
)
from undertow.transform.running_max import without_running_maxima
from undertow.transform.sweep import Buffers, bits_refusal
from undertow.transform.tapes import Tape, Tapes
from undertow.transform.turns import turn_counter

__all__ = [
    "Backward",
    "Gradient",
    "Names",
    "OutputStores",
    "Roles",
    "Task",
    "differentiate",
    "roles",
]


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradient of one input.

    Attributes:
        of: the input's parameter.
        name: the parameter of the backward kernel that receives the gradient.
        dtype: of the elements of that buffer; float32 where contributions are added.
        placement: how contributions reach it.
        in_place: whether the buffer starts as the cotangent of what the forward left
            there, rather than undefined or zero.
    """

    of: str
    name: str
    dtype: DType
    placement: Placement
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Backward:
    """A derived backward kernel.

    Attributes:
        forward: the simplified forward.
        kernel: the backward, whose parameters are cotangents, primal pointers,
            gradients, then scalars.
        cotangents: how each active output's cotangent is addressed.
        gradients: one for each differentiated input that has a gradient at all.
        zeros: differentiated inputs on which no active output depends.
        passed_on: differentiated buffers that are only added to: the gradient of what
            stood there before is the cotangent of what came of it.
        stores: what is known of the forward's stores.
        recomputed: names of the values that the backward computes again.
        read_back: outputs that the backward reads instead, as the forward left them.
        tapes: what loops carry that is kept from the primal sweep for the reverse one.
        counter: a kernel that counts the turns of the loops of those tapes whose
            length data decide; see `transform.turns`.
        counted: for each of its loops the backward's parameter that takes the number.
    """

    forward: Kernel
    kernel: Kernel
    cotangents: tuple[StridedCotangent, ...]
    gradients: tuple[Gradient, ...]
    zeros: tuple[str, ...]
    passed_on: tuple[str, ...]
    stores: tuple[OutputStores, ...]
    recomputed: tuple[str, ...]
    read_back: tuple[str, ...] = ()
    tapes: tuple[Tape, ...] = ()
    counter: Kernel | None = None
    counted: tuple[str, ...] = ()

    @property
    def promised(self) -> tuple[str, ...]:
        """Buffers of integers of which it relies on that they hold none twice."""
        findings = [g.placement.finding for g in self.gradients]
        findings += [store.finding for store in self.stores]
        found = (f.promised for f in findings if isinstance(f, Exclusive))
        return tuple(dict.fromkeys(name for names in found for name in names))


def differentiate(
    kernel: Kernel,
    wrt: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    *,
    unique: Collection[str] = (),
    atomic: Collection[str] = (),
    followed: bool = False,
    readable: Collection[str] | None = None,
) -> Backward:
    """Derives the backward of `kernel`.

    Args:
        kernel: the forward.
        wrt: parameters to differentiate; by default every float pointer that is loaded.
        outputs: parameters with a cotangent; by default every float pointer stored to.
        unique: buffers of integers that hold none twice, as the user promises: what is
            loaded or stored at them is told apart by where they are loaded from.
        atomic: inputs whose gradient must not be a plain store, because what that needs
            of the strides does not hold in the launch at hand.
        followed: whether stores of one program that may meet are looked at in each
            launch, before its backward; otherwise they are refused.
        readable: outputs that the backward may read; by default all of them.

    Raises:
        UnsupportedError: something on the way from `wrt` to `outputs` has no
            derivative, an overwritten input is needed, or a name is no pointer to
            floats (of `unique`, to integers that are only loaded).
    """
    forward = induction(simplify(kernel))
    try:
        refuse_no_indices(forward, unique)
        task = Task.of(forward, wrt, outputs)
        backward = _differentiate(task, unique, atomic, followed, readable)
    except UndertowError as error:
        error.kernel = error.kernel or kernel.name
        raise
    verify(backward.kernel)
    return backward


@dataclass(frozen=True, slots=True)
class Task:
    """What to differentiate: both modes start from it.

    Attributes:
        forward: the simplified forward.
        inputs: the pointers to differentiate by, in the kernel's order.
        targets: the pointers to differentiate.
        activity: which values carry a derivative from one to the other.
        useful: the targets that depend on an input.
        cancelled: maxima that cancel in all targets.
        in_place: pointers that are both loaded and stored to.
        added: names of the pointers that are added to.
    """

    forward: Kernel
    inputs: tuple[Value, ...]
    targets: tuple[Value, ...]
    activity: Activity
    useful: tuple[Value, ...]
    cancelled: frozenset[Value]
    in_place: tuple[Value, ...]
    added: frozenset[str]

    @staticmethod
    def of(
        forward: Kernel,
        wrt: Collection[str] | None,
        outputs: Collection[str] | None,
    ) -> Task:
        """Raises UnsupportedError where the order of memory accesses matters, bits of
        floats are computed with, or a name is no pointer that will do."""
        found = roles(forward)
        refuse_unordered(forward)
        inputs = _chosen(forward, found.loaded if wrt is None else wrt, wrt is None)
        targets = _chosen(
            forward, found.stored if outputs is None else outputs, outputs is None
        )
        _refuse_not_stored(targets, found)
        forward, maxima = without_running_maxima(forward, targets)
        constant = stabilisers(forward, targets) | maxima
        active = activity(forward, inputs, targets, _passes, constant)
        _refuse_bits(forward, active)
        _refuse_fp8(forward, active)
        useful = tuple(p for p in targets if _useful(forward, p, active))
        in_place = tuple(p for p in forward.pointers if p.name in found.in_place)
        return Task(
            forward, inputs, targets, active, useful, constant, in_place, found.added
        )


def _chosen(
    forward: Kernel, names: Collection[str], by_default: bool
) -> tuple[Value, ...]:
    floats = {p.name: p for p in forward.pointers if _element(p).is_float}
    unknown = [] if by_default else sorted(set(names) - set(floats))
    if unknown:
        raise UnsupportedError(
            f"`{unknown[0]}` is no pointer to floats of `{forward.name}`",
            hint="these are: " + ", ".join(f"`{name}`" for name in floats),
        )
    return tuple(p for name, p in floats.items() if name in names)


def _refuse_not_stored(targets: Iterable[Value], found: Roles) -> None:
    for target in targets:
        if target.name not in found.stored:
            stored = ", ".join(f"`{name}`" for name in sorted(found.stored))
            raise UnsupportedError(
                f"`{target.name}` is not stored to, so it is no output",
                hint=f"stored to: {stored or 'nothing'}",
            )


def _refuse_bits(forward: Kernel, active: Activity) -> None:
    """Refuses floats that were made from the bits of others, which have no rule."""
    for op in walk(forward.body):
        made = op.opcode == "bitcast" or reinterprets(op)
        if made and active.active(op.result):
            raise bits_refusal(forward, op)


def _refuse_fp8(forward: Kernel, active: Activity) -> None:
    """Refuses derivatives of values of eight bits, naming the parameter if it can."""
    for op in walk(forward.body):
        stored = Access.of(op).value if op.opcode == "store" else None
        values = op.results if stored is None else (stored,)
        if not any(_is_fp8(v) and active.active(v) for v in values):
            continue
        if op.opcode not in ("load", "store"):
            continue
        name = op.operands[0].name
        raise UnsupportedError(
            f"`{name}` holds fp8 numbers, which are not differentiated",
            loc=op.loc,
            why="they carry too few bits for a gradient",
            hint=f"leave `{name}` out of the gradient, or pass it as bf16",
        )
    for op in walk(forward.body):
        if any(_is_fp8(v) and active.active(v) for v in op.results):
            raise UnsupportedError(
                "fp8 numbers are not differentiated",
                loc=op.loc,
                why="they carry too few bits for a cotangent",
                hint="cast to `tl.bfloat16` where a gradient is wanted",
            )


def _is_fp8(value: Value) -> bool:
    return value.is_float and value.tensor_type.dtype.bits == 8


def _differentiate(
    task: Task,
    unique: Collection[str],
    atomic: Collection[str],
    followed: bool,
    readable: Collection[str] | None,
) -> Backward:
    forward, names = task.forward, Names(task.forward)
    axes = program_axes(forward)
    stores = output_stores(forward, task.targets, axes, followed, unique)
    cotangents = {
        p: Value(PointerType(_element(p)), names.cotangent(p, p in task.inputs))
        for p in task.useful
    }
    gradients = {
        p: Value(PointerType(cotangent_dtype(_element(p))), names.gradient(p))
        for p in task.inputs
    }
    tapes = Tapes(names.fresh)
    stand_ins = _stand_ins(task, axes, followed, readable)
    buffers = Buffers(cotangents, gradients)
    body = reverse(forward, task.activity, buffers, tapes, stand_ins)
    placing = place(
        body,
        {g: _element(p) for p, g in gradients.items()},
        axes,
        in_place=[g for p, g in gradients.items() if p in task.in_place],
        atomic=[g for p, g in gradients.items() if p.name in atomic],
        unique=unique,
    )
    outputs = {c: p for p, c in cotangents.items()}
    layouts = by_own_strides(body, outputs, names.fresh)
    body = _rewritten(body, placing, layouts)
    refuse_overwritten(body, task.in_place)
    written = placing.fresh.values()
    used = {op.operands[0] for op in walk(body) if op.opcode == "load"}
    stored = roles(forward).stored
    kept = tuple(tape for tape in tapes.made if tape.pointer in used)
    counted = {tape.loop: tape.turns.name for tape in kept if tape.counted}
    counter = None
    if counted:
        counter = turn_counter(forward, tuple(counted), names.fresh("turns_ptr"))
        refuse_overwritten(counter.body, task.in_place)
    params = _parameters(forward, body, cotangents, written, layouts.values(), kept)
    unplaced = [p.name for p, g in gradients.items() if g not in placing.placements]
    stem = forward.name.removesuffix("_fwd").removesuffix("_forward")
    return Backward(
        forward,
        Kernel(f"{stem}_bwd", params, body, forward.loc, forward.constexprs),
        tuple(layouts.values()),
        tuple(
            _gradient(p, placing, g, p in task.in_place)
            for p, g in gradients.items()
            if g in placing.placements
        ),
        tuple(name for name in unplaced if name not in task.added),
        tuple(name for name in unplaced if name in task.added),
        stores,
        _recomputed(body, stored),
        tuple(p.name for p in forward.pointers if p in used and p.name in stored),
        kept,
        counter,
        tuple(counted.values()),
    )


def _stand_ins(
    task: Task,
    axes: Collection[int],
    followed: bool,
    readable: Collection[str] | None,
) -> StandIns:
    """What the backward finds in outputs, of which each element is written once."""
    forward, found = task.forward, roles(task.forward)
    pointers = [
        p
        for p in forward.pointers
        if p.name in found.stored - found.loaded - found.added
        and _element(p).is_float
        and (readable is None or p.name in readable)
    ]
    stand_ins = read_backs(forward, pointers, task.targets, task.cancelled)
    if followed or not stand_ins:
        return stand_ins
    proved = {
        stores.of
        for stores in output_stores(forward, pointers, axes, followed=True)
        if isinstance(stores.finding, Exclusive)
    }
    known = [p for p in pointers if p.name in proved]
    return read_backs(forward, known, task.targets, task.cancelled)


def _rewritten(
    body: Block, placing: Placing, layouts: Mapping[Value, StridedCotangent]
) -> Block:
    b = Builder(fold)
    env = parameters(body) | dict(placing.fresh)
    env |= {stride: stride for plan in layouts.values() for stride in plan.strides}
    rebuild(b, body.ops, env, {**placing.handlers(b), **layout_handlers(b, layouts)})
    return remove_dead(b.block)


def _gradient(of: Value, placing: Placing, pointer: Value, in_place: bool) -> Gradient:
    dtype = _element(placing.fresh[pointer])
    return Gradient(of.name, pointer.name, dtype, placing.placements[pointer], in_place)


def _element(pointer: Value) -> DType:
    assert isinstance(pointer.type, PointerType)
    return pointer.type.element


def _passes(op: Op) -> bool:
    """Whether a derivative can pass through `op`: a missing rule counts, and raises."""
    if isinstance(RULES[op.opcode], Zero):
        return False
    if op.opcode == "cast":
        return op.operands[0].is_float and op.result.is_float
    if op.opcode == "reduce":
        return not op.str_attr("kind").startswith("arg")
    return True


def _useful(forward: Kernel, output: Value, active: Activity) -> bool:
    return any(
        op.opcode in ("store", "atomic_add")
        and op.operands[0] is output
        and (value := Access.of(op).value) is not None
        and active.active(value)
        for op in walk(forward.body)
    )


class Names:
    """Names of the new parameters: `d_` and the user's name, kept apart from the
    user's."""

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
    cotangents: Mapping[Value, Value],
    gradients: Iterable[Value],
    layouts: Iterable[StridedCotangent],
    tapes: Iterable[Tape],
) -> tuple[Value, ...]:
    """Cotangents, primal pointers, gradients, scalars; only those the body uses."""
    used = {v for op in walk(body) for v in op.operands}
    pointers = forward.pointers
    scalars = [p for p in forward.params if p not in pointers]
    strides = [s for layout in layouts for s in layout.strides]
    taped = [tape.pointer for tape in tapes]
    turns = list(dict.fromkeys(tape.turns for tape in tapes))
    ordered = [*cotangents.values(), *pointers, *gradients, *taped]
    ordered += [*strides, *scalars, *turns]
    return tuple(v for v in ordered if v in used)


def _recomputed(body: Block, stored: Collection[str]) -> tuple[str, ...]:
    """User's names of what stands between the two section headings.

    Without what is read back from the outputs, `stored`.
    """
    names: dict[str, None] = {}
    for op in body.ops:
        if op.opcode == "section" and op.str_attr("title") == REVERSE:
            break
        if op.opcode == "load" and op.operands[0].name in stored:
            continue
        for result in op.results:
            if result.name and result.is_float:
                names[result.name] = None
    return tuple(names)
