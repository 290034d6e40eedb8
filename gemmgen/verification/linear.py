"""alpha * A * B + beta * C: the value of each element, and its error bound before it is stored. See `reference`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.run.acceptance import Rule
from gemmgen.run.executor import Floats
from gemmgen.verification.data import SPARSE_PRODUCTS
from gemmgen.verification.products import SLICE_RESIDUE, doubtful_sums
from gemmgen.verification.situation import EXACT_KINDS, Situation
from gemmgen.verification.tensor_bound import LAMBDA, beyond, needs_largest, tensor_bound

Doubles = npt.NDArray[np.float64]

SCALING_ROUNDINGS = 4  # of an integer sum: its own to a float, alpha, beta and their sum
SHARED_ROUNDINGS = 1  # of a product, that many elements may share: alpha times an element of A
REFERENCE_ROUNDINGS = 4  # of the slices' sum, alpha, beta and their sum: each at most u * (|A| |B|)


def linear(
    situation: Situation,
    product: Doubles,
    size: Doubles,
    largest: Doubles,
    old: Floats | None,
    rooted: bool = True,
) -> tuple[Doubles, Doubles]:
    """Return (values, bound) of elements with these products; `old` is C before the launch, None if beta = 0.

    size, largest  |A| * |B|, and the largest of the products in each sum
    rooted         see `reference.unrooted`
    """
    case, exact = situation.case, situation.data in EXACT_KINDS
    if case.problem.types.scalar.is_integer:
        return _of_integers(case, product, old), no_bound(product)
    alpha = alpha_of(case)
    with np.errstate(invalid="ignore"):
        values, terms = alpha * product, abs(alpha) * size
        if old is not None:
            added = case.beta * case.c.dtype.decode(old)
            values, terms = values + added, terms + np.abs(added)
    if exact:
        return values, no_bound(values)
    of_terms, of_largest, least = _roundings(situation, rooted)
    with np.errstate(invalid="ignore"):  # alpha may be infinite
        bound = (
            of_terms * terms + of_largest * largest + least + abs(alpha) * off_beyond(situation, product, size, largest)
        )
    of_others = np.where(doubtful_sums(case.problem, product, size), np.inf, 0.0)
    return values, np.where(np.isfinite(values), bound, of_others)


def rule_of(situation: Situation) -> Rule | None:
    """The acceptance rule as numbers; None if C's elements are not linear in products, or if there are other
    outputs."""
    case, types = situation.case, situation.case.problem.types
    if not case.problem.epilogue.is_linear or list(case.written) != ["C"]:
        return None
    if situation.data in EXACT_KINDS or types.scalar.is_integer:
        return Rule(alpha_of(case), case.beta)
    of_terms, of_largest, least = _roundings(situation)
    numbers = beyond(types, case.k, nonzero_terms(situation), denormal_field(situation))
    scale = abs(alpha_of(case))
    return Rule(
        alpha_of(case),
        case.beta,
        exact=False,
        sizes=not types.accumulator.is_integer,
        largest=needs_largest(types),
        of_terms=of_terms,
        of_largest=of_largest,
        least=least + scale * numbers.least,
        of_sum=scale * numbers.of_sum,
        of_spread=scale * numbers.of_spread,
        of_size=scale * numbers.of_size,
        of_size_spread=scale * numbers.of_size_spread,
    )


def alpha_of(case: Case) -> float:
    """alpha, or 0 if it scales no product: as in BLAS, K = 0 gives beta * C even for an infinite alpha."""
    return 0.0 if case.k == 0 and case.problem.epilogue.alpha_scales_acc else case.alpha


def nonzero_terms(situation: Situation) -> int:
    """The largest number of nonzero products in a sum: adding 0 rounds nothing."""
    k = situation.case.k
    return min(k, SPARSE_PRODUCTS) if situation.data == "sparse" else k


def denormal_field(situation: Situation) -> float:
    """The largest product that the exponents of denormals in the data allow; 0 if it has none. See `tensor_bound`.

    Special data has strips of them.
    """
    if situation.data not in ("denormal", "special"):
        return 0.0
    floats = [dtype for dtype in situation.case.problem.types.operands[:2] if not dtype.is_integer]
    return max(2.0**dtype.min_exponent for dtype in floats)  # the elements of the other operand are 1 at most


def off_beyond(situation: Situation, product: Doubles, size: Doubles, largest: Doubles) -> Doubles | float:
    """The further error of tensor cores' sums."""
    case = situation.case
    terms, field = nonzero_terms(situation), denormal_field(situation)
    return tensor_bound(case.problem.types, case.k, terms, product, size, largest, field)


def no_bound(values: Doubles) -> Doubles:
    """Zeros that take no memory."""
    return np.broadcast_to(np.zeros(()), values.shape)


def _of_integers(case: Case, product: Doubles, old: Floats | None) -> Doubles:
    """The result modulo 2^32; no term reaches 2^62."""
    values = int(case.alpha) * product.astype(np.int64)
    if old is not None:
        values += int(case.beta) * old.astype(np.int64)
    return case.problem.types.scalar.wrap(values).astype(np.float64)


def root_of(roundings: int, rooted: bool) -> float:
    """The bound of `roundings` roundings whose errors behave as independent, in unit roundoffs; see
    `reference.unrooted`."""
    return LAMBDA * math.sqrt(roundings) if rooted else min(roundings, SHARED_ROUNDINGS)


def _roundings(situation: Situation, rooted: bool = True) -> tuple[float, float, float]:
    """Return an element's error bound without tensor cores: factors of S and of the largest product, and a constant."""
    case, types = situation.case, situation.case.problem.types
    sums, scalar = types.accumulator, types.scalar
    if sums.is_integer:  # exact, and then scaled
        return SCALING_ROUNDINGS * scalar.unit_roundoff, 0.0, scalar.smallest
    roundings = root_of(nonzero_terms(situation) + 2, rooted)  # two more: alpha and beta
    scale = abs(alpha_of(case))
    underflows, of_largest = (2 * case.k + 1) * scale + 2, 0.0
    if sums == DType.F64:  # the reference's own
        roundings += REFERENCE_ROUNDINGS
        underflows += scale + 2
        of_largest = scale * case.k * SLICE_RESIDUE
    return roundings * sums.unit_roundoff, of_largest, float(np.ceil(underflows / 2)) * sums.smallest
