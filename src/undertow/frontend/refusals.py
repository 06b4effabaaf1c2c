"""What the lift refuses by name, and what it drops knowingly.

Messages speak the user's language: `tl.dot`, not `tt.dot`. A row is the fact, why it is
refused, and a way out.
"""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """The parts of an UnsupportedError."""

    fact: str
    why: str = ""
    hint: str = ""


_SCATTER = "write one value to each address with `tl.store`"
_ORDER = "the value read depends on the order in which programs run"
_MAP = Refusal(
    "`tl.map_elementwise` is not supported",
    "its function is applied to one element after another",
    hint="apply the function to the whole tensor",
)

REFUSED: dict[str, Refusal] = {
    "tt.dot_scaled": Refusal(
        "`tl.dot_scaled` is not supported",
        "gradients of operands in 4 or 8 bits would need scales of their own",
        "scale and convert the operands, and use `tl.dot`",
    ),
    "tt.histogram": Refusal(
        "`tl.histogram` is not supported",
        "counts are piecewise constant",
        "count outside of the kernel",
    ),
    "tt.cat": Refusal(
        "`tl.cat` is not supported",
        "Triton leaves the order of `tl.cat` open",
        "`tl.join` keeps the order",
    ),
    "tt.atomic_cas": Refusal("`tl.atomic_cas` is not supported", _ORDER, _SCATTER),
    "tt.atomic_load": Refusal(
        "`tl.atomic_load` is not supported",
        _ORDER,
        "use `tl.load`, if no other program writes there",
    ),
    "tt.atomic_poll": Refusal(
        "`tl.atomic_poll` is not supported",
        _ORDER,
        "split the kernel where it waits: a launch waits for the one before",
    ),
    "tt.atomic_store": Refusal(
        "`tl.atomic_store` is not supported",
        "other programs may read the value",
        "use `tl.store`, if no other program reads there",
    ),
    "tt.map_elementwise": _MAP,
    "tt.map_elementwise.return": _MAP,
    "tt.int_to_ptr": Refusal(
        "a pointer made from an integer is not supported",
        "it is not known which argument the address belongs to",
        "pass the pointer itself as an argument",
    ),
    "tt.ptr_to_int": Refusal(
        "a pointer turned into an integer is not supported",
        "the address would enter the computation",
        "use offsets, not addresses",
    ),
    "tt.make_tensor_ptr": Refusal(
        "block pointers are not supported",
        "this one could not be rewritten to plain pointers",
        hint="use `ptr + offsets`",
    ),
    "tt.advance": Refusal(
        "`tl.advance` is not supported",
        "its block pointer could not be rewritten to plain pointers",
        "use `ptr + offsets`",
    ),
    "ub.poison": Refusal(
        "a value that nothing defines is not supported",
        "it may be any number",
        "give the variable a value on every way that leads here",
    ),
    **{
        name: Refusal(
            f"`{name}` is not supported",
            "no function of `triton.language` makes it",
            "please report the kernel that does",
        )
        for name in (
            "arith.addui_extended arith.ceildivsi arith.ceildivui arith.convertf "
            "arith.floordivsi arith.flush_denormals arith.mulsi_extended "
            "arith.mului_extended arith.scaling_extf arith.scaling_truncf "
            "arith.subui_extended cf.assert cf.switch math.clampf math.ctlz math.ctpop "
            "math.cttz math.ipowi math.isnormal math.sincos scf.execute_region "
            "scf.forall scf.forall.in_parallel scf.index_switch scf.parallel "
            "scf.reduce scf.reduce.return ub.unreachable"
        ).split()
    },
    **{
        f"tt.{name}": Refusal(
            f"`{spelling}` is not supported",
            "the tensor descriptor could not be rewritten to plain pointers",
            "use `tl.load` and `tl.store`",
        )
        for name, spelling in (
            ("make_tensor_descriptor", "tl.make_tensor_descriptor"),
            ("descriptor_load", "tl.load_tensor_descriptor"),
            ("descriptor_store", "tl.store_tensor_descriptor"),
            ("descriptor_gather", "desc.gather"),
            ("descriptor_scatter", "desc.scatter"),
            ("descriptor_reduce", "desc.atomic_add"),
        )
    },
}  # fmt: skip

ATOMICS = {
    "exch": "tl.atomic_xchg", "max": "tl.atomic_max", "umax": "tl.atomic_max",
    "min": "tl.atomic_min", "umin": "tl.atomic_min", "and": "tl.atomic_and",
    "or": "tl.atomic_or", "xor": "tl.atomic_xor",
}  # fmt: skip
"""Read-modify-write operations other than addition, as the user writes them."""


def atomic(kind: str) -> Refusal:
    """Why a read-modify-write operation of `kind` is refused."""
    return Refusal(
        f"`{ATOMICS.get(kind, 'tl.atomic_add')}` is not supported",
        "which program's value stays depends on the data",
        "reduce inside the program and store one value to each address",
    )


LOOP_HINTS = {
    "tt.loop_unroll_factor": "unrolling does not change values",
    "tt.flatten": "flattening nested loops does not change values",
    "tt.warp_specialize": "how warps share the work does not change values",
    "tt.disallow_acc_multi_buffer": "buffering does not change values",
    "llvm.loop_annotation": "whether invariant code is moved does not change values",
}
"""Attributes of loops that the lift leaves out, with the reason why that is right."""

DROPPED = {
    "tt.print": "prints do not change values",
    "tt.assert": "a device assertion checks values and does not change them",
    "tt.grid_dependency_wait": "waiting for the launch before does not change values",
    "tt.grid_dependency_launch_dependents": "starting the next launch early changes no"
    " value of this one",
    "gpu.barrier": "a barrier orders memory accesses and does not change values",
    "ttg.barrier": "a barrier orders memory accesses and does not change values",
    "ttg.local_barrier": "a barrier orders memory accesses and does not change values",
    "nvvm.barrier0": "a barrier orders memory accesses and does not change values",
}
"""Ops that the lift leaves out, with the reason why that is right."""


def spelling(name: str) -> str:
    """How the user writes the MLIR op `name`, as far as that can be told."""
    dialect, _, rest = name.partition(".")
    return f"tl.{rest}" if dialect == "tt" else name
