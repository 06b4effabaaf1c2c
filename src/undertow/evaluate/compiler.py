"""From a kernel to a program: one step an op, one row an opcode.

A step reads slots, computes for all programs, and writes slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NoReturn

import torch
from torch import Tensor

from undertow.errors import UnsupportedError
from undertow.evaluate import memory
from undertow.evaluate.dtypes import torch_dtype, wrapped
from undertow.evaluate.launch import EMPTY, Launch
from undertow.evaluate.loops import Loop, While
from undertow.evaluate.program import Env, Program, Step
from undertow.evaluate.pure import PURE
from undertow.evaluate.trace import ACTIONS, Site
from undertow.ir import OPS, Access, Block, Custom, Kernel, Op, Value, walk


@lru_cache(maxsize=256)
def compile_kernel(kernel: Kernel, float_dtype: torch.dtype | None = None) -> Program:
    """`kernel` as a program that evaluates floats in `float_dtype`, or each in its own.

    Raises:
        UnsupportedError: an op has no meaning in that dtype (a bitcast of floats).
    """
    return _Compiler(kernel, float_dtype).program()


class _Compiler:
    def __init__(self, kernel: Kernel, float_dtype: torch.dtype | None) -> None:
        self.kernel, self.float_dtype = kernel, float_dtype
        self.slots: dict[Value, int] = {}
        self.is_fixed: set[Value] = set()
        self.fixed: list[Step] = []
        self.sites = 0

    def program(self) -> Program:
        for param in self.kernel.params:
            self.slot(param)
        steps = self.block(self.kernel.body)
        ops = list(walk(self.kernel.body))
        widest = max((v.tensor_type.size for op in ops for v in op.results), default=1)
        return Program(
            self.kernel,
            self.float_dtype,
            steps,
            tuple(self.fixed),
            len(self.slots),
            widest,
        )

    def slot(self, value: Value) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def dtype(self, value: Value) -> torch.dtype:
        return torch_dtype(value.tensor_type.dtype, self.float_dtype)

    def slot_or_none(self, value: Value | None) -> int | None:
        return None if value is None else self.slot(value)

    def block(self, block: Block) -> tuple[Step, ...]:
        dead = _last_uses(block)
        steps: list[Step] = []
        for op in block.ops:
            step = STEPS[op.opcode](self, op)
            if step is not None and self.fixes(op):
                self.is_fixed.update(op.results)
                self.fixed.append(step)
            elif step is not None:
                steps.append(step)
            free = [self.slot(v) for v in dead.get(op, ()) if v not in self.is_fixed]
            if free:
                steps.append(partial(_free, free))
        return tuple(steps)

    def fixes(self, op: Op) -> bool:
        """Whether the results depend on neither the launch nor memory."""
        if op.opcode in ("program_id", "num_programs") or not OPS[op.opcode].pure:
            return False
        return all(value in self.is_fixed for value in op.operands)


def _last_uses(block: Block) -> dict[Op, list[Value]]:
    """For each op, the values of `block` that nothing after it needs."""
    last: dict[Value, Op] = {}
    for op in block.ops:
        last.update(dict.fromkeys(op.results, op))
        last.update((v, op) for v in _used(op) if v in last)
    dead: dict[Op, list[Value]] = {}
    for value, op in last.items():
        if op.opcode != "yield":  # what is yielded is read after the block
            dead.setdefault(op, []).append(value)
    return dead


def _used(op: Op) -> set[Value]:
    """The values that `op` reads, also inside its blocks."""
    return set(op.operands) | {
        v for r in op.regions for o in walk(r) for v in o.operands
    }


def _free(slots: Sequence[int], env: Env, launch: Launch) -> None:
    for slot in slots:
        env[slot] = EMPTY


# -- one row an opcode -----------------------------------------------------------------


def _pure(compiler: _Compiler, op: Op) -> Step:
    fn = PURE[op.opcode](op, compiler.float_dtype)
    ins = [compiler.slot(v) for v in op.operands]
    outs = [compiler.slot(v) for v in op.results]
    if len(outs) != 1:
        return partial(_several, fn, ins, outs)
    (out,) = outs

    def unary(env: Env, launch: Launch) -> None:
        env[out] = fn(env[ins[0]])

    def binary(env: Env, launch: Launch) -> None:
        env[out] = fn(env[ins[0]], env[ins[1]])

    def ternary(env: Env, launch: Launch) -> None:
        env[out] = fn(env[ins[0]], env[ins[1]], env[ins[2]])

    return (unary, binary, ternary)[len(ins) - 1]


def _several(
    fn: Callable[..., Sequence[Tensor]],
    ins: list[int],
    outs: list[int],
    env: Env,
    launch: Launch,
) -> None:
    for out, value in zip(outs, fn(*(env[i] for i in ins)), strict=True):
        env[out] = value


def _const(compiler: _Compiler, op: Op) -> Step:
    out, dtype = compiler.slot(op.result), compiler.dtype(op.result)
    value = op.attrs["value"]
    assert isinstance(value, int | float), op
    if dtype != torch.bool and not dtype.is_floating_point:
        value = wrapped(int(value), dtype.itemsize * 8)  # it may be written as unsigned
    shape = (1,) * (op.result.tensor_type.rank + 1)

    def const(env: Env, launch: Launch) -> None:
        env[out] = torch.full(shape, value, dtype=dtype, device=launch.device)

    return const


def _range(compiler: _Compiler, op: Op) -> Step:
    out, start, end = compiler.slot(op.result), op.int_attr("start"), op.int_attr("end")

    def lanes(env: Env, launch: Launch) -> None:
        env[out] = torch.arange(start, end, dtype=torch.int32, device=launch.device)[
            None
        ]

    return lanes


def _program_id(compiler: _Compiler, op: Op) -> Step:
    out, axis = compiler.slot(op.result), op.int_attr("axis")

    def program_id(env: Env, launch: Launch) -> None:
        env[out] = launch.program_id(axis)

    return program_id


def _num_programs(compiler: _Compiler, op: Op) -> Step:
    out, axis = compiler.slot(op.result), op.int_attr("axis")

    def num_programs(env: Env, launch: Launch) -> None:
        env[out] = torch.full(
            (1,), launch.grid[axis], dtype=torch.int32, device=launch.device
        )

    return num_programs


def _custom(compiler: _Compiler, op: Op) -> Step:
    ins = [compiler.slot(v) for v in Custom.of(op).outputs]
    outs = [compiler.slot(v) for v in op.results]

    def custom(env: Env, launch: Launch) -> None:
        for out, held in zip(outs, ins, strict=True):
            env[out] = env[held]

    return custom


def _stop(compiler: _Compiler, op: Op) -> Step:
    held, out = compiler.slot(op.operands[0]), compiler.slot(op.result)

    def stop(env: Env, launch: Launch) -> None:
        env[out] = launch.constant(env[held])

    return stop


def _gpu_only(compiler: _Compiler, op: Op) -> NoReturn:
    what = "inline assembly"
    if op.opcode == "extern":
        what = f"`libdevice.{op.str_attr('function')}`"
    raise UnsupportedError(
        f"{what} cannot be run without a GPU",
        loc=op.loc,
        kernel=compiler.kernel.name,
        why="CPU tensors, and checks in float64, are worked on by the evaluator",
    )


def _memory(compiler: _Compiler, op: Op) -> Step:
    access = Access.of(op)
    target = op.result if access.value is None else access.value
    action = ACTIONS[str(op.attrs.get("counts", op.opcode))]
    site = Site(compiler.sites, action, access.base.name, target.shape, op.loc)
    compiler.sites += 1
    offsets = [compiler.slot(v) for v in access.offsets]
    mask, other = (
        compiler.slot_or_none(access.mask),
        compiler.slot_or_none(access.other),
    )
    rank, slot = target.tensor_type.rank, compiler.slot(target)
    if op.opcode == "load":
        dtype = compiler.dtype(target)

        def load(env: Env, launch: Launch) -> None:
            env[slot] = memory.load(
                launch,
                site,
                memory.address([env[i] for i in offsets], rank, launch.device),
                None if mask is None else env[mask],
                None if other is None else env[other],
                dtype,
            )

        return load
    write = memory.store if op.opcode == "store" else memory.atomic_add

    def store(env: Env, launch: Launch) -> None:
        index = memory.address([env[i] for i in offsets], rank, launch.device)
        write(launch, site, index, env[slot], None if mask is None else env[mask])

    return store


def _if(compiler: _Compiler, op: Op) -> Step:
    condition = compiler.slot(op.operands[0])
    then, otherwise = (compiler.block(region) for region in op.regions)
    yields = [[compiler.slot(v) for v in r.ops[-1].operands] for r in op.regions]
    outs = [compiler.slot(v) for v in op.results]

    def branch(env: Env, launch: Launch) -> None:
        taken, active = env[condition], launch.active
        on = taken if active is None else taken & active
        off = ~taken if active is None else ~taken & active
        if not off.any():
            _execute(then, env, launch)
            results = [env[i] for i in yields[0]]
        elif not on.any():
            _execute(otherwise, env, launch)
            results = [env[i] for i in yields[1]]
        else:
            launch.active = on
            _execute(then, env, launch)
            launch.active = off
            _execute(otherwise, env, launch)
            launch.active = active
            results = [
                torch.where(taken.view(-1, *(1,) * (env[a].dim() - 1)), env[a], env[b])
                for a, b in zip(*yields, strict=True)
            ]
        for out, result in zip(outs, results, strict=True):
            env[out] = result

    return branch


def _for(compiler: _Compiler, op: Op) -> Step:
    (region,) = op.regions
    lower, upper, step, *initial = (compiler.slot(v) for v in op.operands)
    variable, *carried = (compiler.slot(v) for v in region.args)
    return Loop(
        (lower, upper, step),
        initial,
        variable,
        carried,
        [compiler.slot(v) for v in op.following],
        [compiler.slot(v) for v in op.results],
        compiler.block(region),
        op.loc,
    )


def _while(compiler: _Compiler, op: Op) -> Step:
    (region,) = op.regions
    condition, *initial = (compiler.slot(v) for v in op.operands)
    carried = [compiler.slot(v) for v in region.args]
    again, *yields = (compiler.slot(v) for v in region.ops[-1].operands)
    return While(
        condition,
        initial,
        carried,
        again,
        yields,
        [compiler.slot(v) for v in op.results],
        compiler.block(region),
    )


def _execute(steps: Sequence[Step], env: Env, launch: Launch) -> None:
    for step in steps:
        step(env, launch)


def _nothing(compiler: _Compiler, op: Op) -> None:
    """No step: `yield` is read by what it is in, notes are for the other stages."""


STEPS: dict[str, Callable[[_Compiler, Op], Step | None]] = {
    **dict.fromkeys(PURE, _pure),
    "const": _const,
    "range": _range,
    "program_id": _program_id,
    "num_programs": _num_programs,
    "load": _memory,
    "custom": _custom,
    "stop": _stop,
    "inline_asm": _gpu_only,
    "extern": _gpu_only,
    "store": _memory,
    "atomic_add": _memory,
    "if": _if,
    "for": _for,
    "while": _while,
    "yield": _nothing,
    "barrier": _nothing,
    "assume": _nothing,
    "section": _nothing,
}
"""One row an opcode."""
