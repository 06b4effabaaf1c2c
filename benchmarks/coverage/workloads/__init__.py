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
    "cce": "cut_cross_entropy",
    "fla": "fla",
    "gems": "flag_gems",
}
"""The packages of the libraries, by how they are called here."""

MODULES = {
    "liger": ("liger",),
    "cce": ("cce",),
    "fla": ("fla", "fla_ops"),
    "gems": ("gems",),
}
"""The modules of this package with the workloads of each library."""

DISTRIBUTIONS = ("liger-kernel", "cut-cross-entropy", "fla-core", "flag-gems")

SKIPPED = (
    "flag_gems.runtime.backend._",
    "liger_kernel.ops.backends._ascend",
    *(
        f"fla.{module}"
        for module in (
            "modules.activations.triton_ascend",
            "modules.grpo.triton_ascend",
            "ops.attnres.backends",
            "ops.kda.backends",
            "ops.simple_gla.backends",
        )
    ),
)
"""Modules of kernels for other machines."""

WITHOUT = frozenset(
    {
        "liger_kernel.ops.mlp._swiglu_kernel_forward_inference",
        "flag_gems.fused.instance_norm.update_running_stats_kernel",
        "fla.ops.cp.chunk_fwd.chunk_cp_fwd_kernel_h",  # on several devices
        "fla.ops.gsa.fused_recurrent.fused_recurrent_gsa_inference_kernel",
        "fla.ops.log_linear_attn.chunk.copy_input_kernel",  # between two calls
        "fla.ops.log_linear_attn.chunk.copy_last_chunk_kernel",
        "fla.ops.path_attn.prepare_k_cache.parallel_path_fwd_kernel_prepare_k_cache",
        "fla.ops.utils.op.exp",  # a helper
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
        for module in MODULES[library]:
            importlib.import_module(f"{__name__}.{module}")
