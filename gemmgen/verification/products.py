"""A * B and |A| * |B|, far more accurate than any kernel's: the base of `reference`'s results and bounds."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.types import Types
from gemmgen.run.executor import Operands
from gemmgen.support.blas import multiply
from gemmgen.verification.companions import Places, depths, factor, rows_of_groups, scales_of_sums
from gemmgen.verification.data import operands_of
from gemmgen.verification.situation import EXACT_KINDS, DataKind
from gemmgen.verification.tensor_bound import needs_largest
from gemmgen.verification.window import Window

Doubles = npt.NDArray[np.float64]
Products = tuple[Doubles, Doubles, Doubles]  # as `products` gives them

SLICED_BITS = 56  # of the elements of A and B, below the largest of a row of A or column of B, that slices hold
SLICE_RESIDUE = 2.0 ** (2 - SLICED_BITS)  # what slices leave out of a sum, over K times its largest product
SLAB_ELEMENTS = 2**22  # of B, in float64: a few of them are in memory at once
THIN_ROWS = 64
SCALED_ELEMENTS = 2**16  # of C, whose sums of a part of K are scaled and added while a core's cache holds them
VANISHING = 2.0**-7  # of a sum's size: above the bound of the error of PROMOTION products' sum on tensor cores
SPECIALS_AT_ONCE = 2**10  # whose products with a row or column each are in memory


def all_products(case: Case, data: DataKind, seed: int, window: Window) -> tuple[Products, ...]:
    """Return the `products` with each matrix of B, whose columns follow those of the one before."""
    columns = range(0, case.b.cols, case.n)
    each = (replace(window, left=window.left + first, right=window.right + first) for first in columns)
    return tuple(products(case, data, seed, one) for one in each)


def of_each_matrix(case: Case, whole: Products) -> tuple[Products, ...]:
    """Divide `whole`, which has all columns of B, into the products with each matrix of B."""

    def part(values: Doubles, first: int) -> Doubles:
        return values[..., first : first + case.n] if values.shape[-1] > 1 else values

    product, size, largest = whole
    starts = range(0, case.b.cols, case.n)
    return tuple((part(product, first), part(size, first), part(largest, first)) for first in starts)


def products(case: Case, data: DataKind, seed: int, window: Window) -> Products:
    """Return (A * B, |A| * |B|, the largest product in each sum of A * B) inside `window`, without alpha and beta.

    Exact data needs no |A| * |B|, and few types need the largest product. Integers sum up exactly modulo 2^32, so |A *
    B| will do.
    """
    slabs = _slabs(case, window)
    if len(slabs) == 1:
        return _slab_products(case, data, seed, window)
    operands_of(case, data, seed, True)  # made once, before all threads want it
    with ThreadPoolExecutor() as threads:
        parts = list(threads.map(lambda slab: _slab_products(case, data, seed, slab), slabs))
    product, size = (np.concatenate(matrices, axis=-1) for matrices in zip(*(part[:2] for part in parts), strict=True))
    # The largest products; where they are not needed, each slab has the same single element.
    largest = [part[2] for part in parts]
    return product, size, np.concatenate(largest, axis=-1) if largest[0].size > 1 else largest[0]


def _slabs(case: Case, window: Window) -> list[Window]:
    """The parts of `window`, by columns, that threads compute in parallel if B is large and A is not.

    BLAS uses few threads for such a product, and converting B takes longer than the product. So do the passes over C
    for each scaled sum.
    """
    width = max(1, SLAB_ELEMENTS // max(1, case.k))
    if case.problem.scaled_depth:
        width = max(1, min(width, SCALED_ELEMENTS // max(1, window.bottom - window.top)))
    thin = window.bottom - window.top <= THIN_ROWS and case.problem.types.accumulator != DType.F64
    if not thin or window.right - window.left <= width:
        return [window]
    edges = range(window.left, window.right, width)
    return [replace(window, left=left, right=min(left + width, window.right)) for left in edges]


def _slab_products(case: Case, data: DataKind, seed: int, window: Window) -> Products:
    operands = operands_of(case, data, seed, True)
    if case.problem.inputs.along_k:
        return _along_k(case, operands, window, data)
    a = factor(case, operands, "A", window.a_index)
    if not case.problem.inputs.groups or case.problem.inputs.masked:
        return _times(case, operands, (a, factor(case, operands, "B", window.b_index)), window, data)
    found = [np.zeros((window.bottom - window.top, window.right - window.left)) for _ in range(3)]
    for group, rows in rows_of_groups(case, operands, window.rows):
        b = factor(case, operands, "B", (slice(group, group + 1), slice(None), window.cols))[0]
        at, own = (
            slice(rows.start - window.top, rows.stop - window.top),
            replace(window, top=rows.start, bottom=rows.stop),
        )
        for of_all, of_group in zip(found, _times(case, operands, (a[at], b), own, data, group), strict=True):
            of_all[at] = of_group
    product, size, largest = found
    return product, size, largest if needs_largest(case.problem.types) else np.zeros((1, 1))


def _times(
    case: Case,
    operands: Operands,
    factors: tuple[Doubles, Doubles],
    window: Window,
    data: DataKind,
    group: int | None = None,
) -> Products:
    """The products of `factors`, the rows and columns of `window`; the rows are of one `group`, if there are any."""
    if not case.problem.scaled_depth:
        return of_factors(*factors, case.problem.types, data)
    columns = np.arange(window.left, window.right)
    scales = scales_of_sums(case, operands, window.rows, columns, group)
    return _of_scaled_sums(factors, case.problem.types, scales, data)


def _along_k(case: Case, operands: Operands, window: Window, data: DataKind) -> Products:
    """The products of the groups along K inside `window`, each of its own columns of A and rows of B."""
    a = factor(case, operands, "A", (window.rows, slice(None)))
    b = factor(case, operands, "B", (slice(None), window.cols))
    types, parts = case.problem.types, depths(case, operands, window)
    found = [of_factors(a[:, part], b[part], types, data) for part in parts]
    product, size = (np.stack(of_all) for of_all in zip(*(one[:2] for one in found), strict=True))
    if not needs_largest(types):
        return product, size, np.zeros((1, 1))
    return product, size, np.stack([np.broadcast_to(one[2], one[0].shape) for one in found])  # of no k a single 0


def scaled_products_at(case: Case, operands: Operands, at: tuple[Places, ...], data: DataKind) -> Products:
    """The `products` of some elements where B, or sums of parts of K, are scaled; `at` has their rows and columns."""
    rows, columns = at
    a, b = factor(case, operands, "A", (rows, slice(None))), factor(case, operands, "B", (slice(None), columns))
    if not case.problem.scaled_depth:
        product, size, largest = of_factors(a[:, None, :], b.T[:, :, None], case.problem.types, data)
        return product.ravel(), size.ravel(), largest.ravel()
    scales = scales_of_sums(case, operands, rows, columns)
    product, size, largest = _of_scaled_sums((a, b), case.problem.types, scales, data)  # of all rows by all columns
    return product.diagonal(), size.diagonal(), largest.diagonal()


def _of_scaled_sums(
    factors: tuple[Doubles, Doubles], types: Types, scales: Iterable[tuple[Doubles, slice]], data: DataKind
) -> Products:
    """The sum of sums of parts of K, each times its scale.

    Where a scale is infinite the sign of its sum counts. If a kernel's sum may be 0, or of the other sign, the sum of
    all is in doubt: `doubtful_sums` finds it by its NaN of infinite size.
    """
    a, b = factors
    found = [np.zeros((len(a), b.shape[-1])) for _ in range(3)]
    in_doubt = np.zeros(found[0].shape, bool)
    for scale, part in scales:
        of_part = of_factors(a[:, part], b[part], types, data)
        with np.errstate(invalid="ignore"):
            product, size, largest = (of * scale for of in of_part)
            found = [found[0] + product, found[1] + np.abs(size), np.maximum(found[2], np.abs(largest))]
            if data == "special":
                in_doubt |= np.isinf(scale) & (np.abs(of_part[0]) <= VANISHING * of_part[1])
    total, size, largest = found
    if data == "special":
        total[in_doubt], size[np.isnan(total)], size[in_doubt] = np.nan, np.nan, np.inf
    return total, size, largest if needs_largest(types) else np.zeros((1, 1))


def doubtful_sums(problem: Problem, product: Doubles, size: Doubles) -> npt.NDArray[np.bool_]:
    """A mask of the sums that a kernel may have as NaN, infinite or finite; product and size are as `products` gives
    them."""
    if not problem.scaled_depth:
        return np.zeros((), bool)
    return np.asarray(np.isnan(product) & np.isinf(size))


def of_factors(a: Doubles, b: Doubles, types: Types, data: DataKind) -> Products:
    """The `products` of these factors."""
    sums = types.accumulator
    if sums.is_integer:
        product = sums.wrap(multiply(a, b).astype(np.int64)).astype(np.float64)
        return product, np.abs(product), np.zeros((1, 1))
    with np.errstate(invalid="ignore"):
        product = product_of(a, b, sums, data)
        size = product if data in EXACT_KINDS else _float_product(np.abs(a), np.abs(b), data)
    return product, size, _largest_products(a, b) if needs_largest(types) else np.zeros((1, 1))


def product_of(a: Doubles, b: Doubles, dtype: DType, data: DataKind) -> Doubles:
    """A * B, far more accurate than a kernel's."""
    total = _float_product(a, b, data)
    if dtype == DType.F32 or data in EXACT_KINDS:
        return total
    if data != "special":
        return accurate_product(a, b)
    finite = accurate_product(*(np.where(np.isfinite(x), x, 0.0) for x in (a, b)))
    return np.where(np.isfinite(total), finite, total)  # where the sum is finite, so was every product


