"""The autograd node of a kernel launch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from undertow.analysis.exclusive import Shared
from undertow.errors import LaunchError
from undertow.ir import walk
from undertow.runtime.call import Call
from undertow.runtime.geometry import buffer, collapsed, in_layout_of
from undertow.runtime.plan import GradientPlan, Plan
from undertow.runtime.recording import Extents, Recording
from undertow.runtime.specialisation import run_on_cpu
from undertow.runtime.tapes import allocate, count_turns


def launch(call: Call) -> Any:
    """Launches the forward and records it for autograd.

    Several outputs of which one is a view cannot be marked as overwritten, and a view
    that is overwritten cannot be saved without a cycle of references. Then the kernel
    writes to fresh tensors, and autograd copies them.

    Raises:
        UndertowError: there is no gradient to be had; nothing has been written.
    """
    recording, tensors = call.recording, call.tensors
    outputs = tensors[: recording.written]
    if not outputs:
        call.kernel.execute(call)
        return call.result
    refuse_outputs(outputs, recording.silent)
    refuse_inference(recording.take_saved(tensors))
    if recording.expanded:
        refuse_expanded(call)
    alone = len(outputs) == 1 and not recording.readable
    if not alone and any(t._is_view() for t in outputs):
        call.swapped = {id(t): in_layout_of(t.detach(), t.stride()) for t in outputs}
    results = _Launch.apply(call, *recording.take_passed(tensors))
    if call.swapped is not None:
        for output, result in zip(outputs, results, strict=True):
            _refresh(output)
            output.copy_(result)
    return call.result


# -- what PyTorch would refuse after the launch --

_C: Any = torch._C._autograd  # pyright: ignore[reportAttributeAccessIssue]
_F: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]


def refuse_outputs(outputs: Sequence[Tensor], silent: Sequence[int] = ()) -> None:
    """Raises what PyTorch raises for an operation in place, before the launch."""
    for index, output in enumerate(outputs):
        if output.is_inference():
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not "
                "allowed."
            )
        if silent and index in silent:
            continue
        if output._is_view():
            _refresh(output)
            base: Any = output._base
            refused = base.is_leaf and base.requires_grad
            meta = _C._get_creation_meta(output)
            refused = refused or meta != _C.CreationMeta.DEFAULT
        else:
            refused = output.requires_grad and output.is_leaf
        if refused:
            # it raises, in PyTorch's own words
            output.copy_(output.detach().requires_grad_(output.is_floating_point()))


def _refresh(view: Tensor) -> None:
    """Tells a view that its base was overwritten, or PyTorch takes it for a leaf.

    It is only told when its `grad_fn` is asked for.
    """
    _ = view.grad_fn


def refuse_inference(saved: Sequence[Tensor]) -> None:
    """Raises for tensors that cannot be saved, before the launch."""
    for tensor in saved:
        if tensor.is_inference():
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. "
                "Pass a clone made outside of inference mode."
            )


def refuse_expanded(call: Call) -> None:
    """Refuses leaves whose elements share memory: each would need its own gradient.

    Of other tensors only the sum matters, over the elements that are one in memory.
    """
    names = call.specialisation.tensors
    for index in call.recording.expanded:
        if call.tensors[index].is_leaf:
            raise LaunchError(
                f"elements of the leaf `{names[index]}` share memory, and each has a "
                "gradient of its own",
                kernel=call.specialisation.forward.name,
                hint="require the gradient of the tensor that was expanded, or pass a "
                "contiguous copy",
            )


# -- the node --


class _Launch(torch.autograd.Function):
    """Outputs come first among the tensors, as PyTorch wants where one is a view."""

    @staticmethod
    def forward(ctx: Any, call: Call, *passed: Tensor) -> Any:
        call.kernel.execute(call)
        recording, tensors = call.recording, call.tensors
        outputs = tensors[: recording.written]
        if call.swapped is None:
            ctx.mark_dirty(*outputs)
        else:
            outputs = tuple([call.swapped[id(t)] for t in outputs])
        if recording.silent:
            ctx.mark_non_differentiable(*[outputs[i] for i in recording.silent])
        saved = recording.take_saved(tensors)
        if call.swapped is not None:
            saved = [call.swapped.get(id(t), t) for t in saved]
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(False)
        ctx.launch = recording, call.scalars, call.options
        return outputs

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        if not torch.is_grad_enabled():
            return _backward(ctx, cotangents)
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # hooks may allow it only once
        with torch.no_grad():  # create_graph=True
            gradients = _backward(ctx, cotangents, saved)
        return _undifferentiable(ctx, gradients, (*cotangents, *saved))


class _Once(torch.autograd.Function):
    """Hands gradients through, and refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, kernel: str, count: int, *tensors: Tensor) -> Any:
        ctx.kernel = kernel
        return tuple([t.view_as(t) for t in tensors[:count]])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        raise LaunchError(
            f"the backward of `{ctx.kernel}` cannot be differentiated",
            kernel=ctx.kernel,
            why="a gradient made with create_graph=True was differentiated again, and "
            "autograd does not see inside a derived kernel",
            hint="detach the gradient, or do without create_graph",
        )


