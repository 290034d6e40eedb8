"""NaN and Inf go through rendered kernels as the reference page says: every schedule, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmgen.families import NAIVE, SIMT
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.render.kernel_text import render
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Operands
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import NAN, Situation
from gemmgen.verification.verifier import check

INF = np.inf
FREE = Problem(None, None, None)
CROSSED = replace(FREE, layout=Layout.parse("cc"))
TILES = SIMT.default(FREE).with_values(BM=32, BN=64, TM=4, TN=4, WM=16, WN=32)
KERNELS = {
    "naive": (FREE, NAIVE, NAIVE.default(FREE)),
    "single": (FREE, SIMT, TILES.with_values(STAGES=1)),
    "double cc": (CROSSED, SIMT, TILES.with_values(STAGES=2)),
    "cp.async": (FREE, SIMT, TILES.with_values(STAGES=3, ASYNC=1)),
    "inner": (FREE, SIMT, TILES.with_values(STAGES=1, OUTER=0, WM=0, WN=0)),
}
SIZES = st.sampled_from((1, 7, 33, 65))


@pytest.fixture(scope="module")
def kernels() -> Iterator[dict]:
    with EmulatorExecutor() as executor:
        yield {name: executor.load(render(*kernel)) for name, kernel in KERNELS.items()}


def product(kernel, case, operands, seed=0):
    """C as a matrix after a run."""
    return case.c.view(kernel.run(case, operands, seed=seed))


def filled(case, a=1.0, b=1.0, c=1.0):
    """Operands of one value each; their padding is NaN."""
    storage = [np.full(matrix.elements, np.nan, np.float32) for matrix in case.matrices]
    for matrix, flat, value in zip(case.matrices, storage, (a, b, c), strict=True):
        matrix.view(flat)[...] = value
    return Operands(*storage)


@pytest.mark.parametrize("name", KERNELS)
def test_special_data_comes_out_as_in_the_reference(kernels, name):
    kernel = kernels[name]

    @settings(max_examples=40)
    @given(
        st.tuples(SIZES, SIZES, st.sampled_from((0, 1, 8, 35))),
        st.sampled_from((1.0, 0.0, -1.0, 2.0)),
        st.sampled_from((0.0, 1.0, -1.75, NAN)),
        st.integers(0, 999),
    )
    def holds(sizes, alpha, beta, seed):
        m, n, k = sizes
        case = kernel.source.problem.case(m, n, k, alpha=alpha, beta=beta)
        assert check(kernel, Situation(case, "special", seed)) <= 1

    holds()


@pytest.mark.parametrize("name", KERNELS)
def test_one_special_value_reaches_its_row_or_column_and_nothing_else(kernels, name):
    kernel = kernels[name]

    @settings(max_examples=30)
    @given(SIZES, SIZES, SIZES, st.sampled_from(("A", "B", "C")), st.sampled_from((INF, -INF, NAN)), st.data())
    def holds(m, n, k, matrix, value, data):
        case = kernel.source.problem.case(m, n, k, alpha=2.0, beta=1.0)
        operands = filled(case)
        stored = {"A": (case.a, operands.a), "B": (case.b, operands.b), "C": (case.c, operands.c)}[matrix]
        view = stored[0].view(stored[1])
        row = data.draw(st.integers(0, view.shape[0] - 1))
        col = data.draw(st.integers(0, view.shape[1] - 1))
        view[row, col] = value
        want = np.full((m, n), 2.0 * k + 1, np.float32)
        reached = {"A": (row, slice(None)), "B": (slice(None), col), "C": (row, col)}[matrix]
        want[reached] = value
        np.testing.assert_array_equal(product(kernel, case, operands), want)

    holds()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    ("scalars", "a", "b", "c", "want"),
    [
        ((1.0, 0.0), 1.0, 1.0, NAN, 9.0),  # beta = 0 leaves C unread
        ((1.0, 0.0), 1.0, 1.0, INF, 9.0),
        ((1.0, -0.0), 1.0, 1.0, NAN, 9.0),
        ((0.0, 1.0), INF, 1.0, 5.0, NAN),  # alpha = 0 still multiplies
        ((0.0, 1.0), 1.0, NAN, 5.0, NAN),
        ((0.0, 1.0), 1.0, 1.0, 5.0, 5.0),
        ((1.0, 1.0), INF, 0.0, 0.0, NAN),  # 0 * Inf
        ((1.0, 1.0), 1.0, INF, -INF, NAN),  # Inf - Inf
        ((-1.0, 1.0), INF, 2.0, 1.0, -INF),
        ((NAN, 0.0), 1.0, 1.0, 1.0, NAN),
        ((1.0, NAN), 1.0, 1.0, 1.0, NAN),
        ((1.0, INF), 1.0, 1.0, 0.0, NAN),
        ((1.0, 1.0), 2.0**100, 2.0**100, 0.0, INF),  # overflow
    ],
)
def test_the_rules_one_by_one(kernels, name, scalars, a, b, c, want):
    kernel = kernels[name]
    alpha, beta = scalars
    case = kernel.source.problem.case(33, 7, 9, alpha=alpha, beta=beta)
    got = product(kernel, case, filled(case, a, b, c))
    np.testing.assert_array_equal(got, np.full((33, 7), want, np.float32))


@pytest.mark.parametrize("name", KERNELS)
def test_an_empty_sum_is_zero(kernels, name):
    """K = 0: beta * C, whatever alpha."""
    kernel = kernels[name]
    for alpha, beta, c, want in (
        (1.0, 2.0, 3.0, 6.0),
        (1.0, 0.0, NAN, 0.0),
        (INF, 0.0, 1.0, 0.0),
        (NAN, 2.0, 3.0, 6.0),
        (1.0, NAN, 1.0, NAN),
    ):
        case = kernel.source.problem.case(5, 6, 0, alpha=alpha, beta=beta)
        np.testing.assert_array_equal(product(kernel, case, filled(case, c=c)), np.full((5, 6), want, np.float32))


@pytest.mark.parametrize("name", KERNELS)
def test_finite_data_beside_special_values_is_still_right(kernels, name):
    """The bound holds for the elements that are finite: NaN elsewhere hides nothing."""
    kernel = kernels[name]
    case = kernel.source.problem.case(65, 33, 40, alpha=1.0, beta=1.0)
    for seed in range(4):
        what = Situation(case, "special", seed)
        got = product(kernel, case, make_operands(what), seed)
        assert np.isfinite(got).any() and np.isnan(got).any()
        assert 0 < check(kernel, what) <= 1
