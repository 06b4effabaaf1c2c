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
from undertow.check.launch import Subject, copies, gradients, subject
from undertow.check.layouts import LAYOUTS
from undertow.check.outcomes import Check, compared, free_of
from undertow.check.promises import broken
from undertow.check.slopes import finite_differences
from undertow.errors import CheckError, LaunchError, UndertowError, UnsupportedError
from undertow.frontend import NO_PROMISES, Promises
from undertow.runtime.differentiable import Differentiable
from undertow.transform.rebuild import without_rules

SIZES = (0, 1, 63, 64, 65)
"""Around a block, and the two smallest."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line can set.

    Attributes:
        wrt, outputs: what is differentiated; empty for all floats.
        promises: what is promised of the kernel.
        device: "cuda" to launch the kernels that Triton compiles as well.
        seed: of the example and the cotangents.
        allow_unwritten: whether outputs may keep elements that nothing wrote.
    """

    wrt: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    promises: Promises = NO_PROMISES
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
    promises = options.promises
    if isinstance(fn, Differentiable):
        fn, promises = fn.fn, fn.promises | promises

    def case(**given: int) -> Case:
        torch.manual_seed(options.seed)
        example = call(function, **{**defaults, **given})
        about = options.wrt, options.outputs, promises
        return Case(subject(fn, example, *about), options)

    main = case()
    if promises.unique:
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
        unique = self.subject.promises.unique
        wrong = broken(self.subject.tensors, unique)
        kept = "" if wrong else f"{', '.join(unique)}: no value twice"
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
        if self.subject.forward.rules:
            yield from self.rules()
        else:
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

    def rules(self) -> Iterator[Check]:
        """Measures the kernel without the user's rules, then says what they change.

        Differences cannot tell a rule that is meant to be another one than the
        derivative from a wrong one, nor from a fault elsewhere.
        """
        names = ", ".join(self.subject.forward.rules)
        forward = without_rules(self.subject.forward)
        plain = Case(replace(self.subject, forward=forward), self.options)
        try:
            wide = dict.fromkeys(self.exact, torch.float64)
            found = differences(self.exact, plain.exact, wide)
        except UnsupportedError:  # there is no other derivative than the user's
            outcome = self.finite_differences()
            if outcome.ok is False:
                text = f"{outcome.text} differ, as {names} may mean to"
                outcome = replace(outcome, ok=None, text=text)
            yield outcome
            return
        outcome = plain.finite_differences()
        yield replace(outcome, text=f"{outcome.text}, without {names}")
        changed = [described(d) for d in found if d.wrong]
        kind = "not the derivative" if changed else "the derivative"
        text = f"{names}: {kind} of what is computed"
        yield Check("rules", None if changed else True, text, tuple(changed))

    def finite_differences(self) -> Check:
        wide = {n: ct.double() for n, ct in self.cotangents.items()}
        known = self.exact, self.exact_values
        return finite_differences(self.pure, *known, wide, self.options.seed)

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
