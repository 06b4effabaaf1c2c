"""What may be printed with an op besides its operands; anything else is not known."""

from __future__ import annotations

from undertow.errors import CaptureError
from undertow.frontend.context import Lifter
from undertow.frontend.ttir import MOp

_PROMISES = "fastmath overflow nneg exact disjoint is_nonneg"
"""Promises to the optimiser: they change no value that the user may rely on."""

_ATTRIBUTES: dict[str, str] = {
    "tt.load": "isVolatile cacheModifier evictionPolicy cachePolicy",
    "tt.store": "cacheModifier evictionPolicy cachePolicy",
    "tt.reduce": "axis",
    "tt.scan": "axis reverse",
    "tt.dot": "inputPrecision maxNumImpreciseAcc",
    "tt.expand_dims": "axis",
    "tt.gather": "axis efficient_layout",
    "tt.make_range": "start end",
    "tt.trans": "order",
    "tt.reshape": "allow_reorder efficient_layout",
    "tt.fp_to_fp": "rounding",
    "arith.truncf": "to_nearest_even to_nearest_away downward upward toward_zero",
    "tt.clampf": "propagateNan",
    "tt.extern_elementwise": "libname libpath pure symbol",
    "tt.elementwise_inline_asm": "constraints packed_element pure",
}

_WORDY = (
    "arith.cmpi arith.cmpf arith.constant tt.atomic_rmw tt.get_program_id"
    " tt.get_num_programs llvm.intr.assume"
).split()
"""Ops with bare words that their rows read: predicates, axes, literals."""


def check_attributes(lifter: Lifter, op: MOp) -> None:
    """Fails on an attribute whose meaning is not known."""
    known = f"{_PROMISES} {_ATTRIBUTES.get(op.name, '')}".split()
    unknown = [key for key in op.attrs if key not in known and "." not in key]
    if op.name not in _WORDY:
        unknown += [word for word in op.words if word not in known]
    if unknown:  # an attribute with a dot, such as `tt.divisibility`, is a hint
        raise CaptureError(
            f"`{op.name}` has an attribute `{unknown[0]}` that Undertow does not know",
            loc=op.loc,
            kernel=lifter.kernel,
        )
