"""Reads printed TTIR into a small generic tree: module, functions, blocks, ops.

Triton's Python bindings reach neither dense constants nor region blocks, its printed
text has everything. MLIR prints one op a line, opens a region at the end of a line, and
ends each op with its location; that is all this reader relies on. What an op means is
decided by `lift`. A line that does not fit is a CaptureError: nothing is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from undertow.errors import CaptureError
from undertow.frontend.location import Locations
from undertow.ir import UNKNOWN, Loc

_NAME = r"%[\w$.\-]++(?:#\d+)?+"
_HEAD = re.compile(
    rf'(?:({_NAME}(?::\d+)?(?:, {_NAME}(?::\d+)?)*) = )?("?)([A-Za-z_][\w.$]*)\2'
)
_OPERAND = re.compile(rf"({_NAME})(?! =)")
_FUNC = re.compile(r"tt\.func (?:(public|private) )?@([\w$.]+|\"[^\"]*\")\(")
_BLOCK = re.compile(r"(\^\w+)(?:\((.*)\))?:\s*(?://.*)?$")
_ARG = re.compile(rf"({_NAME}): (.*?)(?: loc\((.*)\))?$")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SUCCESSOR = re.compile(r"(\^\w+)(?:\(([^)]*)\))?")
_KEYWORD = re.compile(r"(\w+) = (\w+)")
_MODIFIER = re.compile(r"\b(fastmath|overflow)<([^>]*)>")
_WORD = re.compile(r"(?<![%\w#^.$\-])[A-Za-z_]\w*")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.+)>$")
_POINTER = re.compile(r"!tt\.ptr<([^<>,]+)(?:, *\d+)?>$")
_ELIDING = ("scf.if", "scf.for")
_ARROW = "\N{RIGHTWARDS ARROW}"
_DEPTH = {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}


@dataclass(frozen=True, slots=True)
class MType:
    """A type: `element` is the scalar's MLIR name, or the text of a foreign type."""

    element: str
    shape: tuple[int, ...] = ()
    pointer: bool = False

    def __str__(self) -> str:
        scalar = f"!tt.ptr<{self.element}>" if self.pointer else self.element
        dims = "".join(f"{d}x" for d in self.shape)
        return f"tensor<{dims}{scalar}>" if self.shape else scalar


@dataclass(frozen=True, slots=True)
class Successor:
    """A block that a branch leads to, with the values of its arguments."""

    label: str
    operands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MArg:
    """An argument of a function or block."""

    name: str
    type: MType
    loc: Loc


@dataclass(frozen=True, slots=True, eq=False)
class MOp:
    """An op. `body` is its text between name and types, without attribute dictionaries;
    `words` are the bare words in it (predicates, axes, flags)."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    body: str
    words: tuple[str, ...]
    attrs: Mapping[str, str]
    operand_types: tuple[MType, ...]
    result_types: tuple[MType, ...]
    successors: tuple[Successor, ...]
    regions: tuple[MRegion, ...]
    loc: Loc

    @property
    def type(self) -> MType:
        """The last type printed: the result's, or the one that all operands share."""
        types = self.result_types or self.operand_types
        if not types:
            raise CaptureError(
                f"`{self.name}` carries no type in the TTIR", loc=self.loc
            )
        return types[-1]


@dataclass(frozen=True, slots=True, eq=False)
class MBlock:
    """A block: a label (the entry's is empty), arguments, ops."""

    label: str
    args: tuple[MArg, ...]
    ops: list[MOp] = field(default_factory=lambda: list[MOp]())


