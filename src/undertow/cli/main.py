"""The commands of `undertow`.

Neither torch nor triton is imported here: each command imports what it runs.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

import undertow
from undertow.cli.messages import CommandError, console, show_error, show_source
from undertow.errors import UndertowError

P = ParamSpec("P")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Prints our errors without a traceback; exits with 2 for CommandError, else 1."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except UndertowError as error:
            show_error(error)
            raise typer.Exit(2 if isinstance(error, CommandError) else 1) from None
        except OSError as error:
            if error.filename is not None:
                raise  # not of standard output
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                fact = f"standard output cannot be written: {error.strerror}"
                show_error(CommandError(fact))
            raise typer.Exit(2) from None

    return run


def _version(wanted: bool) -> None:
    if wanted:
        print(f"undertow {undertow.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Writes the backward kernel of a Triton kernel as readable Triton source.

    Kernels are named [bold]file.py::kernel[/]; the file alone will do if it holds
    one kernel.

    [bold]undertow derive norms.py::rms_norm --constexpr BLOCK=256[/]
    """


# -- options that several commands have --

KERNEL = "Types of the arguments"
GRADIENT = "What is differentiated"
OUTPUT = "Output"
CHECKS = "What is checked"

MAX_SEED = 2**32 - 1


class Dtype(StrEnum):
    """Dtypes of floats, as Triton calls them."""

    bf16 = "bf16"
    fp16 = "fp16"
    fp32 = "fp32"
    fp64 = "fp64"


Kernel = Annotated[str, typer.Argument(metavar="FILE::KERNEL", help="The kernel.")]
DtypeOption = Annotated[
    Dtype | None,
    typer.Option(
        "--dtype",
        help="Dtype of tensors of floats; fp32 if nothing else is known.",
        rich_help_panel=KERNEL,
    ),
]
SignatureOption = Annotated[
    str | None,
    typer.Option(
        "--signature",
        metavar="NAME:TYPE,…",
        help='Types of single parameters, such as "x_ptr:*bf16,n:i32,eps:fp32".',
        rich_help_panel=KERNEL,
    ),
]
ConstexprOption = Annotated[
    list[str] | None,
    typer.Option(
        "--constexpr",
        "-c",
        metavar="NAME=VALUE",
        help="Value of a constexpr, such as BLOCK=256; may be repeated.",
        rich_help_panel=KERNEL,
    ),
]
ExampleOption = Annotated[
    str | None,
    typer.Option(
        "--example",
        metavar="FILE::FUNCTION",
        help="Example arguments; else KERNEL_example or example beside the kernel.",
        rich_help_panel=KERNEL,
    ),
]
WrtOption = Annotated[
    list[str] | None,
    typer.Option(
        "--wrt",
        metavar="NAME,…",
        help="Inputs that get a gradient; by default all floats that are loaded.",
        rich_help_panel=GRADIENT,
    ),
]
OutputsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--outputs",
        metavar="NAME,…",
        help="Outputs that have a gradient; by default all floats that are stored.",
        rich_help_panel=GRADIENT,
    ),
]
UniqueOption = Annotated[
    list[str] | None,
    typer.Option(
        "--unique",
        metavar="NAME,…",
        help="Pointers to integers that hold none twice, as you promise.",
        rich_help_panel=GRADIENT,
    ),
]
StopOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stop-gradient",
        metavar="NAME,…",
        help="Variables of the kernel whose values have no derivative.",
        rich_help_panel=GRADIENT,
    ),
]
ZeroOption = Annotated[
    list[str] | None,
    typer.Option(
        "--zero",
        metavar="NAME,…",
        help="Pointers, helpers and operations whose derivatives are zero.",
        rich_help_panel=GRADIENT,
    ),
]


def _promises(*options: list[str] | None) -> Any:
    from undertow.cli.derive import names
    from undertow.frontend import Promises

    return Promises.of(*(names(option or []) for option in options))


def _request(
    kernel: str,
    dtype: Dtype | None,
    types: str | None,
    constexpr: list[str] | None,
    example: str | None,
    wrt: list[str] | None,
    outputs: list[str] | None,
    promises: Any,
) -> Any:
    from undertow.cli import derive as work
    from undertow.cli.signature import given

    options = given(dtype.value if dtype else None, types, constexpr or [])
    return work.Request(
        kernel,
        options,
        work.names(wrt or []),
        work.names(outputs or []),
        promises,
        example,
    )


# -- commands --


