"""The demo: a kernel, its derived backward, and a face detector trained with it."""

from __future__ import annotations

import csv
import importlib.util
import inspect
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from undertow.check.run import Options as CheckOptions
from undertow.check.run import check
from undertow.demo import losses, profile
from undertow.demo.evaluation import Quality, evaluate, predict
from undertow.demo.faces import Batch, Composer, load_sources
from undertow.demo.model import make_net
from undertow.demo.pictures import draw_faces, draw_loss
from undertow.demo.train import CPU, GPU, Recipe, train
from undertow.errors import UndertowError

_PACKAGES = {"skimage": "scikit-image", "matplotlib": "matplotlib"}
_HELD_OUT_SEED = 1
_LOSSES: dict[str, losses.BoxLoss] = {
    "kernel": losses.kernel_loss,
    "eager": losses.eager_loss,
}


@dataclass(frozen=True)
class Options:
    """What the command line can set.

    Attributes:
        seconds: of training; 90 on a CPU and 30 on a GPU by default.
        seed: of weights and training images.
        device: "auto" takes a GPU if there is one.
        out: where the pictures go.
        batch: images a step; 8 on a CPU and 64 on a GPU by default.
        loss: the box loss to train with.
        threads: CPU threads of one operation. More than one gains little on images
            this small, and costs much where other programs use the cores as well.
        quick: three seconds of training on a few images.
    """

    seconds: float | None = None
    seed: int = 0
    device: str = "auto"
    out: Path = Path("out")
    batch: int | None = None
    loss: Literal["kernel", "eager"] = "kernel"
    threads: int = 1
    quick: bool = False


def run(options: Options, console: Console | None = None) -> None:
    """Runs the demo and writes `loss.png` and `faces.png`.

    Raises:
        UndertowError: a package is missing.
    """
    require_packages()
    console = console or Console()
    device = pick_device(options.device)
    torch.set_num_threads(options.threads)
    recipe = recipe_for(options, device)
    options.out.mkdir(parents=True, exist_ok=True)

    console.rule("1. The kernel and its backward")
    show_kernel(console)

    console.rule("2. Training a face detector")
    net = make_net(recipe.channels, options.seed, device)
    backgrounds = 32 if options.quick else 512
    composer = Composer(
        load_sources(held_out=False),
        options.seed,
        device=device,
        backgrounds=backgrounds,
    )
    held_out = held_out_batch(16 if options.quick else 128)
    show_first_gradient(console, options, recipe, composer.batch(recipe.batch))
    before = evaluate(net, held_out)
    history = train(net, composer, recipe, _LOSSES[options.loss], console)
    after = evaluate(net, held_out)
    show_quality(console, before, after, len(history.iou), history.seconds)
    write_quality(options, device, before, after, len(history.iou), history.seconds)

    console.rule("3. Where a step's time goes")
    console.print(step_table(options, recipe, composer.batch(recipe.batch).to("cpu")))

    console.rule("4. Pictures")
    draw_loss(history, before, after, options.out / "loss.png")
    draw_faces(held_out, predict(net, held_out.images), options.out / "faces.png")
    console.print(f"wrote {options.out / 'loss.png'} and {options.out / 'faces.png'}")


def require_packages() -> None:
    """Raises `UndertowError` if a package that only the demo needs is missing."""
    missing = [
        name
        for module, name in _PACKAGES.items()
        if importlib.util.find_spec(module) is None
    ]
    if missing:
        raise UndertowError(
            f"the demo needs {' and '.join(f'`{name}`' for name in missing)}, "
            "not installed here",
            why="its faces and backgrounds come from scikit-image, its pictures from "
            "matplotlib",
            hint="pip install 'undertow[demo]'",
        )


