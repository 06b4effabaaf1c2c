"""Functions as Inductor lowers them, in the evaluator."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

import pytest
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from torch._inductor.utils import fresh_cache  # noqa: E402

from benchmarks.inductor import table  # noqa: E402
from benchmarks.inductor.functions import FUNCTIONS  # noqa: E402
from benchmarks.inductor.functions.table import Function, one  # noqa: E402
from benchmarks.inductor.verdict import judged, row  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, while it compiles


@pytest.fixture(scope="module", autouse=True)
def cached():
    with fresh_cache():
        yield


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("activations/softmax_of_columns", 1),
        ("losses/cross_entropy", 2),
        ("norms/layer_norm", 1),
        ("reductions/max_pool2d", 1),
        ("shapes/index_add", 2),
    ],
)
def test_a_function(name: str, kernels: int):
    found = judged(name, "cpu")
    assert (found.verdict, found.reason) == ("right", "")
    assert found.kernels >= kernels


@pytest.mark.parametrize(
    ("f", "verdict", "reason"),
    [
        (torch.lgamma, "refused", "no derivative rule for `libdevice.lgamma`"),
        (torch.digamma, "no kernel", ""),
        (lambda x: x * x.sin().detach(), "wrong", "gradient of input 0: 481 elements"),
        (lambda x: x.sum().item(), "crash", ""),
    ],
)
def test_a_verdict(f: object, verdict: str, reason: str):
    """Inductor's forward knows nothing of `detach`: a gradient that must differ."""
    with mock.patch.dict(FUNCTIONS, {"a/b": Function("b", f, one)}):  # pyright: ignore
        found = judged("a/b", "cpu")
    assert (found.group, found.function, found.verdict) == ("a", "b", verdict)
    assert found.reason.startswith(reason)


def test_what_does_not_lower_is_not_counted():
    rows = [row("a/b", "right", "", 2), row("a/c", "no kernel"), row("d/e", "crash")]
    assert table.summary(rows) == [
        ["a", "2", "2", "1", "0", "0", "0", "1", "100 %"],
        ["d", "1", "0", "0", "0", "0", "1", "0", "0 %"],
        ["all", "3", "2", "1", "0", "0", "1", "1", "50 %"],
    ]


def test_the_table_is_read_as_it_is_written(tmp_path: Path):
    rows = [row("a/b", "right", "", 2), row("a/c", "refused", "no rule for `tl.x`", 1)]
    table.write(tmp_path, rows, "this")
    assert table.read(tmp_path / "inductor.csv") == rows
    text = (tmp_path / "inductor.md").read_text()
    assert "| 1 | no rule for `tl.x` |" in text
    assert "| a/c | refused | no rule for `tl.x` |" in text
