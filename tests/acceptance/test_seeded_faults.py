"""The comparison catches wrong kernels: faults that hand-written backwards have had."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import undertow
from acceptance.launches import EXACT, Expected, Oracle, compare
from emit.roundtrip import load_function, recaptured
from kernels.cases import CASES
from undertow import frontend
from undertow.evaluate import TOLERANCES
from undertow.evaluate import run as evaluate

FAULTS: dict[str, tuple[str, str, str]] = {
    "cotangent read with another tensor's stride": (
        "rms_norm-padded", "row * d_y_stride_0", "row * stride",
    ),
    "pointer not advanced": (
        "swiglu-padded", "d_a_ptr + row_offset + cols", "d_a_ptr + cols",
    ),
    "sum forgotten": (
        "softmax-padded", "- tl.sum(", "- 0.0 * tl.sum(",
    ),
    "mask forgotten": (
        "weighted_loss-padded", "tl.where(mask_2, d_lse, 0.0)", "d_lse",
    ),
    "programs overwrite one another": (
        "layer_norm-padded",
        'tl.atomic_add(d_b_ptr + cols, d_y, mask=mask, sem="relaxed")',
        "tl.store(d_b_ptr + cols, d_y, mask=mask)",
    ),
    "factor forgotten": (
        "dyt-padded", "d_x = d_alpha_part * alpha", "d_x = d_alpha_part",
    ),
    "sign": (
        "rope_halves-odd", "* cos - d_q_out_2", "* cos + d_q_out_2",
    ),
    "index of another row": (
        "embedding-repeated", "index * dim", "(index % 2) * dim",
    ),
    "branch of the other side": (
        "runtime_branch-both", "if squared > pid", "if squared <= pid",
    ),
    "early return on the other condition": (
        "early_return-ragged", "if length == 0", "if length != 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_source_is_seen(fault: str, tmp_path: Path) -> None:
    name, right, wrong = FAULTS[fault]
    case = CASES[name]()
    expected = Expected.of(case)
    oracle = Oracle(case)
    source = oracle.derivation.source
    kernel = oracle.derivation.backward.kernel
    assert right in source
    again = recaptured(kernel, source, tmp_path)
    found = oracle.gradients(expected.cotangents, kernel=again)
    compare(found, expected.gradients, EXACT)

    again = recaptured(kernel, source.replace(right, wrong), tmp_path)
    with pytest.raises((AssertionError, undertow.LaunchError)):
        compare(
            oracle.gradients(expected.cotangents, kernel=again),
            expected.gradients,
            TOLERANCES["bf16"],
        )


@pytest.mark.parametrize(
    ("held", "passes"), [(torch.float32, True), (torch.bfloat16, False)]
)
def test_a_weights_gradient_summed_in_bfloat16_is_seen(
    held: torch.dtype, passes: bool, tmp_path: Path
) -> None:
    """The sum over 2048 rows, into a buffer of either dtype."""
    rows, cols = 2048, 8
    generator = torch.Generator().manual_seed(0)
    draw = [torch.randn(rows, cols, generator=generator).bfloat16() for _ in range(2)]
    x, d_y = draw
    w = torch.ones(cols, dtype=torch.bfloat16)
    oracle = Oracle(CASES["rms_norm-full"](), torch.bfloat16)
    derivation = oracle.derivation
    signature = {p.name: "i32" for p in derivation.backward.kernel.params}
    pointers = dict.fromkeys(("d_y_ptr", "x_ptr", "w_ptr", "d_x_ptr"), "*bf16")
    sums = "*fp32" if held == torch.float32 else "*bf16"
    signature |= {**pointers, "d_w_ptr": sums, "eps": "fp32"}
    function = load_function(derivation.source, derivation.name, tmp_path)
    kernel = frontend.capture(function, signature, derivation.constexprs)
    d_w = torch.zeros(cols, dtype=held)
    args = {
        "d_y_ptr": d_y, "x_ptr": x, "w_ptr": w, "d_x_ptr": torch.empty_like(x),
        "d_w_ptr": d_w, "d_y_stride_0": cols, "d_y_stride_1": 1, "stride": cols,
        "n_cols": cols, "eps": 1e-3,
    }  # fmt: skip
    evaluate(kernel, {p.name: args[p.name] for p in kernel.params}, (rows,))
    exact = x.double()
    rstd = (exact.square().mean(-1, keepdim=True) + 1e-3).rsqrt()
    wanted = {"w": (d_y.double() * exact * rstd).sum(0)}
    if passes:
        compare({"w": d_w}, wanted, TOLERANCES["f32"])
    else:
        with pytest.raises(AssertionError, match="`w`"):
            compare({"w": d_w}, wanted, TOLERANCES["bf16"])
