"""`undertow derive`, and the steps it shares with `explain`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from undertow.cli import signature
from undertow.cli.examples import example_signature
from undertow.cli.messages import CommandError
from undertow.cli.signature import Given, Signature
from undertow.cli.target import Target, find
from undertow.errors import UnsupportedError
from undertow.frontend import NO_PROMISES, Promises
from undertow.ir import Kernel
from undertow.runtime.derivation import Derivation, derive
from undertow.transform.differentiate import roles
from undertow.transform.roles import indices


@dataclass(frozen=True, slots=True)
class Request:
    """What to derive: the kernel, and the options that `derive` and `explain` share."""

    kernel: str
    given: Given
    wrt: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    promises: Promises = NO_PROMISES
    example: str | None = None


@dataclass(frozen=True, slots=True)
class Derived:
    """A derivation, and what it was made from."""

    target: Target
    signature: Signature
    derivation: Derivation


def names(options: Iterable[str]) -> tuple[str, ...]:
    """Names from a repeatable option, each of which may be a comma list."""
    parts = (name.strip() for option in options for name in option.split(","))
    return tuple(dict.fromkeys(filter(None, parts)))


def run(request: Request) -> Derived:
    """Derives what is asked for.

    Raises:
        CommandError: the request names something that is not there.
        CaptureError: Triton does not compile the kernel.
        UnsupportedError: it has no derivative here.
    """
    target = find(request.kernel, request.promises)
    example = example_signature(target, request.example)
    known = signature.infer(target, request.given, example)
    forward = signature.captured(target, known)
    check_names(target, forward, request.wrt, request.outputs)
    derivation = derive(
        target.kernel,
        known.types,
        known.constexprs,
        wrt=request.wrt or None,
        outputs=request.outputs or None,
        unique=target.promises.unique,
        stop_gradient=target.promises.stop_gradient,
        zero=target.promises.zero,
    )
    if not derivation.backward.gradients:
        raise UnsupportedError(
            f"no gradient reaches an input of `{target.name}`",
            why=_nothing(forward, known, request),
        )
    return Derived(target, known, derivation)


def check_names(
    target: Target,
    forward: Kernel,
    wrt: Collection[str],
    outputs: Collection[str],
) -> None:
    """Raises CommandError for a name that can be no input or output of the gradient.

    Or for one that can be no index.
    """
    found, unique = roles(forward), target.promises.unique
    floats = {p.name for p in forward.pointers if str(p.type) in _FLOAT_POINTERS}
    for option, given, used, what in (
        ("--wrt", wrt, found.loaded & floats, "float pointer that is loaded"),
        (
            "--outputs",
            outputs,
            found.stored & floats,
            "float pointer that is stored to",
        ),
        ("--unique", unique, indices(forward), "integer pointer that is only loaded"),
    ):
        fit = [p.name for p in forward.pointers if p.name in used]
        for name in given:
            signature.require_parameter(
                target.name, name, [p.name for p in forward.params]
            )
            if name not in fit:
                raise CommandError(
                    f"`{name}` in {option} is no {what}",
                    why=f"those of `{target.name}` are {', '.join(fit) or 'none'}",
                )


_FLOAT_POINTERS = {
    f"ptr<{d}>" for d in ("f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64")
}


def _nothing(forward: Kernel, known: Signature, request: Request) -> tuple[str, ...]:
    found = roles(forward)
    floats = [p.name for p in forward.pointers if str(p.type) in _FLOAT_POINTERS]
    inputs = [n for n in floats if n in (request.wrt or found.loaded)]
    outputs = [n for n in floats if n in (request.outputs or found.stored)]
    if not inputs:
        return ("it loads no floats",)
    if not outputs:
        return ("it stores no floats",)
    return (
        f"no value of {', '.join(inputs)} reaches {', '.join(outputs)} by a derivative",
    )


def write(path: Path, text: str, *, force: bool) -> None:
    """Writes `text`, but over another file only with `force`."""
    if path.exists() and not force:
        raise CommandError(f"`{path}` exists", hint="overwrite it with --force")
    try:
        path.write_text(text)
    except OSError as error:
        raise CommandError(f"`{path}` cannot be written: {error.strerror}") from error
