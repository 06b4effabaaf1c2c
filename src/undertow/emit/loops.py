"""Writes loops: the header, names for what is carried, and the new values of a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from undertow.analysis.addresses import uniform
from undertow.emit.expressions import Expressions
from undertow.emit.names import Wishes
from undertow.emit.text import OPERATORS, call
from undertow.ir import I1, I64, OPS, Op, TensorType, Value

AUGMENTED = ("add", "sub", "mul", "div")
"""Opcodes that may be written ``x += y`` and alike."""

_SUMS = ("add", "sub", "fma", "dot")
_PLAIN = ("term", "total", "offset", "offsets", "mask", "condition")


def header(op: Op, expressions: Expressions) -> str:
    """``range(…)``, or ``tl.range(…)`` if the loop has hints for the compiler."""
    lower, upper, step = op.operands[:3]
    text = expressions.stripped(upper)[0].text
    if all(loose(v) for v in (lower, upper, step)):
        text = exact(upper, expressions)
    bounds = [text]
    if _number(step) != 1:
        bounds = [expressions.stripped(v)[0].text for v in (lower, upper, step)]
        bounds[1] = text
    elif _number(lower) != 0:
        bounds.insert(0, expressions.stripped(lower)[0].text)
    if "num_stages" not in op.attrs:
        return call("range", *bounds).text
    return call("tl.range", *bounds, f"num_stages={op.int_attr('num_stages')}").text


def _number(value: Value) -> object:
    op = value.op
    return op.attrs["value"] if op is not None and op.opcode == "const" else None


def loose(value: Value) -> bool:
    """Whether Triton may give a 64-bit integer 32 bits, as it does with numbers.

    An argument that is 1 is such a number, and so is what is computed from it.
    """
    cast = value.op is not None and value.op.opcode == "cast"
    return value.type == TensorType(I64) and not cast and uniform(value)


def exact(value: Value, expressions: Expressions) -> str:
    """`value` with exactly its type."""
    text = expressions.full(value)
    if loose(value) and _number(value) is None:
        return call("tl.cast", text, "tl.int64").text
    return text


def assignment(target: str, value: Value, expressions: Expressions) -> tuple[str, str]:
    """A statement in two parts: ``acc += `` and what is added, or ``acc = …``."""
    op = value.op
    if value not in expressions.names and op is not None and op.opcode in AUGMENTED:
        left, right = expressions.pair(op, op.result.tensor_type.dtype)
        if left.text == target:
            return f"{target} {OPERATORS[op.opcode][0]}= ", right.text
    return f"{target} = ", exact(value, expressions)


def trivial(value: Value, names: Mapping[Value, str]) -> bool:
    """Whether the text of `value` may be repeated in each turn of a loop.

    That is so for integer arithmetic on scalars that are variables or numbers.
    """
    op = value.op
    if op is None or value in names or op.opcode == "const":
        return True
    scalar = not value.shape and value.tensor_type.dtype.is_int
    arithmetic = OPS[op.opcode].kind == "pointwise"
    return scalar and arithmetic and all(trivial(v, names) for v in op.operands)


# -- values that start as the same --


def kept_apart(op: Op, names: Sequence[str], given: Mapping[Value, str]) -> list[str]:
    """The variables of a loop that must not start as the very value of another one.

    Triton takes a variable that ends the first turn as the value it began with to be
    unchanged by the loop. That is wrong of ``a = b`` where a and b began as one value.
    """
    initial = op.initial
    if not any(map(_passed_on, op.following, op.carried)):
        return []
    pairs = zip(names, initial, strict=True)
    held = [(n, v) for n, v in pairs if v in given or v.is_parameter]
    held.sort(key=lambda pair: given.get(pair[1]) != pair[0])
    first: dict[Value, str] = {}
    return [n for n, v in held if first.setdefault(_origin(v), n) != n]


def _passed_on(following: Value, arg: Value) -> bool:
    """Whether a turn may make of `arg` another value that it began with."""
    if following.op is not None:
        return bool(following.op.regions)
    return following.owner is arg.owner and following is not arg


def _origin(value: Value) -> Value:
    """What an unchanged value of a loop began as."""
    op = value.owner if value.is_argument else value.op
    if op is None or not op.is_loop:
        return value
    if value.is_argument and value not in op.carried:  # the variable of a `for`
        return value
    index = op.carried.index(value) if value.is_argument else value.index
    initial, arg = op.initial[index], op.carried[index]
    following = op.following[index]
    return _origin(initial) if following in (arg, initial) else value


def apart(text: str, of: Value) -> str:
    """An expression of its own for the value that `text` stands for."""
    if of.type == TensorType(I1, of.shape):
        return f"{text} & True"
    return f"{text} - {0.0 if of.is_float else 0}"


# -- names --


def given_name(op: Op, index: int) -> str:
    """What the user calls a carried value; empty if that is not known."""
    following, initial = op.following[index], op.initial[index]
    shared = [r.name for r in op.results].count(op.results[index].name) > 1
    return (
        op.carried[index].name
        or ("" if shared else op.results[index].name)
        or ("" if following.is_argument or following.is_parameter else following.name)
        or ("" if initial.is_parameter else initial.name)
    )


def wished_name(op: Op, index: int, wishes: Wishes, *, primal: bool) -> str:
    """A name for a carried value."""
    name = given_name(op, index)
    if name:
        return name
    wish = wishes.of(op.results[index], primal=primal)
    following = op.following[index].op
    if wish not in _PLAIN or following is None or not op.results[index].is_float:
        return wish
    return "acc" if following.opcode in _SUMS else wish
