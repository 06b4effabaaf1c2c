"""What importing a part of Undertow brings in (import-linter checks the sources)."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import undertow

PURE = {"errors", "ir", "analysis", "rules", "transform", "emit"}
PARTS = [module.name for module in pkgutil.iter_modules(undertow.__path__)]


def heavy_imports(module: str) -> str:
    """The heavy packages that a fresh process has loaded after importing `module`."""
    script = (
        f"import sys, {module}\n"
        "print(*sorted({'torch', 'triton', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_importing_undertow_is_light() -> None:
    assert heavy_imports("undertow") == ""


@pytest.mark.parametrize("part", [part for part in PARTS if part in PURE])
def test_importing_the_core_is_light(part: str) -> None:
    assert heavy_imports(f"undertow.{part}") == ""


def test_listing_the_public_names_imports_nothing() -> None:
    script = (
        "import sys, undertow\nprint(*dir(undertow))\n"
        "assert not {'torch', 'triton'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
