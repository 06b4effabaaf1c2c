"""From the TTIR tree to Undertow's IR: one row an op.

The rows stand in `pointwise`, `structure`, `memory`, `reduction`, `product`, `opaque`;
control flow in `control` and `loops`, calls in `calls`; what has no row is refused with
the words of `refusals`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from undertow.errors import CaptureError
from undertow.frontend import (
    control,
    libdevice,
    loops,
    memory,
    opaque,
    pointwise,
    product,
    reduction,
    structure,
)
from undertow.frontend.attributes import check_attributes
from undertow.frontend.calls import Calls
from undertow.frontend.context import Lifter, Pointer, Row
from undertow.frontend.location import unquote
from undertow.frontend.refusals import DROPPED, REFUSED, spelling
from undertow.frontend.shuffles import drop_unused
from undertow.frontend.stops import Zeros
from undertow.frontend.ttir import MArg, MFunc, MOp, parse_module
from undertow.ir import (
    Kernel,
    Loc,
    PointerType,
    Type,
    Value,
    scalar,
    verify,
    walk,
)

ROWS: dict[str, Row] = {
    **pointwise.ROWS, **structure.ROWS, **memory.ROWS, **reduction.ROWS,
    **product.ROWS, **opaque.ROWS,
}  # fmt: skip
"""Every op that can be lifted, besides control flow."""


def lift_text(text: str) -> Kernel:
    """The kernel printed as TTIR in `text`. Needs no Triton.

    Raises:
        CaptureError: the text cannot be read.
        UnsupportedError: the kernel uses something outside of Undertow's language.
    """
    return lift(parse_module(text))


def lift(
    funcs: Sequence[MFunc],
    *,
    names: Sequence[str] | None = None,
    constexprs: Mapping[str, object] | None = None,
    zeros: Zeros | None = None,
) -> Kernel:
    """The public function of a module as a verified kernel.

    Args:
        funcs: the module's functions.
        names: the parameters' names if those in the locations do not do (tuples).
        constexprs: what was fixed at capture, kept with the kernel.
        zeros: what has derivative zero.
    """
    public = [f for f in funcs if f.public]
    if len(public) != 1:
        raise CaptureError(
            f"expected one public function in the TTIR, got {len(public)}"
        )
    func = public[0]
    lifter = Lifter(func.name, zeros or Zeros())
    named = zip(names or _names(func.args), func.args, strict=True)
    params = tuple(_param(lifter, name, arg, func.loc) for name, arg in named)

    calls = Calls({f.name: f for f in funcs})

    def lift_op(op: MOp) -> None:
        lifter.builder.loc = op.loc
        if op.name == "tt.call":
            calls.lift(lifter, op, lift_op)
        else:
            _lift_op(lifter, op, lift_op)

    control.lift_body(lifter, func.region, lift_op)
    if lifter.shuffled:
        drop_unused(lifter.builder.block)
    loc = Loc(func.loc.file, func.loc.line, func.loc.column)
    _refuse_zero_outputs(lifter)
    body, fixed = lifter.builder.block, dict(constexprs or {})
    return verify(Kernel(func.name, params, body, loc, fixed, calls.rules))


def _refuse_zero_outputs(lifter: Lifter) -> None:
    for op in walk(lifter.builder.block):
        if op.opcode in ("store", "atomic_add"):
            name = op.operands[0].name
            if lifter.zeros.has(name):
                lifter.refuse(
                    op.loc,
                    f"`{name}` is stored to, and cannot have derivative zero",
                    hint="`zero` takes pointers that are only loaded from",
                )


def _names(args: Sequence[MArg]) -> list[str]:
    """The user's names; elements of a tuple, named alike by some versions, numbered."""
    names = [arg.loc.name or arg.name[1:] for arg in args]
    return [
        f"{name}.{names[:i].count(name)}" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


def _param(lifter: Lifter, name: str, arg: MArg, loc: Loc) -> Value:
    if arg.type.shape or arg.type.element.startswith("!"):
        lifter.refuse(
            loc,
            f"argument `{name}` of type `{arg.type}` is not supported",
            hint="pass the pointer and use `tl.load` and `tl.store`",
        )
    op = MOp("tt.func", (), (), "", (), {}, (), (), (), (), loc)
    dtype = lifter.dtype(op, arg.type.element)
    type: Type = PointerType(dtype) if arg.type.pointer else scalar(dtype)
    param = Value(type, name)
    lifter.define(
        arg.name, Pointer(param, arg.type.element) if arg.type.pointer else param
    )
    return param


def _lift_op(lifter: Lifter, op: MOp, lift_op: control.LiftOp) -> None:
    if op.name in DROPPED:
        return
    if op.name == "scf.if":
        control.lift_if(lifter, op, lift_op)
    elif op.name == "scf.for":
        loops.lift_for(lifter, op, lift_op)
    elif op.name == "scf.while":
        loops.lift_while(lifter, op, lift_op)
    elif op.name in ROWS:
        _row(lifter, op)
    else:
        refusal = REFUSED.get(op.name)
        if refusal is None:
            lifter.refuse(op, f"`{spelling(op.name)}` is not supported")
        lifter.refuse(op, refusal.fact, why=refusal.why, hint=refusal.hint)


def _row(lifter: Lifter, op: MOp) -> None:
    """Applies the row, or its counterpart for pointers."""
    check_attributes(lifter, op)
    if op.name in ("tt.bitcast", "arith.select"):
        operands = lifter.operands(op)
        if isinstance(operands[0], Pointer):
            memory.bitcast(lifter, op, operands[0])
            return
        if isinstance(operands[-1], Pointer):
            memory.select(lifter, op, operands[0], operands[1], operands[2])
            return
    ROWS[op.name](lifter, op)
    if lifter.zeros.names and any(map(lifter.zeros.has, _names_of(lifter, op))):
        lifter.stop(op)


def _names_of(lifter: Lifter, op: MOp) -> tuple[str, ...]:
    """What `Promises.zero` may call an op, or the pointer of a load of floats."""
    match op.name:
        case "tt.elementwise_inline_asm":
            return ("tl.inline_asm_elementwise",)
        case "tt.extern_elementwise":
            single = any(t.element == "f32" for t in op.operand_types)
            return libdevice.names(unquote(op.attrs["symbol"]), single=single)
        case "tt.load" if lifter.value(op.results[0], op).is_float:
            pointer = lifter.operand(op.operands[0], op)
            return (pointer.base.name,) if isinstance(pointer, Pointer) else ()
        case _:
            return ()
