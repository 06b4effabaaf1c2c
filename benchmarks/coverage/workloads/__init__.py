"""Calls of the libraries' public functions, by library and name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.coverage.inputs import Inputs

Call = Callable[[Inputs], Any]

PEERS = {
    "liger": "liger_kernel",
}
"""The module of this package that has a library's workloads, and what it imports."""

DISTRIBUTIONS = ("liger-kernel",)

SKIPPED = ("liger_kernel.ops.backends._ascend",)
"""Modules of kernels for other machines."""

WITHOUT = frozenset(
    {
        "liger_kernel.ops.mlp._swiglu_kernel_forward_inference",
    }
)
"""Kernels that stand beside a backward but are launched only where no gradient is."""


@dataclass(frozen=True)
class Workload:
    """One call of a public function.

    Attributes:
        name: of the call.
        call: makes it on fresh inputs; gives the outputs.
        fixed: constexprs that are set to other values than the library's, for kernels
            that also compute the gradient, to leave it out.
        apart: parameters for the library's own gradient, which are given memory of
            their own.
        beside: whether kernels count though the library's backward launches none: its
            gradient is computed in the forward.
        differs: why the library's gradient is another one, where it is.
    """

    name: str
    call: Call
    fixed: Mapping[str, object] = field(default_factory=dict)
    apart: tuple[str, ...] = ()
    beside: bool = False
    differs: str = ""


WORKLOADS: dict[str, Workload] = {}
"""By ``library/name``, in the order in which they stand in the source."""


def workload(library: str) -> Callable[..., Callable[[Call], Call]]:
    """A decorator for the calls of one library."""

    def decorator(name: str = "", **options: Any) -> Callable[[Call], Call]:
        def register(call: Call) -> Call:
            key = f"{library}/{name or call.__name__}"
            assert key not in WORKLOADS, key
            WORKLOADS[key] = Workload(key, call, **options)
            return call

        return register

    return decorator


def load(libraries: list[str]) -> None:
    """Imports the workloads of `libraries`, and with them the libraries."""
    for library in libraries:
        importlib.import_module(f"benchmarks.coverage.workloads.{library}")
