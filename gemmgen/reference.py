"""The right answer: operands for a situation, the result, and what a kernel may be off by.

Kinds of data, each with a test that a single wrong or missing product cannot pass:

exact    small integers, whose products and sums the dtype represents: equal bit for bit
onehot   one operand has a single 1 a row (A) or column (B), the other a number of its own for each element: C
         shows which element was read. Equal bit for bit
random   uniform in [-1, 1], element by element: |c - ref| <= bound
denormal A and C are denormal, B is random: a kernel that flushes to zero is off by more than the bound
huge     random, scaled so that alpha * A * B and beta * C come near 2^125 (f64: 2^1021), and no partial sum
         passes 2^127 (2^1023)
special  random, with +Inf, -Inf, NaN and zeros in some places of A, B and C

The bound is probabilistic (Higham and Mary, "A New Approach to Probabilistic Rounding Error
Analysis", SIAM J. Sci. Comput. 41, 2019): a sum of K products, each operation rounded by at most u,
is off by at most LAMBDA * sqrt(K) * u * (|A| |B|), with failure probability 2 exp(-LAMBDA^2 / 2) per
element for errors that behave as independent. LAMBDA = 6 makes that 3e-8. Where results are denormal, an
operation is off by up to half the smallest denormal besides (2^-150; f64: 2^-1075), whatever its operands; all of
them add up to ((2 K + 1) |alpha| + 2) times that at most (products and sums rounded apart; alpha and beta), which is
no probability and counts only there: an element that is as large as 2^-100 (2^-1000) never notices.

The reference of f32 is summed in float64, whose error is 2^29 times smaller. That of f64 is `accurate_product`: exact
products of slices, whose sum is off by no more than REFERENCE_ROUNDINGS * u * (|A| |B|), and by SLICE_RESIDUE of the
largest products besides. The bound counts both.

NaN and Inf follow IEEE 754, evaluated as alpha * (sum over k of A[m][k] * B[k][n]) + beta * C[m][n], with these
conventions: beta = 0 leaves C unread, so that its NaN and Inf do not show; alpha = 0 still multiplies, so that
those of A and B do; K = 0 makes the sum 0. No kind of data has a finite result or partial sum that the dtype cannot
hold (K below 2^26), so that any order of summation, and float64 for float32, agree on which elements are finite. An
element that is NaN in the reference must be NaN (of any payload), Inf must be the same Inf; the rest is bounded
as above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gemmgen.executor import Floats, Operands
from gemmgen.problem import Case, DType, Matrix
from gemmgen.situation import EXACT_KINDS, EXACT_SCALARS, DataKind, Situation

Doubles = npt.NDArray[np.float64]

LAMBDA = 6.0
LARGEST_INTEGER = 8
SLICED_BITS = 56  # of the elements of A and B, below the largest of a row of A or column of B, that slices hold
SLICE_RESIDUE = 2.0 ** (2 - SLICED_BITS)  # what slices leave out of a sum, over K times its largest product
REFERENCE_ROUNDINGS = 4  # of the slices' sum, alpha, beta and their sum: each at most u * (|A| |B|)
SPECIALS = (np.inf, -np.inf, np.nan, 0.0)
LARGE_FLOPS = 10**9  # from here on making data and reference takes long enough to share
LARGE_SEEDS = 2


@dataclass(frozen=True)
class Window:
    """A rectangle of C: rows and columns from (inclusive) and to (exclusive). In a batch of matrices first to last."""

    top: int
    left: int
    bottom: int
    right: int
    first: int = 0
    last: int | None = None

    @classmethod
    def whole(cls, case: Case) -> Window:
        return cls(0, 0, case.m, case.n, 0, case.c.batch)

    @property
    def matrices(self) -> tuple[slice, ...]:
        """The index of its matrices, which a GEMM without a batch has none of."""
        return () if self.last is None else (slice(self.first, self.last),)

    @property
    def index(self) -> tuple[slice, ...]:
        """Of C's view; `a_index` and `b_index` are those of what makes it."""
        return (*self.matrices, self.rows, self.cols)

    @property
    def a_index(self) -> tuple[slice, ...]:
        return (*self.matrices, self.rows, slice(None))

    @property
    def b_index(self) -> tuple[slice, ...]:
        return (*self.matrices, slice(None), self.cols)

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
    matrix         of the batch; None where there is none
    """

    row: int
    col: int
    got: float
    expected: float
    error: float
    bound: float
    count: int
    matrix: int | None = None

    def __str__(self) -> str:
        c = "C" if self.matrix is None else f"C of matrix {self.matrix}: C"
        return (
            f"{c}[{self.row}][{self.col}] is {self.got:.9g}, not {self.expected:.9g}: "
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

    Only `window` counts where it is given. NaN or Inf is right just where it is expected.
    """
    case = situation.case
    window = window or Window.whole(case)
    want, bound = expected(situation, window)
    got = case.c.view(result)[window.index]
    error = _error(got, want)
    wrong = ~(error <= bound)  # and not `error > bound`: NaN compares false
    if not wrong.any():
        return float(np.divide(error, bound, out=error, where=bound > 0).max(initial=0.0)), None
    place = tuple(int(index) for index in np.argwhere(wrong)[0])
    return np.inf, Mismatch(
        row=window.top + place[-2],
        col=window.left + place[-1],
        got=float(got[place]),
        expected=float(want[place]),
        error=float(error[place]),
        bound=float(bound[place]),
        count=int(wrong.sum()),
        matrix=None if window.last is None else window.first + place[0],
    )


