"""Integers that advance evenly from turn to turn, as functions of the loop's variable.

``offsets += BLOCK * stride`` becomes ``initial + turn * (BLOCK * stride)``, and nothing
is carried: each turn stands alone, and addresses are polynomials in the variable.
"""

from __future__ import annotations

from undertow.ir import OPS, Builder, Kernel, Op, TensorType, Value, walk
from undertow.transform.counted import counted
from undertow.transform.fold import constant, fold
from undertow.transform.rebuild import (
    Env,
    Handlers,
    rebuild,
    remove_dead,
    simplify,
    with_body,
)

_MOVES = ("broadcast", "expand_dims", "reshape", "transpose")


def induction(kernel: Kernel) -> Kernel:
    """`kernel` carrying no integer that advances by what stays the same in the loop.

    A value that is the same in every turn is not carried either, whatever its type. The
    loops are gone through again until none changes: what an inner loop adds is a step
    of the loop around it.
    """
    kernel = counted(kernel)
    if not any(op.opcode == "for" for op in walk(kernel.body)):
        return kernel
    kernel = simplify(kernel)
    while True:
        b = Builder(fold)
        loops = _Loops(b)
        params: Env = {p: p for p in kernel.params}
        rebuild(b, kernel.body.ops, params, loops.handlers)
        kernel = with_body(kernel, remove_dead(b.block))
        if not loops.found:
            return kernel


Terms = tuple[tuple[int, Value], ...]
"""What a carried value gains in each turn: a sum, with signs, that does not change."""


class _Loops:
    """Rebuilds loops; `found` counts the values that are no longer carried."""

    def __init__(self, b: Builder) -> None:
        self.b, self.found = b, 0
        self.handlers: Handlers = {"for": self.loop}

    def loop(self, op: Op, env: Env) -> None:
        """Builds the loop without what advances evenly."""
        (body,) = op.regions
        steps = {i: self.step(terms, env) for i, terms in _advances(op).items()}
        self.found += len(steps)
        kept = [i for i in range(len(op.results)) if i not in steps]
        bounds = tuple(env[v] for v in op.head)
        initial = [env[v] for v in op.initial]
        loc, carried = self.b.loc, body.args[1:]
        with self.b.region([body.args[0], *(carried[i] for i in kept)]) as block:
            new = [carried[i] for i in kept]
            inner = env | dict(zip((body.args[0], *new), block.args, strict=True))
            for i, step in steps.items():
                value = self.at(initial[i], step, block.args[0], bounds)
                value.name = value.name or carried[i].name
                inner[carried[i]] = value
            rebuild(self.b, body.ops[:-1], inner, self.handlers)
            self.b.loc = body.ops[-1].loc.unnamed
            self.b.emit("yield", [inner[body.ops[-1].operands[i]] for i in kept])
        self.b.loc = loc
        operands = (*bounds, *(initial[i] for i in kept))
        types = [initial[i].type for i in kept]
        results = self.b.emit("for", operands, types, dict(op.attrs), [block])
        for i, result in zip(kept, results, strict=True):
            result.name, env[op.results[i]] = op.results[i].name, result
        for i, step in steps.items():
            env[op.results[i]] = self.after(initial[i], step, bounds)

    # -- closed forms --

    def step(self, terms: Terms, env: Env) -> Value | None:
        """The sum of what is gained in a turn, built before the loop; None if nothing.

        It is a scalar where all elements gain the same.
        """
        total: Value | None = None
        for sign, term in terms:
            value = _uniform(self.b, self.invariant(term, env))
            if sign < 0:
                value = self.b.pointwise("neg", value)
            total = value if total is None else self.add(total, value)
        return total

    def invariant(self, value: Value, env: Env) -> Value:
        """What stands for `value`, built before the loop if it is not defined there."""
        if value not in env:
            assert value.op is not None
            scratch: Env = {v: self.invariant(v, env) for v in value.op.operands}
            rebuild(self.b, [value.op], scratch)
            return scratch[value]
        return env[value]

    def add(self, x: Value, y: Value) -> Value:
        """x + y, where one may be a scalar."""
        shape = x.shape or y.shape
        x, y = self.b.broadcast(x, shape), self.b.broadcast(y, shape)
        return self.b.pointwise("add", x, y)

    def at(
        self,
        initial: Value,
        step: Value | None,
        variable: Value,
        bounds: tuple[Value, ...],
    ) -> Value:
        """The carried value in the turn of `variable`."""
        if step is None:
            return initial
        b, (lower, _, by) = self.b, bounds
        past = b.pointwise("sub", variable, lower)
        share = _divided(b, step, by)
        if share is None:
            share = step
            past = past if constant(by) == 1 else b.pointwise("sdiv", past, by)
        return self.add(initial, self.times(past, share))

    def after(
        self, initial: Value, step: Value | None, bounds: tuple[Value, ...]
    ) -> Value:
        """The carried value when the loop has ended."""
        if step is None:
            return initial
        return self.add(initial, self.times(_trips(self.b, bounds), step))

    def times(self, count: Value, step: Value) -> Value:
        """count * step, modulo the width of `step`: a scalar times a value."""
        count = self.b.cast(count, step.tensor_type.dtype)
        return self.b.pointwise("mul", self.b.broadcast(count, step.shape), step)


