"""Golden files, GPU skipping and hypothesis profiles for the whole suite.

Note [Orphan golden files]: each process of the run records which golden files its
tests asked for. At the end of a run of the whole suite in which nothing failed and
nothing was skipped but for want of a GPU, a file that nobody asked for belongs to no
test: the run fails and names it (`--update-golden` deletes it). Under xdist the workers
send their records to the controller, which decides.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

# Each xdist worker computes on one thread, or they take the cores from one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

GOLDEN = Path(__file__).parent / "golden"
_ROOT = Path(__file__).parent.parent

settings.register_profile("default", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("fuzz", deadline=None, max_examples=2000)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite stale golden files; after a full green run, delete orphans",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_USED] = set[str]()
    config.stash[_PARTIAL] = False
    config.stash[_MESSAGES] = list[str]()


# -- GPU tests --


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not _has_gpu():
        skip = pytest.mark.skip(reason="needs a CUDA device, torch finds none")
        for item in on_gpu:
            item.add_marker(skip)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture
def frees_memory() -> Iterator[None]:
    """Hands a GPU's memory back, which the other processes of a run need."""
    yield
    import torch

    torch.cuda.empty_cache()


# -- golden files --

Golden = Callable[[str, str], None]
_USED = pytest.StashKey[set[str]]()
_PARTIAL = pytest.StashKey[bool]()
_MESSAGES = pytest.StashKey[list[str]]()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(name, text)` demands that `tests/golden/<name>.py` holds `text`."""
    if request.node.get_closest_marker("gpu"):
        pytest.fail("emission needs no GPU: move the golden text to a test without one")

    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.py"
        request.config.stash[_USED].add(name)
        held = path.read_text() if path.exists() else None
        if held == text:
            return
        if request.config.getoption("update_golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        shown = path.relative_to(_ROOT)
        diff = difflib.unified_diff(
            (held or "").splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"{shown} (committed)" if held is not None else "/dev/null",
            f"{shown} (emitted now)",
        )
        state = "stale" if held is not None else "missing"
        pytest.fail(
            f"{shown} is {state}: pytest --update-golden rewrites it\n{''.join(diff)}",
            pytrace=False,
        )

    return compare


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Takes over what an xdist worker recorded."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]
    output = getattr(node, "workeroutput", None)
    if error or output is None:
        config.stash[_PARTIAL] = True
    else:
        config.stash[_USED].update(output["golden_used"])
        config.stash[_PARTIAL] |= output["partial"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    for_want_of_gpu = report.skipped and item.get_closest_marker("gpu")
    if not (report.passed or for_want_of_gpu or hasattr(report, "wasxfail")):
        item.config.stash[_PARTIAL] = True
    return report


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items:
        items[0].config.stash[_PARTIAL] = True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["golden_used"] = sorted(config.stash[_USED])
        config.workeroutput["partial"] = config.stash[_PARTIAL]
        return
    if exitstatus or config.stash[_PARTIAL] or not _runs_everything(config):
        return
    for name in sorted(_golden_names() - config.stash[_USED]):
        path = GOLDEN / f"{name}.py"
        shown = path.relative_to(_ROOT)
        if config.getoption("update_golden"):
            path.unlink()
            config.stash[_MESSAGES].append(f"{shown} belonged to no test: deleted")
        else:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            config.stash[_MESSAGES].append(
                f"{shown} belongs to no test: delete it (or pytest --update-golden)"
            )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if messages := config.stash[_MESSAGES]:
        terminalreporter.section("golden files", red=True)
        for message in messages:
            terminalreporter.line(message)


def _golden_names() -> set[str]:
    return {str(p.relative_to(GOLDEN).with_suffix("")) for p in GOLDEN.rglob("*.py")}


def _runs_everything(config: pytest.Config) -> bool:
    option = config.option
    here = Path(__file__).parent
    named = [config.invocation_params.dir / arg for arg in config.args]
    return here.resolve() in [p.resolve() for p in named] and not (
        option.collectonly
        or getattr(option, "lf", False)
        or option.ignore
        or option.ignore_glob
        or option.deselect
    )
