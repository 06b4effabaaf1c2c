"""Names for values: the user's, or else one that tells how a value is made."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from undertow.ir import Op, Value

MAX_LENGTH = 24
MAX_DEPTH = 3

_UNARY = {"exp", "exp2", "log", "sqrt", "rsqrt", "abs", "sin", "cos", "tanh", "erf"}
_BINARY = {"mul": "", "div": "over", "add": "plus", "sub": "minus"}
_MOVES = {"cast", "broadcast", "expand_dims", "reshape", "transpose"}
_EXTREMES = {"maximum": "max", "maxnum": "max", "minimum": "min", "minnum": "min"}
_COMPARED = {
    "oeq": "is",
    "ogt": "above",
    "oge": "above",
    "olt": "below",
    "ole": "below",
}
_FACTORS = {0.5: "half", 2.0: "twice"}
_VAGUE = {"term", "total", "mask", "condition"}


class Names:
    """Gives each value one name, no two values the same."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = dict.fromkeys([*taken, "tl", "triton", "libdevice"])
        self._counts: dict[str, int] = {}  # below it, all numbers are taken

    def __len__(self) -> int:
        """How many are taken."""
        return len(self._taken)

    def fresh(self, wish: str) -> str:
        """`wish`, or with a number if it is taken."""
        wish = "".join(c if c.isalnum() or c == "_" else "_" for c in wish) or "value"
        if wish[0].isdigit():
            wish = f"v{wish}"
        if keyword.iskeyword(wish) or hasattr(builtins, wish):
            wish = f"{wish}_"
        name, count = wish, self._counts.get(wish, 2)
        while name in self._taken:
            name, count = f"{wish}_{count}", count + 1
        self._counts[wish] = max(2, count - 1)
        self._taken[name] = None
        return name

    def forget(self, count: int) -> None:
        """Frees all names but the first `count` that were taken."""
        while len(self._taken) > count:
            name, _ = self._taken.popitem()
            stem, _, number = name.rpartition("_")
            if number.isdecimal():
                self._counts[stem] = min(self._counts.get(stem, 2), int(number))

    def taken(self, name: str) -> bool:
        return name in self._taken

    def counter(self) -> str:
        """A new name for a loop's variable."""
        free = (n for n in ("i", "j", "k") if n not in self._taken)
        return self.fresh(next(free, "i"))

    @contextmanager
    def scope(self) -> Generator[None]:
        """A block whose names may be given again after it."""
        outer = len(self)
        yield
        self.forget(outer)


@dataclass
class Wishes:
    """Says what a value would best be called.

    Attributes:
        given: the variables there are.
        users: the ops that read a value.
    """

    given: Mapping[Value, str]
    users: Mapping[Value, Sequence[Op]]
    _reserved: set[str] = field(default_factory=lambda: set[str]())

    def __post_init__(self) -> None:
        self._reserved.update(value.name for value in self.users)

    def of(self, value: Value, *, primal: bool = False) -> str:
        """By its making, or if that is long by what it is part of.

        Args:
            value: a value without a variable so far.
            primal: whether it must not be called after a gradient.
        """
        assert value.op is not None
        if value.name:
            return value.name
        own = self.described(value)
        if value.op.opcode == "split" and own:
            return own
        if len(own) > MAX_LENGTH or not _VAGUE.isdisjoint(own.split("_")):
            own = ""
        if own in self._reserved and own.startswith("d_"):
            own = f"{own}_out" if value.op.opcode == "load" else ""
        if own and not own.endswith("_kept"):
            return own
        return self._part(value, MAX_DEPTH, primal) or own or _plain(value, value.op)

    # -- by how it is made --

    def described(self, value: Value, depth: int = MAX_DEPTH) -> str:
        """A name made of the operands' names; empty if nothing good can be said."""
        if value in self.given or value.name or value.op is None:
            return self.given.get(value, value.name)
        op = value.op
        if op.opcode in _SOURCES:
            return _SOURCES[op.opcode] + (
                f"_{a}" if (a := op.attrs.get("axis")) else ""
            )
        if op.opcode == "const" or depth == 0:
            return ""
        if op.opcode == "load":
            return op.operands[0].name.removesuffix("_ptr")
        if op.opcode == "split":
            whole = self.described(_unmoved(op.operands[0]), depth - 1)
            return whole and f"{whole}_{value.index}"
        parts = [self.described(v, depth - 1) for v in op.operands]
        return self._float(op, parts) if value.is_float else _integer(value, op, parts)

    def _float(self, op: Op, parts: list[str]) -> str:
        name = parts[0] if parts else ""
        match op.opcode:
            case "select":
                return self._gated(op, parts[1]) or _choice(op, parts)
            case "cast" if not op.operands[0].is_float:
                return name and f"{name}_f32"
            case opcode if opcode in _MOVES:
                return name
            case "neg":
                return name and f"neg_{name}"
            case "reduce":
                return name and f"{op.str_attr('kind')}_{name.removesuffix('_kept')}"
            case opcode if opcode in _UNARY:
                return name and f"{opcode}_{name}"
            case opcode if opcode in _EXTREMES:
                return _extreme(_EXTREMES[opcode], op, parts)
            case opcode if opcode in _BINARY or opcode == "reciprocal":
                return self._sigmoid(op) or _operation(op, parts)
            case _:
                return ""

    def _gated(self, op: Op, kept: str) -> str:
        """The gradient d_y kept where x is above a bound, as in max(x, 0), is d_x."""
        gate = op.operands[0].op
        bounded = gate and gate.opcode == "cmp" and gate.operands[0].is_float
        if not (gate and bounded and kept.startswith("d_")):
            return ""
        seen = self.described(gate.operands[0], 0)
        constant = (
            _number(gate.operands[1]) is not None and _number(op.operands[2]) == 0
        )
        return (
            f"d_{seen}"
            if seen and constant and f"d_{seen}" not in self._reserved
            else ""
        )

    def _sigmoid(self, op: Op) -> str:
        """1 / (1 + exp(-x))."""
        whole = _operand(op, -1, "add")
        if op.opcode != "reciprocal" and (
            op.opcode != "div" or _number(op.operands[0]) != 1
        ):
            return ""
        for index in (0, 1):
            power = whole and _operand(whole, index, "exp")
            inner = power and _operand(power, 0, "neg")
            if whole and inner and _number(whole.operands[1 - index]) == 1:
                name = self.described(inner.operands[0], 1)
                return name and f"sigmoid_{name}"
        return ""

    # -- by what it is part of --

    def _part(self, value: Value, depth: int, primal: bool) -> str:
        """`y_term` for a term of the sum y, `raw_y` for what y is otherwise made of."""
        if depth == 0 or not value.is_float:
            return ""
        for user in self.users.get(value, ()):
            results = [r for r in user.results if r.is_float]
            if len(results) != 1:
                continue
            whole = results[0].name
            if whole and not (primal and whole.startswith("d_")):
                return _share(value, user, whole)
            inner = "" if whole else self._part(results[0], depth - 1, primal)
            if inner:
                return inner
        return ""