def _trips(b: Builder, bounds: tuple[Value, ...]) -> Value:
    """How many turns a loop makes: the distance divided by the step, rounded up."""
    lower, upper, by = bounds
    type = by.tensor_type
    numbers = [n for n in map(constant, bounds) if isinstance(n, int)]
    if len(numbers) == 3 and numbers[2]:
        return b.const(len(range(*numbers)), type)
    zero, one = b.const(0, type), b.const(1, type)
    number = constant(by)
    if number is None:
        forward = b.pointwise("cmp", by, zero, predicate="sgt")
        unit = b.pointwise("select", forward, one, b.const(-1, type))
    else:
        unit = one if number > 0 else b.const(-1, type)
    distance = b.pointwise("sub", upper, lower)
    if number != 1:
        rest = b.pointwise("sub", by, unit)
        distance = b.pointwise("sdiv", b.pointwise("add", distance, rest), by)
    return b.pointwise("smax", distance, zero)


def _uniform(b: Builder, value: Value) -> Value:
    """The scalar in every element of `value`; itself if there is none."""
    number = constant(value)
    if number is not None:
        return b.const(number, value.tensor_type.with_shape(()))
    inner = value
    while inner.shape and inner.op is not None and inner.op.opcode in _MOVES:
        inner = inner.op.operands[0]
    return value if inner.shape else inner


def _divided(b: Builder, value: Value, by: Value) -> Value | None:
    """value / by where that is known to be whole, as in BLOCK * stride for BLOCK.

    A cast to more bits is looked through: a step that wraps around has no meaning.
    """
    type = value.tensor_type
    divisor, number, op = constant(by), constant(value), value.op
    if divisor == 1:
        return value
    if value is by:
        return b.const(1, type)
    if number is not None:
        whole = divisor and number % divisor == 0
        return b.const(number // divisor, type) if divisor and whole else None
    if op is None or not _divides_through(op):
        return None
    for i, x in enumerate(op.operands):
        part = _divided(b, x, by)
        if part is not None:
            rest = [part if j == i else y for j, y in enumerate(op.operands)]
            return b.pure(op.opcode, rest, type, dict(op.attrs))
    return None


def _divides_through(op: Op) -> bool:
    """Whether dividing an operand divides the result."""
    if op.opcode == "cast":
        return not op.operands[0].is_float and bool(op.attrs.get("signed", True))
    return op.opcode in ("mul", "neg", "broadcast")


# -- which carried values advance evenly --


def _advances(op: Op) -> dict[int, Terms]:
    """By position, the carried values that gain the same in each turn, or nothing."""
    (body,) = op.regions
    inside = set(body.args)
    for o in walk(body):
        inside.update(o.results, *(r.args for r in o.regions))
    found: dict[int, Terms] = {}
    for index, after in enumerate(body.ops[-1].operands):
        initial = op.initial[index]
        terms = () if after is initial else _terms(after, body.args[1 + index])
        if terms is not None and all(_is_invariant(t, inside) for _, t in terms):
            found[index] = terms
    return found


def _terms(value: Value, arg: Value) -> Terms | None:
    """What is added to `arg` to give `value`, or None if it is no such sum."""
    if value is arg:
        return ()
    type, op = arg.type, value.op
    if op is None or not isinstance(type, TensorType) or not type.dtype.is_int:
        return None
    if type.dtype.bits == 1 or op.opcode not in ("add", "sub"):
        return None
    x, y = op.operands
    sign = -1 if op.opcode == "sub" else 1
    left = _terms(x, arg)
    if left is not None:
        return (*left, (sign, y))
    right = _terms(y, arg) if sign > 0 else None
    return None if right is None else (*right, (1, x))


def _is_invariant(value: Value, inside: set[Value]) -> bool:
    """Whether `value` is the same in each turn: not made inside, or from such alone."""
    if value not in inside:
        return True
    op = value.op
    return (
        op is not None
        and OPS[op.opcode].pure
        and all(_is_invariant(v, inside) for v in op.operands)
    )
