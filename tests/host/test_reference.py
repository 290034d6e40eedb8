"""The reference: what each kind of data is, and what counts as right where NaN and Inf are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from gemmgen.problem import DType, Problem
from gemmgen.reference import SLICE_RESIDUE, Window, accurate_product, compare, expected, make_operands
from gemmgen.situation import ALL_DATA_KINDS, HUGE_SCALARS, NAN, Situation

KINDS = pytest.mark.parametrize("data", ALL_DATA_KINDS)


DTYPES = pytest.mark.parametrize("dtype", DType)


def situation(data, seed=0, m=13, n=11, k=70, dtype=DType.F32, **scalars):
    return Situation(Problem(None, None, None, dtype=dtype).case(m, n, k, **scalars), data, seed)


def computed(what):
    """What a kernel computes that sums in order of k, in the problem's dtype."""
    case, operands = what.case, make_operands(what)
    a, b = case.a.view(operands.a), case.b.view(operands.b)
    real = case.problem.dtype.numpy.type
    total = np.zeros(case.c.view(operands.c).shape, real)
    with np.errstate(all="ignore"):
        for k in range(case.k):
            total += a[..., :, k, None] * b[..., None, k, :]
        total *= real(case.alpha)
        if case.beta != 0:
            total += real(case.beta) * case.c.view(operands.c)
    result = operands.c.copy()
    case.c.view(result)[...] = total
    return result


@KINDS
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-1.0, 2.0), (0.0, 1.0), (2.0, NAN)])
@pytest.mark.parametrize("k", [0, 1, 70])
@DTYPES
def test_arithmetic_in_order_of_k_is_right(data, alpha, beta, k, dtype):
    for seed in range(12):
        what = situation(data, seed, k=k, alpha=alpha, beta=beta, dtype=dtype)
        worst, mismatch = compare(what, computed(what))
        assert mismatch is None, f"{what}: {mismatch}"
        assert worst <= 1


@pytest.mark.parametrize("data", ["random", "denormal", "special"])
@DTYPES
def test_a_huge_alpha_overflows_nothing(data, dtype):
    for seed in range(8):
        what = situation(data, seed, alpha=HUGE_SCALARS[dtype], beta=1.0, dtype=dtype)
        assert compare(what, computed(what))[1] is None


@KINDS
@DTYPES
def test_one_wrong_element_shows(data, dtype):
    what = situation(data, seed=3, beta=1.0, dtype=dtype)
    result = computed(what)
    view = what.case.c.view(result)
    row, col = (int(index) for index in np.argwhere(np.isfinite(view))[0])
    largest = np.abs(view[np.isfinite(view)]).max()
    for wrong in (np.nan, np.inf, -np.inf, view[row, col] + largest / 4):
        kept, view[row, col] = view[row, col], wrong
        mismatch = compare(what, result)[1]
        view[row, col] = kept
        assert mismatch is not None and (mismatch.row, mismatch.col, mismatch.count) == (row, col, 1)


def test_nan_and_inf_must_stand_where_they_are_expected():
    what = situation("special", seed=1, beta=1.0)
    want, bound = expected(what, Window.whole(what.case))
    assert np.isnan(want).any() and np.isinf(want).any() and np.isfinite(want).any()
    assert np.isfinite(bound).all()
    result = computed(what)
    view = what.case.c.view(result)
    for places, wrong in ((np.isnan(want), 0.0), (np.isnan(want), np.inf), (want == np.inf, -np.inf)):
        row, col = np.argwhere(places)[0]
        kept, view[row, col] = view[row, col], wrong
        assert compare(what, result)[1] is not None
        view[row, col] = kept
    assert compare(what, result)[1] is None


def test_beta_zero_hides_what_c_holds():
    what = situation("special", beta=0.0)
    assert np.isnan(make_operands(what).c).all()
    assert not np.isnan(expected(what, Window.whole(what.case))[0]).all()


def test_one_hot_data_names_the_element_that_was_read():
    for seed in (0, 4):
        what = situation("onehot", seed)
        operands = make_operands(what)
        a, b = what.case.a.view(operands.a), what.case.b.view(operands.b)
        selects, codes = (a.T, b) if seed == 0 else (b, a)
        assert set(np.unique(selects)) == {0.0, 1.0} and (selects.sum(axis=0) == 1).all()
        assert len(np.unique(codes)) == codes.size


def test_huge_data_is_large_and_finite():
    want, _ = expected(situation("huge", alpha=2.0, beta=2.0), Window.whole(situation("huge").case))
    assert np.isfinite(want).all() and 2.0**118 < np.abs(want).max() < 2.0**127


def test_denormal_data_has_results_that_are_denormal():
    want, bound = expected(situation("denormal"), Window.whole(situation("denormal").case))
    assert (np.abs(want) < 2.0**-120).all() and (np.abs(want) > bound).any()


@pytest.mark.parametrize("k", [1, 2, 100, 5000])
@pytest.mark.parametrize("spread", [0, 30])
def test_the_reference_of_f64_errs_by_less_than_it_says(k, spread):
    """Against rational numbers, with elements of very different size in one sum."""
    rng = np.random.default_rng(k)
    a, b = ((2 * rng.random(shape) - 1) * 2.0 ** rng.integers(-spread, spread + 1, shape) for shape in ((3, k), (k, 2)))
    found = accurate_product(a, b)
    for m, n in np.ndindex(3, 2):
        products = [Fraction(x) * Fraction(y) for x, y in zip(a[m].tolist(), b[:, n].tolist(), strict=True)]
        allowed = 2.0**-53 * sum(abs(x) for x in products)
        allowed += k * SLICE_RESIDUE * Fraction(np.abs(a[m]).max()) * Fraction(np.abs(b[:, n]).max())
        assert abs(Fraction(found[m, n]) - sum(products)) <= allowed


def test_sums_in_float_are_wrong_for_f64():
    what = situation("random", dtype=DType.F64)
    operands = make_operands(what)
    a, b = what.case.a.view(operands.a), what.case.b.view(operands.b)
    result = operands.c.copy()
    what.case.c.view(result)[...] = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float64)
    mismatch = compare(what, result)[1]
    assert mismatch is not None and mismatch.count == 13 * 11


@KINDS
@DTYPES
def test_a_batch_is_checked_product_by_product(data, dtype):
    problem = Problem(6, 5, None, dtype=dtype, batch=4, stride_a=0, stride_c=None)
    what = Situation(problem.case(k=9, stride_c=40, beta=2.0), data, seed=5)
    result = computed(what)
    assert compare(what, result)[1] is None
    view = what.case.c.view(result)
    view[2, 3, 1] = np.inf if np.isnan(view[2, 3, 1]) else np.nan
    mismatch = compare(what, result)[1]
    assert mismatch is not None and (mismatch.matrix, mismatch.row, mismatch.col) == (2, 3, 1)
    assert "C of matrix 2: C[3][1]" in str(mismatch)
    inner = Window(1, 0, 4, 5, 1, 3)
    assert (expected(what, inner)[0].shape, compare(what, result, inner)[1].matrix) == ((2, 3, 5), 2)