_SOURCES = {"program_id": "pid", "num_programs": "n_programs", "range": "lanes"}


def _operand(op: Op, index: int, opcode: str) -> Op | None:
    """The op that makes an operand, if its opcode is this one."""
    made = op.operands[index].op
    while made is not None and made.opcode == "broadcast":
        made = made.operands[0].op
    return made if made is not None and made.opcode == opcode else None


def _unmoved(value: Value) -> Value:
    while value.op is not None and value.op.opcode in _MOVES:
        value = value.op.operands[0]
    return value


def _extreme(word: str, op: Op, parts: list[str]) -> str:
    if all(parts):
        return f"{word}_{parts[0]}_{parts[1]}"
    bounded = parts[0] and _number(op.operands[1]) is not None
    return f"clamped_{parts[0]}" if bounded else ""


def _choice(op: Op, parts: list[str]) -> str:
    """`where(c, x, 0)` keeps x, `where(c, x, 1)` makes it safe to divide by."""
    for part, other in ((parts[1], op.operands[2]), (parts[2], op.operands[1])):
        number = _number(other)
        if part and number is not None:
            return f"safe_{part}" if number else f"{part.removesuffix('_kept')}_kept"
    return ""


def _operation(op: Op, parts: list[str]) -> str:
    if op.opcode == "reciprocal":
        return parts[0] and f"inv_{parts[0]}"
    if all(parts):
        return "_".join(p for p in (parts[0], _BINARY[op.opcode], parts[1]) if p)
    first, second = map(_number, op.operands)
    match op.opcode:
        case "mul":
            part, factor = parts[0] or parts[1], second if parts[0] else first
            word = _FACTORS.get(factor or 0.0)
            return f"{word}_{part}" if part and word else ""
        case "div":
            return f"inv_{parts[1]}" if parts[1] and first == 1 else ""
        case _ if parts[0] and second is not None and second.is_integer():
            return f"{parts[0]}_{_BINARY[op.opcode]}_{int(second)}"
        case _:
            return ""


def _integer(value: Value, op: Op, parts: list[str]) -> str:
    if op.opcode in _MOVES:
        return parts[0]
    if value.tensor_type.dtype.bits == 1:
        return _comparison(op, parts)
    if op.opcode == "mul" and parts[0] and "offset" not in parts[0]:
        whole, found, _ = parts[1].rpartition("_stride")
        name = whole if found and whole else parts[0]
        return f"{name}_offsets" if value.shape else f"{name}_offset"
    return ""


def _comparison(op: Op, parts: list[str]) -> str:
    word = op.opcode == "cmp" and _COMPARED.get(op.str_attr("predicate"))
    if not word or not parts[0]:
        return ""
    if parts[1]:
        return f"{parts[0]}_{word}_{parts[1].removesuffix(f'_{parts[0]}')}"
    sign = {"above": "positive", "below": "negative"}.get(word)
    return f"{parts[0]}_{sign}" if sign and _number(op.operands[1]) == 0 else ""


def _share(value: Value, user: Op, whole: str) -> str:
    match user.opcode:
        case "add" | "sub":
            return f"{whole}_term"
        case "mul":
            return f"{whole}_factor"
        case "div" if user.operands[1] is value:
            return f"{whole}_divisor"
        case _:
            return f"{whole}_part" if whole.startswith("d_") else f"raw_{whole}"


def _number(value: Value) -> float | None:
    while value.op is not None and value.op.opcode == "broadcast":
        value = value.op.operands[0]
    if value.op is None or value.op.opcode != "const":
        return None
    number = value.op.attrs["value"]
    return float(number) if isinstance(number, int | float) else None


def _plain(value: Value, op: Op) -> str:
    if value.is_float:
        return "total" if op.opcode == "reduce" else "term"
    if value.tensor_type.dtype.bits == 1:
        return "mask" if value.shape else "condition"
    return "offsets" if value.shape else "offset"
