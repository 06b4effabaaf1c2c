"""Host time of a launch and its backward, beside Triton's own and a bare Function's.

    python benchmarks/overhead.py          # needs a GPU
    python benchmarks/overhead.py --cpu    # kernels do nothing: what the wrapper costs

Times are medians of many launches in microseconds, without a synchronisation inside the
timed region; between rounds the queue is emptied, so that it never blocks the host.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import triton
import triton.language as tl
from rich.console import Console
from rich.table import Table
from torch import Tensor

import undertow
from undertow import frontend
from undertow.emit import emit_backward
from undertow.runtime import autograd, derivation
from undertow.runtime import differentiable as launching
from undertow.transform.differentiate import differentiate

RESULTS = Path(__file__).parent / "results" / "overhead.csv"
ROUNDS, LAUNCHES = 60, 50
ROWS, COLS, BLOCK = 16, 128, 128


@triton.jit
def layer_norm(
    x_ptr, w_ptr, b_ptr, y_ptr, x_stride, y_stride, n_cols, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=mask).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    tl.store(y_ptr + row * y_stride + cols, centred * rstd * w + b, mask=mask)


TYPES: dict[str, Any] = {
    **dict.fromkeys(["x_ptr", "w_ptr", "b_ptr", "y_ptr"], "*fp32"),
    **dict.fromkeys(["x_stride", "y_stride", "n_cols"], "i32"),
    "eps": "fp32",
}


# -- what is compared --


class Subjects:
    """The same launch in every way, on one set of tensors."""

    def __init__(self, device: str) -> None:
        self.x = torch.randn(ROWS, COLS, device=device, requires_grad=True)
        self.w = torch.randn(COLS, device=device, requires_grad=True)
        self.b = torch.randn(COLS, device=device, requires_grad=True)
        self.ct = torch.randn(ROWS, COLS, device=device)
        self.kernel = undertow.differentiable(layer_norm)
        found = undertow.derive(layer_norm, TYPES, {"BLOCK": BLOCK})
        self.backward = found.function
        self.pointers = [p.name for p in found.backward.kernel.params]
        self.constexprs = found.constexprs
        self.function = bare(self)

    def arguments(self, y: Tensor) -> tuple[Any, ...]:
        return self.x, self.w, self.b, y, COLS, COLS, COLS, 1e-5

    def triton(self) -> None:
        y = torch.empty_like(self.x)
        layer_norm[(ROWS,)](*self.arguments(y), BLOCK=BLOCK)

    def grad_off(self) -> None:
        with_no_grad(self.forward)

    def forward(self) -> Tensor:
        y = torch.empty_like(self.x)
        self.kernel[(ROWS,)](*self.arguments(y), BLOCK=BLOCK)
        return y

    def pair(self) -> None:
        torch.autograd.backward(self.forward(), self.ct)
        self.x.grad = self.w.grad = self.b.grad = None

    def bare_forward(self) -> Tensor:
        y = torch.empty_like(self.x)
        return self.function.apply(y, self.x, self.w, self.b)

    def bare_pair(self) -> None:
        torch.autograd.backward(self.bare_forward(), self.ct)
        self.x.grad = self.w.grad = self.b.grad = None


def with_no_grad(launch: Callable[[], object]) -> None:
    torch._C._set_grad_enabled(False)
    launch()
    torch._C._set_grad_enabled(True)


def bare(subjects: Subjects) -> Any:
    """What one would write by hand around the same two kernels."""

    class Bare(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: Tensor, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
            layer_norm[(ROWS,)](x, w, b, y, COLS, COLS, COLS, 1e-5, BLOCK=BLOCK)
            ctx.mark_dirty(y)
            ctx.save_for_backward(x, w)
            return y

        @staticmethod
        def backward(ctx: Any, d_y: Tensor) -> Any:
            x, w = ctx.saved_tensors
            d_x = torch.empty_like(x)
            d_w = torch.zeros(w.shape, dtype=torch.float32, device=w.device)
            d_b = torch.zeros(w.shape, dtype=torch.float32, device=w.device)
            known = {
                "d_y_ptr": d_y, "x_ptr": x, "w_ptr": w, "d_x_ptr": d_x, "d_w_ptr": d_w,
                "d_b_ptr": d_b, "d_y_stride_0": COLS, "d_y_stride_1": 1,
                "x_stride": COLS, "y_stride": COLS, "n_cols": COLS, "eps": 1e-5,
            }  # fmt: skip
            args = [known[name] for name in subjects.pointers]
            subjects.backward[(ROWS,)](*args, **subjects.constexprs)
            return None, d_x, d_w, d_b

    return Bare


# -- measuring --


def measure(launch: Callable[[], object], synchronise: Callable[[], None]) -> float:
    """Microseconds a launch: the median of rounds."""
    for _ in range(20):
        launch()
    rounds: list[float] = []
    for _ in range(ROUNDS):
        synchronise()
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            launch()
        rounds.append((time.perf_counter() - start) / LAUNCHES)
    return 1e6 * statistics.median(rounds)


@contextmanager
def kernels_do_nothing() -> Iterator[None]:
    """Launches reach the point where Triton would take over, and return."""

    def nothing(*args: object, **kwargs: object) -> None:
        pass

    def always(*args: object) -> bool:
        return True

    with (
        mock.patch.object(type(layer_norm), "run", nothing),
        mock.patch.object(launching, "_on_gpu", always),
        mock.patch.object(autograd, "run_on_cpu", nothing),
    ):
        yield


def host_times(device: str) -> dict[str, float]:
    subjects = Subjects(device)

    def synchronise() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    launches: dict[str, Callable[[], object]] = {
        "launch: Triton": subjects.triton,
        "launch: differentiable, grad off": subjects.grad_off,
        "launch: differentiable, grad on": subjects.forward,
        "launch: bare Function": subjects.bare_forward,
        "forward + backward: bare Function": subjects.bare_pair,
        "forward + backward: differentiable": subjects.pair,
    }
    return {name: measure(launch, synchronise) for name, launch in launches.items()}


def derivation_times() -> dict[str, float]:
    """Microseconds to derive a kernel: cold, from disk, and looked up."""
    fn, constexprs = layer_norm, {"BLOCK": BLOCK}

    def cold() -> None:
        emit_backward(differentiate(frontend.capture(fn, TYPES, constexprs)))

    def from_disk() -> None:
        derivation.derive(fn, TYPES, constexprs)

    x, w, b = torch.randn(ROWS, COLS), torch.randn(COLS), torch.randn(COLS)
    kernel = undertow.differentiable(fn)

    def look_up() -> None:
        arguments = (x, w, b, torch.empty_like(x), COLS, COLS, COLS, 1e-5)
        kernel[(ROWS,)](*arguments, BLOCK=BLOCK)

    frontend.capture(fn, TYPES, {"BLOCK": 2 * BLOCK})  # what Triton sets up once
    found = {"derive: capture, differentiate, emit": best(cold)}
    with (
        tempfile.TemporaryDirectory() as cache,
        mock.patch.dict(os.environ, UNDERTOW_CACHE_DIR=cache),
        kernels_do_nothing(),
    ):
        from_disk()
        found["derive: captured kernel read from disk"] = best(from_disk)
        found["derive: known to the process"] = best(look_up)
    return found


def best(action: Callable[[], None], repeats: int = 7) -> float:
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


# -- the report --


def report(times: dict[str, float], device: str) -> None:
    off = times["launch: differentiable, grad off"] - times["launch: Triton"]
    pair = (
        times["forward + backward: differentiable"]
        / times["forward + backward: bare Function"]
    )
    table = Table(title=f"Host time on {device}")
    table.add_column("what")
    table.add_column("µs", justify="right")
    for name, value in times.items():
        table.add_row(name, f"{value:.1f}")
    table.add_section()
    table.add_row("grad off, above Triton's launch", f"{off:.1f}")
    table.add_row("forward + backward, of the bare Function's", f"{pair:.2f}×")
    Console().print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["device", "torch", "triton", "what", "microseconds"])
        for name, value in times.items():
            row = [device, torch.__version__, triton.__version__, name, f"{value:.2f}"]
            writer.writerow(row)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="kernels that do nothing")
    arguments = parser.parse_args()
    if arguments.cpu:
        torch.set_num_threads(1)
        with kernels_do_nothing():
            times = host_times("cpu")
        report(times | derivation_times(), f"{platform.machine()} CPU, no kernels")
        return 0
    if not torch.cuda.is_available():
        print("needs a CUDA device (or --cpu, without kernels)", file=sys.stderr)
        return 2
    report(host_times("cuda") | derivation_times(), torch.cuda.get_device_name())
    return 0


if __name__ == "__main__":
    sys.exit(main())