def _error(got: Floats, want: Doubles) -> Doubles:
    """|got - want|; 0 where both are NaN or the same Inf, and NaN or Inf where only one of them is."""
    with np.errstate(invalid="ignore"):
        error: Doubles = np.abs(got - want)
    if not np.isfinite(want).all():
        error[np.isnan(got) & np.isnan(want) | (got == want)] = 0.0
    return error


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
    one_hot = "AB"[seed // 4 % 2]  # of one-hot data, the operand that selects
    return Operands(*(_fill(name, m, case, data, rng, one_hot) for name, m in zip("ABC", case.matrices, strict=True)))


def _fill(name: str, matrix: Matrix, case: Case, data: DataKind, rng: np.random.Generator, one_hot: str) -> Floats:
    dtype = case.problem.dtype
    flat: Floats = np.full(matrix.elements, np.nan, dtype.numpy)
    if not matrix.elements:
        return flat
    view = matrix.stored.view(flat)
    if data == "exact":
        limit = _exact_magnitude(case.k, dtype.precision)
        view[...] = rng.integers(-limit, limit, view.shape, np.int8, endpoint=True)
    elif data == "onehot":
        view[...] = _selection(name, view.shape, rng) if name == one_hot else _codes(view.shape, dtype)
    else:
        view[...] = 2 * rng.random(view.shape, np.float32 if dtype == DType.F32 else np.float64) - 1
        _reshape_data(name, view, data, case, rng)
    return flat


def _reshape_data(name: str, values: Floats, data: DataKind, case: Case, rng: np.random.Generator) -> None:
    """Make of random values, in place, what `data` is."""
    top = case.problem.dtype.max_exponent
    if data == "denormal" and name != "B":
        values *= values.dtype.type(2.0**-top)
    elif data == "huge":  # products stay a factor of 16 below the largest number
        factor = 2.0 ** ((top - 3) // 2)
        values *= values.dtype.type(factor**2 if name == "C" else factor / (case.k + 1) ** 0.5)
    elif data == "special":
        count = 1 + values.size // 64
        places = rng.integers(0, values.shape, (count, values.ndim))
        values[tuple(places.T)] = rng.choice(np.array(SPECIALS, values.dtype), count)


def _selection(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.int8]:
    """Zeros with a 1 in each row of A, or column of B: each k is somebody's, as far as there are rows enough."""
    if len(shape) > 2:
        return np.stack([_selection(name, shape[1:], rng) for _ in range(shape[0])])
    rows, cols = shape
    selected = np.zeros(shape, np.int8)
    if name == "A":
        selected[np.arange(rows), rng.permutation(cols)[np.arange(rows) % cols]] = 1
    else:
        selected[rng.permutation(rows)[np.arange(cols) % rows], np.arange(cols)] = 1
    return selected


def _codes(shape: tuple[int, ...], dtype: DType) -> npt.NDArray[np.int64]:
    """1, 2, 3, ... in row order, each odd one plus a high bit that f64 alone holds with it.

    They repeat before two of them, each times two, are no exact sum.
    """
    codes = 1 + np.arange(math.prod(shape)).reshape(shape) % 2**22
    return codes + codes % 2 * 2 ** (dtype.precision - 3) if dtype == DType.F64 else codes


def _exact_magnitude(k: int, precision: int) -> int:
    """The largest integer whose products, summed K times and scaled by the exact scalars, stay exact."""
    scale = max(abs(scalar) for scalar in EXACT_SCALARS)
    limit = int((2**precision / (scale * (k + 1))) ** 0.5)
    return max(1, min(LARGEST_INTEGER, limit))


@lru_cache(maxsize=2 * LARGE_SEEDS)
def _expected_whole(situation: Situation) -> tuple[Doubles, Doubles]:
    return _expected(situation, Window.whole(situation.case))


def _expected(situation: Situation, window: Window) -> tuple[Doubles, Doubles]:
    case, operands, dtype = situation.case, make_operands(situation), situation.case.problem.dtype
    a = case.a.view(operands.a)[window.a_index].astype(np.float64)
    b = case.b.view(operands.b)[window.b_index].astype(np.float64)
    with np.errstate(invalid="ignore"):
        values = case.alpha * _product(a, b, situation)
        size = abs(case.alpha) * _float_product(np.abs(a), np.abs(b), situation.data)
        if case.beta != 0:  # beta = 0 must not read C, which may hold NaN
            old = case.c.view(operands.c)[window.index].astype(np.float64)
            values, size = values + case.beta * old, size + np.abs(case.beta * old)
    if situation.data in EXACT_KINDS:
        return values, np.zeros_like(values)
    roundings = LAMBDA * np.sqrt(case.k + 2)  # two more: alpha and beta
    underflows = (2 * case.k + 1) * abs(case.alpha) + 2
    residue: Doubles | float = 0.0
    if dtype == DType.F64:  # the reference's own
        roundings += REFERENCE_ROUNDINGS
        underflows += abs(case.alpha) + 2
        residue = abs(case.alpha) * case.k * SLICE_RESIDUE * _largest_products(a, b)
    bound = roundings * (dtype.unit_roundoff * size) + residue + np.ceil(underflows / 2) * dtype.smallest
    return values, np.where(np.isfinite(values), bound, 0.0)


def _product(a: Doubles, b: Doubles, situation: Situation) -> Doubles:
    """A * B, far more accurate than a kernel's."""
    total = _float_product(a, b, situation.data)
    if situation.case.problem.dtype == DType.F32 or situation.data in EXACT_KINDS:
        return total
    if situation.data != "special":
        return accurate_product(a, b)
    finite = accurate_product(*(np.where(np.isfinite(x), x, 0.0) for x in (a, b)))
    return np.where(np.isfinite(total), finite, total)  # where the sum is finite, so was every product


def accurate_product(a: Doubles, b: Doubles) -> Doubles:
    """A * B of finite float64, each element rounded a few times rather than K times.

    A row of A becomes a sum of slices of few bits each, whole multiples of one power of two; so does a column of B.
    Then K products of two slices, and all their partial sums, are whole multiples of a power of two with at most 53
    bits: BLAS multiplies slices without an error, in whatever order it sums (Ozaki, Ogita, Oishi and Rump, Numerical
    Algorithms 59, 2012). Products of slices so low that they fall below SLICED_BITS are left out.
    """
    if a.shape[-1] == 0:
        return a @ b
    bits = (53 - a.shape[-1].bit_length()) // 2
    count = -(-SLICED_BITS // bits)
    a_scale, b_scale = _exponents(a, axis=-1), _exponents(b, axis=-2)
    a_slices, b_slices = (_slices(np.ldexp(x, -e), bits, count) for x, e in ((a, a_scale), (b, b_scale)))
    total = np.zeros((*a.shape[:-1], b.shape[-1]))
    for level in reversed(range(count)):  # the smallest first
        for i in range(level + 1):
            total += a_slices[i] @ b_slices[level - i]
    return np.asarray(np.ldexp(total, a_scale + b_scale))


def _exponents(x: Doubles, axis: int) -> npt.NDArray[np.intc]:
    """The exponent of a power of two above all of a row's or column's magnitudes; 0 where they are all 0."""
    return np.asarray(np.frexp(np.abs(x).max(axis=axis, keepdims=True))[1])


def _slices(x: Doubles, bits: int, count: int) -> list[Doubles]:
    """`count` matrices that add up to x, whose elements are below 1: the i-th in multiples of 2^(-bits * (i + 1))."""
    slices = []
    for index in range(count):
        step = 2.0 ** -(bits * (index + 1))
        part = np.rint(x / step) * step
        slices.append(part)
        x = x - part  # exact
    return slices


def _largest_products(a: Doubles, b: Doubles) -> Doubles:
    """For each element of C the largest finite |A| of its row times the largest finite |B| of its column."""
    if a.shape[-1] == 0:
        return np.zeros((1, 1))
    a_most, b_most = (
        np.where(np.isfinite(x), np.abs(x), 0.0).max(axis=axis, keepdims=True) for x, axis in ((a, -1), (b, -2))
    )
    return np.asarray(a_most * b_most)


def _float_product(a: Doubles, b: Doubles, data: DataKind) -> Doubles:
    """A * B in float64. With NaN and Inf among them it is summed here: BLAS promises nothing about them."""
    if data != "special":
        return a @ b
    total = np.zeros((*a.shape[:-1], b.shape[-1]))
    for k in range(a.shape[-1]):
        total += a[..., :, k, None] * b[..., None, k, :]
    return total