def _undifferentiable(
    ctx: Any,
    gradients: tuple[Tensor | None, ...],
    read: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Gradients that raise where autograd would lose what they depend on."""
    sources = [t for t in read if t is not None and t.requires_grad]
    given = [g for g in gradients if g is not None]
    if not sources or not given:
        return gradients
    name = ctx.launch[0].specialisation.forward.name
    fresh = iter(_Once.apply(name, len(given), *given, *sources))
    return tuple([None if g is None else next(fresh) for g in gradients])


def _backward(
    ctx: Any,
    cotangents: Sequence[Tensor | None],
    saved: Sequence[Tensor] | None = None,
) -> tuple[Tensor | None, ...]:
    launch: tuple[Recording, tuple[Any, ...], dict[str, Any]] = ctx.launch
    recording, scalars, options = launch
    needed: tuple[bool, ...] = ctx.needs_input_grad
    gradients: list[Tensor | None] = [None] * len(needed)
    cts = _readable(recording, cotangents)
    for ct in cts:
        if ct is not None:
            device = ct.device
            break
    else:
        return tuple(gradients)
    held: Sequence[Tensor] = ctx.saved_tensors if saved is None else saved
    saved = _laid_out(held, recording.saved_strides)
    plan = _plan(recording, needed[1:], cts, scalars)
    if plan.atomic and torch.are_deterministic_algorithms_enabled():
        refuse_nondeterministic(plan)
    read = [_placed(cts[ct.index], ct.strides) for ct in plan.cotangents]
    buffers = [_buffer(g, cts, device) for g in plan.gradients]
    if buffers:
        numbers, tapes = plan.numbers, plan.tapes
        if plan.take_counted is not None:
            given = plan.take_counted((*saved, *scalars))
            turns = count_turns(plan, given, recording.grid, device)
            numbers = (*numbers[: len(numbers) - len(turns)], *turns)
            tapes = [tape.sized(turns) for tape in tapes]
        backward = plan.derivation.backward
        memory = allocate(tapes, device, backward) if tapes else ()
        pool = (*saved, *read, *buffers, *memory, *scalars, *numbers)
        execute(plan, plan.take(pool), recording.grid, device, options)
    for g, written in zip(plan.gradients, buffers, strict=True):
        gradients[g.slot + 1] = _finished(g, written)
    for slot, index in plan.passed_on:
        gradients[slot + 1] = cts[index]
    for slot, layout in plan.zeros:
        gradients[slot + 1] = torch.zeros(
            layout.size, dtype=layout.dtype, device=device
        )
    return tuple(gradients)


def _plan(
    recording: Recording,
    needed: tuple[bool, ...],
    cts: Sequence[Tensor | None],
    scalars: Sequence[Any],
) -> Plan:
    spec = recording.specialisation
    strides = tuple([None if ct is None else ct.stride() for ct in cts])
    plan = spec.kept.get((recording, needed, strides, spec.numbers(scalars)))
    if plan is None:
        plan = recording.plan(needed, strides, scalars)
        spec.keep((recording, needed, strides, spec.numbers(scalars)), plan)
    return plan


# -- cotangents and saved tensors --


def _readable(
    recording: Recording, cotangents: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Cotangents whose memory holds what they are worth, in the output's dtype."""
    found: list[Tensor | None] = []
    for ct, layout in zip(cotangents, recording.layouts, strict=False):
        if ct is not None:
            if _F.is_functorch_wrapped_tensor(ct) or _F.is_legacy_batchedtensor(ct):
                refuse_batched(recording.specialisation.forward.name)
            if ct.layout is not torch.strided:
                raise LaunchError(
                    f"a gradient of layout {ct.layout} reached "
                    f"`{recording.specialisation.forward.name}`",
                    hint="make it dense before it gets there",
                )
            if ct.is_neg():
                ct = ct.resolve_neg()
            if ct._is_zerotensor():
                ct = ct.clone()
            if ct.dtype is not layout.dtype:
                ct = ct.to(layout.dtype)
        found.append(ct)
    return found


def refuse_batched(kernel: str) -> NoReturn:
    """Refuses many cotangents at once, which look like one that has no memory."""
    raise LaunchError(
        f"the backward of `{kernel}` was asked for many cotangents at once",
        kernel=kernel,
        why="a derived kernel takes one, and vmap does not see inside it",
        hint="call it in a loop: without vmap, is_grads_batched or vectorize",
    )


def _laid_out(
    tensors: Sequence[Tensor], strides: Sequence[tuple[int, ...]]
) -> list[Tensor]:
    """Saved tensors in the layout they had: hooks such as `save_on_cpu` change it."""
    return [
        tensor if tensor.stride() == step else in_layout_of(tensor, step)
        for tensor, step in zip(tensors, strides, strict=True)
    ]


def _placed(ct: Tensor | None, strides: tuple[int, ...] | None) -> Tensor:
    assert ct is not None
    return ct if strides is None else in_layout_of(ct, strides)


# -- gradients --


def _buffer(
    plan: GradientPlan, cts: Sequence[Tensor | None], device: torch.device
) -> Tensor:
    layout = plan.layout
    if plan.dense:
        fresh = torch.empty_strided(
            layout.size, layout.stride, dtype=plan.dtype, device=device
        )
        if plan.start == "empty":
            return fresh
        if plan.start == "zero":
            return fresh.zero_()
    elif plan.start != "cotangent":
        zero = plan.start == "zero"
        return buffer(layout.size, layout.stride, plan.dtype, device, zero=zero)
    else:
        fresh = buffer(layout.size, layout.stride, plan.dtype, device)
    ct = None if plan.cotangent is None else cts[plan.cotangent]
    assert ct is not None
    return fresh.copy_(ct)


def _finished(plan: GradientPlan, written: Tensor) -> Tensor:
    if plan.expanded:
        written = collapsed(written)
    if plan.dtype is not plan.layout.dtype:
        written = written.to(plan.layout.dtype)
    return written


def execute(
    plan: Plan,
    arguments: tuple[Any, ...],
    grid: Extents,
    device: torch.device,
    options: dict[str, Any],
) -> None:
    """Launches the backward kernel."""
    derivation = plan.derivation
    if 0 in grid:
        return
    if device.type != "cuda":
        kernel = derivation.backward.kernel
        names = [p.name for p in kernel.params]
        run_on_cpu(kernel, dict(zip(names, arguments, strict=True)), grid)
        return
    options = {**derivation.constexprs, **options} if options else derivation.constexprs
    run = derivation.function.run
    if torch.cuda.current_device() == device.index:
        run(*arguments, grid=grid, warmup=False, **options)
    else:  # the thread's first work may be on another device than the tensors
        with torch.cuda.device(device):
            run(*arguments, grid=grid, warmup=False, **options)


def refuse_nondeterministic(plan: Plan) -> None:
    """Raises, or warns, as `torch.use_deterministic_algorithms` demands."""
    backward, name = plan.derivation.backward, plan.atomic[0]
    kernel = backward.forward.name
    fact = (
        f"the gradient of `{name}` in `{kernel}` is summed by atomic_add, "
        "whose order is not deterministic"
    )
    if torch.is_deterministic_algorithms_warn_only_enabled():
        warnings.warn(fact, stacklevel=2)
        return
    raise LaunchError(
        fact,
        loc=next(
            op.loc
            for op in walk(backward.forward.body)
            if op.opcode == "load" and op.operands[0].name == name
        ),
        kernel=kernel,
        why=next(
            g.placement.finding.reason
            for g in backward.gradients
            if g.of == name and isinstance(g.placement.finding, Shared)
        ),
        hint="torch.use_deterministic_algorithms(True, warn_only=True) allows it",
    )
