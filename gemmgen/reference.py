"""The right answer: operands for a situation, the result in float64, and what a float32 kernel may be off by.

Two kinds of data, each with a test that a single wrong or missing product cannot pass:

exact    small integers, whose products and sums float32 represents: equal bit for bit
random   uniform in [-1, 1] against float64, element by element: |c - ref| <= bound

The bound is probabilistic (Higham and Mary, "A New Approach to Probabilistic Rounding Error
Analysis", SIAM J. Sci. Comput. 41, 2019): a sum of K products, each operation rounded by at most u,
is off by at most LAMBDA * sqrt(K) * u * (|A| |B|), with failure probability 2 exp(-LAMBDA^2 / 2) per
element for errors that behave as independent. LAMBDA = 6 makes that 3e-8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gemmgen.executor import Floats, Operands
from gemmgen.problem import Case, Matrix
from gemmgen.situation import EXACT_SCALARS, DataKind, Situation

Doubles = npt.NDArray[np.float64]

LAMBDA = 6.0
EXACT_LIMIT = 2**24  # float32 represents every integer up to here
LARGEST_INTEGER = 8
LARGE_FLOPS = 10**9  # from here on making data and reference takes long enough to share
LARGE_SEEDS = 2


@dataclass(frozen=True)
class Window:
    """A rectangle of C: rows and columns from (inclusive) and to (exclusive)."""

    top: int
    left: int
    bottom: int
    right: int

    @classmethod
    def whole(cls, case: Case) -> Window:
        return cls(0, 0, case.m, case.n)

    @property
    def rows(self) -> slice:
        return slice(self.top, self.bottom)

    @property
    def cols(self) -> slice:
        return slice(self.left, self.right)


@dataclass(frozen=True)
class Mismatch:
    """The first wrong element in row order, and how many there are.

    error, bound   |got - expected| and what it may be at most; exact data allows none
    """

    row: int
    col: int
    got: float
    expected: float
    error: float
    bound: float
    count: int

    def __str__(self) -> str:
        return (
            f"C[{self.row}][{self.col}] is {self.got:.9g}, not {self.expected:.9g}: "
            f"off by {self.error:.3g}, allowed {self.bound:.3g}; {self.count} elements wrong"
        )


def make_operands(situation: Situation) -> Operands:
    """A, B and C for `situation`. What a kernel must not use (padding, C with beta = 0) is NaN."""
    return _operands(_unscaled(situation.case), situation.data, _data_seed(situation), situation.case.beta == 0)


def expected(situation: Situation, window: Window) -> tuple[Doubles, Doubles]:
    """(C, bound) inside `window`: the result in float64 and what each element of a kernel may be off by."""
    if window == Window.whole(situation.case):
        return _expected_whole(replace(situation, seed=_data_seed(situation)))
    return _expected(situation, window)


def compare(situation: Situation, result: Floats, window: Window | None = None) -> tuple[float, Mismatch | None]:
    """(largest error over bound, first wrong element or None) of `result`, C's storage after a run.

    Only `window` counts where it is given. NaN where none is expected is wrong.
    """
    case = situation.case
    window = window or Window.whole(case)
    want, bound = expected(situation, window)
    got = case.c.view(result)[window.rows, window.cols]
    error = np.abs(got - want)
    wrong = ~(error <= bound)  # and not `error > bound`: NaN compares false
    if not wrong.any():
        return float(np.divide(error, bound, out=error, where=bound > 0).max(initial=0.0)), None
    row, col = (int(index) for index in np.argwhere(wrong)[0])
    return np.inf, Mismatch(
        row=window.top + row,
        col=window.left + col,
        got=float(got[row, col]),
        expected=float(want[row, col]),
        error=float(error[row, col]),
        bound=float(bound[row, col]),
        count=int(wrong.sum()),
    )


def _unscaled(case: Case) -> Case:
    """The case that shares its data with every alpha and beta."""
    return replace(case, alpha=1.0, beta=0.0)


def _data_seed(situation: Situation) -> int:
    return situation.seed % LARGE_SEEDS if situation.case.flops > LARGE_FLOPS else situation.seed


# The candidates of one search meet the same data again and again, so it is kept.


@lru_cache(maxsize=4 * LARGE_SEEDS)
def _operands(case: Case, data: DataKind, seed: int, unread_c: bool) -> Operands:
    if unread_c:
        operands = _operands(case, data, seed, False)
        return replace(operands, c=np.full_like(operands.c, np.nan))
    rng = np.random.default_rng(seed)
    return Operands(*(_fill(matrix, case, data, rng) for matrix in case.matrices))


def _fill(matrix: Matrix, case: Case, data: DataKind, rng: np.random.Generator) -> Floats:
    flat = np.full(matrix.elements, np.nan, np.float32)
    if not matrix.elements:
        return flat
    shape = (matrix.rows, matrix.cols)
    if data == "exact":
        limit = _exact_magnitude(case.k)
        matrix.view(flat)[...] = rng.integers(-limit, limit, shape, np.int8, endpoint=True)
    else:
        matrix.view(flat)[...] = 2 * rng.random(shape, np.float32) - 1
    return flat


def _exact_magnitude(k: int) -> int:
    """The largest integer whose products, summed K times and scaled by the exact scalars, stay exact."""
    scale = max(abs(scalar) for scalar in EXACT_SCALARS)
    limit = int((EXACT_LIMIT / (scale * (k + 1))) ** 0.5)
    return max(1, min(LARGEST_INTEGER, limit))


@lru_cache(maxsize=2 * LARGE_SEEDS)
def _expected_whole(situation: Situation) -> tuple[Doubles, Doubles]:
    return _expected(situation, Window.whole(situation.case))


def _expected(situation: Situation, window: Window) -> tuple[Doubles, Doubles]:
    case, operands = situation.case, make_operands(situation)
    a = case.a.view(operands.a)[window.rows].astype(np.float64)
    b = case.b.view(operands.b)[:, window.cols].astype(np.float64)
    values, size = case.alpha * (a @ b), abs(case.alpha) * (np.abs(a) @ np.abs(b))
    if case.beta != 0:  # beta = 0 must not read C, which may hold NaN
        old = case.c.view(operands.c)[window.rows, window.cols].astype(np.float64)
        values, size = values + case.beta * old, size + np.abs(case.beta * old)
    if situation.data == "exact":
        return values, np.zeros_like(values)
    unit = case.problem.dtype.unit_roundoff
    return values, LAMBDA * np.sqrt(case.k + 2) * unit * size  # two more roundings: alpha and beta
