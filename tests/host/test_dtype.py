"""Element types: every bit pattern, and what storing a number does to it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmgen.problem.dtype import DType
from gemmgen.support.errors import InvalidInput

NARROW = [dtype for dtype in DType if dtype.storage_bits <= 16]
FLOATS = [dtype for dtype in DType if not dtype.is_integer]
ANY_DOUBLE = st.floats(allow_nan=False)


def patterns(dtype: DType) -> np.ndarray:
    return np.arange(2**dtype.storage_bits, dtype=np.uint32).astype(dtype.bits)


@pytest.mark.parametrize("dtype", [dtype for dtype in NARROW if dtype.storage_bits > 4], ids=lambda d: d.label)
def test_every_bit_pattern_comes_back(dtype: DType) -> None:
    elements = patterns(dtype).view(dtype.numpy)
    values = dtype.decode(elements)
    numbers = ~np.isnan(values)
    kept = dtype.encode(values[numbers])
    if dtype.saturates and dtype.has_infinity:
        finite = np.isfinite(values[numbers])
        assert np.all(np.abs(dtype.decode(kept[~finite])) == dtype.largest)
        assert np.array_equal(kept[finite].view(dtype.bits), elements[numbers][finite].view(dtype.bits))
    else:
        assert np.array_equal(kept.view(dtype.bits), elements[numbers].view(dtype.bits))
    assert (~numbers).any() == dtype.has_nan


@pytest.mark.parametrize(
    ("dtype", "count", "largest", "smallest"),
    [
        (DType.F16, 63488, 65504.0, 2.0**-24),
        (DType.BF16, 65280, float(np.uint32(0x7F7F0000).view(np.float32)), 2.0**-133),
        (DType.E4M3, 254, 448.0, 2.0**-9),
        (DType.E5M2, 248, 57344.0, 2.0**-16),
        (DType.S8, 256, 127.0, 1.0),
        (DType.U8, 256, 255.0, 1.0),
        (DType.S4, 16, 7.0, 1.0),
        (DType.U4, 16, 15.0, 1.0),
    ],
    ids=lambda value: value.label if isinstance(value, DType) else "",
)
def test_range_of_numbers(dtype: DType, count: int, largest: float, smallest: float) -> None:
    values = dtype.decode(dtype.finite())
    assert len(values) == count
    assert values.max() == largest == dtype.largest
    assert values.min() == dtype.least
    assert values[values > 0].min() == smallest == dtype.smallest
    every = set(values.tolist())
    assert all(float(integer) in every for integer in range(dtype.exact_integers + 1))
    assert dtype.is_integer or float(dtype.exact_integers + 1) not in every


@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: d.label)
@given(value=ANY_DOUBLE)
def test_a_stored_number_is_the_nearest(dtype: DType, value: float) -> None:
    values = np.unique(dtype.decode(dtype.finite()))
    [got] = dtype.nearest(np.array([value]))
    if math.isinf(got):
        assert not dtype.saturates
        step = Fraction(float(values[-1])) - Fraction(float(values[-2]))
        assert math.isinf(value) or abs(Fraction(value)) >= Fraction(dtype.largest) + step / 2
        return
    assert got in values
    if math.isinf(value):
        assert abs(got) == dtype.largest or got == dtype.least
        return
    at = int(np.searchsorted(values, value))
    around = [Fraction(float(x)) for x in values[max(0, at - 1) : at + 2]]
    assert abs(Fraction(float(got)) - Fraction(value)) == min(abs(x - Fraction(value)) for x in around)


@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: d.label)
def test_ties_go_to_the_even_pattern(dtype: DType) -> None:
    values = np.unique(dtype.decode(dtype.finite()))
    middles = (values[:-1] + values[1:]) / 2  # exact in float64
    chosen = dtype.encode(middles)
    if dtype.is_integer:
        assert np.all(dtype.decode(chosen) % 2 == 0)
    else:
        assert np.all(chosen.view(dtype.bits) % 2 == 0)


@given(value=ANY_DOUBLE)
def test_f16_and_f32_round_as_numpy_does(value: float) -> None:
    with np.errstate(over="ignore"):
        for dtype, kind in ((DType.F16, np.float16), (DType.F32, np.float32)):
            assert dtype.nearest(np.array([value]))[0] == float(kind(value))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
def test_nan_stays_nan(dtype: DType) -> None:
    assert np.isnan(dtype.decode(dtype.encode([math.nan]))).all()


def test_integers_have_no_nan_and_wrap() -> None:
    with pytest.raises(AssertionError, match="s8 has no NaN"):
        DType.S8.encode([math.nan])
    wide = np.array([128, -129, 2**31, -(2**31) - 1, 300])
    assert DType.S8.wrap(wide).tolist() == [-128, 127, 0, -1, 44]
    assert DType.U8.wrap(wide).tolist() == [128, 127, 0, 255, 44]
    assert DType.S32.wrap(wide).tolist() == [128, -129, -(2**31), 2**31 - 1, 300]


def test_bytes_round_up() -> None:
    assert [DType.S4.bytes(count) for count in (0, 1, 2, 3)] == [0, 1, 1, 2]
    assert DType.BF16.bytes(3) == 6
    assert DType.F64.widest == 2
    assert DType.E4M3.widest == 16
    assert [one.size for one in (DType.U4, DType.S4, DType.U8, DType.BF16)] == [1, 1, 1, 2]


def test_tf32_is_no_element_type() -> None:
    with pytest.raises(InvalidInput, match="a way of multiplying f32"):
        DType.parse("tf32")
