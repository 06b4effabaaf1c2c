"""Reverse mode: the forward's ops backwards, each turned into its transpose.

`reverse` builds a kernel that recomputes the forward without its stores and then sweeps it
backwards. Every load of a differentiated input becomes an `atomic_add` to that input's
gradient at the loaded address, which is right whoever else touches the address; `place`
proves most of them to be plain stores. What the sweep does not need of the recomputed
forward is removed as dead code, so nothing here decides what to save.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from undertow.analysis.activity import Activity, path_to_output
from undertow.errors import UnsupportedError
from undertow.ir import Access, Block, Builder, Kernel, Op, Value, cotangent_dtype
from undertow.rules import (
    RULES,
    Expr,
    Linear,
    Pointwise,
    Special,
    Structural,
    Unsupported,
    reduce_cotangent,
    widen,
)
from undertow.transform.cotangents import (
    Cotangent,
    add,
    clean,
    negate_mask,
    restrict,
    where_seen,
)
from undertow.transform.fold import fold
from undertow.transform.rebuild import Env, copy_op, remove_dead

PRIMAL, REVERSE = "primal sweep (recomputed)", "reverse sweep"


@dataclass(frozen=True, slots=True)
class Buffers:
    """Parameters of the backward kernel by parameter of the forward.

    Attributes:
        cotangents: of each active output, the pointer its cotangent is read from.
        gradients: of each differentiated input, the pointer its gradient is added to.
    """

    cotangents: Mapping[Value, Value]
    gradients: Mapping[Value, Value]


def reverse(kernel: Kernel, activity: Activity, buffers: Buffers) -> Block:
    """The body of the backward of `kernel`. UnsupportedError where a rule is missing."""
    b = Builder(fold)
    env: Env = {p: p for p in kernel.params}
    b.section(PRIMAL)
    copy_primal(b, kernel.body.ops, env)
    b.section(REVERSE)
    Sweep(kernel, b, env, activity, buffers).block(kernel.body.ops)
    return remove_dead(b.block)


def copy_primal(b: Builder, ops: Iterable[Op], env: Env) -> None:
    """Copies `ops` without what writes memory."""
    for op in ops:
        if op.opcode in ("store", "atomic_add"):
            continue
        if op.opcode != "if":
            copy_op(b, op, env)
            continue
        regions: list[Block] = []
        for region in op.regions:
            with b.region() as block:
                copy_primal(b, region.ops, dict(env))
            regions.append(block)
        b.loc = op.loc
        copies = b.branch(env[op.operands[0]], *regions, [r.type for r in op.results])
        for result, copy in zip(op.results, copies, strict=True):
            copy.name = result.name
            env[result] = copy


@dataclass
class Sweep:
    """The reverse sweep over one block, with the cotangents known so far."""

    kernel: Kernel
    b: Builder
    env: Env
    activity: Activity
    buffers: Buffers
    cts: dict[Value, Cotangent] = field(
        default_factory=lambda: dict[Value, Cotangent]()
    )

    def block(self, ops: Iterable[Op]) -> None:
        """Transposes `ops`, last first."""
        for op in reversed(list(ops)):
            self.b.loc = replace(op.loc, name="")
            if op.opcode == "store":
                self.store(op)
            elif op.opcode == "if":
                self.branch(op)
            elif any(result in self.cts for result in op.results):
                cts = tuple(self.cts.pop(result, None) for result in op.results)
                self.transpose(op, cts)

    def add(self, value: Value, ct: Cotangent) -> None:
        """Adds to the cotangent of `value`, if it has one to add to."""
        if not self.activity.active(value):
            return
        known = self.cts.get(value)
        total = ct if known is None else add(self.b, known, ct)
        if value.name:
            self.rename(total.value, f"d_{value.name}", known)
        self.cts[value] = total

    def rename(self, value: Value, name: str, part: Cotangent | None) -> None:
        """Names a cotangent; a part of the sum it has become gives the name up."""
        if part is not None and part.value.name == name:
            part.value.name = ""
        value.name = value.name or name

    def primal(self, value: Value) -> Value:
        """The recomputed value, in the dtype of cotangents."""
        copy = self.env[value]
        if not value.is_float:
            return copy
        return self.b.cast(copy, cotangent_dtype(copy.tensor_type.dtype))

    def transpose(self, op: Op, cts: tuple[Cotangent | None, ...]) -> None:
        """Cotangents of the operands of `op` from those of its results."""
        rule = RULES[op.opcode]
        if isinstance(rule, Structural):
            self.structural(op, rule, cts)
            return
        (ct,) = cts
        assert ct is not None
        match rule:
            case Linear(signs):
                for value, sign in zip(op.operands, signs, strict=True):
                    t = ct.value if sign > 0 else self.b.pointwise("neg", ct.value)
                    self.add(value, ct.through(t, clean=ct.is_clean))
            case Pointwise(maps):
                self.pointwise(op, maps, ct)
            case Special():
                special = {"select": self.select, "cast": self.cast,
                           "reduce": self.reduce, "load": self.load}  # fmt: skip
                special[op.opcode](op, ct)
            case Unsupported(reason):
                raise self.refusal(op, reason)
            case _:
                raise AssertionError(f"{op.opcode} cannot be active")

    def pointwise(self, op: Op, maps: tuple[object, ...], ct: Cotangent) -> None:
        t = Expr(self.b, ct.value)
        operands = [Expr(self.b, self.primal(v)) for v in op.operands]
        result = Expr(self.b, self.primal(op.result))
        totals: dict[Value, Expr] = {}  # of an operand that stands twice, as in x * x
        for value, partial in zip(op.operands, maps, strict=True):
            if self.activity.active(value) and callable(partial):
                share = partial(t, *operands, result)
                totals[value] = totals[value] + share if value in totals else share
        for value, total in totals.items():
            self.add(value, ct.through(total.value))

    def structural(
        self, op: Op, rule: Structural, cts: tuple[Cotangent | None, ...]
    ) -> None:
        """Moves lanes back; where each lane stays a lane, so does its support."""
        if op.opcode in ("expand_dims", "reshape", "transpose"):
            (ct,) = cts
            assert ct is not None
            (value,) = rule.transpose(self.b, op, (ct.value,))
            support = ct.support and rule.transpose(self.b, op, (ct.support,))[0]
            assert value is not None
            self.add(op.operands[0], Cotangent(value, support, ct.is_clean))
            return
        values = rule.transpose(
            self.b, op, tuple(ct and clean(self.b, ct) for ct in cts)
        )
        for operand, value in zip(op.operands, values, strict=True):
            if value is not None:
                self.add(operand, Cotangent(value))

    # -- special verdicts, each named after its opcode --------------------------------------

    def select(self, op: Op, ct: Cotangent) -> None:
        condition, x, y = op.operands
        mask = self.env[condition]
        self.add(x, restrict(self.b, ct, mask))
        if self.activity.active(y):
            self.add(y, restrict(self.b, ct, negate_mask(self.b, mask)))

    def cast(self, op: Op, ct: Cotangent) -> None:
        dtype = cotangent_dtype(op.operands[0].tensor_type.dtype)
        value = self.b.cast(ct.value, dtype)
        self.add(op.operands[0], ct.through(value, clean=ct.is_clean))

    def reduce(self, op: Op, ct: Cotangent) -> None:
        (x,), axis = op.operands, op.int_attr("axis")
        value = reduce_cotangent(
            self.b, op, ct.value, self.primal(x), self.primal(op.result)
        )
        if value is None:
            raise self.refusal(
                op, f"no rule for a reduction of kind `{op.str_attr('kind')}`"
            )
        support = ct.support and widen(self.b, ct.support, axis, x.shape)
        is_sum = op.str_attr("kind") == "sum"
        self.add(
            x, Cotangent(value, support, support is None or (ct.is_clean and is_sum))
        )

    def load(self, op: Op, ct: Cotangent) -> None:
        access = Access.of(op)
        mask = access.mask and self.env[access.mask]
        if access.other is not None and mask is not None:
            self.add(access.other, restrict(self.b, ct, negate_mask(self.b, mask)))
        gradient = self.buffers.gradients.get(access.base)
        if gradient is not None:
            value = clean(self.b, ct, given=mask)
            seen = value if mask is None else where_seen(self.b, value, mask)
            seen.name = seen.name or value.name or (op.result.name and f"d_{op.result.name}")
            value = seen
            self.b.atomic_add(self.at(access, gradient, value, mask, None))

    def store(self, op: Op) -> None:
        access = Access.of(op)
        mask = access.mask and self.env[access.mask]
        assert access.value is not None
        source = self.buffers.cotangents.get(access.base)
        if source is not None and self.activity.active(access.value):
            type = access.value.tensor_type
            zero = self.b.const(0.0, type) if mask is not None else None
            loaded = self.b.load(self.at(access, source, None, mask, zero), type)
            loaded.name = source.name.removesuffix("_ptr")
            ct = self.b.cast(loaded, cotangent_dtype(type.dtype))
            self.add(access.value, Cotangent(ct, mask))
        gradient = self.buffers.gradients.get(access.base)
        if gradient is not None:  # what was there before is overwritten: no gradient
            dtype = cotangent_dtype(access.value.tensor_type.dtype)
            zero = self.b.const(0.0, access.value.tensor_type.with_dtype(dtype))
            self.b.store(self.at(access, gradient, zero, mask, None))

    def at(
        self,
        access: Access,
        base: Value,
        value: Value | None,
        mask: Value | None,
        other: Value | None,
    ) -> Access:
        """The same address in another buffer."""
        return Access(
            base, tuple(self.env[v] for v in access.offsets), value, mask, other
        )

    # -- regions --------------------------------------------------------------------------------

    def branch(self, op: Op) -> None:
        """An `if` whose branches recompute theirs and sweep it backwards."""
        cts = [self.cts.pop(result, None) for result in op.results]
        captured = self.captured(op)
        seeds = [ct and Cotangent(clean(self.b, ct)) for ct in cts]
        regions = [self.region(region, seeds, captured) for region in op.regions]
        self.b.loc = op.loc
        types = [self.primal(v).type for v in captured]
        totals = self.b.branch(self.env[op.operands[0]], *regions, types)
        for value, total in zip(captured, totals, strict=True):
            total.name = f"d_{value.name}"
            self.add(value, Cotangent(total))

    def region(
        self, region: Block, seeds: list[Cotangent | None], captured: list[Value]
    ) -> Block:
        inner = Sweep(self.kernel, self.b, dict(self.env), self.activity, self.buffers)
        with self.b.region() as block:
            copy_primal(self.b, region.ops[:-1], inner.env)
            for value, seed in zip(region.ops[-1].operands, seeds, strict=True):
                if seed is not None:
                    inner.add(value, seed)
            inner.block(region.ops[:-1])
            totals: list[Value] = []
            for value in captured:
                ct = inner.cts.get(value)
                type = self.primal(value).tensor_type
                totals.append(clean(self.b, ct) if ct else self.b.const(0.0, type))
            self.b.emit("yield", totals)
        return block

    def captured(self, op: Op) -> list[Value]:
        """Active values from outside of `op` that its branches use, in order of use."""
        inside: set[Value] = set()
        found: dict[Value, None] = {}

        def visit(block: Block) -> None:
            for inner in block.ops:
                for value in inner.operands:
                    if value not in inside and self.activity.active(value):
                        found[value] = None
                for region in inner.regions:
                    visit(region)
                inside.update(inner.results)

        for region in op.regions:
            visit(region)
        return list(found)

    def refusal(self, op: Op, reason: str) -> UnsupportedError:
        spelling = (
            op.opcode if op.opcode != "reduce" else f"reduce ({op.str_attr('kind')})"
        )
        path = path_to_output(self.kernel, op.result) if op.results else None
        why = (reason,)
        if path is not None:
            buffer, name, line = path
            through = f" through `{name}` (line {line})" if name else ""
            why = (f"it reaches output `{buffer}`{through}; {reason}",)
        return UnsupportedError(
            f"no derivative rule for `tl.{spelling}`",
            loc=op.loc,
            kernel=self.kernel.name,
            why=why,
        )
