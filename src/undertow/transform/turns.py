"""A kernel that counts how often loops turn, where data decide it.

What a loop carries goes to a tape, and a tape needs a size before the backward is
launched. This kernel is the forward without its stores and without all that does not
bear on the control flow; it leaves the largest number of turns of each loop in each
program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from undertow.ir import (
    I32,
    I64,
    Access,
    Block,
    Builder,
    Kernel,
    Op,
    PointerType,
    Value,
    scalar,
    verify,
    walk,
)
from undertow.transform.fold import constant, fold
from undertow.transform.loops import trips
from undertow.transform.rebuild import (
    DECLARED,
    Env,
    Handlers,
    copy,
    drop,
    rebuild,
    remove_dead,
)
from undertow.transform.tapes import program_number

MOST = "most_turns"


def turn_counter(forward: Kernel, loops: Sequence[Op], name: str) -> Kernel:
    """The kernel that counts the turns of `loops`, ops of `forward`.

    Its first parameter, called `name`, points to an i32 for each program and loop,
    loops side by side.
    """
    b = Builder(fold)
    counts = Value(PointerType(I32), name)
    counter = _Counter(b, tuple(loops))
    counter.ops(forward.body.ops, {p: p for p in forward.params})
    row = b.pointwise("mul", program_number(b), b.const(len(loops), scalar(I64)))
    for place, most in enumerate(counter.most):
        offset = b.pointwise("add", row, b.const(place, scalar(I64)))
        b.store(Access(counts, (offset,), most, None, None))
    body = remove_dead(b.block)
    used = {v for op in walk(body) for v in op.operands}
    params = (counts, *(p for p in forward.params if p in used))
    stem = forward.name.removesuffix("_fwd").removesuffix("_forward")
    return verify(
        Kernel(f"{stem}_turns", params, body, forward.loc, forward.constexprs)
    )


@dataclass
class _Counter:
    """Rebuilds the forward; `most` are the largest numbers so far, one a loop."""

    b: Builder
    loops: tuple[Op, ...]
    most: list[Value] = field(default_factory=lambda: list[Value]())

    def __post_init__(self) -> None:
        self.most = [self.b.const(0, scalar(I32)) for _ in self.loops]
        self.handlers: Handlers = {
            **DECLARED,
            **dict.fromkeys(("store", "atomic_add", "assume", "barrier"), drop),
            "if": self.branch,
            "for": self.loop,
            "while": self.loop,
        }

    def ops(self, ops: Sequence[Op], env: Env) -> None:
        rebuild(self.b, ops, env, self.handlers)

    def holds(self, op: Op) -> bool:
        """Whether anything inside of `op` is counted."""
        inside = (inner for region in op.regions for inner in walk(region))
        return any(inner in self.loops for inner in inside)

    def branch(self, op: Op, env: Env) -> None:
        if not self.holds(op):
            copy(self.b, op, env, self.handlers)
            return
        blocks: list[Block] = []
        before, loc = self.most, self.b.loc
        for region in op.regions:
            inner, self.most = dict(env), list(before)
            with self.b.region() as block:
                self.ops(region.ops[:-1], inner)
                given = [inner[v] for v in region.ops[-1].operands]
                self.b.emit("yield", [*given, *self.most])
            blocks.append(block)
        self.b.loc = loc
        types = [r.type for r in (*op.results, *before)]
        results = self.b.branch(env[op.operands[0]], blocks[0], blocks[1], types)
        self.enter(op, results, env)
        self.most = list(results[len(op.results) :])

    def loop(self, op: Op, env: Env) -> None:
        """A loop that carries the numbers of those inside of it."""
        b, (body,), loc = self.b, op.regions, self.b.loc
        outer = list(self.most) if self.holds(op) else []
        counts = op.opcode == "while" and op in self.loops
        own = [b.const(0, scalar(I32))] if counts else []
        templates = [*(Value(v.type, MOST) for v in outer), *(_turn() for _ in own)]
        with b.region([*body.args, *templates]) as block:
            inner = env | dict(zip(body.args, block.args, strict=False))
            fresh = block.args[len(body.args) :]
            self.most = list(fresh[: len(outer)]) or self.most
            self.ops(body.ops[:-1], inner)
            b.loc = body.ops[-1].loc.unnamed
            following = [inner[v] for v in body.ops[-1].operands]
            following += self.most if outer else ()
            following += [_next(b, turn) for turn in fresh[len(outer) :]]
            b.emit("yield", following)
        b.loc = loc
        operands = [*(env[v] for v in op.operands), *outer, *own]
        types = [v.type for v in operands[len(op.head) :]]
        results = b.emit(op.opcode, operands, types, dict(op.attrs), (block,))
        self.enter(op, results, env)
        if outer:
            self.most = list(results[len(op.results) :][: len(outer)])
        if op in self.loops:
            turns = results[-1] if counts else trips(b, *(env[v] for v in op.head))
            self.made(self.loops.index(op), b.cast(turns, I32))

    def made(self, place: int, turns: Value) -> None:
        """Enters how often a loop has turned; less than 0 is as good as 0."""
        if constant(self.most[place]) != 0:
            turns = self.b.pointwise("smax", self.most[place], turns)
        self.most[place] = turns

    def enter(self, op: Op, results: Sequence[Value], env: Env) -> None:
        for result, value in zip(op.results, results, strict=False):
            value.name, env[result] = result.name, value


def _turn() -> Value:
    return Value(scalar(I32), "turn")


def _next(b: Builder, turn: Value) -> Value:
    return b.pointwise("add", turn, b.const(1, turn.tensor_type))