@app.command()
@reported
def derive(
    kernel: Kernel,
    dtype: DtypeOption = None,
    signature: SignatureOption = None,
    constexpr: ConstexprOption = None,
    example: ExampleOption = None,
    wrt: WrtOption = None,
    outputs: OutputsOption = None,
    unique: UniqueOption = None,
    stop_gradient: StopOption = None,
    zero: ZeroOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write to a file.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite that file.", rich_help_panel=OUTPUT),
    ] = False,
    wrapper: Annotated[
        bool,
        typer.Option(
            "--wrapper",
            help="Add the forward and a torch.autograd.Function that launches both.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
) -> None:
    """Prints the backward of a kernel, or writes it to a file.

    The source that comes out imports only triton. Types are those of the example, if
    there is one; else tensors are fp32, and numbers i32 or, where the kernel only
    ever uses them as floats, fp32.

    [bold]undertow derive norms.py::rms_norm -c BLOCK=256 --out norms_bwd.py[/]
    """
    from undertow.cli import derive as work

    if out is not None and out.exists() and not force:
        raise CommandError(f"`{out}` exists", hint="overwrite it with --force")
    promises = _promises(unique, stop_gradient, zero)
    request = _request(
        kernel, dtype, signature, constexpr, example, wrt, outputs, promises
    )
    derived = work.run(request)
    source = derived.derivation.source
    if wrapper:
        from undertow.cli.wrapper import with_wrapper

        source = with_wrapper(derived)
    if out is None:
        show_source(source)
        return
    work.write(out, source, force=force)
    console(stderr=True).print(f"wrote {out}", soft_wrap=True)


@app.command()
@reported
def explain(
    kernel: Kernel,
    dtype: DtypeOption = None,
    signature: SignatureOption = None,
    constexpr: ConstexprOption = None,
    example: ExampleOption = None,
    wrt: WrtOption = None,
    outputs: OutputsOption = None,
    unique: UniqueOption = None,
    stop_gradient: StopOption = None,
    zero: ZeroOption = None,
) -> None:
    """Says where each gradient goes and why, and what the backward reads and writes.

    A gradient is stored plainly where each element is proved to be written once, and
    added atomically elsewhere. What is tested at launch is listed.

    [bold]undertow explain norms.py::rms_norm -c BLOCK=256[/]
    """
    from undertow.cli import derive as work
    from undertow.cli import explain as explanation

    promises = _promises(unique, stop_gradient, zero)
    request = _request(
        kernel, dtype, signature, constexpr, example, wrt, outputs, promises
    )
    explanation.show(work.run(request))


class Device(StrEnum):
    """Where the demo and the checks run."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


@app.command()
@reported
def demo(
    seconds: Annotated[
        float | None, typer.Option("--seconds", help="Seconds of training.", min=0.1)
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the pictures go.")
    ] = Path("out"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Train for three seconds.")
    ] = False,
    device: Annotated[
        Device, typer.Option("--device", help="Where to train.")
    ] = Device.auto,
    seed: Annotated[
        int,
        typer.Option("--seed", help="Of weights and images.", min=0, max=MAX_SEED),
    ] = 0,
    batch: Annotated[
        int | None, typer.Option("--batch", help="Images a step.", min=1)
    ] = None,
) -> None:
    """Trains a small face detector with a derived box loss, and draws what it finds.

    Needs no GPU; with one it takes a minute, without about two.

    [bold]undertow demo --quick[/]
    """
    from undertow.demo import main as show

    options = show.Options(
        seconds=seconds,
        seed=seed,
        device=device.value,
        out=out,
        batch=batch,
        quick=quick,
    )
    show.run(options)


@app.command()
@reported
def check(
    kernel: Kernel,
    example: ExampleOption = None,
    wrt: WrtOption = None,
    outputs: OutputsOption = None,
    unique: UniqueOption = None,
    stop_gradient: StopOption = None,
    zero: ZeroOption = None,
    device: Annotated[
        Device,
        typer.Option(
            "--device",
            help="With cuda, also launches the kernels there.",
            rich_help_panel=CHECKS,
        ),
    ] = Device.cpu,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            help="Of the example and cotangents.",
            min=0,
            max=MAX_SEED,
            rich_help_panel=CHECKS,
        ),
    ] = 0,
    allow_unwritten: Annotated[
        bool,
        typer.Option(
            "--allow-unwritten",
            help="Outputs may keep elements that nothing wrote.",
            rich_help_panel=CHECKS,
        ),
    ] = False,
) -> None:
    """Compares a kernel and its backward with float64, and watches what they access.

    Arguments come from a function beside the kernel, KERNEL_example or example, that
    returns (grid, kwargs) or (grid, args, kwargs). Its own parameters, if it has any,
    are sizes with defaults, and are varied.

    [bold]undertow check norms.py::rms_norm[/]
    """
    from undertow.cli import check as work
    from undertow.cli.derive import names

    options = work.options(
        names(wrt or []),
        names(outputs or []),
        _promises(unique, stop_gradient, zero),
        device.value,
        seed,
        allow_unwritten,
    )
    if not work.run(kernel, example, options):
        raise typer.Exit(1)
