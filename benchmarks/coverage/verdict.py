"""Judges the forward kernels of one workload.

Each launch is checked by itself, as ``undertow check`` does it: the derived kernel in
the tensors' own dtypes against its float64 run, and that against differences of the
forward in float64, which know nothing of reverse mode. Then the gradients of the whole
call are compared with those of the library's own backward.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage.inputs import Inputs
from benchmarks.coverage.launches import Launch, Recorder
from benchmarks.coverage.machine import stand_in
from benchmarks.coverage.workloads import Workload
from undertow.check.compare import Difference, described, difference
from undertow.check.example import Example
from undertow.check.launch import Subject, subject
from undertow.check.run import Case, Options
from undertow.errors import UndertowError
from undertow.ir import print_kernel

RIGHT, REFUSED, WRONG, CRASH = "right", "refused", "wrong", "crash"
VERDICTS = (RIGHT, REFUSED, WRONG, CRASH)
"""From good to bad: a kernel has the worst verdict of its launches."""

NO_GRADIENT = "no gradient"
"""Of a kernel that only works on integers, masks or metadata: it does not count."""

AGREES = "agrees"

_BACKWARD = re.compile(r"_(bwd|backward)")
"""Names of kernels that compute gradients, some of them in the forward."""

_HALF = re.compile(r"(?<![%\w\"])(bf16|f16)\b")


@dataclass(frozen=True)
class Finding:
    """What one launch of a kernel showed.

    Attributes:
        kernel: module and name; empty if it is no kernel that counts.
        verdict: one of `VERDICTS`, or `NO_GRADIENT`.
        reason: the first line of the error, or what is wrong.
        peer: how the gradients of the whole call compare with the library's.
        workload: the call.
    """

    kernel: str
    verdict: str
    reason: str
    peer: str
    workload: str


def findings(work: Workload) -> Iterator[Finding]:
    """One for each different launch of a forward kernel with a backward beside it."""
    with stand_in():
        derived = Run(work, derived=True)
        own = Run(work, derived=False)
    peer = compared(derived, own)
    if work.differs and peer not in (AGREES, ""):
        peer = f"differs: {work.differs}"
    if derived.stopped:
        yield Finding(*derived.stopped, peer, work.name)
    if not (own.backward or own.stopped or work.beside):
        return
    seen: set[object] = set()
    for launch in derived.forward:
        if not launch.executed:
            continue
        if not _counts(launch, derived.whole):
            yield Finding(launch.kernel, NO_GRADIENT, "", "", work.name)
            continue
        key = _key(launch)
        if key not in seen:
            seen.add(key)
            yield Finding(launch.kernel, *judged(launch), peer, work.name)


def _counts(launch: Launch, whole: bool) -> bool:
    """Whether a gradient passes through a launch.

    Behind a launch that has no derivative it cannot be seen what would have needed one.
    """
    if launch.passive or _BACKWARD.search(launch.fn.__name__):
        return False
    if launch.error is not None:
        return True
    return bool(launch.wrt) and (bool(launch.reached) or not whole)


def _key(launch: Launch) -> object:
    known = {
        n: v.dtype if isinstance(v, Tensor) else v for n, v in launch.values.items()
    }
    return launch.kernel, repr(known), launch.wrt, tuple(sorted(launch.reached))


# -- a run of the whole call --


@dataclass
class Run:
    """The call and its backward, with fresh inputs.

    Attributes:
        forward, backward: the launches of each.
        gradients: of the leaves.
        stopped: kernel, verdict and reason of what ended it early.
        failed: why there are no gradients.
    """

    work: Workload
    derived: bool
    forward: list[Launch] = field(default_factory=list)
    backward: list[Launch] = field(default_factory=list)
    gradients: list[Tensor | None] = field(default_factory=list)
    stopped: tuple[str, str, str] | None = None
    failed: str = ""

    def __post_init__(self) -> None:
        recorder = Recorder(self.work, self.derived)
        inputs = Inputs()
        with recorder.recording():
            try:
                made = self.work.call(inputs)
                outputs = [t for t in _tensors(made) if t.requires_grad]
            except Exception as error:
                self.stopped = _fault(recorder, error)
                self.failed = f"not run: {self.stopped[2]}"
                self.forward = recorder.launches
                return
            count = len(recorder.launches)
            try:
                self.gradients = list(
                    torch.autograd.grad(
                        outputs,
                        inputs.leaves,
                        [inputs.cotangent(t) for t in outputs],
                        allow_unused=True,
                    )
                )
            except Exception as error:
                self.failed = f"not run: {first_line(error)}"
        self.forward = recorder.launches[:count]
        self.backward = recorder.launches[count:]

    @property
    def least(self) -> torch.dtype:
        """The dtype of floats that kernels were given with the fewest bits."""
        dtypes = {
            value.dtype
            for launch in (*self.forward, *self.backward)
            for value in launch.values.values()
            if isinstance(value, Tensor) and value.is_floating_point()
        }
        return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)

    @property
    def whole(self) -> bool:
        """Whether all of it was differentiated."""
        return not (self.failed or any(x.error for x in self.forward))


def _tensors(made: Any) -> list[Tensor]:
    made = made if isinstance(made, tuple | list) else (made,)
    return [t for t in made if isinstance(t, Tensor)]


def _fault(recorder: Recorder, error: Exception) -> tuple[str, str, str]:
    last = recorder.launches[-1] if recorder.launches else None
    if last is None or last.executed or last.passive:
        return "", CRASH, first_line(error)
    verdict = REFUSED if isinstance(error, UndertowError) else CRASH
    return last.kernel, verdict, first_line(error)


def first_line(error: BaseException) -> str:
    """What an error says, in short."""
    if isinstance(error, UndertowError):
        return error.fact
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


# -- one launch by itself --


def judged(launch: Launch) -> tuple[str, str]:
    """The verdict on a launch, and the reason."""
    if launch.error is not None:
        return REFUSED, launch.error.fact
    try:
        example = Example(launch.grid, (), launch.values)
        found = subject(launch.fn, example, launch.wrt, sorted(launch.reached))
        if not (found.inputs and found.outputs):
            return RIGHT, ""
        wrong = [
            f"{outcome.name}: {detail}"
            for outcome in _Case(found, Options()).numbers()
            if outcome.ok is False
            for detail in outcome.details or (outcome.text,)
        ]
    except UndertowError as error:
        return REFUSED, error.fact
    except Exception as error:
        return CRASH, first_line(error)
    return (WRONG, wrong[0]) if wrong else (RIGHT, "")


class _Case(Case):
    """Compares by the least precise dtype that a kernel computes in."""

    def __init__(self, subject: Subject, options: Options) -> None:
        super().__init__(subject, options)
        halves = set(_HALF.findall(print_kernel(subject.forward)))
        self._least = torch.bfloat16 if "bf16" in halves else None
        self._least = self._least or (torch.float16 if halves else None)

    @property
    def dtypes(self) -> dict[str, torch.dtype]:
        own = super().dtypes
        return own if self._least is None else dict.fromkeys(own, self._least)


# -- against the library's backward --


def compared(derived: Run, own: Run) -> str:
    """How the gradients compare: `AGREES`, or what differs, or why it is not known."""
    if own.failed or derived.failed:
        return own.failed
    if not derived.whole:
        return ""
    found: list[Difference] = []
    dtype = own.least
    for index, (got, want) in enumerate(
        zip(derived.gradients, own.gradients, strict=True)
    ):
        if want is None:
            continue
        got = torch.zeros_like(want) if got is None else got
        found.append(difference(f"input {index}", got, want, dtype))
    if not found:
        return ""
    wrong = [d for d in found if d.wrong]
    if wrong and any(launch.interpreted for launch in (*own.forward, *own.backward)):
        return "not run: Triton's interpreter is no judge"  # `and` of tensors, for one
    return described(wrong[0]) if wrong else AGREES
