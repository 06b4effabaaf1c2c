"""Captured kernels on disk, so that a new process need not run Triton's front end.

An entry holds the IR of one specialisation as text, with a checksum; one that cannot be
read is rebuilt with a warning, never trusted. The directory is `UNDERTOW_CACHE_DIR`, or
``undertow`` in the user's cache directory. Entries of other versions have other names.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import triton

from undertow import __version__, frontend, ir
from undertow.errors import IRError
from undertow.frontend import NO_PROMISES, Promises, overrides
from undertow.ir import Kernel, parse, print_kernel, verify

FORMAT = 1

_PLAIN = (int, float, bool, str, type(None))
"""Constexprs of these types, and Triton's dtypes, are told apart by their text."""


def directory() -> Path:
    """Where entries and derived sources are kept."""
    given = os.environ.get("UNDERTOW_CACHE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "undertow"


@functools.cache
def _lifting() -> str:
    """A digest of the code that makes an entry: it may change within a version."""
    digest = hashlib.sha256()
    for package in (frontend, ir):
        for path in sorted(Path(package.__path__[0]).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def key_of(
    jit: Any,
    signature: Mapping[str, Any],
    constexprs: Mapping[str, object],
    promises: Promises = NO_PROMISES,
) -> str | None:
    """A name for a specialisation, the same in every process; None if there is none."""
    values = constexprs.values()
    if not all(isinstance(v, _PLAIN) or type(v).__name__ == "dtype" for v in values):
        return None
    rules = overrides.digest()
    if rules is None:
        return None
    parts = [
        FORMAT,
        __version__,
        _lifting(),
        str(triton.__version__),
        jit.cache_key,
        rules,
        sorted(promises.stop_gradient),
        sorted(promises.zero),
        jit.fn.__code__.co_filename,
        sorted((n, str(t)) for n, t in signature.items()),
        sorted((n, type(v).__name__, str(v)) for n, v in constexprs.items()),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def load(key: str, constexprs: Mapping[str, object]) -> Kernel | None:
    """The kernel stored under `key`, or None."""
    path = directory() / f"{key}.json"
    try:
        data = path.read_bytes()
    except OSError:
        return None
    try:
        entry = json.loads(data)
        text = entry["ir"]
        if entry["checksum"] != _checksum(text):
            raise ValueError("its checksum does not match")
        kernel = verify(parse(text))
    except (ValueError, KeyError, TypeError, AttributeError, IRError) as error:
        warnings.warn(f"rebuilding the cache entry {path.name}: {error}", stacklevel=2)
        return None
    return replace(kernel, constexprs=dict(constexprs))


def save(key: str, kernel: Kernel) -> None:
    """Stores `kernel`; a directory that cannot be written is left alone."""
    text = print_kernel(kernel, locations=True)
    write(f"{key}.json", json.dumps({"checksum": _checksum(text), "ir": text}))


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
