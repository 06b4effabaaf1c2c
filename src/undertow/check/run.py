"""All checks of a kernel, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from undertow import evaluate
from undertow.check import memory
from undertow.check.compare import described, differences
from undertow.check.example import Example, make_example, sizes
from undertow.check.launch import Subject, apart, copies, gradients, subject
from undertow.check.layouts import LAYOUTS
from undertow.check.outcomes import ALL_NAN, Check, compared, free_of, undefined
from undertow.check.promises import broken
from undertow.errors import CheckError, LaunchError, UndertowError, UnsupportedError
from undertow.runtime.differentiable import Differentiable

SIZES = (0, 1, 63, 64, 65)
"""Around a block, and the two smallest."""
ELEMENTS = 64
"""Inputs with more elements are differentiated along random directions."""
DIRECTIONS = 4
MOVED = 256
"""Elements that one direction moves: with all of them, some would cross a kink."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line can set.

    Attributes:
        wrt, outputs: what is differentiated; empty for all floats.
        unique: pointers of which it is promised that they hold no integer twice.
        device: "cuda" to launch the kernels that Triton compiles as well.
        seed: of the example and the cotangents.
        allow_unwritten: whether outputs may keep elements that nothing wrote.
    """

    wrt: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    device: str = "cpu"
    seed: int = 0
    allow_unwritten: bool = False


def check(
    fn: Any,
    function: Callable[..., Any],
    options: Options = Options(),
    call: Callable[..., Example] = make_example,
) -> Iterator[Check]:
    """Checks the kernel `fn` on the arguments that `function` gives.

    Args:
        fn: a jit function, also under autotune, heuristics or
            `undertow.differentiable`, whose promises are checked too.
        function: gives an example, see `undertow.check.example`.
        options: what to check.
        call: calls `function`.

    Yields:
        One outcome after another.

    Raises:
        UndertowError: the kernel cannot be captured or differentiated.
    """
    if options.device == "cuda" and not torch.cuda.is_available():
        raise CheckError("torch finds no CUDA device", hint="leave out --device cuda")
    defaults = sizes(function)
    unique = options.unique
    if isinstance(fn, Differentiable):
        fn, unique = fn.fn, tuple(dict.fromkeys((*fn.unique, *unique)))

    def case(**given: int) -> Case:
        torch.manual_seed(options.seed)
        example = call(function, **{**defaults, **given})
        about = options.wrt, options.outputs, unique
        return Case(subject(fn, example, *about), options)

    main = case()
    if unique:
        promise = main.promises()
        yield promise
        if (
            not promise.ok
        ):  # the gradients would be wrong, and say nothing of the kernel
            yield from main.faults()
            return
    try:
        yield from main.numbers()
    except UndertowError:
        yield from main.faults()  # they may be the reason
        raise
    if defaults and not main.faulty:
        yield shapes(case, defaults)
    yield from main.faults()
    if options.device == "cuda" and not main.faulty:
        yield from main.on_gpu()


class Case:
    """A kernel on one example, with everything computed for it at most once."""

    def __init__(self, subject: Subject, options: Options) -> None:
        self.subject, self.options = subject, options

    @cached_property
    def report(self) -> evaluate.Report:
        args = copies(self.subject.args)
        return evaluate.run(
            self.subject.forward, args, self.subject.grid, sanitize=True
        )

    @property
    def faulty(self) -> bool:
        """Whether it cannot be run otherwise than watched."""
        return bool(self.report.out_of_bounds)

    @cached_property
    def cotangents(self) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(self.options.seed + 1)
        return {
            n: torch.randn(
                self.subject.tensors[n].shape, generator=generator, dtype=torch.float64
            ).to(self.subject.tensors[n].dtype)
            for n in self.subject.outputs
        }

    @property
    def only_stored(self) -> frozenset[str]:
        return self.subject.roles.stored - self.subject.roles.loaded

    @cached_property
    def pure(self) -> Subject:
        """The subject with what is only written set to zero, whatever it held."""
        values = copies(self.subject.values)
        for name in self.only_stored:
            values[name].zero_()
        return replace(self.subject, values=values)

    @cached_property
    def own(self) -> dict[str, Tensor]:
        """Gradients by the derived kernel in the tensors' dtypes."""
        launcher = self.subject.own()
        return gradients(launcher, self.pure, self.cotangents)[1]

    @cached_property
    def exact(self) -> dict[str, Tensor]:
        """Gradients in float64."""
        wide = {n: ct.double() for n, ct in self.cotangents.items()}
        launcher = self.subject.exact()
        return gradients(launcher, self.pure, wide, dtype=torch.float64)[1]

    @cached_property
    def exact_values(self) -> dict[str, Tensor]:
        args = copies(self.pure.args, torch.float64)
        evaluate.run(
            self.subject.forward, args, self.subject.grid, float_dtype=torch.float64
        )
        return {n: args[n] for n in sorted(self.subject.roles.stored)}

    @property
    def dtypes(self) -> dict[str, torch.dtype]:
        return {n: t.dtype for n, t in self.subject.tensors.items()}

    # -- checks --

    def promises(self) -> Check:
        """Whether the example keeps what was promised of it."""
        wrong = broken(self.subject.tensors, self.subject.unique)
        kept = "" if wrong else f"{', '.join(self.subject.unique)}: no value twice"
        return Check("unique", not wrong, kept, tuple(wrong))

    def numbers(self) -> Iterator[Check]:
        if self.faulty:
            text = "not compared: the kernel accesses memory out of bounds"
            yield Check("value, gradient", None, text)
            return
        yield self.value()
        if not (self.subject.inputs and self.subject.outputs):
            which = "input" if not self.subject.inputs else "output"
            asked = self.options.wrt or self.options.outputs
            ok = False if asked else None
            yield Check("gradient", ok, f"it has no {which} of floats")
            return
        own = self.own
        yield self.gradient(own)
        yield self.finite_differences()
        yield self.layouts()

    def value(self) -> Check:
        args = copies(self.pure.args)
        evaluate.run(self.subject.forward, args, self.subject.grid)
        return self._compared("value", {n: args[n] for n in self.exact_values})

    def _compared(self, name: str, got: Mapping[str, Tensor]) -> Check:
        want = self.exact_values
        wrong = [
            f"{n}: integers differ from those of the float64 run"
            for n, t in got.items()
            if not t.is_floating_point() and not torch.equal(t.cpu(), want[n])
        ]
        floats = {n: t for n, t in got.items() if t.is_floating_point()}
        outcome = compared(name, floats, want, self.dtypes, wrong)
        if outcome.ok is None:
            return outcome
        text = outcome.text if floats else f"{', '.join(got)} against float64"
        return replace(outcome, text=text)

    def gradient(self, got: Mapping[str, Tensor], name: str = "gradient") -> Check:
        return compared(name, got, self.exact, self.dtypes)

    def finite_differences(self) -> Check:
        name = "finite differences"
        inputs = [n for n in self.subject.inputs if _moves(self.subject.tensors[n])]
        if not inputs:
            return Check(name, None, "inputs are empty, or their elements share memory")
        count = sum(self.subject.tensors[n].numel() for n in inputs)
        wide = {n: ct.double() for n, ct in self.cotangents.items()}
        if all(undefined(self.exact_values[n]) for n in self.subject.outputs):
            return Check(name, None, f"{', '.join(inputs)}: {ALL_NAN}")
        if count > ELEMENTS:
            wrong = self._directions(inputs, wide)
            text = f"{', '.join(inputs)} along random directions"
            return Check(name, not wrong, text, tuple(wrong))
        args, grid = apart(self.pure.args), self.subject.grid
        want = evaluate.finite_differences(
            self.subject.forward, args, grid, inputs, wide
        )
        allowed = evaluate.TOLERANCES["difference"]
        wrong: list[str] = []
        measured = False
        for n in inputs:
            got, known = self.exact[n], ~want[n].isnan()
            error = (got - want[n]).abs()[known]
            size = want[n][want[n].isfinite()].abs()
            bound = allowed.atol + allowed.rtol * (size.max() if size.numel() else 0.0)
            measured = measured or bool(known.any())
            if not (error <= bound).all():
                worst = float(error.max())
                wrong.append(
                    f"{n}: derived and measured gradients differ by {worst:.2g}"
                )
        if not measured:
            return Check(name, None, f"{', '.join(inputs)}: {ALL_NAN}")
        text = f"{', '.join(inputs)} by every element"
        return Check(name, not wrong, text, tuple(wrong))

    def _directions(
        self, inputs: list[str], cotangents: dict[str, Tensor]
    ) -> list[str]:
        """Slopes along random directions, one input at a time."""
        generator = torch.Generator().manual_seed(self.options.seed + 2)
        args, allowed = apart(self.pure.args), evaluate.TOLERANCES["difference"]
        wrong: list[str] = []
        for name in inputs:
            for _ in range(DIRECTIONS):
                direction = _direction(self.subject.tensors[name].shape, generator)
                terms = self.exact[name] * direction
                slope = evaluate.directional_difference(
                    self.subject.forward, args, self.subject.grid, {name: direction},
                    cotangents,
                )  # fmt: skip
                got = float(terms.sum())
                if not abs(got - slope) <= allowed.atol + allowed.rtol * float(
                    terms.norm()
                ):
                    wrong.append(
                        f"{name}: slope {got:.9g} by the derived gradient, {slope:.9g} "
                        "by differences"
                    )
                    break
        return wrong

    def layouts(
        self, device: torch.device | None = None, name: str = "layouts"
    ) -> Check:
        """The gradient for cotangents in several layouts, against contiguous ones."""
        launcher = self.subject.own()
        tried: list[str] = []
        wrong: list[str] = []
        for layout, make in LAYOUTS.items():
            made = {n: make(ct.to(device)) for n, ct in self.cotangents.items()}
            laid = {n: ct for n, ct in made.items() if ct is not None}
            if not laid:
                continue
            plain = {n: ct.contiguous() for n, ct in laid.items()}
            rest = {n: ct.to(device) for n, ct in self.cotangents.items()}
            got = gradients(launcher, self.pure, {**rest, **laid}, device=device)[1]
            want = gradients(launcher, self.pure, {**rest, **plain}, device=device)[1]
            tried.append(layout)
            found = differences(got, want, self.dtypes)
            wrong += [f"{layout}: {described(d)}" for d in found if d.wrong]
        return Check(name, not wrong, ", ".join(tried), tuple(wrong))

    def faults(self) -> Iterator[Check]:
        report = self.report
        yield free_of("races", memory.races(report))
        yield free_of("out of bounds", memory.out_of_bounds(report))
        pure = sorted(self.only_stored)
        missing = memory.unwritten(report, pure)
        if missing and self.options.allow_unwritten:
            yield Check("unwritten", True, f"{', '.join(missing)}: allowed")
        else:
            yield free_of("unwritten", missing)
        leaking, contained = memory.undefined(report)
        kept = f"{', '.join(contained)}: contained" if contained else "none"
        details = tuple(f"{u}: masked lanes change an output" for u in leaking)
        yield Check("undefined lanes", not leaking, "" if leaking else kept, details)

    def on_gpu(self) -> Iterator[Check]:
        device = torch.device("cuda")
        moved = {n: ct.to(device) for n, ct in self.cotangents.items()}
        launcher = self.subject.own()
        values, grads = gradients(launcher, self.pure, moved, device=device)
        yield self._compared("value, cuda", values)
        if grads:
            yield self.gradient(grads, "gradient, cuda")
            yield self.layouts(device, "layouts, cuda")


