"""docs/concepts/one-kernel.md shows what the stages print."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.pointwise import scale
from undertow import frontend
from undertow.ir import print_kernel
from undertow.transform.differentiate import Backward, differentiate

STAGES = Path(__file__).parent.parent / "docs" / "concepts" / "stages"
POINTERS = ("x_ptr", "w_ptr", "y_ptr")


def backward() -> Backward:
    signature = dict.fromkeys(POINTERS, "*fp32") | {"n": "i32"}
    return differentiate(frontend.capture(scale, signature, {"BLOCK": 64}))


def readings(found: Backward) -> str:
    lines: list[str] = []
    for gradient in found.gradients:
        for reading in gradient.placement.finding.readings:
            digits = [f"{d.coefficient}·[0, {d.extent})" for d in reading.digits]
            lines.append(f"{gradient.name} at {' + '.join(digits)}")
    return "\n".join(lines) + "\n"


def test_the_stages_print_what_the_essay_shows(request: pytest.FixtureRequest) -> None:
    found = backward()
    printed = {
        "forward": print_kernel(found.forward),
        "backward": print_kernel(found.kernel),
        "readings": readings(found),
    }
    for name, text in printed.items():
        path = STAGES / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert path.read_text() == text, f"{path.name}: --update-golden rewrites it"
