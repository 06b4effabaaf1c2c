"""Prints the test kernels' TTIR to `tests/fixtures/ttir/<version>/<kernel>.ttir`.

Run it once for each version of Triton, with that version first on the path::

    PYTHONPATH=build/triton-matrix/3.6.0 python tools/capture_fixtures.py

Paths in the text are cut to the files' names, so that fixtures do not depend on where
they were made.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "frontend")]


def neutral(text: str) -> str:
    """`text` with each file of a location cut to its name."""
    return re.sub(r'loc\("[^"]*/([^"/]+\.py)":', r'loc("\1":', text)


def main() -> None:
    """Writes the fixtures of the installed version."""
    import triton

    import kernels
    from undertow.frontend import capture_text

    folder = ROOT / "tests" / "fixtures" / "ttir" / triton.__version__
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in kernels.CASES.items():
        path = folder / f"{name}.ttir"
        path.write_text(neutral(capture_text(*case)))
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
