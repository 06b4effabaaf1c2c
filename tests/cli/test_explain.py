"""`undertow explain`: the whole text for one kernel, and the lines that others add."""

from __future__ import annotations

import pytest

RMS_NORM = """\
gradient  of     placement        why
d_x       x_ptr  plain store      each element is written once if stride >= n_cols
d_w       w_ptr  atomic_add, f32  shared along program axis 0

reads        d_y, x, w
writes       d_x, d_w (+= atomics)
recomputed   x, w, rstd
saved        nothing
tape         none
launches     1
d_y          read by its own strides d_y_stride_0, d_y_stride_1 where `stride` and 1 are
             strides of y_ptr, else copied into the layout of y_ptr first
at launch    stride >= n_cols, else d_x is added atomically
derived for  x_ptr:*fp32, w_ptr:*fp32, y_ptr:*fp32, stride:i32, n_cols:i32, eps:fp32;
             BLOCK=16
"""


@pytest.mark.parametrize("columns", ["40", "200"])
def test_the_text_is_the_same_at_any_width(
    undertow, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    result = undertow("explain", "kernels_norms.py::rms_norm")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == RMS_NORM


def test_atomics_and_inputs_without_gradient(undertow) -> None:
    words = ("--signature", "index_ptr:*i64")
    text = undertow("explain", "kernels_many.py::gather", *words).stdout
    assert "atomic_add, f32" in text
    assert "zero         index_ptr: i64 has no gradient\n" in text


def test_types_that_were_found_out(undertow) -> None:
    text = undertow("explain", "kernels_many.py::with_defaults").stdout
    assert "n:i64, slope:fp32; " in text
    assert "shift=None" in text


def test_it_is_refused_as_derive_refuses(undertow) -> None:
    result = undertow("explain", "kernels_faulty.py::refused")
    assert result.exit_code == 1
    assert result.stderr == undertow("derive", "kernels_faulty.py::refused").stderr


CLAMPED = """
import triton
import triton.language as tl

@triton.jit
def clamped(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.exp(tl.load(x_ptr + tl.minimum(i, n - 1))))
"""


def test_addresses_without_a_name_are_described(undertow, tmp_path) -> None:
    file = tmp_path / "clamped.py"
    file.write_text(CLAMPED)
    result = undertow("explain", str(file), "-c", "B=16")
    assert "the address depends on `tl.minimum(…)`" in result.stdout
