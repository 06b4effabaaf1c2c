"""The committed verdicts on other libraries' kernels, and how they are made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("liger_kernel.ops", reason="liger-kernel is not installed")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.coverage import table, workloads  # noqa: E402
from benchmarks.coverage.machine import stand_in  # noqa: E402
from benchmarks.coverage.verdict import CRASH, WRONG, findings  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    with stand_in():
        workloads.load(["liger"])


@pytest.mark.parametrize("name", ["geglu", "layer_norm", "jsd"])
def test_a_row(name: str):
    found = list(findings(workloads.WORKLOADS[f"liger/{name}"]))
    assert [(f.verdict, f.reason, f.peer) for f in found] == [("right", "", "agrees")]


def test_a_kernel_that_is_refused():
    found = list(findings(workloads.WORKLOADS["liger/mlp"]))
    (row,) = table.rows("liger_kernel", found, [])
    assert row.verdict == "refused"
    assert "cannot take `desc_input` of type `TensorDescriptor`" in row.reason


def test_kernels_without_gradients_do_not_count():
    found = list(findings(workloads.WORKLOADS["liger/neighborhood_attention"]))
    names = {row.kernel.rpartition(".")[2] for row in table.rows("", found, [])}
    assert "_fused_neighborhood_attention_av_kernel" in names
    assert "_neighborhood_mask_kernel" not in names


def test_the_table_is_that_of_the_rows():
    rows = table.read(RESULTS / "coverage.csv")
    text = (RESULTS / "coverage.md").read_text()
    versions = text.splitlines()[7].removesuffix(".")
    assert "\n".join(table.page(rows, versions)) + "\n" == text


def test_nothing_is_wrong():
    rows = table.read(RESULTS / "coverage.csv")
    assert len(rows) > 200
    assert not [row for row in rows if row.verdict in (WRONG, CRASH)]
