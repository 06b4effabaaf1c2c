"""Runs cases: the reference, the derived backward in the evaluator, a real launch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

import undertow
from kernels.cases import CASES, Case
from kernels.draw import Draw, converted, laid_out
from undertow import evaluate
from undertow.analysis.ceiling import ceiling
from undertow.evaluate import Tolerance
from undertow.ir import Kernel
from undertow.runtime.derivation import Derivation, derive
from undertow.runtime.geometry import Layout, outputs_strides, own_strides
from undertow.runtime.specialisation import TORCH, element

HALF = {torch.float16: "f16", torch.bfloat16: "bf16"}
DTYPES = {torch.float32: "f32", **HALF}

TRITON = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.bool: "i1",
}


def pairs() -> list[tuple[str, torch.dtype]]:
    """Every case with every dtype in which its comparison says something."""
    return [
        (name, dtype)
        for name, make in CASES.items()
        for dtype in DTYPES
        if not (dtype in HALF and make().precise)
    ]


def halves() -> list[str]:
    """The cases whose kernels also take half precision."""
    return [name for name, dtype in pairs() if dtype == torch.bfloat16]


def label(value: object) -> str | None:
    return DTYPES[value] if isinstance(value, torch.dtype) else None


def typed(
    case: Case, dtype: torch.dtype
) -> tuple[dict[str, str], dict[str, object], dict[str, object]]:
    """Triton's types, the constexprs as a launch folds them, and what stays to pass."""
    signature: dict[str, str] = {}
    constexprs: dict[str, object] = dict(case.constexprs)
    passed: dict[str, object] = {}
    for name, arg in case.args.items():
        if arg is None or (isinstance(arg, int) and arg == 1):
            constexprs[name] = arg
            continue
        passed[name] = arg
        if isinstance(arg, Tensor):
            held = dtype if arg.is_floating_point() else arg.dtype
            signature[name] = f"*{TRITON[held]}"
        else:
            signature[name] = "i32" if isinstance(arg, int) else "fp32"
    return signature, constexprs, passed


@dataclass(frozen=True)
class Expected:
    """Outputs, and the gradients for one set of cotangents, all in float64."""

    outputs: Mapping[str, Tensor]
    cotangents: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor]

    @staticmethod
    def of(case: Case, layout: str = "") -> Expected:
        """By autograd on the case's reference; cotangents are random, of order one."""
        leaves = {
            name: t.detach().clone().requires_grad_(name in case.wrt)
            for name, t in case.inputs.items()
        }
        given = {name.removesuffix("_ptr"): t for name, t in leaves.items()}
        results = case.reference(**given)
        results = results if isinstance(results, tuple) else (results,)
        draw = Draw(7)
        cotangents = {
            name: _given(draw.normal(*r.shape), layout)
            for name, r in zip(case.outputs, results, strict=True)
        }
        torch.autograd.backward(results, list(cotangents.values()))
        outputs = {n: r.detach() for n, r in zip(case.outputs, results, strict=True)}
        gradients: dict[str, Tensor] = {}
        for name in case.wrt:
            gradient = leaves[name].grad
            assert gradient is not None, name
            gradients[name] = gradient
        return Expected(outputs, cotangents, gradients)


def _given(cotangent: Tensor, layout: str) -> Tensor:
    """A cotangent as autograd may hand it over."""
    match layout:
        case "expanded":
            return cotangent[..., :1].expand(cotangent.shape)
        case "transposed":
            return cotangent.mT.contiguous().mT if cotangent.ndim > 1 else cotangent
        case "sliced":
            return cotangent.repeat_interleave(2, -1)[..., ::2]
        case _:
            return cotangent


