"""Forward mode: the forward with a tangent beside each value, from the same rules.

The rules' maps are elementwise, hence their own transposes: what reverse mode applies
to the cotangent of a result, forward mode applies to the tangent of an operand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from undertow.ir import (
    OPS,
    Access,
    Block,
    Builder,
    Kernel,
    Op,
    PointerType,
    TensorType,
    Value,
    cotangent_dtype,
    verify,
)
from undertow.rules import (
    RULES,
    Expr,
    Linear,
    Pointwise,
    Unsupported,
    reduce_partial,
)
from undertow.transform.differentiate import Names, Task
from undertow.transform.fold import fold
from undertow.transform.padding import finite_where
from undertow.transform.rebuild import Env, copy, remove_dead, simplify
from undertow.transform.scans import previous
from undertow.transform.sweep import refusal

Tangents = dict[Value, Value]
"""Tangents of values of the forward; a value without one has tangent zero."""


_ONE_WAY = "the user gave its derivative for reverse mode only"


@dataclass(frozen=True, slots=True)
class Jvp:
    """A kernel that computes tangents of outputs from tangents of inputs.

    Attributes:
        kernel: takes the forward's parameters, then a pointer for each tangent. It
            writes the primal outputs too.
        tangents: names of these pointers, by the parameter they belong to. They hold
            f32, or f64 for f64.
    """

    kernel: Kernel
    tangents: dict[str, str]


def push_forward(
    kernel: Kernel,
    wrt: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
) -> Jvp:
    """The forward mode of `kernel`; arguments and errors as of `differentiate`."""
    task = Task.of(simplify(kernel), wrt, outputs)
    forward, names = task.forward, Names(task.forward)
    pointers: dict[Value, Value] = {}
    for p in dict.fromkeys((*task.inputs, *task.targets)):
        assert isinstance(p.type, PointerType)
        type = PointerType(cotangent_dtype(p.type.element))
        pointers[p] = Value(type, names.fresh(f"t_{p.name}"))
    push = _Push(task, Builder(fold), {p: p for p in forward.params}, pointers, {})
    push.block(forward.body.ops)
    params = (*forward.params, *pointers.values())
    body = remove_dead(push.b.block)
    jvp = Kernel(f"{forward.name}_jvp", params, body, forward.loc, forward.constexprs)
    return Jvp(verify(jvp), {p.name: t.name for p, t in pointers.items()})


@dataclass
class _Push:
    task: Task
    b: Builder
    env: Env
    pointers: dict[Value, Value]
    tangents: Tangents

    def block(self, ops: Iterable[Op]) -> None:
        for op in ops:
            self.b.loc = op.loc.unnamed
            if op.regions:
                (self.branch if op.opcode == "if" else self.loop)(op)
                continue
            copy(self.b, op, self.env)
            if op.opcode == "load":
                self.load(op)
            elif op.opcode in ("store", "atomic_add"):
                self.write(op)
            elif any(v in self.tangents for v in op.operands) and self.active(op):
                self.push(op)

    def active(self, op: Op) -> bool:
        return any(self.task.activity.active(result) for result in op.results)

    def push(self, op: Op) -> None:
        """Enters the tangents of the results of `op`, one of whose operands has one."""
        rule, b = RULES[op.opcode], self.b
        if OPS[op.opcode].kind == "structural":
            self.structural(op)
            return
        match rule:
            case Linear(signs):
                pairs = zip(op.operands, signs, strict=True)
                tangents = [(self.tangents.get(v), sign) for v, sign in pairs]
                parts = [t if sign > 0 else b.pointwise("neg", t)
                         for t, sign in tangents if t is not None]  # fmt: skip
                self.tangents[op.result] = self.sum(parts)
            case Pointwise(maps):
                operands = [Expr(b, self.primal(v)) for v in (*op.operands, op.result)]
                pairs = zip(op.operands, maps, strict=True)
                parts = [partial(Expr(b, t), *operands).value
                         for v, partial in pairs
                         if (t := self.tangents.get(v)) and partial]  # fmt: skip
                if parts:
                    self.tangents[op.result] = self.padded(op, self.sum(parts))
            case _ if op.opcode == "select":
                self.select(op)
            case _ if op.opcode == "cast":
                dtype = cotangent_dtype(op.result.tensor_type.dtype)
                self.tangents[op.result] = b.cast(self.tangents[op.operands[0]], dtype)
            case _ if op.opcode == "reduce":
                self.reduce(op)
            case _ if op.opcode in ("scan", "recurrence"):
                self.scan(op)
            case _ if op.opcode == "gather":
                t, index = self.tangents[op.operands[0]], self.env[op.operands[1]]
                self.tangents[op.result] = b.gather(t, index, op.int_attr("axis"))
            case _ if op.opcode == "dot":
                self.dot(op)
            case _:
                reason = rule.reason if isinstance(rule, Unsupported) else _ONE_WAY
                raise refusal(self.task.forward, op, reason)

    def sum(self, parts: list[Value]) -> Value:
        total = parts[0]
        for part in parts[1:]:
            total = self.b.pointwise("add", total, part)
        return total

    def padded(self, op: Op, tangent: Value) -> Value:
        """A lane padded with infinity stays where it is."""
        live = finite_where(self.b, self.env, op)
        if live is None:
            return tangent
        zero = self.b.const(0.0, tangent.tensor_type)
        return self.b.pointwise("select", live, tangent, zero)

    def primal(self, value: Value) -> Value:
        copy = self.env[value]
        return self.b.cast(copy, cotangent_dtype(copy.tensor_type.dtype))

    def tangent(self, value: Value) -> Value:
        """The tangent of `value`, a zero of its type if it has none."""
        type = self.env[value].tensor_type
        zero = self.b.const(0.0, type.with_dtype(cotangent_dtype(type.dtype)))
        return self.tangents.get(value, zero)

    def structural(self, op: Op) -> None:
        operands = [self.tangent(v) for v in op.operands]
        dtype = operands[0].tensor_type.dtype
        types = [r.tensor_type.with_dtype(dtype) for r in op.results]
        for result in op.results:
            self.tangents[result] = self.b.pure(
                op.opcode, operands, types[0], dict(op.attrs),
                index=result.index, types=types,
            )  # fmt: skip

    def select(self, op: Op) -> None:
        condition, x, y = op.operands
        sides = self.tangent(x), self.tangent(y)
        value = self.b.pointwise("select", self.env[condition], *sides)
        self.tangents[op.result] = value

    def reduce(self, op: Op) -> None:
        t, (x,) = self.tangents[op.operands[0]], op.operands
        partial = reduce_partial(self.b, op, self.primal(x), self.primal(op.result))
        kind = op.str_attr("kind")
        if partial is None and kind != "sum":
            raise refusal(self.task.forward, op, f"no rule for kind `{kind}`")
        lanes = t if partial is None else partial(Expr(self.b, t)).value
        self.tangents[op.result] = self.b.reduce(lanes, "sum", op.int_attr("axis"))

    def scan(self, op: Op) -> None:
        """h = a h + x has the tangent th = a th + (ta h + tx); a product has x = 0."""
        b, axis, reverse = self.b, op.int_attr("axis"), bool(op.attrs["reverse"])
        a = op.operands[0]
        if op.opcode == "scan" and op.str_attr("kind") == "sum":
            total = b.scan(self.tangent(a), "sum", axis, reverse=reverse)
        else:
            before = previous(b, op, self.primal(op.result))
            grown = b.pointwise("mul", self.tangent(a), before)
            if op.opcode == "recurrence":
                grown = self.sum([grown, self.tangent(op.operands[1])])
            total = b.recurrence(self.primal(a), grown, axis, reverse=reverse)
        self.tangents[op.result] = total

    def dot(self, op: Op) -> None:
        """``ta @ b + a @ tb + tc``, in the cotangents' dtype."""
        x, y, c = op.operands
        total, precision = self.tangent(c), op.str_attr("precision")
        if x in self.tangents:
            total = self.b.dot(self.tangents[x], self.primal(y), total, precision)
        if y in self.tangents:
            total = self.b.dot(self.primal(x), self.tangents[y], total, precision)
        self.tangents[op.result] = total

    def at(self, access: Access, base: Value, **parts: Value | None) -> Access:
        offsets = tuple(self.env[v] for v in access.offsets)
        mask = access.mask and self.env[access.mask]
        return Access(base, offsets, parts.get("value"), mask, parts.get("other"))

    def load(self, op: Op) -> None:
        access, type = Access.of(op), op.result.tensor_type
        if not type.dtype.is_float:
            return
        type = TensorType(cotangent_dtype(type.dtype), type.shape)
        varied = access.other in self.tangents
        other = self.tangent(access.other) if access.other else None
        if access.base in self.task.inputs:
            pointer = self.pointers[access.base]
            t = self.b.load(self.at(access, pointer, other=other), type)
            self.tangents[op.result] = t
        elif varied and access.mask is not None and other is not None:
            mask, zero = self.env[access.mask], self.b.const(0.0, type)
            self.tangents[op.result] = self.b.pointwise("select", mask, zero, other)

    def write(self, op: Op) -> None:
        access = Access.of(op)
        pointer = self.pointers.get(access.base)
        if pointer is not None and access.value is not None:
            write = self.b.store if op.opcode == "store" else self.b.atomic_add
            write(self.at(access, pointer, value=self.tangent(access.value)))

    def branch(self, op: Op) -> None:
        """Both branches yield their values, then tangents of those that are floats."""
        floats = [r for r in op.results if r.is_float]
        blocks: list[Block] = []
        for region in op.regions:
            env, tangents = dict(self.env), dict(self.tangents)
            inner = _Push(self.task, self.b, env, self.pointers, tangents)
            with self.b.region() as block:
                inner.block(region.ops[:-1])
                values = [inner.env[v] for v in region.ops[-1].operands]
                ends = zip(op.results, region.ops[-1].operands, strict=True)
                lanes = [inner.tangent(v) for r, v in ends if r.is_float]
                self.b.emit("yield", [*values, *lanes])
            blocks.append(block)
        types = [r.tensor_type for r in op.results]
        types += [
            t.with_dtype(cotangent_dtype(t.dtype)) for t in types if t.dtype.is_float
        ]
        condition = self.env[op.operands[0]]
        results = self.b.branch(condition, blocks[0], blocks[1], types)
        self.env.update(zip(op.results, results, strict=False))
        tangents = results[len(op.results) :]
        self.tangents.update(zip(floats, tangents, strict=True))

    def loop(self, op: Op) -> None:
        """Carries the tangents of what is carried, beside it."""
        b, (body,) = self.b, op.regions
        active = [v for v in op.carried if self.task.activity.active(v)]
        places = [op.carried.index(v) for v in active]
        starts = [self.tangent(op.initial[place]) for place in places]
        templates = [Value(start.type) for start in starts]
        with b.region([*body.args, *templates]) as block:
            given = zip(body.args, block.args, strict=False)
            carried = zip(active, block.args[len(body.args) :], strict=True)
            env, tangents = self.env | dict(given), self.tangents | dict(carried)
            inner = _Push(self.task, b, env, self.pointers, tangents)
            inner.block(body.ops[:-1])
            values = [inner.env[v] for v in body.ops[-1].operands]
            lanes = [inner.tangent(op.following[place]) for place in places]
            b.emit("yield", [*values, *lanes])
        operands = [*(self.env[v] for v in op.operands), *starts]
        types = [v.type for v in operands[len(op.head) :]]
        results = b.emit(op.opcode, operands, types, dict(op.attrs), (block,))
        self.env.update(zip(op.results, results, strict=False))
        ends = zip(places, results[len(op.results) :], strict=True)
        for place, t in ends:
            if self.task.activity.active(op.results[place]):  # no maximum that cancels
                self.tangents[op.results[place]] = t