@dataclass(frozen=True, slots=True, eq=False)
class MRegion:
    """A region: its blocks, the entry first."""

    blocks: tuple[MBlock, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MFunc:
    """A function of the module."""

    name: str
    public: bool
    args: tuple[MArg, ...]
    region: MRegion
    loc: Loc


def parse_module(text: str) -> tuple[MFunc, ...]:
    """The functions of a printed module. CaptureError, with the line, if unreadable."""
    return _Reader(text).module()


def walk(funcs: tuple[MFunc, ...]) -> Iterator[tuple[str, int]]:
    """Name and operand count of each op, in the order of MLIR's walk: inner first."""
    for func in funcs:
        yield from walk_region(func.region)
        yield "tt.func", 0
    yield "builtin.module", 0


def walk_region(region: MRegion) -> Iterator[tuple[str, int]]:
    """`walk` within a region."""
    for block in region.blocks:
        for op in block.ops:
            for nested in op.regions:
                yield from walk_region(nested)
            yield op.name, len(op.operands)


class _Reader:
    """Goes through the lines once; `at` is the next one."""

    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in text.split("\n")]
        self.locations = Locations(lines)
        self.lines = [line for line in lines if line and not line.startswith("#")]
        self.at = 0

    # -- structure --

    def module(self) -> tuple[MFunc, ...]:
        if not re.fullmatch(r"module( attributes \{.*\})? \{", self.take()):
            self.fail("expected `module`")
        funcs: list[MFunc] = []
        while not self.take().startswith("}"):
            funcs.append(self.func(self.lines[self.at - 1]))
        if self.at != len(self.lines):
            self.take()
            self.fail("expected nothing after the module")
        return tuple(funcs)

    def func(self, line: str) -> MFunc:
        match = _FUNC.match(line)
        if match is None or not line.endswith("{"):
            self.fail("expected a function")
        inside = line[match.end() : _closing(line, match.end() - 1)]
        args = tuple(self.arg(part) for part in _split(inside))
        region, tail = self.region()
        return MFunc(
            match[2].strip('"'), match[1] != "private", args, region, self.loc(tail)[1]
        )

    def region(self) -> tuple[MRegion, str]:
        """The blocks up to the closing brace, and what follows the brace."""
        blocks = [MBlock("", ())]
        while True:
            line = self.take()
            if line.startswith("}"):
                break
            if line.startswith("^"):
                match = _BLOCK.match(line)
                if match is None:
                    self.fail("expected the label of a block")
                args = tuple(self.arg(part) for part in _split(match[2] or ""))
                blocks.append(MBlock(match[1], args))
            else:
                blocks[-1].ops.append(self.op(line))
        if len(blocks) > 1 and not blocks[0].ops:
            del blocks[0]
        return MRegion(tuple(blocks)), line[1:]

    def op(self, line: str) -> MOp:
        head = _HEAD.match(line)
        if head is None:
            self.fail("expected an op")
        text, regions = line[head.end() :], list[MRegion]()
        while text.endswith("{"):
            region, tail = self.region()
            regions.append(_terminated(region) if head[3] in _ELIDING else region)
            text = text[:-1] + tail
        text, loc = self.loc(text)
        return _op(head[3], _results(head[1] or ""), text, tuple(regions), loc)

    # -- lines --

    def take(self) -> str:
        if self.at >= len(self.lines):
            raise CaptureError("the printed TTIR ends too early")
        self.at += 1
        return self.lines[self.at - 1]

    def arg(self, text: str) -> MArg:
        match = _ARG.match(text)
        if match is None:
            self.fail("expected an argument")
        loc = self.locations.resolve(match[3] or "unknown")
        return MArg(match[1], parse_type(re.sub(r" \{.*\}$", "", match[2])), loc)

    def loc(self, text: str) -> tuple[str, Loc]:
        """`text` without the location at its end, and the location."""
        start = text.rfind(" loc(")
        if start < 0 or not text.endswith(")"):
            self.fail("expected a location at the end")
        return text[:start], self.locations.resolve(text[start + 5 : -1])

    def fail(self, message: str) -> NoReturn:
        raise CaptureError(
            f"unreadable TTIR: {message} in `{self.lines[self.at - 1]}`",
            hint="this version of Triton may print something new; please report it",
        )


def _terminated(region: MRegion) -> MRegion:
    """`region` with the `scf.yield` that is not printed where it has no operands."""
    for block in region.blocks:
        if not block.ops or block.ops[-1].name != "scf.yield":
            block.ops.append(_op("scf.yield", (), "", (), UNKNOWN))
    return region


