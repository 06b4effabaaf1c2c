"""Derivations, and the cache of them in memory."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from undertow import frontend
from undertow.emit import emit_backward
from undertow.emit.source import constexpr_extents
from undertow.frontend import NO_PROMISES, Promises
from undertow.ir import Kernel
from undertow.runtime import store
from undertow.transform.differentiate import Backward, differentiate


@dataclass(frozen=True)
class Derivation:
    """A backward kernel and its source.

    Attributes:
        backward: the derived kernel as IR, and what is known of it.
    """

    backward: Backward

    @property
    def forward(self) -> Kernel:
        return self.backward.forward

    @cached_property
    def source(self) -> str:
        """A Python module with the backward as a Triton kernel."""
        return emit_backward(self.backward)

    @property
    def name(self) -> str:
        """The name of the kernel in `source`."""
        return self.backward.kernel.name

    @cached_property
    def counter(self) -> Any:
        """The emitted kernel that counts turns of loops, as a Triton jit function."""
        assert self.backward.counter is not None
        return load_source(self.source, self.backward.counter.name)

    @cached_property
    def counter_constexprs(self) -> dict[str, object]:
        """The constexpr parameters of `counter`, and their values."""
        assert self.backward.counter is not None
        return _constexprs(self.backward.counter)

    @cached_property
    def constexprs(self) -> dict[str, object]:
        """The constexpr parameters that the emitted kernel has, and their values."""
        return _constexprs(self.backward.kernel)

    @cached_property
    def function(self) -> Any:
        """The emitted kernel as a Triton jit function."""
        return load_source(self.source, self.name)


def _constexprs(kernel: Kernel) -> dict[str, object]:
    used = constexpr_extents(kernel).values()
    return {n: v for n, v in kernel.constexprs.items() if n in used}


def derive(
    fn: object,
    signature: Mapping[str, Any],
    constexprs: Mapping[str, object],
    *,
    wrt: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    unique: Collection[str] = (),
    stop_gradient: Collection[str] = (),
    zero: Collection[str] = (),
) -> Derivation:
    """Derives the backward of a Triton kernel.

    Args:
        fn: a function decorated with `triton.jit`, also under autotune, heuristics or
            `undertow.differentiable`.
        signature: Triton's type of each parameter passed at run time, such as
            `"*bf16"`, `"i32"` or `"fp32"`.
        constexprs: the values of the other parameters.
        wrt: the pointers to differentiate; by default all floats that are loaded.
        outputs: the pointers that have a cotangent; by default all floats stored to.
        unique: pointers to integers of which you promise that none stands there twice,
            besides those of an `undertow.differentiable`. `undertow check` tests it.
        stop_gradient: variables of the kernel whose values have no derivative.
        zero: pointers, helpers and operations with derivative zero, both as for
            `undertow.differentiable`.

    Raises:
        CaptureError: Triton does not compile the kernel.
        UnsupportedError: it uses something that has no derivative here.
    """
    promises = Promises.of(unique, stop_gradient, zero)
    wrapper: Any = sys.modules.get("undertow.runtime.differentiable")  # needs torch
    if wrapper is not None and isinstance(fn, wrapper.Differentiable):
        kernel: Any = fn
        fn, promises = kernel.fn, kernel.promises | promises
    forward = capture(fn, signature, constexprs, promises)
    return Derivation(differentiate(forward, wrt, outputs, unique=promises.unique))


def capture(
    fn: object,
    signature: Mapping[str, Any],
    constexprs: Mapping[str, object],
    promises: Promises = NO_PROMISES,
) -> Kernel:
    """`frontend.capture` through the cache on disk."""
    fixed = {
        p.name: constexprs.get(p.name, p.default)
        for p in frontend.parameters(fn)
        if p.name in constexprs or (p.is_constexpr and p.has_default)
    }
    key = None
    if fixed.keys() >= constexprs.keys():  # otherwise there is an error to be raised
        key = store.key_of(frontend.unwrap(fn), signature, fixed, promises)
    known = store.load(key, fixed) if key else None
    if known is not None:
        return known
    kernel = frontend.capture(fn, signature, constexprs, promises)
    if key:
        store.save(key, kernel)
    return kernel


def load_source(source: str, name: str) -> Any:
    """The function `name` of a module with this source.

    Triton reads the source of what it compiles from a file, so the module is written to
    the cache directory, or to a temporary one if that cannot be written.
    """
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    path = store.directory() / f"{name}_{digest}.py"
    if not _holds(path, source):
        written = store.write(path.name, source)
        if written is None:
            path = Path(tempfile.mkdtemp(prefix="undertow_")) / path.name
            path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"undertow_derived_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text() == text
    except (OSError, UnicodeError):
        return False
