"""Prints every op that the installed Triton can read in TTIR, one a line.

Triton has no list of them. But the name of each op stands in its library, and its own
parser says of a name whether it is an op: ``custom op 'tt.foo' is unknown``. So every
string that may be one is asked about. With another version first on the path::

    PYTHONPATH=build/triton-matrix/3.6.0 python tools/opcodes.py

`tests/fixtures/opcodes/<version>.txt` keeps what it prints.
"""

from __future__ import annotations

import mmap
import os
import re
import sys
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

_LONGEST = 80
_NAME = re.compile(rb"[a-z][a-z0-9_.]+")


def candidates(library: Path, dialects: Iterable[str]) -> set[str]:
    """Strings in `library` that begin with a dialect and end where a C string does."""
    found: set[str] = set()
    with library.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for dialect in dialects:
            prefix = f"{dialect}.".encode()
            at = data.find(prefix)
            while at >= 0:
                end = data.find(b"\0", at, at + _LONGEST)
                if _NAME.fullmatch(text := data[at : max(at, end)]):
                    found.add(text.decode())
                at = data.find(prefix, at + 1)
    return found


@contextmanager
def _stderr() -> Generator[Path]:
    """A file in which everything stands that the process, C++ too, said meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        path, kept = Path(folder) / "stderr", os.dup(2)
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        try:
            yield path
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def registered(names: Iterable[str]) -> set[str]:
    """Those of `names` that Triton's parser knows as ops."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    names = sorted(names)
    with tempfile.TemporaryDirectory() as folder, _stderr() as said:
        for name in names:
            path = Path(folder) / f"{name}.mlir"
            path.write_text(f"{name} ?")  # which is the text of no op
            try:
                ir.parse_mlir_module(str(path), context)
            except RuntimeError:
                continue
            raise AssertionError(f"`{name} ?` was read")
        text = said.read_text()
    unread = {name for name in names if f"{name}.mlir" not in text}
    assert not unread, f"nothing was said about {unread}"
    return {name for name in names if f"custom op '{name}' is unknown" not in text}


def opcodes() -> set[str]:
    """The ops of the installed Triton."""
    import triton

    from undertow.frontend.table import DIALECTS

    library = Path(triton.__file__).parent / "_C" / "libtriton.so"
    return registered(candidates(library, DIALECTS))


if __name__ == "__main__":
    print("\n".join(sorted(opcodes())))
