"""Names for values: the user's where there is one, else one that says how it is made."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable

from undertow.ir import Op, Value

MAX_LENGTH = 24

_UNARY = {"exp", "exp2", "log", "sqrt", "rsqrt", "abs", "sin", "cos", "tanh", "erf"}
_BINARY = {"mul": "", "div": "over", "add": "plus", "sub": "minus"}
_MOVES = {"cast", "broadcast", "expand_dims", "reshape", "transpose"}


class Names:
    """Gives each value one name, no two values the same."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*taken, "tl", "triton", "libdevice"}

    def fresh(self, wish: str) -> str:
        """`wish`, or with a number if it is taken."""
        wish = "".join(c if c.isalnum() or c == "_" else "_" for c in wish) or "value"
        if wish[0].isdigit() or keyword.iskeyword(wish) or hasattr(builtins, wish):
            wish = f"{wish}_" if not wish[0].isdigit() else f"v{wish}"
        name, count = wish, 2
        while name in self._taken:
            name, count = f"{wish}_{count}", count + 1
        self._taken.add(name)
        return name


def describe(value: Value, depth: int = 3) -> str:
    """A name for `value`: the user's variable, or one made of its operands' names."""
    op = value.op
    if value.name or op is None:
        return value.name
    if depth == 0:
        return _fallback(value, op)
    if op.opcode == "const":
        return ""
    parts = [describe(v, depth - 1) for v in op.operands]
    if op.opcode in _MOVES or op.opcode == "neg":
        name = parts[0]
    elif op.opcode in _UNARY:
        name = f"{op.opcode}_{parts[0]}"
    elif op.opcode == "reduce":
        name = f"{op.str_attr('kind')}_{parts[0]}"
    elif op.opcode == "select":
        name = parts[1] or parts[2]
    elif not value.is_float:
        name = _integer(value, op, parts)
    elif op.opcode in _BINARY and all(parts[:2]):
        name = "_".join(p for p in (parts[0], _BINARY[op.opcode], parts[1]) if p)
    elif op.opcode in _BINARY:
        name = parts[0] or parts[1]
    else:
        name = _fallback(value, op)
    vague = any(word in _VAGUE for part in parts for word in part.split("_"))
    return (
        name if name and len(name) <= MAX_LENGTH and not vague else _fallback(value, op)
    )


_VAGUE = ("term", "total", "offsets", "offset", "mask", "condition")


def _integer(value: Value, op: Op, parts: list[str]) -> str:
    if value.tensor_type.dtype.bits == 1:
        return _fallback(value, op)
    if op.opcode == "mul" and parts and parts[0] and not value.shape:
        return f"{parts[0]}_offset" if "offset" not in parts[0] else "offset"
    return _fallback(value, op)


def _fallback(value: Value, op: Op) -> str:
    if value.is_float:
        return "total" if op.opcode == "reduce" else "term"
    if value.tensor_type.dtype.bits == 1:
        return "mask" if value.shape else "condition"
    return "offsets" if value.shape else "offset"
