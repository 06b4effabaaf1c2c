"""A `torch.autograd.Function` around a forward and its derived backward, as text.

The file stands alone: it imports torch and triton. Its semantics are simple. Outputs
are tensors made for the call. Cotangents are copied into the layout of their output
unless they have it, gradients start as zeros in the layout of their input. What a plain
store needs of the strides is tested in each backward, and that the forward wrote no
element twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from undertow.analysis.exclusive import Exclusive, Shared
from undertow.analysis.launch import uniform
from undertow.cli.derive import Derived
from undertow.cli.forward import forward_source
from undertow.cli.messages import CommandError
from undertow.cli.numbers import extent, host, polynomial_text
from undertow.cli.target import innermost
from undertow.emit.layout import wrap
from undertow.emit.source import split
from undertow.ir import PointerType, Value
from undertow.runtime.derivation import Derivation
from undertow.transform.differentiate import Backward, OutputStores, roles
from undertow.transform.roles import indices

_TORCH = {
    "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip

_HELPERS = '''
def _in_layout(tensor, shape, strides):
    """`tensor`, or a copy, with the given strides and what it is worth in memory."""
    lazy = tensor.is_neg() or tensor._is_zerotensor()
    if tensor.stride() == strides and not lazy:
        return tensor
    return _strided(shape, strides, tensor.dtype, tensor.device).copy_(tensor)


def _strided(shape, strides, dtype, device):
    """Zeros with the given strides, and zeros in the gaps between them."""
    span = 1 + sum((n - 1) * step for n, step in zip(shape, strides))
    flat = torch.zeros(0 if 0 in shape else span, dtype=dtype, device=device)
    return flat.as_strided(shape, strides)


def _zeros(tensor, dtype):
    """Zeros in the layout of `tensor`."""
    strides = zip(tensor.stride(), tensor.shape)
    if any(stride == 0 and size > 1 for stride, size in strides):
        raise ValueError("elements of an input share memory: pass a contiguous copy")
    return _strided(tensor.shape, tensor.stride(), dtype, tensor.device)
'''

_APART = '''
def _apart(*digits):
    """Whether sums of strides times indices differ, of pairs (stride, extent)."""
    if any(extent <= 0 for _, extent in digits):
        return True
    span = 0
    for stride, extent in sorted((abs(stride), extent) for stride, extent in digits):
        if extent > 1 and stride <= span:
            return False
        span += stride * (extent - 1)
    return True
'''


def with_wrapper(derived: Derived) -> str:
    """A module with the forward, the backward, and a Function that launches both.

    Raises:
        CommandError: the forward cannot be copied, or the launch is not a simple one.
    """
    backward = derived.derivation.backward
    _require_simple(backward)
    forward = forward_source(derived.target.kernel)
    header, kernel = split(derived.derivation.source)
    imports = sorted({*forward.imports, *header, "import torch", "import triton"})
    function = "\n".join(_Function(derived).lines())
    parts = [
        "\n".join(sorted(imports, key=lambda line: (line.startswith("from"), line))),
        *(["\n".join(forward.constants.values())] if forward.constants else []),
        *forward.functions.values(),
        kernel,
        _HELPERS.strip(),
        *([_APART.strip()] if "_apart(" in function else []),
        function,
    ]
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def _require_simple(backward: Backward) -> None:
    name = backward.forward.name
    overwritten = sorted(roles(backward.forward).in_place)
    if overwritten:
        raise CommandError(
            f"`{name}` reads and overwrites `{overwritten[0]}`: not with --wrapper",
            hint="wrap the kernel by undertow.differentiable instead",
        )
    if backward.counter is not None:
        raise CommandError(
            f"`{name}` has a loop whose turns are counted first: not with --wrapper",
            hint="wrap the kernel by undertow.differentiable instead",
        )
    for tape in backward.tapes:
        if not uniform(tape.trips):
            raise CommandError(
                f"`{name}` needs a tape of `{tape.of}`, whose length is not the same "
                "in each program and turn: not with --wrapper",
                hint="wrap the kernel by undertow.differentiable instead",
            )
    for store in backward.stores:
        if isinstance(store.finding, Shared):
            promise = ""
            if indices(backward.forward):
                promise = "if indices never repeat, say so by --unique; else "
            raise CommandError(
                f"`{name}` may write an element of `{store.of}` several times: not "
                "with --wrapper",
                why=store.finding.reason,
                hint=f"{promise}wrap the kernel by undertow.differentiable instead",
            )
    for gradient in backward.gradients:
        if not isinstance(gradient.placement.finding, Exclusive | Shared):
            raise CommandError(
                f"`{gradient.name}` takes more than one launch: not with --wrapper",
                hint="wrap the kernel by undertow.differentiable instead",
            )


class _Function:
    """Writes the class."""

    def __init__(self, derived: Derived) -> None:
        self.derivation: Derivation = derived.derivation
        self.backward = derived.derivation.backward
        self.forward = self.backward.forward
        self.types = derived.signature.types
        self.constexprs = derived.signature.constexprs
        self.function = innermost(derived.target.kernel)
        self.params = [p.name for p in self.forward.params]
        pointers = {p.name for p in self.forward.pointers}
        self.scalars = [n for n in self.params if n not in pointers]
        self.outputs = [n for n in self.params if n in roles(self.forward).stored]
        used = {p.name for p in self.backward.kernel.params}
        self.saved = [n for n in self.params if n in pointers & used]
        gradients = {g.of for g in self.backward.gradients}
        self.saved += [n for n in self.params if n in gradients - set(self.saved)]

    @property
    def name(self) -> str:
        words = self.forward.name.strip("_").split("_")
        while len(words) > 1 and words[-1] in ("fwd", "forward", "kernel"):
            words.pop()
        return "".join(word[:1].upper() + word[1:] for word in words)

    def lines(self) -> Iterator[str]:
        yield f"class {self.name}(torch.autograd.Function):"
        yield from self._docstring()
        yield ""
        yield from self._forward()
        yield ""
        yield from self._backward()

    def _docstring(self) -> Iterator[str]:
        arguments = ", ".join(["grid", *self.params])
        fixed = ", ".join(f"{n}={v!r}" for n, v in self.constexprs.items())
        outputs = ", ".join(self.outputs)
        yield f'    """`{self.forward.name}` with its derived backward.'
        yield ""
        yield from wrap("    ", "", f"{self.name}.apply({arguments})", "")
        yield "    launches the kernel on a grid of up to three integers"
        yield f"    and returns {outputs}: tensors made for this call, no views."
        if fixed:
            yield f"    It is derived for {fixed}."
        yield '    """'

    def _forward(self) -> Iterator[str]:
        indent = " " * 8
        yield "    @staticmethod"
        yield from _definition("forward", ["ctx", "grid", *self.params])
        for pointer in self.forward.pointers:
            dtype = f"torch.{_TORCH[_element(pointer)]}"
            yield f"{indent}assert {pointer.name}.dtype == {dtype}"
        for gradient in self.backward.gradients:
            yield f"{indent}assert not {gradient.of}.is_neg()"
        yield f"{indent}grid = (*grid, 1, 1)[:3]"
        name = self.forward.name
        call = f"{name}[grid]({', '.join(self._arguments())})"
        yield from wrap(indent, "", call, "")
        yield from wrap(indent, "", f"ctx.mark_dirty({', '.join(self.outputs)})", "")
        active = {ct.of for ct in self.backward.cotangents}
        passive = ", ".join(n for n in self.outputs if n not in active)
        if passive:
            yield from wrap(indent, "", f"ctx.mark_non_differentiable({passive})", "")
        save = f"ctx.save_for_backward({', '.join(self.saved)})"
        yield from wrap(indent, "", save, "")
        yield from wrap(indent, "ctx.launch = ", _tuple(["grid", *self.scalars]), "")
        laid = [f"({n}.shape, {n}.stride())" for n in self._active()]
        yield from wrap(indent, "ctx.layouts = ", _tuple(laid), "")
        yield f"{indent}return {', '.join(self.outputs)}"

    def _active(self) -> list[str]:
        active = {ct.of for ct in self.backward.cotangents}
        return [n for n in self.outputs if n in active]

    def _arguments(self) -> Iterator[str]:
        """Arguments of the forward launch; by keyword after a constexpr."""
        keyword = False
        for name in self.function.arg_names:
            if name in self.params:
                yield f"{name}={name}" if keyword else name
            elif name in self.constexprs:
                keyword = True
                yield f"{name}={_literal(name, self.constexprs[name])}"

    def _backward(self) -> Iterator[str]:
        indent = " " * 8
        cotangents = {ct.of: ct for ct in self.backward.cotangents}
        given = [
            cotangents[n].name if n in cotangents else f"_{n}" for n in self.outputs
        ]
        yield "    @staticmethod"
        yield from _definition("backward", ["ctx", *given])
        yield f"{indent}if torch.is_grad_enabled():"
        fact = "create_graph=True: this backward has no derivative"
        yield f'{indent}    raise RuntimeError("{fact}")'
        if self.saved:
            yield from wrap(
                indent, f"{_targets(self.saved)} = ", "ctx.saved_tensors", ""
            )
        yield from wrap(
            indent, f"{_targets(['grid', *self.scalars])} = ", "ctx.launch", ""
        )
        for condition, why in self._faults():
            yield from wrap(indent, "if ", condition, ":")
            yield f'{indent}    raise ValueError("{why}")'
        for index, output in enumerate(self._active()):
            name = cotangents[output].name
            copy = f"_in_layout({name}, *ctx.layouts[{index}])"
            yield from wrap(indent, f"{name} = ", copy, "")
        for gradient in self.backward.gradients:
            dtype = f"torch.{_TORCH[gradient.dtype.name]}"
            yield f"{indent}{gradient.name} = _zeros({gradient.of}, {dtype})"
        yield from self._tapes(indent)
        call = f"{self.derivation.name}[grid]({', '.join(self._backward_arguments())})"
        yield from wrap(indent, "", call, "")
        yield from wrap(indent, "return ", f"({', '.join(self._results())})", "")

    def _tapes(self, indent: str) -> Iterator[str]:
        """Numbers of turns, and memory for what the turns start from."""
        turns = {tape.turns.name: tape.trips for tape in self.backward.tapes}
        for name, trips in turns.items():
            yield from wrap(indent, f"{name} = ", f"max(1, {host(trips)})", "")
        programs = " * ".join(extent(axis) for axis in range(3))
        device = f"{self.backward.cotangents[0].name}.device"
        for tape in self.backward.tapes:
            numel = f"{programs} * {tape.turns.name} * {tape.size}"
            dtype = f"torch.{_TORCH[_element(tape.pointer)]}"
            empty = f"torch.empty({numel}, dtype={dtype}, device={device})"
            yield from wrap(indent, f"{tape.pointer.name} = ", empty, "")

    def _backward_arguments(self) -> Iterator[str]:
        values: dict[str, str] = {}
        for ct in self.backward.cotangents:
            for stride, coefficient in zip(ct.strides, ct.coefficients, strict=True):
                values[stride.name] = "1" if coefficient is None else host(coefficient)
        for param in self.backward.kernel.params:
            yield values.get(param.name, param.name)
        for name, value in self.derivation.constexprs.items():
            yield f"{name}={_literal(name, value)}"

    def _results(self) -> Iterator[str]:
        gradients = {g.of: g for g in self.backward.gradients}
        elements = {p.name: _element(p) for p in self.forward.pointers}
        passed_on = {
            ct.of: ct.name
            for ct in self.backward.cotangents
            if ct.of in roles(self.forward).added
        }
        yield "None"
        for name in self.params:
            gradient = gradients.get(name)
            if name in passed_on:
                yield passed_on[name]
            elif gradient is None:
                yield "None"
            elif gradient.dtype.name == elements[name]:
                yield gradient.name
            else:
                yield f"{gradient.name}.to({name}.dtype)"

    def _faults(self) -> Iterator[tuple[str, str]]:
        """Expressions that must not hold, and what to say where they do."""
        seen: set[str] = set()
        unread: set[int] = set()
        for gradient in self.backward.gradients:
            finding = gradient.placement.finding
            if not isinstance(finding, Exclusive):
                continue
            unread.update(finding.unread)
            for condition in finding.conditions:
                large, small = (
                    polynomial_text(condition.large),
                    polynomial_text(condition.small),
                )
                if large + small not in seen:
                    seen.add(large + small)
                    need = (
                        f"{gradient.name} is stored plainly only if {large} >= {small}"
                    )
                    yield f"{large} < {small}", need
        for store in self.backward.stores:
            assert isinstance(store.finding, Exclusive)
            unread.update(store.finding.unread)
            why = f"an element of {store.of} is written several times"
            yield from ((test, why) for test in _meeting(store) if test not in seen)
        if unread == {1, 2}:
            yield "grid[1:] != (1, 1)", "no program looks at grid axes 1 and 2"
        else:
            for axis in sorted(unread):
                yield f"grid[{axis}] != 1", f"no program looks at grid axis {axis}"


