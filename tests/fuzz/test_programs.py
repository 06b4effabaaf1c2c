"""Random programs with loops, branches and products against two oracles."""

from __future__ import annotations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from derived import check
from fuzz.programs import program
from undertow.errors import UnsupportedError

FUZZ = settings.default.max_examples > 50
MANY = settings(max_examples=10_000 if FUZZ else 300)

REFUSED = ("stored to several times", "nothing bounds how often it turns")
"""What of a program may be refused: nothing else in it is outside of the language."""


@MANY
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_a_programs_backward_agrees_with_two_oracles(seed: int, size: int) -> None:
    case = program(seed, size)
    try:
        check(case.kernel, case.args, case.grid, smooth=False)
    except UnsupportedError as error:
        reason = next((r for r in REFUSED if r in str(error)), None)
        if reason is None:
            raise
        event(reason)