def _results(text: str) -> tuple[str, ...]:
    """The names of an op's results: `%i:2` is `%i#0` and `%i#1`."""
    names: list[str] = []
    for part in text.split(", ") if text else ():
        name, _, count = part.partition(":")
        names += [f"{name}#{i}" for i in range(int(count))] if count else [name]
    return tuple(names)


def _op(
    name: str,
    results: tuple[str, ...],
    text: str,
    regions: tuple[MRegion, ...],
    loc: Loc,
) -> MOp:
    strings: list[str] = []

    def hide(match: re.Match[str]) -> str:
        strings.append(match[0])
        return f'"{len(strings) - 1}"'

    def show(part: str) -> str:
        return (
            re.sub(r'"(\d+)"', lambda m: strings[int(m[1])], part) if strings else part
        )

    if '"' in text:
        text = _STRING.sub(hide, text)
    text, dictionary = _take_attributes(text.replace("->", _ARROW))
    body, types = _split_types(text)
    attrs = {key: show(value) for key, value in dictionary.items()}
    for key, value in _MODIFIER.findall(body):
        attrs[key] = value
    plain = _MODIFIER.sub("", body)
    attrs.update(_KEYWORD.findall(plain))
    words = tuple(_WORD.findall(_KEYWORD.sub("", plain)))
    successors = tuple(
        Successor(label, tuple(_OPERAND.findall(args)))
        for label, args in _SUCCESSOR.findall(body)
    )
    given, _, made = (
        types.partition(_ARROW) if _ARROW in types else types.partition(" to ")
    )
    operands = tuple(_OPERAND.findall(body))
    return MOp(
        name, operands, results, show(body.strip()), words, attrs,
        _types(given), _types(made), successors, regions, loc,
    )  # fmt: skip


def _take_attributes(text: str) -> tuple[str, dict[str, str]]:
    """`text` without its `{...}` and `<{...}>`, and what stood in them."""
    attrs: dict[str, str] = {}
    while (start := text.find("{")) >= 0:
        end = _closing(text, start)
        for part in _split(text[start + 1 : end]):
            key, _, value = part.partition(" = ")
            attrs[key] = value
        if text[start - 1 : start] == "<":
            start, end = start - 1, end + 1
        text = text[:start].rstrip() + text[end + 1 :]
    return text, attrs


def _split_types(text: str) -> tuple[str, str]:
    """What stands before and after the last colon outside of brackets."""
    depth, last = 0, -1
    for at, char in enumerate(text):
        depth += _DEPTH.get(char, 0)
        if (
            char == ":"
            and not depth
            and text[at - 1] == " "
            and text[at + 1 : at + 2] == " "
        ):
            last = at
    if last < 0:
        before, arrow, after = text.partition(_ARROW)
        return before, arrow + after
    before, arrow, after = text[:last].partition(_ARROW)
    return before, f"{arrow}{after}" if arrow else text[last + 1 :]


def _types(text: str) -> tuple[MType, ...]:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return tuple(parse_type(part) for part in _split(text))


@lru_cache(maxsize=4096)
def parse_type(text: str) -> MType:
    """The type printed as `text`; a foreign one keeps its text as `element`."""
    text = text.replace(_ARROW, "->").strip()
    tensor = _TENSOR.match(text)
    shape = tuple(int(d) for d in tensor[1].split("x")[:-1]) if tensor else ()
    element = tensor[2] if tensor else text
    pointer = _POINTER.match(element)
    if pointer:
        return MType(pointer[1], shape, pointer=True)
    return MType(element, shape)


def _split(text: str) -> list[str]:
    """The parts of `text` between commas that stand outside of brackets and strings."""
    parts, depth, start, quoted = list[str](), 0, 0, False
    text = text.replace("->", _ARROW)
    for at, char in enumerate(text):
        if char == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += _DEPTH.get(char, 0)
            if char == "," and not depth:
                parts.append(text[start:at].strip())
                start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _closing(text: str, start: int) -> int:
    """Where the bracket opened at `start` closes."""
    depth = 0
    for at in range(start, len(text)):
        depth += _DEPTH.get(text[at], 0)
        if not depth:
            return at
    raise CaptureError(f"unreadable TTIR: a bracket stays open in `{text}`")