# -- pieces of text --


def _definition(name: str, parameters: list[str]) -> Iterator[str]:
    lines = wrap("    ", f"def {name}", f"({', '.join(parameters)})", ":")
    yield from lines


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _targets(names: list[str]) -> str:
    return f"({', '.join(names)},)" if len(names) == 1 else ", ".join(names)


def _literal(name: str, value: object) -> str:
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if type(value).__name__ == "dtype":
        return f"tl.{value}".replace("tl.fp", "tl.float").replace("tl.bf", "tl.bfloat")
    raise CommandError(f"constexpr `{name}` cannot be written down: {value!r}")


def _element(pointer: Value) -> str:
    assert isinstance(pointer.type, PointerType)
    if pointer.type.element.name not in _TORCH:
        raise CommandError(f"--wrapper does not know {pointer.type.element} tensors")
    return pointer.type.element.name


# -- stores that may meet --


def _meeting(store: OutputStores) -> Iterator[str]:
    """Expressions of which one holds where stores to one output may meet."""
    assert isinstance(store.finding, Exclusive)
    reading = store.finding.readings[0]
    if not (reading.conditions or reading.divisions):
        return
    for division in reading.divisions:
        yield from (
            f"{polynomial_text(p)} < 0" for p in division.floor if p.number is None
        )
        if division.by.number is None:
            yield f"{polynomial_text(division.by)} < 1"
    parts = (*reading.divisions, *reading.promises)
    for digits in (reading.digits, *(part.digits for part in parts)):
        pairs = [f"({polynomial_text(d.coefficient)}, {polynomial_text(d.extent)})"
                 for d in digits]  # fmt: skip
        yield f"not _apart({', '.join(pairs)})"
