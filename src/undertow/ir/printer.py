"""Prints a kernel in the grammar of `core`; `parser` reads it back."""

from __future__ import annotations

from undertow.ir.core import Attr, Block, Kernel, Loc, Op, Value


def print_kernel(kernel: Kernel, *, locations: bool = False) -> str:
    """The kernel as text, with numbered values; equal kernels give equal text."""
    return _Printer(locations).kernel(kernel)


class _Printer:
    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []

    def kernel(self, kernel: Kernel) -> str:
        for param in kernel.params:
            self.names[param] = f"%{param.name}"
        params = ", ".join(f"%{p.name}: {p.type}" for p in kernel.params)
        self.lines.append(f"kernel {kernel.name}({params}) {{{self.loc(kernel.loc)}")
        self.block(kernel.body, 1)
        self.lines.append("}")
        for name, rule in kernel.rules.items():
            self.lines.append(f"rule {name} {{")
            self.lines.append(f"  ({self.arguments(rule)})")
            self.block(rule, 1)
            self.lines.append("}")
        return "\n".join(self.lines) + "\n"

    def block(self, block: Block, depth: int) -> None:
        for op in block.ops:
            self.op(op, depth)

    def op(self, op: Op, depth: int) -> None:
        for result in op.results:
            self.define(result)
        text = ", ".join(self.names[r] for r in op.results)
        text += " = " if op.results else ""
        text += f"{op.opcode}({', '.join(self.names[v] for v in op.operands)})"
        if op.attrs:
            pairs = (f"{k}={literal(v)}" for k, v in sorted(op.attrs.items()))
            text += f" <{', '.join(pairs)}>"
        if op.results:
            text += f" : {', '.join(str(r.type) for r in op.results)}"
        indent = "  " * depth
        if not op.regions:
            self.lines.append(f"{indent}{text}{self.loc(op.loc)}")
            return
        self.lines.append(f"{indent}{text} {{{self.loc(op.loc)}")
        for index, region in enumerate(op.regions):
            if index:
                self.lines.append(f"{indent}}} {{")
            if region.args:
                self.lines.append(f"{indent}  ({self.arguments(region)})")
            self.block(region, depth + 1)
        self.lines.append(f"{indent}}}")

    def define(self, value: Value) -> None:
        """Numbers a value; its name goes with the locations."""
        name = f".{value.name}" if self.locations else ""
        self.names[value] = f"%{len(self.names)}{name}"

    def arguments(self, region: Block) -> str:
        for arg in region.args:
            self.define(arg)
        return ", ".join(f"{self.names[a]}: {a.type}" for a in region.args)

    def loc(self, loc: Loc) -> str:
        if not self.locations or not loc.known:
            return ""
        name = f":{loc.name}" if loc.name else ""
        return f' @"{loc.file}":{loc.line}:{loc.column}{name}'


def literal(value: Attr) -> str:
    """An attribute as it is written; floats exactly, `inf` and `nan` by name."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return repr(value)