class Oracle:
    """A case captured for one dtype, whose kernels the evaluator runs in another."""

    def __init__(self, case: Case, dtype: torch.dtype = torch.float32) -> None:
        self.case, self.dtype = case, dtype
        self.signature, self.constexprs, self.passed = typed(case, dtype)

    @cached_property
    def derivation(self) -> Derivation:
        return derive(
            self.case.kernel, self.signature, self.constexprs, wrt=self.case.wrt
        )

    def arguments(self, held: torch.dtype, device: str = "cpu") -> dict[str, object]:
        """Fresh copies of what is passed, floats in `held`."""
        return {
            n: converted(a, held, device) if isinstance(a, Tensor) else a
            for n, a in self.passed.items()
        }

    def forward(
        self, float_dtype: torch.dtype | None = torch.float64
    ) -> dict[str, Tensor]:
        """The outputs."""
        held = float_dtype or self.dtype
        args = self.arguments(held)
        kernel = self.derivation.forward
        names = {p.name for p in kernel.params}
        given = {n: a for n, a in args.items() if n in names}
        evaluate.run(kernel, given, self.case.grid, float_dtype=float_dtype)  # type: ignore[arg-type]
        return {n: args[n] for n in self.case.outputs}  # type: ignore[misc]

    def backward_arguments(
        self, cotangents: Mapping[str, Tensor], held: torch.dtype | None = None
    ) -> dict[str, object]:
        """What the backward kernel is passed: each cotangent in its output's layout."""
        backward = self.derivation.backward
        args = self.arguments(held or self.dtype)
        if backward.read_back:
            left = self.forward(held)
            args.update((name, left[name]) for name in backward.read_back)
        launch = {n: a for n, a in self.passed.items() if isinstance(a, int)}
        launch.update((f"grid{axis}", e) for axis, e in enumerate(self.grid))
        for ct in backward.cotangents:
            output, given = args[ct.of], cotangents[ct.of]
            assert isinstance(output, Tensor)
            laid = Layout.of(output)
            given = given.to(held or self.dtype)
            values = own_strides(ct, laid, given.stride(), launch)  # type: ignore[arg-type]
            if values is None:
                given = converted(given, given.dtype, layout=output)
                values = outputs_strides(ct, launch)
            args[ct.name] = given
            args.update(zip((s.name for s in ct.strides), values, strict=False))
        for g in backward.gradients:
            source = args[g.of]
            assert isinstance(source, Tensor)
            buffer = laid_out(
                source.shape, source.stride(), held or GRADIENTS[g.dtype.name]
            )
            buffer.copy_(cotangents[g.of] if g.in_place else torch.zeros(source.shape))
            args[g.name] = buffer
        counts = self.counted(args, held)
        for tape in backward.tapes:
            turns = counts.get(tape.turns.name)
            if turns is None:
                turns = ceiling(tape.trips, launch) or 0  # type: ignore[arg-type]
            turns = max(1, turns)
            args[tape.turns.name] = turns
            kept = held if held and element(tape.pointer).is_float else None
            dtype = kept or TORCH[element(tape.pointer).name]
            numel = math.prod(self.grid) * turns * tape.size
            args[tape.pointer.name] = torch.empty(numel, dtype=dtype)
        return {p.name: args[p.name] for p in backward.kernel.params}

    def counted(
        self, args: Mapping[str, object], held: torch.dtype | None
    ) -> dict[str, int]:
        """The turns of loops that data decide, as the derived counter finds them."""
        backward = self.derivation.backward
        if backward.counter is None:
            return {}
        turns = torch.zeros(
            math.prod(self.grid), len(backward.counted), dtype=torch.int32
        )
        names = [p.name for p in backward.counter.params[1:]]
        given = {n: args[n] for n in names} | {backward.counter.params[0].name: turns}
        evaluate.run(backward.counter, given, self.grid, float_dtype=held)  # type: ignore[arg-type]
        return dict(zip(backward.counted, turns.amax(0).tolist(), strict=True))

    @property
    def grid(self) -> tuple[int, int, int]:
        return (*self.case.grid, 1, 1)[:3]  # type: ignore[return-value]

    def gradients(
        self,
        cotangents: Mapping[str, Tensor],
        float_dtype: torch.dtype | None = torch.float64,
        kernel: Kernel | None = None,
        *,
        poison: bool = False,
    ) -> dict[str, Tensor]:
        """Gradients by input; `kernel` stands in for the derived one."""
        backward = self.derivation.backward
        args = self.backward_arguments(cotangents, float_dtype)
        evaluate.run(
            kernel or backward.kernel,
            args,  # type: ignore[arg-type]
            self.grid,
            float_dtype=float_dtype,
            poison=poison,
        )
        found: dict[str, Tensor] = {g.of: args[g.name] for g in backward.gradients}  # type: ignore[misc]
        for name in backward.zeros:
            found[name] = torch.zeros_like(self.case.args[name])  # type: ignore[arg-type]
        found |= {name: cotangents[name] for name in backward.passed_on}
        return found


GRADIENTS = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}


def launch(
    case: Case,
    dtype: torch.dtype,
    cotangents: Mapping[str, Tensor],
    device: str = "cpu",
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Outputs and gradients of a launch that autograd records, in `dtype`."""
    leaves: dict[str, Tensor] = {}
    args: dict[str, object] = {}
    for name, arg in case.args.items():
        if not isinstance(arg, Tensor):
            args[name] = arg
            continue
        copy = args[name] = converted(arg, dtype, device)
        if name in case.wrt:
            leaves[name] = copy.requires_grad_()
        if name in case.in_place:
            blank = laid_out(copy.shape, copy.stride(), dtype, device)
            args[name] = blank.copy_(copy)
    kernel = undertow.differentiable(case.kernel)
    kernel[case.grid](**args, **case.constexprs)
    outputs: dict[str, Tensor] = {n: args[n] for n in case.outputs}  # type: ignore[misc]
    given = [cotangents[n].to(device, outputs[n].dtype) for n in case.outputs]
    torch.autograd.backward(list(outputs.values()), given)
    gradients: dict[str, Tensor] = {}
    for name, leaf in leaves.items():
        assert leaf.grad is not None, f"`{name}` got no gradient"
        gradients[name] = leaf.grad
    return {n: t.detach() for n, t in outputs.items()}, gradients


EXACT = Tolerance(1e-12, 1e-12, "the same algebra in float64, in another order")


def compare(
    found: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: Tolerance
) -> None:
    """Asserts equality, NaN only where it is expected."""
    assert found.keys() == expected.keys()
    for name, want in expected.items():
        torch.testing.assert_close(
            found[name].cpu().double(),
            want.double(),
            rtol=tolerance.rtol,
            atol=tolerance.atol,
            equal_nan=True,
            msg=lambda text, name=name: f"`{name}`: {text}",
        )