# -- other sizes --


def shapes(case: Callable[..., Case], defaults: Mapping[str, int]) -> Check:
    """Value, gradient and memory for each size of the example in turn."""
    wrong: list[str] = []
    texts: list[str] = []
    for name in defaults:
        tried: list[int] = []
        for size in SIZES:
            try:
                faults = list(_shape_faults(case(**{name: size})))
            except UndertowError as error:
                if not size and not isinstance(error, LaunchError | UnsupportedError):
                    continue  # many an example cannot be empty
                faults = [error.fact]
            tried.append(size)
            wrong += [f"{name} = {size}: {fault}" for fault in faults]
        texts.append(f"{name} = {', '.join(map(str, tried))}")
    return Check("shapes", not wrong, "; ".join(texts), tuple(wrong))


def _shape_faults(case: Case) -> Iterator[str]:
    promise = case.promises()
    if not promise.ok:
        yield from promise.details
        return
    for outcome in case.faults():
        if outcome.ok is False:
            yield from outcome.details
    if case.faulty:
        return
    outcomes = [case.value()]
    if case.subject.inputs and case.subject.outputs:
        outcomes.append(case.gradient(case.own))
    for outcome in outcomes:
        yield from (f"{outcome.name} of {detail}" for detail in outcome.details)


def _moves(tensor: Tensor) -> bool:
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    return tensor.numel() > 0 and all(s or n <= 1 for s, n in pairs)


def _direction(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Random numbers at random elements, zero at the others."""
    direction = torch.zeros(shape.numel(), dtype=torch.float64)
    chosen = torch.randperm(shape.numel(), generator=generator)[:MOVED]
    direction[chosen] = torch.randn(
        len(chosen), generator=generator, dtype=torch.float64
    )
    return direction.view(shape)
