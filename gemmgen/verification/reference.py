"""The reference: operands for a situation, the right result, and the error bound of a kernel.

Kinds of data, each with a test that a single wrong or missing product cannot pass:

exact    small integers, whose products and sums the dtype represents: equal bit for bit
onehot   one operand has a single 1 per row (A) or column (B), the other a different number per element: C shows which
         element was read. Equal bit for bit
random   uniform in [-1, 1], element by element: |c - ref| <= bound. With every other seed A has one sign, and B has
         one, if C can hold such sums: roundings in one direction add up like K, which from K = 300 on exceeds a bound
         that grows like its root. Errors of many elements together show them at K = 16 (`leaning`). Integers are
         arbitrary, or of one sign, or the largest or least, which fill the accumulator; alpha may bring such sums into
         C's range
sparse   one operand has SPARSE_PRODUCTS numbers per row (A) or column (B) and zeros elsewhere. All numbers have full
         mantissas and exponents far apart. Adding zero rounds nothing, so the bound is as narrow as for K =
         SPARSE_PRODUCTS, and an operand, C or a scalar that is rounded to fewer bits shows at any K
denormal A or B, and C, are denormal, the other operand is random: a kernel that flushes to zero exceeds the bound. CPUs
         take a hundred times as long for denormals, so in a large operand only few are denormal, and the others near
         that
huge     random, scaled so that alpha * A * B and beta * C come near 2^125 (f64: 2^1021), and no partial sum
         passes 2^127 (2^1023)
special  random, with +Inf, -Inf, NaN and zeros in some places of A, B and C. In some rows of A, or columns of B, an Inf
         meets zeros, strips of zeros or tiny numbers, or a -Inf

The bound
---------
A kernel computes alpha * (sum over k of A[m][k] * B[k][n]) + beta * C[m][n]; every operation rounds: fl(x) = x (1 + d),
|d| <= u, the unit roundoff of the accumulator: 2^-24 for f32, 2^-53 for f64. Whatever the order of the sum (along
K, in tiles, in a tree, split over blocks, fused or not), each product passes at most n = K + 2 such factors: its own,
at most K - 1 additions, alpha's, and that of adding beta * C, whose own term passes two. So

    |c - ref| <= max |(1 + d_1) ... (1 + d_n) - 1| * S        S = |alpha| * (|A| |B|) + |beta C|, element by element

In the worst case the factor is n u / (1 - n u), which grows with K and is never reached. If the d behave as independent
and of mean zero, it is at most LAMBDA sqrt(n) u (to first order in u), except with probability 2 exp(-LAMBDA^2 / 2) for
a product, and at most K times that for an element (Higham and Mary, "A New Approach to Probabilistic Rounding Error
Analysis", SIAM J. Sci. Comput. 41, 2019): LAMBDA = 6 makes it 3e-8 and 3e-8 K. Hence

    bound = LAMBDA * sqrt(K + 2) * u * S        f32: 3.6e-7 * sqrt(K + 2) * S, f64: 6.7e-16 * sqrt(K + 2) * S

The reference of f32 is summed in float64, whose error is 2^29 times smaller. That of f64 is `accurate_product`: exact
products of slices, whose sum has an error of at most REFERENCE_ROUNDINGS * u * S, plus SLICE_RESIDUE of the largest
products. The bound includes both.

Tensor cores truncate where CUDA cores round. `tensor_bound` gives the further error of their sums of narrower types.

If results are denormal, an operation has a further error of up to half the smallest denormal (2^-150; f64: 2^-1075),
whatever its operands. All of these add up to at most ((2 K + 1) |alpha| + 2) times that (products and sums rounded
separately; alpha and beta). This worst case matters only for denormals: it is negligible for an element of 2^-100
(2^-1000).

A missing product of average size, S / K, exceeds the bound up to K = (LAMBDA u)^(-2/3) = 19,800 (f64: 1.3e10). For
longer K exact data and ring mode (see ring.py) show it.

NaN and Inf
-----------
They follow IEEE 754, evaluated as alpha * (sum over k of A[m][k] * B[k][n]) + beta * C[m][n],
with these conventions: beta = 0 leaves C unread, so that its NaN and Inf do not show; alpha = 0 still multiplies, so
that those of A and B do; K = 0 makes the sum 0, and alpha times the sum as well, even if alpha is infinite or NaN. No
kind of data has a finite result or partial sum that the dtype cannot hold (K below 2^26), so that any order of
summation, and float64 for float32, agree on which elements are finite. An element that is NaN in the reference must be
NaN (of any payload), Inf must be the same Inf; the rest is bounded as above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.operands import ACCUMULATORS, DEPTH, OPERANDS
from gemmgen.problem.types import Types
from gemmgen.run.executor import Operands
from gemmgen.support.bounded_cache import Recent
from gemmgen.support.threads import cores, in_threads
from gemmgen.verification.companions import by_rows, depths, groups_of_rows
from gemmgen.verification.data import MEMORY, data_seed, make_operands, unscaled
from gemmgen.verification.device_products import Multiply, on_host, products_by
from gemmgen.verification.linear import (
    REFERENCE_ROUNDINGS,
    alpha_of,
    linear,
    no_bound,
    nonzero_terms,
    off_beyond,
    root_of,
)
from gemmgen.verification.products import SLICE_RESIDUE, Products, all_products, doubtful_sums, of_each_matrix
from gemmgen.verification.roundings import Bounded, doubtful, results_of
from gemmgen.verification.situation import EXACT_KINDS, Situation
from gemmgen.verification.window import Window

Doubles = npt.NDArray[np.float64]
Elements = npt.NDArray[Any]
Index = tuple[npt.NDArray[np.int64], ...]  # of some elements of C: (matrix of the batch,) row, column

KEPT_ELEMENTS = 2**18  # of a product that is kept for other scalars
# Elements of a thread's part. In float64 a few arrays of the least size fit a core's cache. But threads hand Python's
# lock on at each operation, 7 ms for a part among 16 threads (2026-11-26, with parts of 2^14, 2^15 and 2^17): large
# windows have few parts. The most keeps all their arrays to a few GB.
PART_ELEMENTS, MOST_PART_ELEMENTS = 2**17, 2**20


@dataclass(frozen=True)
class Wanted:
    """The right values of a result.

    values         the values in float64
    bound          the error bound of each element of a kernel
    largest_bound  the largest finite bound: where infinity meets a number that may vanish, any result is right
    stored         the stored reference: elements that equal it bit for bit are right; None if a kernel has few such
                   elements
    """

    values: Doubles
    bound: Doubles
    largest_bound: float
    stored: Elements | None = None

    @classmethod
    def of(cls, values: Doubles, bound: Doubles, stored: Elements | None = None) -> Wanted:
        return cls(values, bound, float(bound.max(initial=0.0, where=np.isfinite(bound))), stored)

    @property
    def arrays(self) -> tuple[Elements, ...]:
        return self.values, self.bound, *(() if self.stored is None else (self.stored,))

    def part(self, at: tuple[slice, ...]) -> Wanted:
        stored = None if self.stored is None else self.stored[at]
        return Wanted(self.values[at], self.bound[at], self.largest_bound, stored)


def expected(
    situation: Situation, window: Window, output: str = "C", multiply: Multiply = on_host
) -> tuple[Doubles, Doubles]:
    """Return (C, bound) inside `window`: the result in float64 and the error bound of each element of a kernel.

    Or the same for another `output` of the epilogue. `multiply` is asked for the products of a whole C.
    """
    wanted = wanted_of(situation, window, output, multiply)
    return wanted.values, wanted.bound


def expected_amax(
    situation: Situation, windows: Sequence[Window], output: str, multiply: Multiply = on_host
) -> tuple[Doubles, Doubles]:
    """Return (values, bound) of an output that takes the largest magnitudes of rows or columns, over `windows` of C.

    Each |x| of a kernel has its own error bound: the result is at least the largest |x| minus its bound, and at most
    the largest |x| plus its bound. A row or column without elements stays 0.
    """
    matrix, by_row = situation.case.tensors[output], OPERANDS[output].along == "m"
    batch = () if matrix.batch is None else (matrix.batch,)
    value, low, high, doubt = (np.zeros((*batch, matrix.rows, matrix.cols)) for _ in range(4))
    for window in windows:
        values, bound = expected(situation, window, output, multiply)
        size, axis = np.abs(values), -1 if by_row else -2
        at = (*window.matrices, *((window.rows, slice(None)) if by_row else (slice(None), window.cols)))
        with np.errstate(invalid="ignore"):
            unsure = doubtful(values, bound).astype(np.float64)
            for of_all, of_these in ((value, size), (low, size - bound), (high, size + bound), (doubt, unsure)):
                of_all[at] = np.maximum(of_all[at], of_these.max(axis, keepdims=True))  # NaN where one is
    with np.errstate(invalid="ignore"):
        bound = np.where(np.isfinite(value), np.maximum(high - value, value - low), 0.0)
        return value, np.where(doubt > 0, np.inf, bound)


def unrooted(situation: Situation, window: Window) -> Doubles:
    """The part of C's bound inside `window` that is not LAMBDA sqrt(n) u S, and so may be biased to one side.

    It comes from the reference itself, denormals, SHARED_ROUNDINGS and an epilogue.
    """
    found = all_products(unscaled(situation.case), situation.data, data_seed(situation), window)
    return _expected_part(situation, window, "C", found, rooted=False)[1]


def stored_as(types: Types, dtype: DType, values: Doubles) -> Doubles:
    """Exact `values` as an output's type stores them; the same array if that is the type of sums and scalars."""
    return values if types.uniform or types.scalar.is_integer else dtype.nearest(values)


