import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from undertow.frontend.literal import from_bits, literal
from undertow.ir import BF16, DTYPES, F16, F32, F64, I1, I8, I32, I64, DType


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("5", I32, 5),
        ("-5", I8, -5),
        ("dense<-7>", I64, -7),
        ("true", I1, True),
        ("dense<false>", I1, False),
        ("1.500000e+00", F32, 1.5),
        ("dense<-2.500000e-01>", BF16, -0.25),
        ("dense<0xFF800000>", F32, -math.inf),
        ("0x7FF0000000000000", F64, math.inf),
        ("dense<0xFC00>", F16, -math.inf),
        ("dense<0x7F80>", BF16, math.inf),
        ("0x3F80", BF16, 1.0),
        ("0x3C00", F16, 1.0),
        ("0x7C", DTYPES["f8e5m2"], math.inf),
        ("0x3C", DTYPES["f8e5m2"], 1.0),
        ("0xB8", DTYPES["f8e4m3"], -1.0),
        ("0x7E", DTYPES["f8e4m3"], 448.0),
        ("0x01", DTYPES["f8e4m3"], 2.0**-9),
        ("0x01", DTYPES["f8e5m2"], 2.0**-16),
        ("-0.000000e+00", F32, -0.0),
    ],
)
def test_a_literal_has_its_value(text: str, dtype: DType, value: float) -> None:
    read = literal(text, dtype)
    assert read == value
    assert type(read) is (float if dtype.is_float else bool if dtype == I1 else int)
    assert math.copysign(1, read) == math.copysign(1, value)


@pytest.mark.parametrize("bits", ["0x7FC00000", "0xFFC00000"])
def test_nan_is_read_from_bits(bits: str) -> None:
    read = literal(bits, F32)
    assert isinstance(read, float)
    assert math.isnan(read)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("dense<[0, 1]>", I32),
        ('dense<"0x0001">', I32),
        ("true", I32),
        ("dense<>", F32),
        ("abc", F32),
    ],
)
def test_what_is_no_literal_is_none(text: str, dtype: DType) -> None:
    assert literal(text, dtype) is None


@given(st.floats(width=16))
def test_half_precision_agrees_with_struct(value: float) -> None:
    (bits,) = struct.unpack("<H", struct.pack("<e", value))
    read = from_bits(bits, F16)
    assert read == value or (math.isnan(read) and math.isnan(value))
