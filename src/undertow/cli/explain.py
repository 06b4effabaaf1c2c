"""`undertow explain`: where each gradient goes and why."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from undertow.analysis.exclusive import Exclusive
from undertow.cli import messages
from undertow.cli.derive import Derived
from undertow.cli.messages import columns
from undertow.ir import PointerType, walk
from undertow.transform.cotangent_layout import StridedCotangent
from undertow.transform.differentiate import Backward, Gradient, roles

Row = tuple[str, str]


def show(derived: Derived) -> None:
    """Prints a table of the gradients, and a list of what else is known."""
    backward = derived.derivation.backward
    table = columns("gradient", "of", "placement", "why")
    for gradient in backward.gradients:
        table.add_row(
            Text(_stem(gradient.name), style="bold cyan"),
            gradient.of,
            Text(placement(gradient), style=_style(gradient)),
            why(gradient),
        )
    messages.show(table)
    print()
    facts = columns("", "")
    for name, text in rows(derived):
        facts.add_row(Text(name, style="bold"), Text(text))
    messages.show(facts)


def rows(derived: Derived) -> Iterator[Row]:
    """What is known besides the placements, as (heading, text)."""
    backward = derived.derivation.backward
    yield "reads", ", ".join(_touched(backward, "load")) or "nothing"
    writes = [*_touched(backward, "store")]
    writes += [f"{n} (+= atomics)" for n in _touched(backward, "atomic_add")]
    yield "writes", ", ".join(writes)
    yield "recomputed", ", ".join(backward.recomputed) or "nothing"
    outputs = ", ".join(backward.read_back)
    yield "saved", f"{outputs}, as the forward left them" if outputs else "nothing"
    taped = [f"{t.of} ({t.size} a program and turn)" for t in backward.tapes]
    yield "tape", ", ".join(taped) or "none"
    yield "launches", "1"
    yield from _cotangents(backward)
    conditions = list(dict.fromkeys(_conditions(backward)))
    yield "at launch", "; ".join(conditions) or "nothing is tested"
    if backward.forward.rules:
        yield "rules", f"of the user's: {', '.join(backward.forward.rules)}"
    if backward.promised:
        names = ", ".join(backward.promised)
        yield "promised", f"{names}: no value stands twice; only `check` tests it"
    yield from (("zero", text) for text in _zeros(derived))
    types = ", ".join(f"{n}:{t}" for n, t in derived.signature.types.items())
    fixed = ", ".join(f"{n}={v}" for n, v in derived.signature.constexprs.items())
    yield "derived for", f"{types}; {fixed}" if fixed else types


def placement(gradient: Gradient) -> str:
    """How contributions reach the buffer, in two words."""
    if isinstance(gradient.placement.finding, Exclusive):
        return "plain store"
    return f"atomic_add, {gradient.dtype}"


def why(gradient: Gradient) -> str:
    """Why the gradient is placed so."""
    finding = gradient.placement.finding
    if not isinstance(finding, Exclusive):
        return finding.reason
    conditions = " and ".join(map(str, finding.conditions))
    tested = f" if {conditions}" if conditions else ""
    tested += "".join(f", as {n} holds no value twice" for n in finding.promised)
    merged = (
        "; contributions of one program are added first"
        if gradient.placement.merged
        else ""
    )
    return f"each element is written once{tested}{merged}"


def _style(gradient: Gradient) -> str:
    return "green" if isinstance(gradient.placement.finding, Exclusive) else "yellow"


def _stem(name: str) -> str:
    return name.removesuffix("_ptr")


def _touched(backward: Backward, opcode: str) -> list[str]:
    """The buffers that ops of this opcode access, as in the parameter list."""
    used = {op.operands[0] for op in walk(backward.kernel.body) if op.opcode == opcode}
    return [_stem(p.name) for p in backward.kernel.params if p in used]


# -- cotangents, conditions, zeros --


def _cotangents(backward: Backward) -> Iterator[Row]:
    for ct in backward.cotangents:
        yield _stem(ct.name), _addressing(ct)


def _addressing(ct: StridedCotangent) -> str:
    if not ct.strides:
        return f"has the layout of {ct.of}, else it is copied into it first"
    own = ", ".join(s.name for s in ct.strides)
    factors = " and ".join(
        "1" if c is None else f"`{c.name or '?'}`" for c in ct.coefficients
    )
    stands = "are strides" if len(ct.strides) > 1 else "is a stride"
    return (
        f"read by its own strides {own} where {factors} {stands} of {ct.of}, "
        f"else copied into the layout of {ct.of} first"
    )


def _conditions(backward: Backward) -> Iterator[str]:
    """Conditions of plain stores; where one fails the gradient becomes atomic."""
    for gradient in backward.gradients:
        finding = gradient.placement.finding
        if not isinstance(finding, Exclusive):
            continue
        for condition in finding.conditions:
            yield f"{condition}, else {_stem(gradient.name)} is added atomically"


def _zeros(derived: Derived) -> Iterator[str]:
    """Pointers that are loaded and get no gradient, and why."""
    backward = derived.derivation.backward
    forward = backward.forward
    have = {g.of for g in backward.gradients}
    loaded = roles(forward).loaded
    for param in forward.pointers:
        if param.name in have or param.name not in loaded:
            continue
        assert isinstance(param.type, PointerType)
        if not param.type.element.is_float:
            yield f"{param.name}: {param.type.element} has no gradient"
        elif param.name in backward.zeros:
            yield f"{param.name}: no output depends on it by a derivative"
