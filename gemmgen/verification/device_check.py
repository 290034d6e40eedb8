"""Judging a large C in place: its executor checks every element by the rule, and numpy checks some.

The executor's verdict counts only if numpy agrees on a sample: on values and bounds, which numpy computes from A and B
itself, and on which elements are right. If it does not agree, or if an element is wrong, numpy judges all.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from gemmgen.run.acceptance import Judged
from gemmgen.run.executor import LoadedKernel
from gemmgen.verification.comparison import SAMPLED_RATIOS, Compared, compare, ratios, right
from gemmgen.verification.data import make_operands
from gemmgen.verification.device_products import allowed, products_at, samples
from gemmgen.verification.epilogue_steps import rule_of_steps
from gemmgen.verification.linear import alpha_of, linear, rule_of
from gemmgen.verification.reference import Index, expected_at
from gemmgen.verification.situation import Situation

BOUND_ERROR = 1e-6  # of a bound: more than two sums in float64 make of it

Doubles = npt.NDArray[np.float64]
Bits = npt.NDArray[np.unsignedinteger]


def judge(kernel: LoadedKernel, situation: Situation, also: Index | None) -> tuple[Compared, Bits] | None:
    """Compare one launch with the reference; also return C's bits at the places `also`. None if numpy must judge the
    run.

    Raises CandidateFailed (the kernel does not run to the end).
    """
    case = situation.case
    if not case.problem.one_product or case.problem.scaled_depth:
        return None
    rule = rule_of(situation) if case.problem.epilogue.is_linear else rule_of_steps(situation)
    if rule is None:
        return None
    shape = (case.batch, case.m, case.n) if case.problem.batched else (case.m, case.n)
    rng = np.random.default_rng(situation.seed)
    places = rng.integers(case.batch * case.m * case.n, size=SAMPLED_RATIOS)
    asked = places if also is None else np.concatenate([places, np.ravel_multi_index(also, shape)])
    judged = kernel.judge(case, make_operands(situation), seed=situation.seed, rule=rule, places=asked)
    if judged is None:
        return None
    if judged.wrong and judged.result is not None:
        return compare(situation, judged.result, multiply=kernel.multiply), judged.bits[SAMPLED_RATIOS:]
    if judged.wrong or not _is_sound(situation, judged, np.unravel_index(places, shape)):
        warnings.warn(f"{situation}: the executor's judgement is not numpy's, which counts", stacklevel=2)
        return None
    got = case.c.dtype.decode(judged.bits[:SAMPLED_RATIOS].view(case.c.dtype.numpy))
    sample = got, judged.values[:SAMPLED_RATIOS], judged.bounds[:SAMPLED_RATIOS]
    of_sample = ratios(case.problem.types, case.c.dtype, *sample)
    compared = Compared(judged.worst, None, judged.elements, of_sample, judged.largest_bound)
    return compared, judged.bits[SAMPLED_RATIOS:]


def _is_sound(situation: Situation, judged: Judged, at: Index) -> bool:
    """Whether all of C was judged, and numpy agrees on the sample at `at`."""
    case, types = situation.case, situation.case.problem.types
    if judged.elements != case.batch * case.m * case.n:
        return False
    got = case.c.dtype.decode(judged.bits[:SAMPLED_RATIOS].view(case.c.dtype.numpy))
    values, bounds = judged.values[:SAMPLED_RATIOS], judged.bounds[:SAMPLED_RATIOS]
    if not right(types, case.c.dtype, got, values, bounds).all():
        return False
    count = samples(case)
    few = tuple(axis[:count] for axis in at)
    found = [products_at(situation, (*few[:-1], few[-1] + matrix * case.n)) for matrix in range(case.problem.products)]
    if case.problem.epilogue.is_linear:
        product, size, largest = found[0]
        old = case.c.view(make_operands(situation).c)[few] if case.beta != 0 else None
        wanted, bound = linear(situation, product, size, largest, old)
        with np.errstate(invalid="ignore"):  # 0 times sums that overflow: NaN, which is near nothing but itself
            apart = abs(alpha_of(case)) * allowed(types.accumulator, case.k, size, largest)
    else:
        wanted, bound = expected_at(situation, few, found)
        apart = BOUND_ERROR * bound  # far more than sums in float64 differ by, of bounds for f32
    with np.errstate(invalid="ignore", over="ignore"):
        off = apart + 4 * np.spacing(np.abs(wanted))
        same = (values[:count] == wanted) | np.isnan(values[:count]) & np.isnan(wanted)
        near = same | (np.abs(values[:count] - wanted) <= off)
        alike = (bounds[:count] == bound) | (np.abs(bounds[:count] - bound) <= BOUND_ERROR * bound)
    return bool(near.all() and alike.all())
