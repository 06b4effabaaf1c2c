"""Training lowers the loss, the profile adds up, pictures are written."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

pytest.importorskip("skimage")
pytest.importorskip("matplotlib")

from undertow.demo import main, profile
from undertow.demo.faces import Composer, load_sources
from undertow.demo.losses import eager_loss
from undertow.demo.main import Options, recipe_for, require_packages, run
from undertow.demo.model import make_net
from undertow.demo.pictures import smooth
from undertow.demo.train import CPU, GPU, Recipe, learning_rate, train
from undertow.errors import UndertowError

TINY = Recipe(seconds=60.0, batch=2, channels=(2, 4, 8, 16), max_steps=16)
ON_CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def composer_of():
    sources = load_sources(held_out=False)
    return lambda: Composer(sources, seed=0, backgrounds=13)


def test_a_short_training_lowers_the_loss(composer_of) -> None:
    first, second = (
        train(make_net(TINY.channels, 0, ON_CPU), composer_of(), TINY, eager_loss)
        for _ in range(2)
    )
    loss = first.box_loss
    assert len(loss) == TINY.max_steps
    assert sum(loss[-4:]) < 0.8 * sum(loss[:4])
    assert loss[0] == second.box_loss[0]


def test_training_ends_with_the_time(composer_of) -> None:
    recipe = Recipe(seconds=0.0, batch=1, channels=TINY.channels)
    history = train(
        make_net(TINY.channels, 0, ON_CPU), composer_of(), recipe, eager_loss
    )
    assert len(history.iou) == 1


def test_the_learning_rate_rises_then_falls() -> None:
    rates = [learning_rate(1.0, i / 100) for i in range(101)]
    top = rates.index(max(rates))
    assert rates[top] == pytest.approx(1.0)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] < 0.01


def test_options_change_the_recipe() -> None:
    assert recipe_for(Options(), ON_CPU) == CPU
    assert recipe_for(Options(), torch.device("cuda")) == GPU
    changed = recipe_for(Options(seconds=5.0, batch=3, quick=True), ON_CPU)
    assert (changed.seconds, changed.batch) == (5.0, 3)


def test_a_quick_run_writes_pictures_and_prints_its_tables(tmp_path: Path) -> None:
    console = Console(record=True, width=100, file=io.StringIO())
    out = tmp_path / "new" / "out"
    run(
        Options(quick=True, seconds=0.5, batch=2, loss="eager", threads=1, out=out),
        console,
    )
    text = console.export_text()
    for name in ("loss.png", "faces.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    for part in (*profile.PARTS, "mean IoU", "AP at IoU 0.5", "giou_kernel"):
        assert part in text


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        main.importlib.util,
        "find_spec",
        lambda name: None if name == "skimage" else find(name),
    )
    with pytest.raises(UndertowError) as caught:
        require_packages()
    assert str(caught.value) == (
        "the demo needs `scikit-image`, not installed here\n"
        "  = its faces and backgrounds come from scikit-image, its pictures from "
        "matplotlib\n"
        "hint: pip install 'undertow[demo]'"
    )


def test_kernels_belong_to_the_part_in_which_they_start() -> None:
    def event(name: str, device: str, start: float, end: float) -> SimpleNamespace:
        span = SimpleNamespace(start=start, end=end, elapsed_us=lambda: end - start)
        kind = SimpleNamespace(name=device)
        return SimpleNamespace(name=name, device_type=kind, time_range=span)

    events = [
        event(name, "CPU", 1000 * i, 1000 * i + 1000)
        for i, name in enumerate(profile.PARTS)
    ]
    events += [
        event("aten::mul", "CPU", 1000, 1100),
        event("kernel_a", "CUDA", 1200, 1700),
        event("kernel_b", "CUDA", 3900, 4100),
        event("forward", "CUDA", 1200, 1700),
        event("ProfilerStep#2", "CUDA", 0, 4000),
        event("update", "CUDA", 4200, 4300),
    ]
    times = profile.summarise(events, steps=2, on_gpu=True)  # type: ignore[arg-type]
    assert times["forward"] == profile.PartTime(wall=0.5, kernels=0.25)
    assert times["backward"] == profile.PartTime(wall=0.5, kernels=0.1)
    assert times["calc loss"].kernels == 0


def test_smoothing_is_a_running_mean() -> None:
    assert smooth([2.0, 4.0, 6.0, 8.0], window=2) == [2.0, 3.0, 5.0, 7.0]
