"""The cross-check, against a module that a test makes up."""
# ruff: noqa: E501 -- MLIR prints one op a line

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from undertow.errors import CaptureError
from undertow.frontend.crosscheck import crosscheck
from undertow.frontend.ttir import parse_module, walk

from .text import module


@dataclass
class Held:
    """An op as Triton's bindings show it."""

    name: str
    operands: int

    def get_name(self) -> str:
        return self.name

    def get_num_operands(self) -> int:
        return self.operands


@dataclass
class Module:
    """What Triton holds."""

    ops: list[Held]

    def walk(self, visit: Callable[[Held], None]) -> None:
        for op in self.ops:
            visit(op)


TEXT = module("%r = math.exp %a : f32\ntt.store %x_ptr, %r : !tt.ptr<f32>")


def held() -> list[Held]:
    return [Held(*op) for op in walk(parse_module(TEXT))]


def test_the_same_ops_pass() -> None:
    crosscheck(parse_module(TEXT), Module(held()), "k")


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([Held("math.log", 1), *held()[1:]],
         "at op 0: read `math.exp` of 1 operands, Triton holds `math.log` of 1 operands"),
        ([held()[0], Held("tt.store", 3), *held()[2:]],
         "at op 1: read `tt.store` of 2 operands, Triton holds `tt.store` of 3 operands"),
        ([held()[0], Held("new.op", 0), *held()[1:]], "Triton holds `new.op` of 0 operands"),
        (held()[:-1], "at op 4: read `builtin.module` of 0 operands, Triton holds no op"),
        ([*held(), Held("x.y", 0)], "at op 5: read no op, Triton holds `x.y` of 0 operands"),
    ],
)  # fmt: skip
def test_a_difference_is_an_error(ops: list[Held], message: str) -> None:
    with pytest.raises(CaptureError) as error:
        crosscheck(parse_module(TEXT), Module(ops), "k")
    assert message in str(error.value)
    assert "kernel `k`" in str(error.value)


def test_a_flattened_block_is_noticed() -> None:
    """Reading past a `^bb` label would lose the branch's arguments."""
    graph = """
    cf.cond_br %c, ^bb1, ^bb2(%a : f32)
    ^bb1:  // pred: ^bb0
    tt.return
    ^bb2(%v: f32 loc(unknown)):  // pred: ^bb0
    tt.store %x_ptr, %v : !tt.ptr<f32>
    tt.return
    """
    right = parse_module(module(graph))
    flat = "\n".join(line for line in graph.splitlines() if "^" not in line)
    wrong = parse_module(module(flat.strip()))
    triton = Module([Held(*op) for op in walk(right)])
    crosscheck(right, triton, "k")
    with pytest.raises(CaptureError, match="misread at op 0"):
        crosscheck(wrong, triton, "k")
