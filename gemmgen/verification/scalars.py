"""alpha and beta of situations: simple values, full mantissas, and values at the ends of their type."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from gemmgen.problem.dtype import DType
from gemmgen.problem.types import Types

EXACT_SCALARS = (0.0, 1.0, -1.0, 2.0)
RANDOM_SCALARS = (*EXACT_SCALARS, 0.5, -1.75)
INTEGER_SCALARS = (*EXACT_SCALARS, 3.0, -77.0)  # where all arithmetic is that of integers
# Scalars for integer sums that are stored in a type with a smaller range, as most are outside of it otherwise.
SHRINKING_SCALARS = (2.0**-7, -(2.0**-10), 0.003)
SIMPLE_SCALARS = frozenset((*RANDOM_SCALARS, *INTEGER_SCALARS, *SHRINKING_SCALARS))
HUGE_SCALARS = {DType.F32: 2.0**100, DType.F64: 2.0**900}
NAN, INF = math.nan, math.inf  # one object: a NaN is equal to itself only by identity

ScalarKind = Literal["plain", "extreme", "full"]
SCALAR_KINDS: tuple[ScalarKind, ...] = ("plain", "extreme", "full")  # of examples in turn

MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so that no two numbers become the same mantissa
# (count, place, bits): of so many numbers the one at this place is nearer to 1 or -1, by so many bits.
NEARLY_ONE = ((8, 2, 10), (8, 5, 10), (8, 6, 16))
Scalars = tuple[float, float]  # alpha and beta

# Scalars for exact data. Infinite ones make NaN of each sum that is 0.
NOT_FINITE: tuple[Scalars, ...] = (
    *((INF, 0.0), (1.0, NAN), (-0.0, 2.0), (NAN, 0.0), (1.0, INF)),
    *((2.0, -0.0), (-INF, 1.0), (INF, INF), (1.0, -INF)),
)
# Scalars if C has no NaN and no Inf: for sums that end in a half, and for sums that overflow before they are stored.
WITHOUT_NAN: tuple[Scalars, ...] = (
    *((0.5, -0.0), (DType.F32.largest, 0.0), (0.5, 1.0), (-DType.F32.largest, 1.0)),
    (1.0, -0.0),
)
LARGEST_INTEGER, LEAST_INTEGER = 2.0**31 - 1, -(2.0**31)
INTEGER_ENDS: tuple[Scalars, ...] = (
    *((LARGEST_INTEGER, 0.0), (1.0, LARGEST_INTEGER), (LEAST_INTEGER, 1.0), (1.0, LEAST_INTEGER)),
    (2.0**24 + 1, -(2.0**24) - 1),  # which a float rounds
)
# Exponents of two; None is a scalar of 0.
TINY, HUGE, DENORMAL = -100, 100, -130
F64_EXPONENTS = {TINY: -900, HUGE: 900, DENORMAL: -1030, 0: 0}
ENDS: tuple[tuple[int | None, int | None], ...] = (
    *((TINY, None), (HUGE, None), (None, TINY), (0, None), (TINY, TINY)),
    *((None, HUGE), (DENORMAL, None), (HUGE, HUGE)),
)


def full_mantissa(number: int, dtype: DType) -> float:
    """A number that no narrower type holds, as its last bit is set, for each `number` but 0, which gives 1.

    Floats are from 1 to 2, or from -2 to -1; some are nearly 1 or -1, so that a kernel may mistake them for these.
    Integers may be any.
    """
    if number == 0:
        return 1.0
    if dtype.is_integer:
        return float(int(dtype.least) + (number * MULTIPLIER % 2**dtype.storage_bits | 1))
    steps: int = 2 ** (dtype.precision - 1)
    near = next((shift for every, place, shift in NEARLY_ONE if number % every == place), 0)
    magnitude = 1 + (number * MULTIPLIER % steps >> near | 1) / steps
    return -magnitude if number % 2 else magnitude


def extreme_scalars(types: Types, exact: bool, turn: int, alpha: float, beta: float) -> Scalars:
    """The extreme scalars of this `turn`: Inf, NaN and -0 for `exact` data, else tiny and huge ones with these
    mantissas.

    If C's type has no NaN, the scalars instead end in a half, or are finite but too large.
    """
    if types.scalar.is_integer:
        return INTEGER_ENDS[turn % len(INTEGER_ENDS)]
    if exact:
        ends = NOT_FINITE if types.c.has_nan else WITHOUT_NAN
        return ends[turn % len(ends)]
    exponents = ENDS[turn % len(ENDS)]
    return _scaled(alpha, exponents[0], types), _scaled(beta, exponents[1], types)


def _scaled(mantissa: float, exponent: int | None, types: Types) -> float:
    if exponent is None:
        return -0.0
    scalar = math.ldexp(mantissa, F64_EXPONENTS[exponent] if types.scalar == DType.F64 else exponent)
    return float(types.scalar.nearest(np.asarray(scalar)))  # a denormal one has fewer bits
