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

REFUSED: dict[str, Refusal] = {
    "tt.dot_scaled": Refusal("`tl.dot_scaled` is not supported"),
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
    "tt.atomic_cas": Refusal("`tl.atomic_cas` is not supported", hint=_SCATTER),
    "tt.elementwise_inline_asm": Refusal(
        "`tl.inline_asm_elementwise` is not supported",
        "assembly says nothing about its derivative",
        "write it in Triton's own operations",
    ),
    "tt.map_elementwise": Refusal(
        "`tl.map_elementwise` is not supported",
        hint="apply the function to the whole tensor",
    ),
    "tt.call": Refusal(
        "calls of `noinline` functions are not supported",
        "the function is compiled apart from the kernel",
        "drop `noinline=True` from the helper's `triton.jit`",
    ),
    "tt.int_to_ptr": Refusal(
        "a pointer made from an integer is not supported",
        "it is not known which argument the address belongs to",
        "pass the pointer itself as an argument",
    ),
    "tt.ptr_to_int": Refusal(
        "a pointer turned into an integer is not supported",
        "the address would enter the computation",
    ),
    "tt.make_tensor_ptr": Refusal(
        "block pointers are not supported",
        "this one could not be rewritten to plain pointers",
        hint="use `ptr + offsets`",
    ),
    "tt.advance": Refusal("`tl.advance` is not supported", hint="use `ptr + offsets`"),
    "cf.switch": Refusal("a branch of several ways is not supported"),
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