# The candidates of one search meet the same data again and again, so what comes out is kept.
EXPECTED = Recent(32, max(2**30, MEMORY // 8))
PRODUCTS = Recent(16, 2**26)


def wanted_of(situation: Situation, window: Window, output: str, multiply: Multiply) -> Wanted:
    if window != Window.whole(situation.case):
        return Wanted.of(*_expected(situation, window, output, on_host))
    key = replace(situation, seed=data_seed(situation), case=_told_apart(situation.case)), output
    return EXPECTED.get(key, lambda: _wanted_whole(situation, output, multiply), lambda made: made.arrays)


def _told_apart(case: Case) -> Case:
    """`case` with neutral values of the scalars that its epilogue does not take."""
    taken = case.problem.epilogue.scalars
    return replace(case, alpha=case.alpha if "alpha" in taken else 1.0, beta=case.beta if "beta" in taken else 0.0)


def _wanted_whole(situation: Situation, output: str, multiply: Multiply) -> Wanted:
    case = situation.case
    types, dtype, whole = case.problem.types, case.tensors[output].dtype, Window.whole(case)
    values, bound = _expected(situation, whole, output, multiply)
    if types.uniform and not types.scalar.is_integer:
        return Wanted.of(values, bound)
    stored: Elements = np.empty(values.shape, dtype.numpy)

    def store(part: Window) -> None:
        at = part.within(whole)
        with np.errstate(over="ignore", invalid="ignore"):
            stored[at] = stored_as(types, dtype, values[at]).astype(dtype.numpy)

    in_threads(store, parts_of(whole))
    return Wanted.of(values, bound, stored)


def parts_of(window: Window) -> list[Window]:
    """Divide `window` into parts for threads: one per core, unless that makes them too small or large."""
    return window.parts(min(MOST_PART_ELEMENTS, max(PART_ELEMENTS, window.elements // cores())))


def _expected(situation: Situation, window: Window, output: str, multiply: Multiply) -> tuple[Doubles, Doubles]:
    """The reference, part by part in threads, so that most of its passes over the elements hit a core's cache."""
    case = situation.case
    of = unscaled(case), situation.data, data_seed(situation), window

    def made() -> tuple[Products, ...]:
        whole = products_by(multiply, situation)
        return all_products(*of) if whole is None else of_each_matrix(case, whole)

    found = PRODUCTS.get(of, made, lambda found: tuple(chain(*found))) if window.elements <= KEPT_ELEMENTS else made()
    # Sums of whole rows of A, or columns of B, are made once.
    parts = [window] if case.problem.epilogue.sums else parts_of(window)
    if len(parts) == 1:
        return _expected_part(situation, window, output, found)
    values = np.empty(found[0][0].shape)
    exact = case.problem.epilogue.is_linear and (situation.data in EXACT_KINDS or case.problem.types.scalar.is_integer)
    bound = no_bound(values) if exact else np.empty(values.shape)

    def make(part: Window) -> None:
        at = part.within(window)
        of_part = tuple((sums[at], size[at], most[at] if most.size > 1 else most) for sums, size, most in found)
        values[at], of_values = _expected_part(situation, part, output, of_part)
        if not exact:
            bound[at] = of_values

    in_threads(make, parts)
    return values, bound


def _expected_part(
    situation: Situation, window: Window, output: str, of: tuple[Products, ...], rooted: bool = True
) -> tuple[Doubles, Doubles]:
    """The reference of one part; `of` holds the products of A with each matrix of B."""
    if not situation.case.problem.inputs.along_k:
        return _of_depth(situation, situation.case, window, output, of, rooted)
    parts = depths(situation.case, make_operands(situation), window)
    found = []
    for place, part in enumerate(parts):
        own = replace(situation.case, k=part.stop - part.start)
        one = replace(window, first=window.first + place, last=window.first + place + 1)
        its = tuple((sums[[place]], size[[place]], most[[place]] if most.ndim > 2 else most) for sums, size, most in of)
        found.append(_of_depth(situation, own, one, output, its, rooted))
    values, bounds = (np.concatenate(of_all) for of_all in zip(*found, strict=True))
    return values, bounds


def _of_depth(
    situation: Situation, depth: Case, window: Window, output: str, of: tuple[Products, ...], rooted: bool
) -> tuple[Doubles, Doubles]:
    """The reference of one part whose sums are as long as those of `depth`, which is the case itself where all are."""
    case, as_long = situation.case, replace(situation, case=depth)
    if not case.problem.epilogue.is_linear:
        return _through_epilogue(situation, as_long, window, of, output, rooted)
    if case.beta == 0:  # C may hold NaN
        return linear(as_long, *of[0], None, rooted)
    operands = make_operands(situation)
    old = by_rows(case, operands, case.c.view(operands.c))[window.index]
    return linear(as_long, *of[0], old, rooted)


def _through_epilogue(
    situation: Situation,
    as_long: Situation,
    window: Window,
    of: tuple[Products, ...],
    output: str,
    rooted: bool,
) -> tuple[Doubles, Doubles]:
    """The epilogue's `output` for these products, and the bound that its tree derives from those of the sums.

    Here the sum itself does not include alpha and beta * C, so n is K, which `as_long` has.
    """
    case, exact = situation.case, situation.data in EXACT_KINDS
    sums = (_accumulator(as_long, exact, rooted, *one) for one in of)
    accumulators = dict(zip(ACCUMULATORS, sums, strict=False))
    inputs = {**accumulators, **epilogue_inputs(situation, partial(_in_window, window=window))}
    inputs |= scalar_inputs(as_long.case)
    inputs |= {name: _sum(situation, window, name) for name in case.problem.epilogue.sums}
    results = results_of(case.problem, inputs, exact)
    result = results.c if output == "C" else results.outputs[output]
    shape = of[0][0].shape
    return np.broadcast_to(result.value, shape).copy(), np.broadcast_to(result.bound, shape).copy()


def _accumulator(
    situation: Situation, exact: bool, rooted: bool, product: Doubles, size: Doubles, largest: Doubles
) -> Bounded:
    """A product as a kernel's accumulator holds it, also on tensor cores."""
    acc = _bounded_sum(situation, exact, nonzero_terms(situation), product, size, largest, rooted)
    if exact:
        return acc
    beyond = np.where(np.isfinite(product), off_beyond(situation, product, size, largest), 0.0)
    return Bounded(acc.value, acc.bound + beyond)


def expected_at(situation: Situation, at: Index, found: Sequence[Products]) -> tuple[Doubles, Doubles]:
    """Return (C, bound) of the elements `at` behind an epilogue without sums of A or B.

    `found` are their products of A with each matrix of B.
    """
    case, exact = situation.case, situation.data in EXACT_KINDS
    inputs = epilogue_inputs(situation, partial(elements_at, at=at))
    inputs |= {name: _accumulator(situation, exact, True, *of) for name, of in zip(ACCUMULATORS, found, strict=False)}
    c = results_of(case.problem, inputs, exact).c
    value, bound = (np.broadcast_to(one, at[-1].shape) for one in (c.value, c.bound))
    return value, bound


def elements_at(values: Elements, at: Index) -> Elements:
    """The elements `at` of an operand of C's shape; along a dimension of length 1 the same element serves all."""
    index = (axis if size > 1 else np.zeros_like(axis) for axis, size in zip(at, values.shape, strict=True))
    return np.asarray(values[tuple(index)])


def scalar_inputs(case: Case) -> dict[str, Bounded]:
    """The numbers that an epilogue takes: K, and alpha and beta if it takes them."""
    dtype, scalar = case.problem.types.accumulator, case.problem.types.scalar
    scalars = {"alpha": alpha_of(case), "beta": case.beta}
    taken = {name: scalar.nearest(np.asarray(scalars[name], np.float64)) for name in case.problem.epilogue.scalars}
    depth = dtype.nearest(np.asarray(case.k, np.float64))
    return {name: Bounded.exact(value) for name, value in {DEPTH: depth, **taken}.items()}


def epilogue_inputs(situation: Situation, pick: Callable[[Elements], Elements]) -> dict[str, Bounded]:
    """The inputs of an epilogue other than sums over K; `pick` selects from each matrix and vector."""
    case, operands = situation.case, make_operands(situation)
    inputs = scalar_inputs(case)
    if case.problem.epilogue.reads_c:
        old = 0.0 if case.beta == 0 else case.c.dtype.decode(pick(by_rows(case, operands, case.c.view(operands.c))))
        inputs["C"] = Bounded.exact(old)
    for name, matrix in case.read.items():
        stored = matrix.view(operands.extra[name])
        by_group = case.problem.groups_of(OPERANDS[name]) and not case.problem.batched
        values = _of_groups(case, operands, stored, pick) if by_group else pick(stored)
        inputs[name] = Bounded.exact(values.astype(np.float64))
    return inputs


def _of_groups(case: Case, operands: Operands, stored: Elements, pick: Callable[[Elements], Elements]) -> Elements:
    """What `pick` selects of an operand that each group of rows has for itself, groups x 1 x N or groups x 1 x 1.

    Rows of no group, which kernels do not compute, take that of the last one.
    """
    groups = np.minimum(groups_of_rows(operands, np.arange(case.m)), len(stored) - 1)
    columns = np.arange(stored.shape[-1])
    return np.asarray(stored[pick(groups[:, None]), 0, pick(columns[None])])


def _bounded_sum(
    situation: Situation,
    exact: bool,
    terms: int,
    total: Doubles,
    size: Doubles,
    largest: Doubles,
    rooted: bool = True,
) -> Bounded:
    """A sum over K as a kernel's accumulator holds it, possibly `exact`; `size` is the sum of its `terms`'
    magnitudes."""
    k, dtype = situation.case.k, situation.case.problem.types.accumulator
    if dtype.is_integer or exact or k == 0:
        return Bounded.exact(total)
    bound = root_of(terms, rooted) * dtype.unit_roundoff * size + k * dtype.smallest
    if dtype == DType.F64:  # the reference's own
        bound = bound + REFERENCE_ROUNDINGS * dtype.unit_roundoff * size + k * SLICE_RESIDUE * largest
    of_others = np.where(doubtful_sums(situation.case.problem, total, size), np.inf, 0.0)
    return Bounded(total, np.where(np.isfinite(total), bound, of_others))


def _sum(situation: Situation, window: Window, name: str) -> Bounded:
    """The sums of A's rows, or of B's columns, inside `window`; those of one-hot data are not exact."""
    case, operands = situation.case, make_operands(situation)
    matrix, stored, axis = (case.a, operands.a, -1) if name == "row_sum" else (case.b, operands.b, -2)
    values = matrix.dtype.decode(matrix.view(stored)[window.a_index if axis == -1 else window.b_index])
    along_k = np.ascontiguousarray(np.moveaxis(values, axis, -1))  # of which numpy adds pairs, and pairs of pairs
    with np.errstate(invalid="ignore"):
        of_all = along_k.sum(-1), np.abs(along_k).sum(-1), np.abs(along_k).max(-1, initial=0.0)
    total, size, largest = (np.expand_dims(one, axis) for one in of_all)
    found = _bounded_sum(situation, situation.data == "exact", case.k, total, size, largest)
    dtype = case.problem.types.accumulator
    if dtype.is_integer:
        return found
    # No data keeps sums of one operand alone within the type: a kernel's may be infinite, in whatever order it adds.
    beyond = np.isfinite(total) & (size + found.bound > dtype.largest)
    return Bounded(found.value, np.where(beyond, np.inf, found.bound))


def _in_window(values: Elements, window: Window) -> Elements:
    """The window's part of an operand of C's shape; along a dimension of length 1 all of it."""
    rows = window.rows if values.shape[-2] > 1 else slice(None)
    cols = window.cols if values.shape[-1] > 1 else slice(None)
    index = *window.matrices, rows, cols
    return np.asarray(values[index])
