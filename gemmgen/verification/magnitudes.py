"""How large the numbers of operands may be, so that sums are exact, or close to the ends of types' ranges."""

from __future__ import annotations

import math

import numpy as np

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.problem.types import Compute, Types
from gemmgen.verification.companions import EXACT_SCALES, code_span
from gemmgen.verification.situation import EXACT_SCALARS, FACTORS, shows_limits

LARGEST_INTEGER = 8
SPREAD = 8  # sparse data spans 2^-8 to 2^8, if its types do
HUGE_MARGIN = 3  # huge products stay 2^3 below the largest number


def adds_up(name: str, case: Case, seed: int) -> bool:
    """Whether random A and B have one sign each, so that sums grow with K and not with its root.

    True for every other seed if C can hold such sums or a factor makes them small enough; always if alpha does.
    """
    a, b, c = (matrix.dtype for matrix in case.matrices)
    whole = any(dtype.is_integer for dtype in (a, b))
    most = DType.S32.largest if whole else float(case.k) ** case.problem.products
    holds = c.largest >= most or (c.saturates and first_factor(case) is not None)
    return name != "C" and (shows_limits(case) or (seed % 2 == 1 and holds))


def at_limits(case: Case, seed: int) -> bool:
    """Whether operands of one sign are close to the limits of their types. Sums must fit 32 bits."""
    a, b = (float(dtype.largest - dtype.least) / (1 + dtype.is_signed) for dtype in (case.a.dtype, case.b.dtype))
    return (shows_limits(case) or seed % 4 == 1) and case.k * (a + 1) * (b + 1) < DType.S32.largest


def first_factor(case: Case) -> str | None:
    return next((one for one in FACTORS if one in case.extra), None)


def into_range(case: Case, one_sign: bool, limits: bool) -> float:
    """A power of two that brings most sums into the range of a saturating C; 1 if C does not saturate."""
    if not case.c.dtype.saturates:
        return 1.0
    share = 1.0 if limits else 0.5
    a, b = (dtype.largest * share if dtype.is_integer else 1.0 for dtype in case.problem.types.operands[:2])
    largest = case.c.dtype.largest ** (1 / case.problem.products)
    terms = float(case.k + 1) if one_sign else math.sqrt(case.k + 1)
    return float(2.0 ** round(math.log2(largest / (2 * a * b * terms))))


def huge_factor(name: str, dtype: DType, case: Case) -> float:
    """The factor that brings products and C near the largest number of C's type, or of the sums' type."""
    types = case.problem.types
    top = min(types.c.max_exponent, types.accumulator.max_exponent) // case.problem.products
    factor = 2.0 ** ((top - HUGE_MARGIN) // 2)
    wanted: float = factor**2 if name == "C" else factor / (case.k + 1) ** 0.5
    return min(wanted, 2.0 ** (dtype.max_exponent - 1))


def huge_scale(case: Case) -> float:
    """The same for the scales of a block, which are in two operands, beside elements that are as large as may be."""
    types = case.problem.types
    top = min(types.c.max_exponent, types.accumulator.max_exponent) - HUGE_MARGIN - 2 * SPREAD
    elements = huge_factor("A", types.a, case) * huge_factor("B", types.b, case)
    return float(np.sqrt(2.0**top / (elements * (case.k + 1))))


def exact_magnitude(case: Case) -> int:
    """The largest integer for exact data: K products and the exact scalars give exact sums.

    Most sums also stay in the range of C's type.
    """
    types = case.problem.types
    scale = max(abs(scalar) for scalar in EXACT_SCALARS)
    if case.problem.coded:  # of A: B has the largest numbers
        most = max(EXACT_SCALES) * exact_codes(case)
        in_range = int(types.c.largest / (2 * scale * (case.k + 1) ** 0.5 * most))
        return max(1, min(LARGEST_INTEGER, int(_exact_products(case) / most), in_range))
    if case.problem.inputs.blocks:
        scale *= max(EXACT_SCALES) ** 2
    limit = int((2.0 ** exact_bits(types) / (scale * (case.k + 1))) ** 0.5)
    largest = types.c.largest ** (1 / case.problem.products)  # per sum: an epilogue may multiply all
    in_range = int((largest / (2 * scale * (case.k + 1) ** 0.5)) ** 0.5)
    return max(1, min(LARGEST_INTEGER, limit, in_range, types.a.exact_integers, types.b.exact_integers))


def _exact_products(case: Case) -> float:
    """The largest products of which K, scaled, have an exact sum."""
    scale = max(abs(scalar) for scalar in EXACT_SCALARS)
    return 2.0 ** exact_bits(case.problem.types) / (scale * (case.k + 1))


def exact_codes(case: Case) -> int:
    """The largest difference of a code of B and its zero point for exact data: any, where K is short enough."""
    return max(1, min(code_span(case.problem.types), int(_exact_products(case) / max(EXACT_SCALES))))


def exact_bits(types: Types) -> int:
    """Sums of integers below 2^this are exact, also after they are scaled.

    Promotion is not counted: LARGEST_INTEGER keeps the sums between promotions exact.
    """
    kept = {Compute.F16: DType.F16.precision, Compute.FAST: 13}.get(types.compute, types.accumulator.precision)
    return min(kept, types.scalar.precision)
