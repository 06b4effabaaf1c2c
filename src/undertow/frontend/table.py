"""What becomes of each op of TTIR: it is lifted, left out, or refused.

Every op of the dialects that Triton's front end writes stands in exactly one of
`LIFTED`, `KEPT`, `refusals.DROPPED` and `refusals.REFUSED`; a test compares them with
the ops that the installed Triton knows. What an opcode's derivative is stands in
`undertow.rules`: together they are the verdict on each op.
"""

from __future__ import annotations

from undertow.frontend import pointwise

DIALECTS = ("arith", "cf", "math", "scf", "tt", "ub")
"""The dialects that TTIR is made of. Of others it has single ops."""

LIFTED: dict[str, str] = {
    **pointwise.OPCODES,
    **dict.fromkeys(pointwise.CASTS, "cast"),
    "arith.trunci": "cast", "arith.bitcast": "bitcast", "tt.bitcast": "bitcast",
    "arith.xori": "xor", "arith.cmpi": "cmp", "arith.cmpf": "cmp",
    "arith.select": "select", "arith.constant": "const",
    "math.absi": "smax", "math.fpowi": "pow", "tt.clampf": "clamp",
    "tt.splat": "broadcast", "tt.broadcast": "broadcast", "tt.unsplat": "reshape",
    "tt.expand_dims": "expand_dims", "tt.reshape": "reshape", "tt.trans": "transpose",
    "tt.join": "join", "tt.split": "split", "tt.gather": "gather",
    "tt.make_range": "range", "tt.get_program_id": "program_id",
    "tt.get_num_programs": "num_programs", "llvm.intr.assume": "assume",
    "tt.load": "load", "tt.store": "store", "tt.atomic_rmw": "atomic_add",
    "tt.reduce": "reduce", "tt.scan": "scan", "tt.dot": "dot",
    "tt.elementwise_inline_asm": "inline_asm",
    "scf.if": "if", "scf.for": "for", "scf.while": "while",
    "cf.br": "if", "cf.cond_br": "if",
}  # fmt: skip
"""The opcode that an op becomes, besides what prepares its operands."""

KEPT: dict[str, str] = {
    "builtin.module": "it holds the kernel",
    "tt.func": "it is the kernel",
    "tt.return": "it ends the kernel, or leaves it early: an `if` around the rest",
    "tt.addptr": "the offset belongs to the loads and stores that use the pointer",
    "tt.extern_elementwise": "what its function is: those of libdevice are below",
    "tt.call": "what the function does stands in its place",
    "tt.reduce.return": "it belongs to `tt.reduce`",
    "tt.scan.return": "it belongs to `tt.scan`",
    "scf.yield": "it belongs to the branch or loop that it ends",
    "scf.condition": "it belongs to `scf.while`",
}
"""Ops that are read and are no op of their own afterwards."""
