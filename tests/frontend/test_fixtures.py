"""TTIR as several versions of Triton print it lifts to the same kernels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from undertow.frontend import lift_text
from undertow.frontend.ttir import parse_module, walk
from undertow.ir import Block, Kernel, Op, Value, print_kernel
from undertow.ir import walk as walk_ops

from .kernels import CASES

FOLDER = Path(__file__).parent.parent / "fixtures" / "ttir"
VERSIONS = sorted(path.name for path in FOLDER.iterdir())
NEWEST = VERSIONS[-1]


def text(version: str, name: str) -> str:
    return (FOLDER / version / f"{name}.ttir").read_text()


def fixture(version: str, name: str) -> Kernel:
    return lift_text(text(version, name))


class Normal:
    """A kernel as text that does not depend on the order of its pure ops."""

    def __init__(self, kernel: Kernel) -> None:
        self.lines: list[str] = []
        self.names = {p: f"%arg{i}" for i, p in enumerate(kernel.params)}
        self.keys: dict[str, str] = {}
        self.block(kernel.body)

    def block(self, block: Block) -> None:
        for op in block.ops:
            if op.opcode in ("store", "load", "if", "yield", "atomic_add", "assume"):
                self.effect(op)

    def effect(self, op: Op) -> None:
        operands = [self.name(v) for v in op.operands]
        for result in op.results:
            self.names[result] = f"%{len(self.names)}"
        results = [self.names[r] for r in op.results]
        self.lines.append(
            f"{results} = {op.opcode}({operands}) {sorted(op.attrs.items())}"
        )
        for region in op.regions:
            self.lines.append("{")
            self.block(region)
            self.lines.append("}")

    def name(self, value: Value) -> str:
        if value not in self.names:
            op = value.op
            assert op is not None
            operands = [self.name(v) for v in op.operands]
            key = f"{op.opcode}({operands}) {sorted(op.attrs.items())}"
            key += f" {value.type} {value.index}"
            # Triton before 3.8 writes `-x` of floats as `0 - x`.
            if op.opcode == "sub" and self.is_zero(op.operands[0]):
                key = f"neg({operands[1:]}) [] {value.type} 0"
            if key not in self.keys:
                self.keys[key] = f"%{len(self.names)}"
                self.lines.append(f"{self.keys[key]} = {key}")
            self.names[value] = self.keys[key]
        return self.names[value]

    def is_zero(self, value: Value) -> bool:
        return (
            value.is_float
            and value.op is not None
            and value.op.attrs.get("value") == 0.0
        )


def numbered(lines: list[str]) -> str:
    """`lines` renumbered: a constant 0 in one version shifts the numbers."""
    names: dict[str, str] = {}
    used = "\n".join(
        line for line in lines if not re.match(r"%\d+ = const\(\[\]\)", line)
    )
    constants = {
        line.split(" = ")[0]: line.split(" = ", 1)[1]
        for line in lines
        if re.match(r"%\d+ = const\(\[\]\)", line)
    }
    used = re.sub(r"%\d+", lambda m: constants.get(m[0], m[0]), used)
    return re.sub(r"%\d+", lambda m: names.setdefault(m[0], f"%{len(names)}"), used)


def test_three_versions_are_kept() -> None:
    assert len(VERSIONS) >= 3
    for version in VERSIONS:
        assert {path.stem for path in (FOLDER / version).iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_lifts_to_the_same_kernel(version: str, name: str) -> None:
    kernel, newest = fixture(version, name), fixture(NEWEST, name)
    assert numbered(Normal(kernel).lines) == numbered(Normal(newest).lines)
    assert [str(p.type) for p in kernel.params] == [str(p.type) for p in newest.params]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_names_the_same_places(version: str, name: str) -> None:
    def places(kernel: Kernel) -> list[tuple[str, str, int, str]]:
        return [
            (op.opcode, op.loc.file, op.loc.line, op.loc.name)
            for op in walk_ops(kernel.body)
            if op.opcode in ("load", "store", "reduce")
        ]

    kernel = fixture(version, name)
    assert places(kernel) == places(fixture(NEWEST, name))
    assert (kernel.loc.file, kernel.loc.column) == ("kernels.py", 1)
    assert kernel.loc.line == fixture(NEWEST, name).loc.line


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("version", VERSIONS)
def test_fixtures_are_neutral_and_fully_read(version: str, name: str) -> None:
    printed = text(version, name)
    assert not re.search(r'loc\("[^"]*/', printed)
    heads = re.findall(
        r'^ +(?:%.* = )?"?([a-z_]+\.[a-z_.0-9]+)"?', printed, re.MULTILINE
    )
    read = [op for op, _ in walk(parse_module(printed))]
    for op in set(heads) - {"tt.func", "scf.yield"}:
        assert read.count(op) == heads.count(op), op


def test_a_kernel_reads_as_expected() -> None:
    assert print_kernel(fixture(NEWEST, "early_return")) == (
        "kernel early_return(%x_ptr: ptr<f32>, %y_ptr: ptr<f32>, %n: i32) {\n"
        "  %3 = const() <value=2.0> : f32[16]\n"
        "  %4 = const() <value=16> : i32\n"
        "  %5 = program_id() <axis=0> : i32\n"
        "  %6 = cmp(%5, %n) <predicate='sge'> : i1\n"
        "  if(%6) {\n"
        "    yield()\n"
        "  } {\n"
        "    %7 = mul(%5, %4) : i32\n"
        "    %8 = range() <end=16, start=0> : i32[16]\n"
        "    %9 = broadcast(%7) : i32[16]\n"
        "    %10 = add(%9, %8) : i32[16]\n"
        "    %11 = load(%x_ptr, %10) : f32[16]\n"
        "    %12 = mul(%11, %3) : f32[16]\n"
        "    store(%y_ptr, %12, %10)\n"
        "    yield()\n"
        "  }\n"
        "}\n"
    )
