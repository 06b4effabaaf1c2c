"""What a launch needs to be recorded for autograd, decided once for each geometry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from undertow.analysis.exclusive import Exclusive
from undertow.analysis.launch import Launch, at_launch, uniform
from undertow.errors import LaunchError
from undertow.evaluate.launch import without_memory
from undertow.ir import OPS, Access, Kernel, Op, walk
from undertow.runtime.arguments import Pick, picker
from undertow.runtime.geometry import Layout, is_dense, meets_itself, repeats
from undertow.runtime.plan import Plan, make_plan, settle
from undertow.runtime.specialisation import Specialisation
from undertow.runtime.touches import touched
from undertow.transform.differentiate import OutputStores
from undertow.transform.roles import (
    last_stores,
)

Extents = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """How launches of one geometry are recorded.

    Attributes:
        specialisation: the kernel.
        grid: three extents.
        layouts: of `specialisation.tensors`.
        reach: bytes from each one's first element to behind its last.
        written: how many of them the kernel stores to; they come first.
        wrt: the inputs that need a gradient.
        passed: names of the tensors that autograd sees: outputs, then inputs that need
            a gradient.
        saved: names of the tensors that some backward reads.
        saved_strides: the strides with which it reads them.
        readable: those of them that are outputs.
        silent: places of outputs that have no derivative.
        expanded: places, in `specialisation.tensors`, of inputs whose elements share
            memory.
        forward: the kernel as it is differentiated.
        scattered: stores to one output each that may meet, as loaded data decide.
        take_passed: takes those tensors out of `specialisation.tensors`.
        take_saved: takes the saved ones.
    """

    specialisation: Specialisation
    grid: Extents
    layouts: tuple[Layout, ...]
    reach: tuple[int, ...]
    written: int
    wrt: frozenset[str]
    passed: tuple[str, ...]
    saved: tuple[str, ...]
    saved_strides: tuple[tuple[int, ...], ...]
    readable: frozenset[str]
    silent: tuple[int, ...]
    expanded: tuple[int, ...]
    forward: Kernel
    scattered: tuple[OutputStores, ...]
    take_passed: Pick
    take_saved: Pick

    def check_data(self, tensors: Sequence[Tensor], scalars: Sequence[Any]) -> None:
        """Refuses a launch in which data make stores meet.

        Raises:
            LaunchError: an element is written several times.
        """
        touches = _Touches(
            self.specialisation,
            self.forward,
            self.layouts,
            tensors,
            scalars,
            self.grid,
            with_data=True,
        )
        launch = self.specialisation.launch(scalars, self.grid)
        for store in self.scattered:
            if reason := _followed(store, launch, touches):
                raise _written_again(self.forward, store, reason)

    def plan(
        self,
        needed: Sequence[bool],
        strides: Sequence[tuple[int, ...] | None],
        scalars: Sequence[Any],
    ) -> Plan:
        """The backward for these cotangents.

        Args:
            needed: for each of `passed`, whether its gradient is wanted.
            strides: of each output's cotangent; None where there is none.
            scalars: the launch's other arguments.
        """
        spec = self.specialisation
        wanted = {n for n, need in zip(self.passed, needed, strict=True) if need}
        given = {
            name: step
            for name, step in zip(spec.stored, strides, strict=True)
            if step is not None
        }
        launch = spec.launch(scalars, self.grid)
        return make_plan(
            spec,
            settle(spec, self.wrt & wanted, frozenset(given), launch, self.readable),
            dict(zip(spec.tensors, self.layouts, strict=True)),
            {name: slot for slot, name in enumerate(self.passed)},
            self.saved,
            given,
            launch,
        )


def record(
    spec: Specialisation,
    tensors: Sequence[Tensor],
    scalars: Sequence[Any],
    grid: Extents,
) -> Recording:
    """Decides how a launch is recorded; nothing is launched.

    Raises:
        UnsupportedError: the kernel has no derivative for the inputs that need one.
        LaunchError: the gradient of this launch is not defined.
    """
    names = spec.tensors
    refuse_memoryless(spec, tensors)
    refuse_negated(spec, tensors)
    layouts = tuple(Layout.of(t) for t in tensors)
    wrt = frozenset(n for n, t in zip(names, tensors, strict=True) if t.requires_grad)
    _check_layouts(spec, layouts, wrt)
    launch = spec.launch(scalars, grid)
    derivation = settle(spec, wrt, spec.outputs, launch, spec.outputs)
    backward = derivation.backward
    touches = _Touches(spec, backward.forward, layouts, tensors, scalars, grid)
    check_steps(backward.forward, launch)
    scattered = check_stores(backward.forward, backward.stores, launch, touches)
    for name, layout in zip(names, layouts, strict=True):
        if name in wrt or name in spec.stored:
            _check_gaps(name, layout, touches)
    kernels = [k for k in (backward.kernel, backward.counter) if k is not None]
    read = {p.name for kernel in kernels for p in kernel.params}
    passed = (*spec.stored, *(n for n in names if n in wrt and n not in spec.stored))
    kept = {*backward.read_back, *(n for n in names if n not in spec.stored)}
    saved = tuple(n for n in names if n in read and n in kept)
    depends = wrt.union(ct.of for ct in backward.cotangents)
    sizes = [t.element_size() for t in tensors]
    return Recording(
        spec,
        grid,
        layouts,
        tuple(at.span * size for at, size in zip(layouts, sizes, strict=True)),
        len(spec.stored),
        wrt,
        passed,
        saved,
        tuple(layouts[names.index(n)].stride for n in saved),
        frozenset(backward.read_back),
        tuple(i for i, name in enumerate(spec.stored) if name not in depends),
        tuple(i for i, n in enumerate(names) if n in wrt and repeats(layouts[i])),
        backward.forward,
        scattered,
        picker([names.index(n) for n in passed]),
        picker([names.index(n) for n in saved]),
    )


def refuse_memoryless(spec: Specialisation, tensors: Sequence[Tensor]) -> None:
    """Refuses tensors that no kernel can work on: sparse ones, and meta tensors."""
    for name, tensor in zip(spec.tensors, tensors, strict=True):
        fault = without_memory(tensor)
        if fault:
            raise LaunchError(
                f"`{name}` is a tensor {fault}",
                kernel=spec.forward.name,
                hint="pass a dense tensor that has memory",
            )


def refuse_negated(spec: Specialisation, tensors: Sequence[Tensor]) -> None:
    """Refuses views that PyTorch negates when it reads them: a kernel does not."""
    for name, tensor in zip(spec.tensors, tensors, strict=True):
        if tensor.is_neg():
            raise LaunchError(
                f"`{name}` is negated lazily: its memory holds minus its elements",
                kernel=spec.forward.name,
                why="it is the imaginary part of a conjugate, or a view of one",
                hint="pass its `resolve_neg()`",
            )


def _check_layouts(
    spec: Specialisation, layouts: Sequence[Layout], wrt: frozenset[str]
) -> None:
    for name, layout in zip(spec.tensors, layouts, strict=True):
        written = name in spec.stored
        if name in wrt and layout.dtype.is_floating_point and layout.dtype.itemsize < 2:
            raise LaunchError(
                f"`{name}` of dtype {layout.dtype} requires a gradient",
                kernel=spec.forward.name,
                why="such numbers carry too few bits for a gradient",
                hint="detach it, or convert it to a wider type before the launch",
            )
        if (written and repeats(layout)) or (name in wrt and meets_itself(layout)):
            raise LaunchError(
                f"elements of `{name}` share memory, and its gradient is not defined",
                kernel=spec.forward.name,
                hint="pass a contiguous copy",
            )


@dataclass(frozen=True, slots=True)
class _Touches:
    """What a launch touches of its arguments, followed where nothing is proved."""

    specialisation: Specialisation
    kernel: Kernel
    layouts: Sequence[Layout]
    tensors: Sequence[Tensor]
    scalars: Sequence[Any]
    grid: Extents
    with_data: bool = False
    """Whether the answer is for this launch alone, and may depend on what is loaded."""

    def count(self, name: str, accesses: Sequence[Op]) -> Tensor | None:
        """How often each element of `name` is touched; None if data decide."""
        index = self.specialisation.tensors.index(name)
        return touched(
            self.kernel,
            tuple(accesses),
            self._argument,
            self.grid,
            self.layouts[index].span,
            self.tensors[index].device,
            self.with_data,
        )

    def _argument(self, name: str) -> Any:
        spec = self.specialisation
        if name in spec.tensors:
            return self.tensors[spec.tensors.index(name)].detach()
        if not self.with_data:
            spec.read(name)
        return self.scalars[spec.scalars.index(name)]


def _accesses(kernel: Kernel, name: str) -> list[Op]:
    return [
        op
        for op in walk(kernel.body)
        if OPS[op.opcode].kind == "memory" and op.operands[0].name == name
    ]


def _check_gaps(name: str, layout: Layout, touches: _Touches) -> None:
    """Refuses accesses to what lies between a tensor's own elements.

    Autograd knows nothing of that memory: what is written there has no history, and
    what is read there gets no gradient.
    """
    if is_dense(layout.size, layout.stride) or 0 in layout.size:
        return
    for access in _accesses(touches.kernel, name):
        counts = touches.count(name, [access])
        if counts is None:
            continue
        own = counts.as_strided(layout.size, layout.stride)
        own.zero_()
        if counts.any():
            verb = "read" if access.opcode == "load" else "written"
            raise LaunchError(
                f"`{name}` is accessed between its elements",
                loc=access.loc,
                kernel=touches.kernel.name,
                why=f"it is a view with strides {layout.stride}, and element "
                f"{int(counts.argmax())} behind its first one, which is not part of "
                f"it, is {verb}; autograd sees nothing of that",
                hint="pass the tensor that it is a view of, or a contiguous copy",
            )


def check_steps(kernel: Kernel, launch: Launch) -> None:
    """Refuses loops that do not step upwards: Triton leaves open what they do.

    A negative step that is written in the kernel is none to Triton, which turns it.
    """
    for op in walk(kernel.body):
        if op.opcode == "for" and uniform(op.operands[2]):
            step = at_launch(op.operands[2], launch)
            if step < 1:
                raise LaunchError(
                    f"a loop has a step of {step}",
                    loc=op.loc,
                    kernel=kernel.name,
                    why="a step that is an argument must be positive",
                    hint="make the step a constexpr, or count upwards",
                )


def check_stores(
    kernel: Kernel,
    stores: Sequence[OutputStores],
    launch: Launch,
    touches: _Touches,
) -> tuple[OutputStores, ...]:
    """Refuses a launch in which an element is known to be written several times.

    Each of the stores would read the element's cotangent, and the gradient would be a
    multiple of the right one. Where neither is proved the stores are followed.

    Returns:
        Those of which loaded data decide it.
    """
    scattered: list[OutputStores] = []
    for store in stores:
        reason = _repeated(store, launch) or _followed(store, launch, touches)
        if reason is None:
            scattered.append(store)
        elif reason:
            raise _written_again(kernel, store, reason)
    return tuple(scattered)


def _written_again(kernel: Kernel, store: OutputStores, reason: str) -> LaunchError:
    place = next(
        op.loc
        for op in walk(kernel.body)
        if op.opcode == "store" and op.operands[0].name == store.of
    )
    return LaunchError(
        f"an element of `{store.of}` is written several times, so that its gradient is "
        "not defined",
        loc=place,
        kernel=kernel.name,
        why=reason,
    )


def _repeated(store: OutputStores, launch: Launch) -> str:
    """Why elements are written several times, or nothing."""
    finding = store.finding
    if any(launch[f"grid{axis}"] == 0 for axis in range(3)):
        return ""
    if store.guarded:
        return ""
    if isinstance(finding, Exclusive):
        axes = [axis for axis in finding.unread if launch[f"grid{axis}"] > 1]
        if axes:
            return f"no program looks at grid axis {axes[0]}"
        return "" if finding.holds(launch) else _standstill(finding, launch)
    several = finding.axis is not None and launch[f"grid{finding.axis}"] > 1
    return finding.reason if several or finding.certain else ""


def _followed(store: OutputStores, launch: Launch, touches: _Touches) -> str | None:
    """Why elements are written several times, found by following the addresses.

    None if that depends on loaded data, which may not be looked at.
    """
    finding, kernel = store.finding, touches.kernel
    if 0 in touches.grid or (isinstance(finding, Exclusive) and finding.holds(launch)):
        return ""
    last = [op for op, _ in last_stores(kernel, kernel.param(store.of))]
    counts = touches.count(store.of, last)
    if counts is None:
        return None
    if not counts.numel() or int(counts.max()) < 2:
        every = [op for op in _accesses(kernel, store.of) if op.opcode == "store"]
        return _masked_apart(last, every)
    element = int(counts.argmax())
    return f"element {element} is written {int(counts[element])} times in this launch"


def _masked_apart(last: Sequence[Op], every: Sequence[Op]) -> str:
    """Whether a store that was not counted shows where the counted one is masked."""
    for store in every:
        if store in last:
            continue
        access = Access.of(store)
        over = [a for a in map(Access.of, last) if a.offsets == access.offsets]
        if not any(a.mask is None or a.mask is access.mask for a in over):
            return "stores under different masks may meet in this launch"
    return ""


def _standstill(finding: Exclusive, launch: Launch) -> str:
    """A stride of 0 along something that takes several values."""
    for reading in finding.readings:
        stuck = [
            digit
            for digit in reading.digits
            if at_launch(digit.coefficient, launch) == 0
            and at_launch(digit.extent, launch) > 1
        ]
        if not stuck:
            return ""
    return "a stride is 0 in this launch"
