"""Reads the text that `printer` writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TypeVar

from undertow.errors import IRError
from undertow.ir.core import UNKNOWN, Attr, Block, Kernel, Loc, Op, Value
from undertow.ir.types import DTYPES, PointerType, TensorType, Type

T = TypeVar("T")

_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<number>-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf\b|nan\b))"
    r"|(?P<value>%[\w.]+)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<mark>[(){}\[\]<>,:=@]))"
)


def parse(text: str) -> Kernel:
    """The kernel printed as `text`. IRError, with the line, if it is not one."""
    return _Parser(text).kernel()


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                line = text.count("\n", 0, position) + 1
                raise IRError(f"unreadable text on line {line} of the printed kernel")
            kind = match.lastgroup or ""
            self.tokens.append(
                (kind, match[kind], text.count("\n", 0, match.end()) + 1)
            )
            position = match.end()
        self.position = 0
        self.values: dict[str, Value] = {}

    # -- tokens --

    def peek(self) -> str:
        return self.tokens[self.position][1] if self.position < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        if self.position >= len(self.tokens):
            raise IRError("the printed kernel ends too early")
        _, text, line = self.tokens[self.position]
        if expected is not None and text != expected:
            raise IRError(
                f"line {line} of the printed kernel: expected `{expected}`, "
                f"got `{text}`"
            )
        self.position += 1
        return text

    def accept(self, text: str) -> bool:
        if self.peek() == text:
            self.position += 1
            return True
        return False

    def several(self, item: Callable[[], T], close: str) -> list[T]:
        items: list[T] = []
        while not self.accept(close):
            items.append(item())
            if self.peek() != close:
                self.take(",")
        return items

    # -- grammar --

    def kernel(self) -> Kernel:
        self.take("kernel")
        name = self.take()
        self.take("(")
        params = self.several(self.param, ")")
        self.take("{")
        loc, body = self.loc(), self.block()
        rules: dict[str, Block] = {}
        while self.accept("rule"):
            rule = self.take()
            self.take("{")
            rules[rule] = self.block()
        return Kernel(name, tuple(params), body, loc, rules=rules)

    def param(self) -> Value:
        name = self.take()
        self.take(":")
        return self.define(name, self.type(), name[1:])

    def define(self, name: str, type: Type, hint: str) -> Value:
        if name in self.values:
            raise IRError(f"`{name}` is defined twice in the printed kernel")
        _, dot, own = name.partition(".")
        self.values[name] = Value(type, own if dot and name[1].isdigit() else hint)
        return self.values[name]

    def operand(self) -> Value:
        name = self.take()
        if name not in self.values:
            raise IRError(
                f"`{name}` is used before its definition in the printed kernel"
            )
        return self.values[name]

    def block(self) -> Block:
        args = self.several(self.argument, ")") if self.accept("(") else []
        ops: list[Op] = []
        while not self.accept("}"):
            ops.append(self.op())
        return Block(ops, tuple(args))

    def argument(self) -> Value:
        name = self.peek()
        value = self.param()
        value.is_argument = True
        value.name = value.name if "." in name else ""
        return value

    def op(self) -> Op:
        names: list[str] = []
        while self.peek().startswith("%"):
            names.append(self.take())
            self.take("," if self.peek() == "," else "=")
        opcode = self.take()
        self.take("(")
        operands = self.several(self.operand, ")")
        attrs = dict(self.several(self.attr, ">")) if self.accept("<") else {}
        types: list[Type] = []
        if self.accept(":"):
            types.append(self.type())
            while self.accept(","):
                types.append(self.type())
        opens = self.accept("{")
        loc = self.loc()
        regions: list[Block] = []
        while opens:
            regions.append(self.block())
            opens = self.accept("{")
        if len(names) != len(types):
            raise IRError(
                f"`{opcode}` names {len(names)} results and types {len(types)}"
            )
        results = [
            self.define(n, t, loc.name) for n, t in zip(names, types, strict=True)
        ]
        return Op(opcode, tuple(operands), tuple(results), attrs, tuple(regions), loc)

    def attr(self) -> tuple[str, Attr]:
        name = self.take()
        self.take("=")
        if self.accept("["):
            return name, tuple(int(n) for n in self.several(self.take, "]"))
        return name, _literal(self.take())

    def type(self) -> Type:
        name = self.take()
        if name == "ptr":
            self.take("<")
            element = self.type()
            self.take(">")
            assert isinstance(element, TensorType)
            return PointerType(element.dtype)
        if name not in DTYPES:
            raise IRError(f"`{name}` is no dtype")
        shape: list[int] = []
        if self.accept("["):
            shape = [int(n) for n in self.several(self.take, "]")]
        return TensorType(DTYPES[name], tuple(shape))

    def loc(self) -> Loc:
        if not self.accept("@"):
            return UNKNOWN
        file = self.take()[1:-1]
        self.take(":")
        line = int(self.take())
        self.take(":")
        column = int(self.take())
        return Loc(file, line, column, self.take() if self.accept(":") else "")


def _literal(text: str) -> Attr:
    if text in ("True", "False"):
        return text == "True"
    if text[0] in "\"'":
        return str(ast.literal_eval(text))
    return float(text) if set(text) & set(".enf") else int(text)
