"""The guides are true: what they define runs, and what they show is emitted."""

from __future__ import annotations

import runpy
from pathlib import Path

from test_readme import ROOT, blocks
from undertow import derive


def test_derivatives_of_your_own(tmp_path: Path) -> None:
    guide = (ROOT / "docs/guides/own-derivatives.md").read_text()
    defined, shown = [], []
    for block in (b for b in blocks(guide) if b.language == "python"):
        whole = block.text.startswith(("import", "@")) and "def " in block.text
        (defined if whole else shown).append(block.text)
    path = tmp_path / "guide.py"
    path.write_text("\n\n".join(defined))
    module = runpy.run_path(str(path))
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "scale": "fp32"}
    source = derive(module["quantise"], types, {"BLOCK": 64}).source
    lines = [line.partition("  #")[0].strip() for line in source.splitlines()]
    emitted, called, promised = shown
    assert all(line in lines for line in emitted.splitlines())
    assert promised.startswith("@undertow.differentiable(stop_gradient=")
    assert called == "gate = undertow.stop_gradient(tl.sigmoid(x))\n"
