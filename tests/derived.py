"""Executes derived kernels the way a launch does, and compares them with oracles."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from undertow.analysis.ceiling import ceiling
from undertow.evaluate import TOLERANCES, directional_difference, run
from undertow.evaluate.differences import STEP
from undertow.evaluate.launch import Argument
from undertow.ir import I8, I16, I32, I64, Kernel, PointerType
from undertow.transform.cotangent_layout import StridedCotangent
from undertow.transform.differentiate import Backward, Gradient, Task, differentiate
from undertow.transform.forward import push_forward
from undertow.transform.rebuild import simplify

Arguments = Mapping[str, Argument]
Grid = tuple[int, ...]
Tensors = dict[str, Tensor]
INTEGERS = {I8: torch.int8, I16: torch.int16, I32: torch.int32, I64: torch.int64}


def facts(args: Arguments, grid: Grid) -> dict[str, int]:
    """What conditions at launch are about: integer arguments and the grid."""
    numbers = {k: int(v) for k, v in args.items() if isinstance(v, int)}
    extents = (*grid, 1, 1)
    return numbers | {f"grid{axis}": extents[axis] for axis in range(3)}


def gradients(
    kernel: Kernel,
    args: Arguments,
    grid: Grid,
    cotangents: Tensors,
    *,
    wrt: Collection[str] | None = None,
    atomic: Collection[str] = (),
) -> Tensors:
    """The gradients of <cotangent, output>, in float64, by the derived backward.

    Undefined lanes hold NaN. Buffers start as a launch has them: NaN where the kernel
    is proved to write everything, zero elsewhere. Plain stores are checked for races.
    """
    backward = differentiate(kernel, wrt, list(cotangents), atomic=atomic)
    launch = facts(args, grid)
    shaky = {
        g.of
        for g in backward.gradients
        if g.placement.plain and not g.placement.finding.holds(launch)
    }
    if shaky:
        assert not shaky & set(atomic), "an atomic gradient depends on strides"
        again = {*atomic, *shaky}
        return gradients(kernel, args, grid, cotangents, wrt=wrt, atomic=again)
    for stores in backward.stores:
        assert not stores.several or stores.finding.holds(launch)
    values = _arguments(backward, args, launch, cotangents)
    values |= _left_by_forward(backward, values, grid)
    buffers = {
        g.of: _buffer(g, args[g.of], cotangents, launch) for g in backward.gradients
    }
    values |= {g.name: buffers[g.of] for g in backward.gradients}
    values |= _tapes(backward, launch, grid)
    used = {p.name: values[p.name] for p in backward.kernel.params}
    report = run(
        backward.kernel,
        used,
        grid,
        float_dtype=torch.float64,
        sanitize=bool(backward.gradients),
        poison=True,
    )
    assert not report.races, report.races
    assert not report.out_of_bounds, report.out_of_bounds
    zeros = {name: torch.zeros_like(args[name]).double() for name in backward.zeros}
    passed_on = {name: cotangents[name].double() for name in backward.passed_on}
    return buffers | zeros | passed_on


def _arguments(
    backward: Backward, args: Arguments, launch: dict[str, int], cotangents: Tensors
) -> dict[str, Argument]:
    values: dict[str, Argument] = {}
    for name, value in args.items():
        is_float = isinstance(value, Tensor) and value.is_floating_point()
        values[name] = value.double().clone() if is_float else value
    for plan in backward.cotangents:
        ct = cotangents[plan.of].double()
        if ct.numel() > 1 and _coordinates(plan, ct, launch):
            ct = torch.stack([ct, torch.full_like(ct, torch.nan)], -1)[..., 0]
        factor = ct.stride()[-1] if ct.dim() else 1
        values[plan.name] = ct
        for stride, coefficient in zip(plan.strides, plan.coefficients, strict=True):
            number = 1 if coefficient is None else launch[coefficient.name]
            values[stride.name] = number * factor
    return values


def _left_by_forward(backward: Backward, values: Arguments, grid: Grid) -> Tensors:
    """The outputs that the backward reads, with NaN where nothing was stored."""
    left = {
        name: torch.full_like(values[name], torch.nan) for name in backward.read_back
    }
    if left:
        given = {p.name: values[p.name] for p in backward.forward.params}
        for name, value in given.items():
            given[name] = value.clone() if isinstance(value, Tensor) else value
        run(backward.forward, given | left, grid, float_dtype=torch.float64)
    return left


def _tapes(backward: Backward, launch: dict[str, int], grid: Grid) -> Arguments:
    """Tapes as a launch makes them, with NaN in those of floats."""
    values: dict[str, Argument] = {}
    for tape in backward.tapes:
        turns = max(1, ceiling(tape.trips, launch) or 0)
        assert isinstance(tape.pointer.type, PointerType)
        is_float = tape.pointer.type.element.is_float
        dtype = torch.float64 if is_float else INTEGERS[tape.pointer.type.element]
        fill = torch.nan if is_float else -1
        size = math.prod(grid) * turns * tape.size
        values[tape.turns.name] = turns
        values[tape.pointer.name] = torch.full((size,), fill, dtype=dtype)
    return values


def _coordinates(plan: StridedCotangent, ct: Tensor, launch: dict[str, int]) -> bool:
    """Whether strides twice as large reach the same elements of twice the storage."""
    total = [0, 0]
    for coefficient, indices in zip(plan.coefficients, plan.indices, strict=True):
        if coefficient is not None and coefficient.name not in launch:
            return False
        number = 1 if coefficient is None else launch[coefficient.name]
        ends = [index.range(launch) for index in indices]
        if any(end is None for end in ends):
            return False
        total[0] += min(number * x for end in ends if end for x in end)
        total[1] += max(number * x for end in ends if end for x in end)
    fits = total[0] >= 0 and total[1] < max(1, ct.numel())
    return bool(plan.strides) and fits and ct.is_contiguous()


def _buffer(
    gradient: Gradient, x: Argument, cotangents: Tensors, launch: dict[str, int]
) -> Tensor:
    assert isinstance(x, Tensor)
    if gradient.in_place:
        return cotangents[gradient.of].double().clone()
    finding = gradient.placement.finding
    whole = gradient.placement.plain and finding.covers(x.numel(), launch)
    return torch.full(x.shape, torch.nan if whole else 0.0, dtype=torch.float64)


def check(
    kernel: Kernel,
    args: Arguments,
    grid: Grid,
    *,
    wrt: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    atomic: Collection[str] = (),
    seed: int = 0,
    smooth: bool = True,
) -> Tensors:
    """Compares the backward with finite differences and forward mode; the gradients.

    All three are multiplied by one random direction in the space of all inputs. Where
    that is not known to be `smooth`, differences count only if a smaller step agrees.
    """
    generator = torch.Generator().manual_seed(seed)

    def random(name: str) -> Tensor:
        tensor = args[name]
        assert isinstance(tensor, Tensor)
        return torch.randn(tensor.shape, generator=generator, dtype=torch.float64)

    jvp = push_forward(kernel, wrt, outputs)
    task = Task.of(simplify(kernel), wrt, outputs)
    inputs = sorted(p.name for p in task.inputs)
    targets = sorted(p.name for p in task.targets)
    cotangents = {name: random(name) for name in targets}
    directions = {name: random(name) for name in inputs}
    found = gradients(kernel, args, grid, cotangents, wrt=inputs, atomic=atomic)
    derived = sum(float((found[n] * d).sum()) for n, d in directions.items())
    point = kernel, args, grid, directions, cotangents
    expected = directional_difference(*point)
    scale = sum(float((found[n] * d).abs().sum()) for n, d in directions.items())
    nearer = expected if smooth else directional_difference(*point, step=STEP / 4)
    if abs(nearer - expected) <= 1e-5 * (1 + abs(expected)):
        close(derived, expected, scale, "difference")
    tangents = {n: torch.zeros_like(cotangents[n]) for n in targets} | directions
    values = {
        k: v.double().clone() if isinstance(v, Tensor) and v.is_floating_point() else v
        for k, v in args.items()
    }
    values |= {jvp.tangents[n]: t.clone() for n, t in tangents.items()}
    run(jvp.kernel, values, grid, float_dtype=torch.float64, poison=True)
    pushed = sum(
        float((values[jvp.tangents[n]] * ct).sum()) for n, ct in cotangents.items()
    )
    close(derived, pushed, scale, "f64")
    return found


def close(found: float, expected: float, scale: float, kind: str) -> None:
    """Fails unless they agree to the tolerance of `kind`, relative to `scale`."""
    tolerance = TOLERANCES[kind]
    error = abs(found - expected)
    limit = tolerance.atol + tolerance.rtol * max(scale, abs(expected))
    assert error <= limit, f"{found} differs from {expected} by {error:.3g}"
