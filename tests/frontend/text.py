"""TTIR by hand: a function around a body, and the lifted op in question."""

from __future__ import annotations

from undertow.frontend import lift_text
from undertow.ir import Kernel, print_kernel

ARGS = {
    "%x_ptr": "!tt.ptr<f32>",
    "%y_ptr": "!tt.ptr<f32>",
    "%n": "i32",
    "%a": "f32",
    "%c": "i1",
}


def module(body: str, **args: str) -> str:
    """A module around `body`; each op gets line 7 of `k.py` if it has no location."""
    types = {**ARGS, **{f"%{name}": type for name, type in args.items()}}
    inside = ", ".join(f'{n}: {t} loc("{n[1:]}"(#loc))' for n, t in types.items())
    lines = [f"    {_located(line.strip())}" for line in body.strip().split("\n")]
    if not lines[-1].lstrip().startswith(("tt.return", "cf.")):
        lines.append("    tt.return loc(#loc1)")
    return "\n".join(
        [
            '#loc = loc("k.py":3:1)',
            "module {",
            f"  tt.func public @k({inside}) attributes {{noinline = false}} {{",
            *lines,
            "  } loc(#loc)",
            "} loc(#loc)",
            '#loc1 = loc("k.py":7:5)',
            "",
        ]
    )


def _located(line: str) -> str:
    opens = line.endswith("{") or line.startswith("^")
    return line if opens or " loc(" in line else f"{line} loc(#loc1)"


def lift(body: str, **args: str) -> Kernel:
    return lift_text(module(body, **args))


def ops(body: str, **args: str) -> list[str]:
    """The lifted ops as lines, values numbered from the number of arguments."""
    printed = print_kernel(lift(body, **args)).splitlines()
    return [line.strip() for line in printed[1:-1]]
