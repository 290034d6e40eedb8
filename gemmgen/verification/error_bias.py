"""Detects errors biased to one side, as roundings towards zero, up or down cause, long before one passes its bound.

`reference`'s bound of an element is LAMBDA sqrt(n) u S, of n roundings whose errors behave as independent, of mean
zero. Rounded in one direction, errors add up like n u S: towards zero to 0.36 n u S if all products have one sign,
which exceeds the bound from n = 300 on. The errors of many elements together show it at n = 16.

An element's error is a sum of terms d x, with |d| <= u, of mean zero, where the squares of its x add up to n S^2 at
most. So errors of N elements, each times a weight of at most 1 that does not depend on them, add up to no more than

    LAMBDA u sqrt(sum of n S^2)

except with probability 2 exp(-LAMBDA^2 / 2), 3e-8 (Hoeffding, "Probability Inequalities for Sums of Bounded Random
Variables", J. Am. Stat. Assoc. 58, 1963). That is the root of the sum of the squares of the elements' bounds, and about
sqrt(N) times less than the sum of these. (To nearest, the mean of d is of order u^2 rather than 0: n N u^2 S in all, of
which n and N would have to be far larger to make something beside sqrt(n N) u S.)

The other parts of a bound (see `reference.unrooted`) do not have mean zero, and count in full.

Two weights are used: 1, which shows roundings up or down, and the sign of the right result, which shows roundings
towards zero, even for numbers of either sign: a partial sum usually has the sign of the final sum.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gemmgen.problem.gemm import Case
from gemmgen.run.executor import Floats
from gemmgen.verification.companions import by_rows
from gemmgen.verification.data import make_operands
from gemmgen.verification.reference import Wanted, unrooted
from gemmgen.verification.situation import Situation
from gemmgen.verification.tensor_bound import allowance
from gemmgen.verification.window import Window

Doubles = npt.NDArray[np.float64]

ELEMENTS = 2**14  # whose errors are added up, at most
SIDE = 2**7  # rows and columns of these, where there are so many


def leans(situation: Situation, output: str) -> bool:
    """Whether errors of `output` must not be biased: for random floats, if only rounding to nearest is right.

    It does not hold for tensor cores, which truncate sums. A result with fewer bits than sums have is compared with the
    interval that its rounding leaves. Many elements share the errors of sums of rows and columns, of rows that are
    gathered twice, and of blocks with one scale.
    """
    types, epilogue = situation.case.problem.types, situation.case.problem.epilogue
    nearest = not types.accumulator.is_integer and types.c == types.accumulator and allowance(types) is None
    inputs = situation.case.problem.inputs
    alone = not (epilogue.sums or inputs.gathered or inputs.blocks)
    return output == "C" and situation.data == "random" and nearest and alone


def leaning(situation: Situation, result: Floats, window: Window, wanted: Wanted) -> str | None:
    """The bias of the errors of some elements of C inside `window`; None if roundings to nearest explain them."""
    case = situation.case
    some = _some(case, window, situation.seed)
    if not some.elements:
        return None
    part = wanted.part(some.within(window))
    of_c = by_rows(case, make_operands(situation), case.c.view(result))[some.index]
    got, values, bound = case.c.dtype.decode(of_c), part.values, part.bound
    with np.errstate(invalid="ignore", over="ignore"):
        beside = np.minimum(unrooted(situation, some), bound)
        known = np.isfinite(got) & np.isfinite(values) & np.isfinite(bound)
        error, values, bound, beside = (of_all[known] for of_all in (got - values, values, bound, beside))
        allowed = math.hypot(*(bound - beside).tolist()) + float(beside.sum())
        for what, weight in (("", 1.0), (" in magnitude", np.sign(values))):
            total = float((error * weight).sum())
            if abs(total) > allowed:
                side, count = "small" if total < 0 else "large", len(error)
                return (
                    f"{count} elements of C are too {side}{what}: off by {total / count:.3g} on average, "
                    f"allowed {allowed / count:.3g} where roundings are to nearest"
                )
    return None


def _some(case: Case, window: Window, seed: int) -> Window:
    """A part of `window`, chosen by `seed`, in which no two elements have the same products."""
    rng = np.random.default_rng(seed)
    height = min(window.bottom - window.top, SIDE)
    width = min(window.right - window.left, ELEMENTS // height)
    height = min(window.bottom - window.top, ELEMENTS // width)
    top = int(rng.integers(window.top, window.bottom - height, endpoint=True))
    left = int(rng.integers(window.left, window.right - width, endpoint=True))
    if window.last is None:
        return Window(top, left, top + height, left + width)
    last = max(window.first, min(window.last, different_products(case)))
    count = min(last - window.first, max(1, ELEMENTS // (height * width)))
    first = int(rng.integers(window.first, last - count, endpoint=True))
    return Window(top, left, top + height, left + width, first, first + count)


def different_products(case: Case) -> int:
    """The number of matrices of a batch with different products: later ones repeat an earlier one, errors included."""
    if case.problem.inputs.along_k:
        return case.batch
    own = (matrix.different or (1 if matrix.stride == 0 else case.batch) for matrix in (case.a, case.b))
    return min(case.batch, math.lcm(*own))