def pick_device(name: str) -> torch.device:
    """The device called `name`; for "auto" a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def recipe_for(options: Options, device: torch.device) -> Recipe:
    """The device's recipe with the options' changes."""
    recipe = GPU if device.type == "cuda" else CPU
    if options.quick:
        recipe = replace(recipe, seconds=3.0)
    if options.seconds is not None:
        recipe = replace(recipe, seconds=options.seconds)
    if options.batch is not None:
        recipe = replace(recipe, batch=options.batch)
    return recipe


def held_out_batch(size: int) -> Batch:
    """Images of faces and photographs that training never sees, on the CPU."""
    sources = load_sources(held_out=True)
    composer = Composer(sources, _HELD_OUT_SEED, backgrounds=size, augment=False)
    return composer.batch(size)


def highlighted(source: str) -> Syntax:
    """Python source in colour, wrapped where the terminal is narrow."""
    return Syntax(source, "python", theme="ansi_dark", word_wrap=True)


def show_kernel(console: Console) -> None:
    """Prints the founding kernel, its derived backward, and what checks find."""
    import undertow
    from undertow.demo.kernel import (
        GIOU_CONSTEXPRS,
        GIOU_SIGNATURE,
        example,
        giou_kernel,
    )

    shown = inspect.getsource(giou_kernel.fn)
    console.print(highlighted(shown))
    wrt = ("pred_ptr",)
    derivation = undertow.derive(giou_kernel, GIOU_SIGNATURE, GIOU_CONSTEXPRS, wrt=wrt)
    console.print(highlighted(derivation.source))
    for outcome in check(giou_kernel, example, CheckOptions(wrt)):
        mark = {True: "[green]✓[/]", False: "[red]✗[/]", None: "–"}[outcome.ok]
        console.print(f"{outcome.name} {mark} {outcome.text}")
        for detail in outcome.details:
            console.print(f"    {detail}", markup=False)


def show_first_gradient(
    console: Console, options: Options, recipe: Recipe, batch: Batch
) -> None:
    """Prints how far the first step's box gradients are from float64.

    Each loss starts from its own net; the same seed makes the nets equal.
    """
    title = "Gradient of the first step's box loss, compared with float64"
    shown = Table(title=title, min_width=len(title) + 2)
    shown.add_column("loss")
    shown.add_column("relative L2 error", justify="right")
    for name in dict.fromkeys(("eager", options.loss)):
        net = make_net(recipe.channels, options.seed, batch.images.device)
        boxes = net(batch.images).boxes
        error = losses.gradient_error(_LOSSES[name], boxes, batch.boxes, batch.mask)
        shown.add_row(name, f"{error:.1e}")
    console.print(shown)


def show_quality(
    console: Console, before: Quality, after: Quality, steps: int, seconds: float
) -> None:
    """Prints the quality on held-out images."""
    title = f"Held-out images, {steps} steps in {seconds:.0f} s"
    shown = Table(title=title, min_width=len(title) + 2)
    shown.add_column("")
    shown.add_column("before", justify="right")
    shown.add_column("after", justify="right")
    shown.add_row("mean IoU", f"{before.iou:.3f}", f"{after.iou:.3f}")
    shown.add_row("AP at IoU 0.5", f"{before.ap:.3f}", f"{after.ap:.3f}")
    console.print(shown)


def write_quality(
    options: Options,
    device: torch.device,
    before: Quality,
    after: Quality,
    steps: int,
    seconds: float,
) -> None:
    """Writes the quality on held-out images to `results.csv`, a row a measure."""
    rows = [("device", "loss", "steps", "seconds", "measure", "before", "after")]
    fixed = (device_name(device), options.loss, str(steps), f"{seconds:.0f}")
    rows.append((*fixed, "mean IoU", f"{before.iou:.3f}", f"{after.iou:.3f}"))
    rows.append((*fixed, "AP at IoU 0.5", f"{before.ap:.3f}", f"{after.ap:.3f}"))
    with (options.out / "results.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def device_name(device: torch.device) -> str:
    """What a table calls the device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return "the CPU"


def step_table(options: Options, recipe: Recipe, host_batch: Batch) -> Table:
    """The times of a step's parts with each loss, all from the same seed."""
    device = pick_device(options.device)
    chosen = {name: _LOSSES[name] for name in dict.fromkeys(("eager", options.loss))}
    if device.type == "cuda":
        chosen["torch.compile"] = torch.compile(losses.eager_loss)
    results = {
        name: profile.measure(
            make_net(recipe.channels, options.seed, device), host_batch, box_loss
        )
        for name, box_loss in chosen.items()
    }
    return profile.table(results, device_name(device))
