"""The error of tensor cores' sums beyond `reference`'s bound of f32, element by element.

f32's bound, LAMBDA sqrt(K) u S, is one of roundings to nearest. A tensor core truncates each step's sum towards zero,
by less than 2^-23 of it. With numbers of one sign that adds up to less than steps * 2^-22 |sum|, including what it
truncates from the terms. With both signs partial sums are about T, the root of the sum of squares of the products, or
as large as the sum. With n steps, each with an error of 2^-b of a partial sum, the bound is

    2 n 2^-b (|sum| + LAMBDA T)                   truncated to b bits of fraction
    LAMBDA sqrt(n) 2^-11 (|sum| + 3 T) + n 2^-25  rounded to f16, whose least step is 2^-24

Pieces of f32 (`gemmgen.problem.pieces`) are summed as exactly as f32's bound says: the products left out are at most
2^-24 of a product, and sums are truncated while they are small, except in the few steps of an interval's last pair. The
last piece is a multiple of 2^-133, so a product of numbers of at most 1 has that further error, which is negligible in
data with larger numbers.

Products are aligned by their factors' exponents, and a denormal's is that of the smallest normal number. So with a
denormal factor a step also truncates 2^-b of the largest product that such exponents allow, its `field`.

T is at most sqrt(largest product * S), and S. Rounding factors of tf32 to 11 bits changes a product by 2^-10 of it, and
a sum by LAMBDA 2^-10 T, as the errors behave as independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.problem.mma import MMAS, multiplied
from gemmgen.problem.types import PROMOTION, Compute, Types

Doubles = npt.NDArray[np.float64]

LAMBDA = 6.0  # as reference's
CUT = 2.0**-22  # of a sum, at a step: its own bits, and those of its terms
TF32_ROUNDING = 2.0**-10  # of a product, from both factors
FAST_MARGIN = 2  # where 14 bits have to do for all of K: such sums of numbers of one sign are off by more


def needs_largest(types: Types) -> bool:
    """Whether the bound needs the largest product of each sum."""
    return types.accumulator == DType.F64 or types.compute not in (Compute.FMA, Compute.BF16X6)


@dataclass(frozen=True)
class Allowance:
    """The bound as numbers, for n steps:

        (n or its root) * (of_sum |sum| + of_spread T) + n * least + min(rounding S, LAMBDA rounding T)

    products  products per step
    most      largest number of k summed in the type of few bits; 0: all
    root      whether errors of steps are independent
    """

    products: int
    most: int = 0
    root: bool = False
    of_sum: float = 0.0
    of_spread: float = 0.0
    least: float = 0.0
    rounding: float = 0.0

    def steps(self, k: int, terms: int) -> int:
        """Steps of a sum of `k` products, of which `terms` are not zero."""
        return min(terms, -(-(min(k, self.most) if self.most else k) // self.products))


def allowance(types: Types) -> Allowance | None:
    """The allowance; None if CUDA cores compute (f32 without tensor cores), or tensor cores are as exact (f64,
    integers)."""
    if types.accumulator != DType.F32 or (types.compute is Compute.FMA and not _has_mma(types)):
        return None
    if types.compute is Compute.BF16X6:
        return Allowance(1, least=DType.BF16.smallest)
    if types.compute is Compute.F16:
        u, least = DType.F16.unit_roundoff, DType.F16.smallest / 2
        return Allowance(_products(types), root=True, of_sum=LAMBDA * u, of_spread=3 * LAMBDA * u, least=least)
    if types.compute in (Compute.PROMOTED, Compute.FAST) and types.b in (DType.E4M3, DType.E5M2):
        return _of_fp8(types.compute)
    rounding = TF32_ROUNDING if types.compute is Compute.TF32 else 0.0
    return Allowance(_products(types), of_sum=CUT, rounding=rounding)


def _of_fp8(compute: Compute) -> Allowance:
    """The allowance of sums of 14 bits, over PROMOTION products or all."""
    sums = MMAS["mma_m16n8k32_e4m3"].sums[89]
    assert sums is not None
    promoted = compute is Compute.PROMOTED
    unit = 2 * (1 if promoted else FAST_MARGIN) * 2.0**-sums.kept
    return Allowance(sums.products, PROMOTION if promoted else 0, of_sum=unit, of_spread=unit * LAMBDA)


@dataclass(frozen=True)
class Beyond:
    """The bound with the steps of one K multiplied in:

    of_sum |sum| + of_spread T + least + min(of_size S, of_size_spread T)
    """

    of_sum: float = 0.0
    of_spread: float = 0.0
    least: float = 0.0
    of_size: float = 0.0
    of_size_spread: float = 0.0


def beyond(types: Types, k: int, terms: int, field: float = 0.0) -> Beyond:
    """The bound of a sum of `k` products, of which `terms` are not zero; `field` covers denormal factors, or is 0."""
    allowed = allowance(types)
    if allowed is None:
        return Beyond()
    steps = allowed.steps(k, terms)
    times = math.sqrt(steps) if allowed.root else steps
    return Beyond(
        of_sum=times * allowed.of_sum,
        of_spread=times * allowed.of_spread,
        least=steps * (allowed.least + allowed.of_sum * field),
        of_size=allowed.rounding,
        of_size_spread=LAMBDA * allowed.rounding,
    )


def tensor_bound(
    types: Types, k: int, terms: int, total: Doubles, size: Doubles, largest: Doubles, field: float = 0.0
) -> Doubles | float:
    """The further error of a sum of `k` products, of which `terms` are not zero; `field` as in `beyond`.

    total, size, largest  the sum, the sum of the products' magnitudes, and an upper bound of the largest of them
    """
    if allowance(types) is None:
        return 0.0
    numbers = beyond(types, k, terms, field)
    bound = numbers.of_sum * np.where(np.isfinite(total), np.abs(total), 0.0) + numbers.least
    if not needs_largest(types):
        return bound
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.minimum(size, np.sqrt(largest) * np.sqrt(size))
    if numbers.of_spread:
        bound = bound + numbers.of_spread * spread
    if numbers.of_size:
        bound = bound + np.minimum(numbers.of_size * size, numbers.of_size_spread * spread)
    return bound


def _has_mma(types: Types) -> bool:
    """Whether an instruction multiplies A and B as they are, or the numbers that B's codes stand for."""
    return types.a != DType.F32 and any((one.a, one.b) == types.factors for one in MMAS.values())


def _products(types: Types) -> int:
    """Products per step, on the architecture that takes the fewest."""
    kinds = {*map(multiplied, types.factors)}
    same = (one for one in MMAS.values() if {multiplied(one.a), multiplied(one.b)} == kinds)
    return min(sums.products for one in same for sums in one.sums.values() if sums is not None)
