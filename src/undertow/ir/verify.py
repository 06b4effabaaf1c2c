"""Checks that a kernel is valid IR: every pass takes valid IR and gives valid IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from undertow.errors import IRError
from undertow.ir.core import Access, Block, Custom, Kernel, Op, Value
from undertow.ir.ops import (
    FLOAT_PREDICATES,
    INT_PREDICATES,
    OPS,
    REDUCTIONS,
    SCANS,
    OpDef,
)
from undertow.ir.types import (
    I1,
    I32,
    I64,
    PointerType,
    TensorType,
    Type,
    cotangent_dtype,
)


def verify(kernel: Kernel) -> Kernel:
    """`kernel` itself if it is valid; IRError naming the first faulty op if not."""
    names = [p.name for p in kernel.params]
    if len(set(names)) != len(names) or not all(names):
        raise IRError(f"parameters of `{kernel.name}` need distinct names, got {names}")
    _Verifier(kernel).block(kernel.body, set(kernel.params))
    return kernel


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def block(
        self, block: Block, seen: set[Value], yields: Sequence[Type] | None = None
    ) -> None:
        """Checks a block where the values `seen` are defined."""
        own = [*block.args]
        seen.update(own)
        for position, op in enumerate(block.ops):
            last = position == len(block.ops) - 1
            if (op.opcode == "yield") != (yields is not None and last):
                self.fail(op, "`yield` must end a nested block, and stand nowhere else")
            self.op(op, seen)
            for region in op.regions:
                self.block(region, seen, _yielded(op))
            seen.update(op.results)
            own += op.results
        seen.difference_update(own)
        if yields is None:
            return
        if not block.ops:
            raise IRError(f"a nested block of `{self.kernel.name}` lacks its `yield`")
        given = [v.type for v in block.ops[-1].operands]
        if given != list(yields):
            self.fail(
                block.ops[-1],
                f"yields {_types(given)}, the results are {_types(yields)}",
            )

    def op(self, op: Op, seen: set[Value]) -> None:
        definition = OPS.get(op.opcode)
        if definition is None:
            self.fail(op, "unknown opcode")
        for value in op.operands:
            if value not in seen:
                self.fail(op, "an operand is not defined before it")
        if definition.arity is not None and len(op.operands) != definition.arity:
            self.fail(op, f"takes {definition.arity} operands, has {len(op.operands)}")
        if any(r.op is not op or isinstance(r.type, PointerType) for r in op.results):
            self.fail(op, "a result is a pointer or belongs to another op")
        if definition.kind != "memory" and any(
            isinstance(v.type, PointerType) for v in op.operands
        ):
            self.fail(op, "only memory ops take pointers")
        self.rule(op, definition)

    def rule(self, op: Op, definition: OpDef) -> None:
        check = _RULES.get(op.opcode) or (
            _pointwise if definition.kind == "pointwise" else None
        )
        message = check(op, definition) if check else None
        if op.opcode == "custom":
            message = self.custom(op)
        if message:
            self.fail(op, message)

    def custom(self, op: Op) -> str | None:
        """Checks the rule as well, once for each use of it."""
        custom = Custom.of(op)
        rule = self.kernel.rules.get(custom.rule)
        if rule is None:
            return f"there is no rule {custom.rule!r}"
        outputs = [v.tensor_type for v in custom.outputs]
        if [r.type for r in op.results] != outputs:
            return "the results must have the types of the outputs"
        cotangents = [t.with_dtype(cotangent_dtype(t.dtype)) for t in outputs]
        if [a.type for a in rule.args] != [
            *(v.type for v in custom.inputs),
            *cotangents,
        ]:
            return "the rule must take the inputs, and a cotangent for each output"
        floats = [v.tensor_type for v in custom.inputs if v.is_float]
        given = [t.with_dtype(cotangent_dtype(t.dtype)) for t in floats]
        self.block(rule, set(), given)
        return None

    def fail(self, op: Op, message: str) -> NoReturn:
        operands = _types([v.type for v in op.operands])
        raise IRError(
            f"invalid op `{op.opcode}({operands})`: {message}",
            loc=op.loc,
            kernel=self.kernel.name,
        )


def _types(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types))


# -- rules by opcode: each gives the fault in words, or None --


def _pointwise(op: Op, definition: OpDef) -> str | None:
    types = [v.tensor_type for v in op.operands]
    if len({t.shape for t in types}) != 1:
        return "the operands differ in shape"
    if len(op.results) != 1 or op.result.shape != types[0].shape:
        return "the result must have the operands' shape"
    compared = types[1:] if op.opcode == "select" else types
    if len({t.dtype for t in compared}) != 1:
        return "the operands differ in dtype"
    last = types[-1].dtype
    if definition.domain == "float" and not last.is_float:
        return "takes floats"
    if definition.domain == "int" and not last.is_int:
        return "takes integers"
    expected = {"same": last, "bool": I1}.get(definition.typing)
    if expected is not None and op.result.tensor_type.dtype != expected:
        return f"the result must be {expected}"
    return None


def _cmp(op: Op, definition: OpDef) -> str | None:
    is_float = op.operands[0].tensor_type.dtype.is_float
    known = FLOAT_PREDICATES if is_float else INT_PREDICATES
    if op.attrs.get("predicate") not in known:
        return f"unknown predicate {op.attrs.get('predicate')!r}"
    return _pointwise(op, definition)


def _select(op: Op, definition: OpDef) -> str | None:
    if op.operands[0].tensor_type.dtype != I1:
        return "the condition must be i1"
    return _pointwise(op, definition)


def _bitcast(op: Op, definition: OpDef) -> str | None:
    if op.operands[0].tensor_type.dtype.bits != op.result.tensor_type.dtype.bits:
        return "the widths differ"
    return _pointwise(op, definition)


def _const(op: Op, _: OpDef) -> str | None:
    value, dtype = op.attrs.get("value"), op.result.tensor_type.dtype
    expected = float if dtype.is_float else bool if dtype == I1 else int
    return (
        None
        if type(value) is expected
        else f"value {value!r} is no {expected.__name__}"
    )


def _range(op: Op, _: OpDef) -> str | None:
    extent = op.int_attr("end") - op.int_attr("start")
    return (
        None
        if op.result.type == TensorType(I32, (extent,))
        else "the type must be i32[end - start]"
    )


def _program(op: Op, _: OpDef) -> str | None:
    ok = op.attrs.get("axis") in (0, 1, 2) and op.result.type == TensorType(I32)
    return None if ok else "needs an axis in 0..2 and type i32"


def _broadcast(op: Op, _: OpDef) -> str | None:
    source, target = op.operands[0].tensor_type, op.result.tensor_type
    fits = source.rank == 0 or (
        source.rank == target.rank
        and all(a in (1, b) for a, b in zip(source.shape, target.shape, strict=True))
    )
    return None if fits and source.dtype == target.dtype else f"cannot give {target}"


def _expand_dims(op: Op, _: OpDef) -> str | None:
    source, axis = op.operands[0].tensor_type, op.int_attr("axis")
    shape = (*source.shape[:axis], 1, *source.shape[axis:])
    ok = 0 <= axis <= source.rank and op.result.type == source.with_shape(shape)
    return None if ok else "the result must have one more axis, of extent 1"


def _reshape(op: Op, _: OpDef) -> str | None:
    source, target = op.operands[0].tensor_type, op.result.tensor_type
    ok = source.size == target.size and source.dtype == target.dtype
    return None if ok else "the number of elements and the dtype must stay"


def _transpose(op: Op, _: OpDef) -> str | None:
    source, order = op.operands[0].tensor_type, op.tuple_attr("order")
    if sorted(order) != list(range(source.rank)):
        return f"{order} is no permutation of the axes"
    shape = tuple(source.shape[axis] for axis in order)
    return (
        None
        if op.result.type == source.with_shape(shape)
        else "the shape must be permuted"
    )


def _join(op: Op, _: OpDef) -> str | None:
    a, b = (v.tensor_type for v in op.operands)
    ok = a == b and op.result.type == a.with_shape((*a.shape, 2))
    return None if ok else "joins two equal types along a new last axis"


def _split(op: Op, _: OpDef) -> str | None:
    source = op.operands[0].tensor_type
    half = source.with_shape(source.shape[:-1])
    ok = source.shape[-1:] == (2,) and [r.type for r in op.results] == [half, half]
    return None if ok else "takes a last axis of extent 2 apart"


def _lanewise(op: Op, _: OpDef) -> str | None:
    same = len({v.shape for v in (*op.operands, *op.results)}) == 1
    return None if same else "operands and results must have one shape"


def _stop(op: Op, _: OpDef) -> str | None:
    same = [r.type for r in op.results] == [v.type for v in op.operands]
    return None if same else "the result must have the operand's type"


def _flip(op: Op, _: OpDef) -> str | None:
    source, axis = op.operands[0].tensor_type, op.int_attr("axis")
    ok = 0 <= axis < source.rank and op.result.type == source
    return None if ok else "the result must have the operand's type, and the axis"


def _gather(op: Op, _: OpDef) -> str | None:
    (source, index), axis = (v.tensor_type for v in op.operands), op.int_attr("axis")
    if not 0 <= axis < source.rank or source.rank != index.rank:
        return "the operands must have one rank, and the axis"
    if not index.dtype.is_int:
        return "the index must be integers"
    rows = zip(source.shape, index.shape, strict=True)
    if any(a != b for i, (a, b) in enumerate(rows) if i != axis):
        return "the operands may only differ in the extent of the axis"
    expected = source.with_shape(index.shape)
    return None if op.result.type == expected else f"the result must be {expected}"


def _reduce(op: Op, _: OpDef) -> str | None:
    source, axis, kind = (
        op.operands[0].tensor_type,
        op.int_attr("axis"),
        op.str_attr("kind"),
    )
    if kind not in REDUCTIONS:
        return f"unknown kind {kind!r}"
    if not 0 <= axis < source.rank:
        return f"axis {axis} is out of range"
    dtype = I32 if kind.startswith("arg") else source.dtype
    shape = (*source.shape[:axis], *source.shape[axis + 1 :])
    return (
        None
        if op.result.type == TensorType(dtype, shape)
        else "the result has the wrong type"
    )


def _scan(op: Op, _: OpDef) -> str | None:
    type = op.operands[-1].tensor_type
    if op.opcode == "scan" and op.str_attr("kind") not in SCANS:
        return f"unknown kind {op.str_attr('kind')!r}"
    if not isinstance(op.attrs.get("reverse"), bool):
        return "must say whether it is reversed"
    if not 0 <= op.int_attr("axis") < type.rank:
        return f"axis {op.int_attr('axis')} is out of range"
    same = all(v.type == type for v in (*op.operands, op.result))
    return None if same else "operands and result must have one type"


def _dot(op: Op, _: OpDef) -> str | None:
    a, b, c = (v.tensor_type for v in op.operands)
    if op.result.type != c or a.dtype != b.dtype or a.rank not in (2, 3):
        return "the result must have c's type, and a and b one dtype"
    shape = (*a.shape[:-1], b.shape[-1])
    ok = b.shape == (*a.shape[:-2], a.shape[-1], b.shape[-1]) and c.shape == shape
    return None if ok else f"cannot multiply {a} by {b} into {c}"


def _memory(op: Op, _: OpDef) -> str | None:
    access = Access.of(op)
    if not isinstance(access.base.type, PointerType):
        return "the first operand must be a pointer"
    value = op.result if op.opcode == "load" else access.value
    assert value is not None
    if value.tensor_type.dtype != access.base.type.element:
        return "the value must have the pointer's element type"
    for offset in access.offsets:
        if not offset.tensor_type.dtype.is_int or offset.shape not in ((), value.shape):
            return "an offset must be integers of the access's shape, or a scalar"
    if access.mask is not None and access.mask.type != value.tensor_type.with_dtype(I1):
        return "the mask must be i1 of the access's shape"
    if access.other is not None and access.other.type != value.type:
        return "`other` must have the loaded type"
    return None


def _for(op: Op, _: OpDef) -> str | None:
    if len(op.regions) != 1 or len(op.operands) != 3 + len(op.results):
        return "takes bounds, a step and an initial value for each result, and a block"
    bounds = {v.type for v in op.head}
    if len(bounds) != 1 or not bounds <= {TensorType(I32), TensorType(I64)}:
        return "the bounds and the step must be scalars, all i32 or all i64"
    carried = [v.type for v in op.initial]
    if [a.type for a in op.regions[0].args] != [op.operands[0].type, *carried]:
        return "the block's arguments must be the variable and the carried values"
    same = carried == [r.type for r in op.results]
    return None if same else "the results must have the types of the initial values"


def _while(op: Op, _: OpDef) -> str | None:
    if len(op.regions) != 1 or len(op.operands) != 1 + len(op.results):
        return "takes a condition and an initial value for each result, and a block"
    if op.operands[0].type != TensorType(I1):
        return "the condition must be a scalar i1"
    carried = [v.type for v in op.initial]
    if [a.type for a in op.regions[0].args] != carried:
        return "the block's arguments must be the carried values"
    same = carried == [r.type for r in op.results]
    return None if same else "the results must have the types of the initial values"


def _yielded(op: Op) -> list[Type]:
    """The types that blocks of `op` yield."""
    flag: list[Type] = [TensorType(I1)] if op.opcode == "while" else []
    return [*flag, *(r.type for r in op.results)]


def _if(op: Op, _: OpDef) -> str | None:
    ok = len(op.regions) == 2 and op.operands[0].type == TensorType(I1)
    return None if ok else "takes a scalar i1 and two blocks"


_RULES: dict[str, Callable[[Op, OpDef], str | None]] = {
    "cmp": _cmp,
    "select": _select,
    "cast": lambda op, d: _pointwise(op, d),
    "bitcast": _bitcast,
    "const": _const,
    "range": _range,
    "program_id": _program,
    "num_programs": _program,
    "broadcast": _broadcast,
    "expand_dims": _expand_dims,
    "reshape": _reshape,
    "transpose": _transpose,
    "join": _join,
    "split": _split,
    "flip": _flip,
    "gather": _gather,
    "reduce": _reduce,
    "scan": _scan,
    "recurrence": _scan,
    "dot": _dot,
    "stop": _stop,
    "inline_asm": _lanewise,
    "extern": _lanewise,
    "load": _memory,
    "store": _memory,
    "atomic_add": _memory,
    "if": _if,
    "for": _for,
    "while": _while,
}
