"""How long a derivation takes: the kernels of the tests, and unrolled ones.

    python benchmarks/derive_time.py

Times are of a first derivation, in milliseconds: Triton's own part of the capture,
reading what it gives (`lift`), the derivation (`derive`) and its source (`emit`).
"""

from __future__ import annotations

import csv
import gc
import importlib.util
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import triton
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from unrolled import UNROLLED  # noqa: E402

import undertow  # noqa: E402
from acceptance.launches import typed  # noqa: E402
from kernels.cases import CASES  # noqa: E402
from undertow import frontend  # noqa: E402
from undertow.emit import emit_backward  # noqa: E402
from undertow.ir import Block, Kernel, walk  # noqa: E402
from undertow.runtime import derivation  # noqa: E402
from undertow.transform.differentiate import differentiate  # noqa: E402

RESULTS = HERE / "results" / "derive_time.csv"
SIZES = (100, 500, 1000, 3000, 10_000)
LADDER, LARGE = 100.0, 3000.0
"""The most that is allowed: for kernels of the ladder, and for 10,000 ops."""


@dataclass
class Times:
    """Milliseconds of each stage, and how many ops went in and came out."""

    kernel: str
    kind: str
    ops: int = 0
    backward: int = 0
    triton: float = 0.0
    lift: float = 0.0
    derive: float = 0.0
    emit: float = 0.0

    @property
    def own(self) -> float:
        """All but Triton's part."""
        return self.lift + self.derive + self.emit


def count(block: Block) -> int:
    return sum(1 for _ in walk(block))


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    gc.collect()
    gc.freeze()  # what else is in memory is not to be looked through
    begin = time.perf_counter()
    result = call()
    return result, 1e3 * (time.perf_counter() - begin)


def capture(
    times: Times, fn: object, signature: Mapping[str, Any], fixed: Mapping[str, object]
) -> Kernel:
    _, times.triton = timed(lambda: frontend.capture_text(fn, signature, fixed))
    kernel, whole = timed(lambda: frontend.capture(fn, signature, fixed))
    times.lift = max(0.0, whole - times.triton)
    return kernel


def derive(times: Times, kernel: Kernel, *args: Any, **options: Any) -> Times:
    times.ops = count(kernel.body)
    found, times.derive = timed(lambda: differentiate(kernel, *args, **options))
    times.backward = count(found.kernel.body)
    _, times.emit = timed(lambda: emit_backward(found))
    return times


def of_cases() -> Iterator[Times]:
    """Each kernel of the tests in the first of its launches."""
    seen: set[str] = set()
    for name, make in CASES.items():
        kernel = name.split("-")[0]
        if kernel in seen:
            continue
        seen.add(kernel)
        case, times = make(), Times(kernel, "tests")
        signature, constexprs, _ = typed(case, torch.float32)
        captured = capture(times, case.kernel, signature, constexprs)
        yield derive(times, captured, case.wrt, case.outputs)


def of_peers() -> Iterator[Times]:
    """Each of Liger's kernels that the tests launch, if Liger is installed."""
    if importlib.util.find_spec("liger_kernel") is None:
        print("without Liger's kernels: it is not installed", file=sys.stderr)
        return
    from acceptance.test_liger import PEERS

    for name, make in PEERS.items():
        peer, times = make(), Times(name, "liger")
        wrapped = undertow.differentiable(getattr(peer.module, peer.kernel))
        replaced = mock.patch.object(peer.module, peer.kernel, wrapped)
        with recorded(times) as made, replaced:
            peer.wrapper(
                **{n: t.float().requires_grad_() for n, t in peer.inputs.items()}
            )
        yield from made


@contextmanager
def recorded(times: Times) -> Iterator[list[Times]]:
    """Times the first derivation that a launch makes."""
    made: list[Times] = []
    own, original = derivation.capture, derivation.differentiate

    def captured(fn: Any, signature: Any, constexprs: Any) -> Kernel:
        if not made and times.triton == 0.0:
            capture(times, fn, signature, constexprs)
        return own(fn, signature, constexprs)

    def derived(kernel: Kernel, *args: Any, **options: Any) -> Any:
        if not made:
            made.append(derive(times, kernel, *args, **options))
        return original(kernel, *args, **options)

    with (
        mock.patch.object(derivation, "capture", captured),
        mock.patch.object(derivation, "differentiate", derived),
    ):
        yield made


def of_unrolled() -> Iterator[Times]:
    for name, unrolled in UNROLLED.items():
        for size in SIZES:
            times, fixed = Times(name, f"unrolled to {size}"), unrolled.constexprs(size)
            captured = capture(times, unrolled.kernel, unrolled.signature, fixed)
            yield derive(times, captured)


def report(rows: list[Times]) -> None:
    table = Table(title="Derivation, ms")
    columns = ("kernel", "kind", "ops", "backward", "triton", "lift", "derive", "emit")
    for name in columns:
        table.add_column(name, justify="left" if name in columns[:2] else "right")
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*columns, "torch", "triton", "machine"])
        versions = (torch.__version__, triton.__version__, platform.machine())
        for row in rows:
            values = (row.triton, row.lift, row.derive, row.emit)
            cells = [row.kernel, row.kind, str(row.ops), str(row.backward)]
            cells += [f"{value:.1f}" for value in values]
            table.add_row(*cells)
            writer.writerow([*cells, *versions])
    Console().print(table)
    ladder = [r for r in rows if not r.kind.startswith("unrolled") and r.ops <= 500]
    slowest = max(ladder, key=lambda r: r.own)
    print(f"slowest of the ladder: {slowest.kernel}, {slowest.own:.0f} ms")
    for row in rows:
        if row.kind == f"unrolled to {SIZES[-1]}":
            print(f"{row.kernel}: derive {row.derive:.0f}, whole {row.own:.0f} ms")


def main() -> int:
    with (
        tempfile.TemporaryDirectory() as empty,
        mock.patch.dict("os.environ", {"UNDERTOW_CACHE_DIR": empty}),
    ):
        report([*of_cases(), *of_peers(), *of_unrolled()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
