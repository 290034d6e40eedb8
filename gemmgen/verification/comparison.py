"""Comparison of a kernel's result with the reference: which elements are wrong, and the errors of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.problem.operands import is_amax
from gemmgen.problem.types import Types
from gemmgen.run.executor import Floats
from gemmgen.support.threads import in_threads
from gemmgen.verification.companions import by_rows
from gemmgen.verification.data import make_operands
from gemmgen.verification.device_products import Multiply, on_host
from gemmgen.verification.error_bias import leaning, leans
from gemmgen.verification.reference import Wanted, expected_amax, parts_of, stored_as, wanted_of
from gemmgen.verification.roundings import doubtful
from gemmgen.verification.situation import Situation
from gemmgen.verification.window import Window

Doubles = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Elements = npt.NDArray[Any]
Places = tuple[npt.NDArray[np.intp], ...]  # an index for each dimension

SAMPLED_RATIOS = 1024  # elements of a large comparison whose errors are kept
OTHERS_SHARE = 1 / 8  # of elements that are not what was expected to the bit: from there on picking them out is slower


@dataclass(frozen=True)
class Mismatch:
    """The first wrong element in row order, and the number of wrong elements.

    error, bound   |got - expected| and its bound; exact data allows no error
    matrix         the matrix in the batch; None without a batch
    output         C, or another output of the epilogue
    """

    row: int
    col: int
    got: float
    expected: float
    error: float
    bound: float
    count: int
    matrix: int | None = None
    output: str = "C"

    @property
    def place(self) -> str:
        """ "row_amax of matrix 2: row_amax[5][0]"."""
        of_matrix = "" if self.matrix is None else f"{self.output} of matrix {self.matrix}: "
        return f"{of_matrix}{self.output}[{self.row}][{self.col}]"

    def __str__(self) -> str:
        got, expected = f"{self.got:.9g}", f"{self.expected:.9g}"
        if got == expected:  # doubles, alike in nine digits
            got, expected = f"{self.got:.17g}", f"{self.expected:.17g}"
        return (
            f"{self.place} is {got}, not {expected}: "
            f"off by {self.error:.3g}, allowed {self.bound:.3g}; {self.count} elements wrong"
        )


@dataclass(frozen=True)
class Compared:
    """The comparison of a result with the reference.

    worst          largest error over its bound; infinite if an element is wrong
    mismatch       the first wrong element; None if there is none
    elements       number of elements compared
    ratios         error over bound of each element (0 for exact data), or of SAMPLED_RATIOS of them
    largest_bound  the largest error that an element was allowed
    leaning        the bias of the errors, if the elements are right one by one but biased together; else None
    """

    worst: float
    mismatch: Mismatch | None
    elements: int
    ratios: Doubles
    largest_bound: float
    leaning: str | None = None

    @property
    def trouble(self) -> str | None:
        """The error in words; None if nothing is wrong."""
        return self.leaning if self.mismatch is None else str(self.mismatch)


def compare(
    situation: Situation,
    result: Floats,
    window: Window | None = None,
    output: str = "C",
    multiply: Multiply = on_host,
) -> Compared:
    """Compare `result`, the storage of C or of another `output` after a run, with the reference.

    Only `window` counts if it is given. NaN or Inf is right only where it is expected. `multiply`: see `expected`.
    """
    window = window or Window.whole(situation.case)
    if is_amax(output):
        return compare_amax(situation, result, (window,), output, multiply)
    wanted = wanted_of(situation, window, output, multiply)
    compared = compare_with(wanted, situation, result, window, output)
    if compared.mismatch is not None or not leans(situation, output):
        return compared
    return replace(compared, leaning=leaning(situation, result, window, wanted))


def compare_amax(
    situation: Situation, result: Floats, windows: Sequence[Window], output: str, multiply: Multiply = on_host
) -> Compared:
    """Compare all of an output that takes the largest magnitudes; only `windows` of C were computed."""
    matrix = situation.case.tensors[output]
    whole = Window(0, 0, matrix.rows, matrix.cols, 0, matrix.batch)
    wanted = Wanted.of(*expected_amax(situation, windows, output, multiply))
    return compare_with(wanted, situation, result, whole, output)


def compare_with(wanted: Wanted, situation: Situation, result: Floats, window: Window, output: str = "C") -> Compared:
    """Compare the elements of `output` inside `window` with those that are `wanted`."""
    matrix, types = situation.case.tensors[output], situation.case.problem.types
    got = matrix.view(result)
    if output == "C":
        got = by_rows(situation.case, make_operands(situation), got)
    got = got[window.index]
    elements = _Elements(types, matrix.dtype, got, wanted)
    parts = in_threads(lambda part: elements.beside(part.within(window), part), parts_of(window))
    wrong = [part for part in parts if isinstance(part, Mismatch)]
    ratios = elements.sampled_ratios(situation.seed)
    if wrong:
        mismatch = replace(wrong[0], count=sum(one.count for one in wrong), output=output)
        return Compared(np.inf, mismatch, got.size, ratios, wanted.largest_bound)
    worst = max((part for part in parts if isinstance(part, float)), default=0.0)
    return Compared(worst, None, got.size, ratios, wanted.largest_bound)


@dataclass(frozen=True)
class _Elements:
    """A kernel's stored elements, in `dtype`, and the reference. Large ones are compared without arrays as large."""

    types: Types
    dtype: DType
    got: Elements
    wanted: Wanted

    def beside(self, at: tuple[slice, ...], window: Window) -> Mismatch | float:
        """Compare the elements `at`, those of `window`: return the first wrong one, or the largest error over its
        bound."""
        part = _Elements(self.types, self.dtype, self.got[at], self.wanted.part(at))
        if part.wanted.stored is None:
            return part._judged(None, window)
        others = np.flatnonzero(part.got.view(self.dtype.bits) != part.wanted.stored.view(self.dtype.bits))
        if len(others) > part.got.size * OTHERS_SHARE:
            return part._judged(None, window)
        return part._judged(np.unravel_index(others, part.got.shape), window) if len(others) else 0.0

    def sampled_ratios(self, seed: int) -> Doubles:
        """The error over bound of every element, or of SAMPLED_RATIOS."""
        if self.got.size <= SAMPLED_RATIOS:
            return ratios(self.types, self.dtype, self.dtype.decode(self.got), self.wanted.values, self.wanted.bound)
        chosen = np.random.default_rng(seed).integers(self.got.size, size=SAMPLED_RATIOS)
        at = np.unravel_index(chosen, self.got.shape)
        return ratios(
            self.types, self.dtype, self.dtype.decode(self.got[at]), self.wanted.values[at], self.wanted.bound[at]
        )

    def _judged(self, places: Places | None, window: Window) -> Mismatch | float:
        """Compare only the elements at `places`, or all: return the first wrong one, or the largest error over its
        bound."""
        at = ... if places is None else places
        got, values, bound = self.dtype.decode(self.got[at]), self.wanted.values[at], self.wanted.bound[at]
        wrong = ~right(self.types, self.dtype, got, values, bound)
        if not wrong.any():
            return float(ratios(self.types, self.dtype, got, values, bound).max(initial=0.0))
        want = stored_as(self.types, self.dtype, values)
        first = tuple(int(index) for index in np.argwhere(wrong)[0])
        place = first if places is None else tuple(int(axis[first]) for axis in places)
        return Mismatch(
            row=window.top + place[-2],
            col=window.left + place[-1],
            got=float(got[first]),
            expected=float(want[first]),
            error=float(_error(got, want)[first]),
            bound=float(bound[first]),
            count=int(wrong.sum()),
            matrix=None if window.last is None else window.first + place[0],
        )


