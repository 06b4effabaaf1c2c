"""Keeps names only for values that the user gave a variable to."""

from __future__ import annotations

from undertow.ir import I1, Kernel, Op, Value, walk


def name_variables(kernel: Kernel) -> Kernel:
    """Clears the names of intermediate values, in place; gives `kernel` back.

    Triton names every value of a statement after the variable assigned there, so that
    in ``x = tl.load(x_ptr + row * stride)`` the product is called x as well. A value
    keeps its name if nothing else of the same statement is computed from it.
    """
    users: dict[Value, list[Op]] = {}
    for op in walk(kernel.body):
        for value in op.operands:
            users.setdefault(value, []).append(op)
    intermediate = [
        result
        for op in walk(kernel.body)
        for result in op.results
        if any(_same_statement(op, result, user) for user in users.get(result, []))
    ]
    for value in intermediate:
        value.name = ""
    for op in walk(kernel.body):
        if op.opcode == "const":
            op.result.name = ""
    return kernel


def _same_statement(op: Op, result: Value, user: Op) -> bool:
    if user.opcode == "cast" and result.tensor_type.dtype == I1:
        return False  # Triton widens what it loads of booleans
    same_line = (user.loc.file, user.loc.line) == (op.loc.file, op.loc.line)
    address = user.opcode == "load" and not result.is_float  # on a line of its own
    return (same_line or address) and any(r.name == result.name for r in user.results)
