"""Small kernels to execute, and a way to execute a single op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from undertow.evaluate import run
from undertow.ir import (
    DTYPES,
    OPS,
    Access,
    Builder,
    DType,
    Kernel,
    PointerType,
    Value,
    parse,
    scalar,
    verify,
)

NAMES: dict[torch.dtype, str] = {
    torch.bool: "i1",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float8_e4m3fn: "f8e4m3",
    torch.float8_e5m2: "f8e5m2",
}
TORCH = {name: dtype for dtype, name in NAMES.items()}


def ir_dtype(tensor: Tensor) -> DType:
    return DTYPES[NAMES[tensor.dtype]]


def kernel(text: str) -> Kernel:
    return verify(parse(text))


def build(
    params: dict[str, str], body: Callable[[Builder, dict[str, Value]], None]
) -> Kernel:
    """A kernel whose parameters are given as `*f32` or `i32`."""
    values = {
        name: Value(
            PointerType(DTYPES[t[1:]]) if t[0] == "*" else scalar(DTYPES[t]), name
        )
        for name, t in params.items()
    }
    builder = Builder()
    body(builder, values)
    return verify(Kernel("k", tuple(values.values()), builder.block))


def lanes(b: Builder, count: int) -> Value:
    type_ = scalar(DTYPES["i32"]).with_shape((count,))
    return b.pure("range", (), type_, {"start": 0, "end": count})


def evaluate(
    op: Callable[..., Value],
    *operands: Tensor,
    result: torch.dtype | None = None,
    programs: int = 2,
    float_dtype: torch.dtype | None = None,
) -> Tensor:
    """What `op(builder, *values)` gives on vectors, each program taking its part."""
    count = operands[0].numel() // programs
    assert count * programs == operands[0].numel()
    held = result or operands[-1].dtype
    params = {f"p{i}": f"*{NAMES[x.dtype]}" for i, x in enumerate(operands)}
    params["out"] = f"*{NAMES[held]}"

    def body(b: Builder, values: dict[str, Value]) -> None:
        size = b.const(count, scalar(DTYPES["i32"]))
        start = b.pointwise("mul", b.program_id(0), size)
        offsets = b.pointwise("add", b.broadcast(start, (count,)), lanes(b, count))
        loaded: list[Value] = []
        for name in list(values)[:-1]:
            pointer = values[name].type
            assert isinstance(pointer, PointerType)
            access = Access(values[name], (offsets,), None, None, None)
            loaded.append(b.load(access, scalar(pointer.element).with_shape((count,))))
        b.store(Access(values["out"], (offsets,), op(b, *loaded), None, None))

    out = torch.empty(count * programs, dtype=held)
    args = {f"p{i}": x for i, x in enumerate(operands)}
    run(build(params, body), {**args, "out": out}, (programs,), float_dtype=float_dtype)
    return out


def pointwise(opcode: str, *operands: Tensor, **attrs: object) -> Tensor:
    """The result of a pointwise op on vectors."""
    result = torch.bool if OPS[opcode].typing == "bool" else None
    return evaluate(
        lambda b, *values: b.pointwise(opcode, *values, **attrs),  # type: ignore[arg-type]
        *operands,
        result=result,
        programs=1,
    )


def pairs(values: Sequence[int], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """All pairs of `values`, as two vectors."""
    x = torch.tensor(list(values), dtype=dtype)
    a, b = torch.meshgrid(x, x, indexing="ij")
    return a.reshape(-1).clone(), b.reshape(-1).clone()
