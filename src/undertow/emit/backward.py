"""Writes a derived backward, with a docstring that says where each gradient goes."""

from __future__ import annotations

import os

from undertow.analysis.exclusive import Exclusive, Shared
from undertow.emit.assembly import Assembly
from undertow.emit.source import emit, joined
from undertow.emit.text import dtype
from undertow.transform.differentiate import Backward, Gradient


def emit_backward(backward: Backward) -> str:
    """The source of a module with the backward kernel of `backward`."""
    reasons = {
        g.name: f"atomic: {g.placement.finding.reason}"
        for g in backward.gradients
        if not isinstance(g.placement.finding, Exclusive)
    }
    assemblies: dict[Assembly, str] = {}
    source = emit(backward.kernel, describe(backward), reasons, assemblies)
    if backward.counter is None:
        return source
    lines = describe_counter(backward)
    return joined(source, emit(backward.counter, lines, assemblies=assemblies))


def describe(backward: Backward) -> list[str]:
    """The lines of the docstring."""
    forward = backward.forward
    origin = ""
    if forward.loc.known:
        origin = f" ({os.path.basename(forward.loc.file)}:{forward.loc.line})"
    recomputed = ", ".join(backward.recomputed) or "nothing"
    outputs = ", ".join(backward.read_back)
    read_back = f"Read back from outputs: {outputs}. " if outputs else ""
    lines = [
        f"Backward of `{forward.name}`{origin}.",
        "",
        f"Recomputed: {recomputed}. {read_back}{kept(backward)}",
        *(placement(g) for g in backward.gradients),
    ]
    if forward.rules:
        lines.append(f"Derivatives given by the user: {', '.join(forward.rules)}.")
    lines += [
        f"Each element of {store.of} must be written once, which is not proved: "
        f"{store.finding.reason}."
        for store in backward.stores
        if isinstance(store.finding, Shared)
    ]
    if backward.passed_on:
        names = ", ".join(backward.passed_on)
        lines.append(f"Passed on unchanged, as it is only added to: {names}.")
    if backward.zeros:
        lines.append(f"Zero, as no output depends on it: {', '.join(backward.zeros)}.")
    return lines


def describe_counter(backward: Backward) -> list[str]:
    """The lines of the docstring of the kernel that counts turns."""
    names = ", ".join(f"`{name}`" for name in backward.counted)
    return [
        f"Counts for `{backward.kernel.name}` how often loops turn in each program: "
        f"{names}."
    ]


def kept(backward: Backward) -> str:
    """What the reverse sweep has of the primal one that it does not compute again."""
    if not backward.tapes:
        return "Saved: nothing."
    names = ", ".join(dict.fromkeys(tape.of for tape in backward.tapes))
    if backward.counter is None:
        return f"Tape: {names}, as each turn of the loop finds it."
    counted = ", ".join(f"`{name}`" for name in backward.counted)
    return (
        f"Tape: {names}, as each turn of the loop finds it; {counted}: the most turns "
        f"of a program, counted by `{backward.counter.name}`."
    )


def placement(gradient: Gradient) -> str:
    """One line on where a gradient goes and why."""
    stem = gradient.name.removesuffix("_ptr")
    finding = gradient.placement.finding
    if not isinstance(finding, Exclusive):
        held = dtype(gradient.dtype).removeprefix("tl.")
        return f"{stem}: summed by atomic_add in {held}; {finding.reason}."
    conditions = " and ".join(map(str, finding.conditions))
    notes = [f"if {conditions}, tested at launch"] if conditions else []
    notes += [
        f"as {name} holds no value twice, as promised" for name in finding.promised
    ]
    noted = f" ({'; '.join(notes)})" if notes else ""
    return f"{stem}: plain store, each element is written once{noted}."