def ratios(types: Types, dtype: DType, got: Doubles, values: Doubles, bound: Doubles) -> Doubles:
    """Error over bound of each element: its error before it was stored, at least."""
    want = stored_as(types, dtype, values)
    error = _error(got, values) if want is values else _error_before_storing(got, want, values)
    with np.errstate(over="ignore"):
        return np.divide(error, bound, out=np.zeros_like(error), where=(bound > 0) & ~doubtful(values, bound))


def right(types: Types, dtype: DType, got: Doubles, values: Doubles, bound: Doubles) -> Mask:
    """A mask of the elements of `got` that a right kernel may store if its results are off by at most `bound`
    before.

    If storing rounds, these are all numbers of `dtype` between the rounded least and the rounded greatest such result.
    The result of NaN in a type without NaN is not defined.
    """
    if dtype == types.scalar:
        near = _error(got, stored_as(types, dtype, values)) <= bound  # and not `> bound`: NaN compares false
        near = near | (_error(got, values) <= bound)  # storing an exact result rounds it, too
        return np.asarray(near | doubtful(values, bound))
    with np.errstate(invalid="ignore"):
        low, high = dtype.nearest(values - bound), dtype.nearest(values + bound)
        near = (low <= got) & (got <= high) | np.isnan(values) & (np.isnan(got) | (not dtype.has_nan))
        return np.asarray(near | doubtful(values, bound))


def _error_before_storing(got: Doubles, want: Doubles, values: Doubles) -> Doubles:
    """A lower bound of the errors before storing: the distance from `values` to those stored as `got`, not as
    `want`."""
    with np.errstate(invalid="ignore"):
        between = np.abs((got + want) / 2 - values)
    return np.where((got == want) | ~np.isfinite(between), 0.0, between)


def _error(got: Doubles, want: Doubles) -> Doubles:
    """|got - want|; 0 if both are NaN or the same Inf, and NaN or Inf if only one of them is."""
    with np.errstate(invalid="ignore"):
        error: Doubles = np.abs(got - want)
    if not np.isfinite(want).all():
        error[np.isnan(got) & np.isnan(want) | (got == want)] = 0.0
    return error
