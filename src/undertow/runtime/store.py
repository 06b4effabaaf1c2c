"""Captured kernels on disk, so that a new process need not run Triton's front end.

An entry holds the IR of one specialisation as text, with a checksum; one that cannot be
read is rebuilt with a warning, never trusted. The directory is `UNDERTOW_CACHE_DIR`, or
``undertow`` in the user's cache directory. Entries of other versions have other names.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from undertow import __version__
from undertow.errors import IRError
from undertow.ir import Kernel, parse, print_kernel, verify

FORMAT = 1


def directory() -> Path:
    """Where entries and derived sources are kept."""
    given = os.environ.get("UNDERTOW_CACHE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "undertow"


def key_of(jit: Any, signature: Mapping[str, Any], constexprs: Mapping[str, object]) -> str | None:
    """A name for a specialisation, the same in every process; None if there is none."""
    import triton

    plain = (int, float, bool, str, type(None))
    if not all(isinstance(v, plain) or type(v).__name__ == "dtype" for v in constexprs.values()):
        return None
    parts = [
        FORMAT,
        __version__,
        str(triton.__version__),
        jit.cache_key,
        sorted((n, str(t)) for n, t in signature.items()),
        sorted((n, type(v).__name__, str(v)) for n, v in constexprs.items()),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def load(key: str, constexprs: Mapping[str, object]) -> Kernel | None:
    """The kernel stored under `key`, or None."""
    path = directory() / f"{key}.json"
    try:
        text = path.read_text()
    except OSError:
        return None
    try:
        entry = json.loads(text)
        ir = entry["ir"]
        if entry["checksum"] != _checksum(ir):
            raise ValueError("its checksum does not match")
        kernel = verify(parse(ir))
    except (ValueError, KeyError, TypeError, IRError) as error:
        warnings.warn(f"rebuilding the cache entry {path.name}: {error}", stacklevel=2)
        return None
    return Kernel(kernel.name, kernel.params, kernel.body, kernel.loc, dict(constexprs))


def save(key: str, kernel: Kernel) -> None:
    """Stores `kernel`; a directory that cannot be written is left alone."""
    ir = print_kernel(kernel, locations=True)
    write(f"{key}.json", json.dumps({"checksum": _checksum(ir), "ir": ir}))


def write(name: str, text: str) -> Path | None:
    """Writes a file whole or not at all; None if the directory is read-only."""
    target = directory() / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(temporary, target)
    except OSError:
        return None
    return target


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