def accurate_product(a: Doubles, b: Doubles) -> Doubles:
    """A * B of finite float64; each element is rounded a few times rather than K times.

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
            total += multiply(a_slices[i], b_slices[level - i])
    return np.asarray(np.ldexp(total, a_scale + b_scale))


def _exponents(x: Doubles, axis: int) -> npt.NDArray[np.intc]:
    """The exponent of a power of two above all magnitudes of a row or column; 0 if they are all 0."""
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
    """For each element of C, the largest finite |A| of its row times the largest finite |B| of its column."""
    if a.shape[-1] == 0:
        return np.zeros((1, 1))
    a_most, b_most = (
        np.where(np.isfinite(x), np.abs(x), 0.0).max(axis=axis, keepdims=True) for x, axis in ((a, -1), (b, -2))
    )
    return np.asarray(a_most * b_most)


def _float_product(a: Doubles, b: Doubles, data: DataKind) -> Doubles:
    """A * B in float64. In data with NaN and Inf BLAS multiplies only the finite part, as it promises nothing about the
    rest."""
    if data != "special":
        return multiply(a, b)
    finite = multiply(np.where(np.isfinite(a), a, 0.0), np.where(np.isfinite(b), b, 0.0))
    _add_specials(finite, a, b)
    _add_specials(finite.swapaxes(-1, -2), b.swapaxes(-1, -2), a.swapaxes(-1, -2))
    return finite


def _add_specials(sums: Doubles, a: Doubles, b: Doubles) -> None:
    """Add to `sums`, in place, the products with NaN and Inf of B: one of them decides a sum."""
    *batch, ks, columns = np.nonzero(~np.isfinite(b))
    for first in range(0, len(ks), SPECIALS_AT_ONCE):
        *of, k, n = (index[first : first + SPECIALS_AT_ONCE] for index in (*batch, ks, columns))
        line, element, column = (*of, k), (*of, k, n), (*of, n)
        products = a.swapaxes(-1, -2)[line] * b[element][:, None]  # a row for each of these elements of B
        np.add.at(sums.swapaxes(-1, -2), column, products)
