"""Hypothesis strategies for situations, and draws from a seed: the same seed gives the same draws in every process.

Imported late, because importing hypothesis takes 0.2 s.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import hypothesis
import numpy as np
import numpy.random
from hypothesis import strategies as st

from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Problem
from gemmgen.problem.inputs import Inputs
from gemmgen.problem.types import Types
from gemmgen.support.errors import interrupt_of
from gemmgen.verification.data import data_seed
from gemmgen.verification.situation import (
    DATA_KINDS,
    EXACT_KINDS,
    EXACT_SCALARS,
    FACTORS,
    FAR_DEPTH,
    INF,
    INTEGER_SCALARS,
    NAN,
    RANDOM_SCALARS,
    RUNTIME_SIZES,
    SCALAR_KINDS,
    SEEDS,
    SHARED,
    SHRINKING_SCALARS,
    TINY,
    DataKind,
    Situation,
    Stratum,
    kind_for,
    least_size,
    limit_scale,
    padded_case,
    side_of,
)

Scalars = tuple[float, float]  # alpha and beta
PADDINGS = (0, 1, 2, 3, 7)  # of leading dimensions and strides, in units of ld_align
DIFFERENT = (0, 0, 1, 2, 3)  # distinct matrices A, or B, that a batch's pointers name in turn; 0: one per product
GATHERED = (0, 0, 1, 2, 5, 33, 300)  # rows of an A whose rows are gathered; 0: as many as C
SPARE = (0, 0, 1, 2, 5, 33, 300)  # rows of a C whose rows are scattered, beside M
BATCHES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65, 257)
SEED_STEP = 40_503  # odd; keeps seeds of examples apart, because hypothesis often draws a number again
DEEPEST = 700
# K if sizes are "deep", besides random K up to DEEPEST; M and N are tiny then.
DEEP_SIZES = (192, 256, 257, 320, 384, 512, 513, 640, 768, 1000, 1024)
HUGE_SCALARS = {DType.F32: 2.0**100, DType.F64: 2.0**900}
MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so that no two numbers become the same mantissa
# (count, place, bits): of so many numbers the one at this place is nearer to 1 or -1, by so many bits.
NEARLY_ONE = ((8, 2, 10), (8, 5, 10), (8, 6, 16))

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
SMALL, HUGE, DENORMAL = -100, 100, -130
F64_EXPONENTS = {SMALL: -900, HUGE: 900, DENORMAL: -1030, 0: 0}
ENDS: tuple[tuple[int | None, int | None], ...] = (
    *((SMALL, None), (HUGE, None), (None, SMALL), (0, None), (SMALL, SMALL)),
    *((None, HUGE), (DENORMAL, None), (HUGE, HUGE)),
)

PLAIN_KINDS: tuple[DataKind, ...] = ("exact", "onehot", "random")  # other kinds share random data's plain scalars
ANY_SEED = st.integers(0, SEEDS)
Drawn = TypeVar("Drawn")


@st.composite
def situations(draw: st.DrawFn, problem: Problem, largest: int) -> Callable[[Stratum], Situation]:
    """Draws run-time sizes up to `largest`, paddings, scalars and a seed for `problem`.

    The result is a function that makes a situation of these and of a stratum, which chooses the data and the kinds of
    sizes and scalars as far as `problem` and `largest` allow.
    """
    runtime = [name for name in "MNK" if problem.sizes[name] is None]
    scalars: dict[DataKind, Scalars] = {kind: draw(_scalars(kind, problem.types)) for kind in PLAIN_KINDS}
    mantissas = draw(ANY_SEED), draw(ANY_SEED)
    tiny = {name: draw(_tiny(name, largest)) for name in runtime}
    usual = {name: draw(_sizes(name, largest)) for name in runtime}
    deep = draw(_depths(largest)) if "K" in runtime else 0
    distances = draw(_distances(problem.runtime_names, problem.ld_align, problem.pointers, problem.inputs))
    seed = draw(ANY_SEED)

    def situation(stratum: Stratum) -> Situation:
        data = kind_for(problem.types, stratum.data)
        far = stratum.sizes.removeprefix("far ")
        sizes = tiny if stratum.sizes in ("tiny", "deep") else usual
        if stratum.sizes == "deep" and "K" in runtime:
            sizes = {**tiny, "K": deep}
        if far in runtime and stratum.far <= largest:
            sizes = {**usual, far: stratum.far, **({"K": min(usual["K"], FAR_DEPTH)} if "K" in runtime else {})}
        named = {name.lower(): size for name, size in sizes.items()}
        own = stratum.example * SEED_STEP
        chosen = replace(stratum, data=data)
        pair = _scalars_of(chosen, problem, scalars, [number + own for number in mantissas])
        case = padded_case(problem, named, distances, *pair)
        if data == "random" and stratum.scalars == "full" and math.isfinite(limit_scale(case)):
            case = replace(case, alpha=case.alpha * limit_scale(case))
        return _on_side(Situation(case, data, (seed + own) % (SEEDS + 1)), stratum)

    return situation


def _scalars_of(
    stratum: Stratum, problem: Problem, plain: Mapping[DataKind, Scalars], numbers: Sequence[int]
) -> Scalars:
    """alpha and beta for the stratum: the `plain` ones if its data allows no others."""
    data, types = stratum.data, problem.types
    if stratum.scalars == "plain" or data in ("onehot", "huge") or (data == "exact" and stratum.scalars == "full"):
        return plain.get(data, plain["random"])
    alpha, beta = (full_mantissa(number, types.scalar) for number in numbers)
    if stratum.scalars == "full" or data == "denormal":
        if stratum.scalars == "extreme" and any(operand.name in FACTORS for operand in problem.epilogue.operands):
            alpha *= HUGE_SCALARS[types.scalar]  # its product with a factor overflows, with a denormal sum it does not
        return alpha, beta if stratum.turn % 2 else 0.0
    return extreme_scalars(types, data == "exact", stratum.turn // len(SCALAR_KINDS), alpha, beta)


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


def _on_side(situation: Situation, stratum: Stratum) -> Situation:
    """`situation` with a seed for which rare data singles out the stratum's operand."""
    if situation.data in DATA_KINDS or side_of(data_seed(situation)) == stratum.side:
        return situation
    return replace(situation, seed=situation.seed ^ 1)


# Strategies are cached: hypothesis takes longer to make one than to draw from it.


@functools.cache
def _distances(
    runtime_names: tuple[str, ...], ld_align: int, pointers: bool, inputs: Inputs
) -> st.SearchStrategy[dict[str, int]]:
    """Paddings of the run-time leading dimensions and strides (SHARED: one matrix for all products), and the batch.

    For pointers also the number of distinct matrices A and B, the rows of an A whose rows are gathered, and those
    beside M of a C whose rows are scattered.
    """
    paddings = tuple(ld_align * padding for padding in PADDINGS)
    strategies: dict[str, st.SearchStrategy[int]] = {}
    for name in runtime_names:
        if name.startswith("ld"):
            strategies[name] = st.sampled_from(paddings)
        elif name.startswith("stride_"):
            strategies[name] = st.sampled_from(paddings if name == "stride_c" else (*paddings, SHARED))
        elif name == "batch":
            strategies[name] = st.sampled_from(BATCHES)
    if pointers:
        strategies |= {name: st.sampled_from(DIFFERENT) for name in ("different_a", "different_b")}
    if inputs.gathered:
        strategies["rows_a"] = st.sampled_from(GATHERED)
    if inputs.scattered:
        strategies["spare_c"] = st.sampled_from(SPARE)
    return st.fixed_dictionaries(strategies)


def _known_scalars(data: DataKind, types: Types) -> tuple[float, ...]:
    if types.scalar.is_integer:
        return INTEGER_SCALARS
    if data in EXACT_KINDS:
        return EXACT_SCALARS
    return (*RANDOM_SCALARS, *SHRINKING_SCALARS) if types.accumulator.is_integer else RANDOM_SCALARS


@functools.cache
def _scalars(data: DataKind, types: Types) -> st.SearchStrategy[tuple[float, float]]:
    """alpha and beta. With one-hot data alpha is not 0, which would hide the products."""
    scalars = _known_scalars(data, types)
    alphas = [scalar for scalar in scalars if scalar != 0 or data != "onehot"]
    return st.tuples(st.sampled_from(alphas), st.sampled_from(scalars))


@functools.cache
def _tiny(name: str, largest: int) -> st.SearchStrategy[int]:
    return st.integers(least_size(name), min(TINY, largest))


@functools.cache
def _depths(largest: int) -> st.SearchStrategy[int]:
    above = min(largest, RUNTIME_SIZES[-1])
    known = [size for size in DEEP_SIZES if size <= largest] or [above]
    return st.one_of(st.integers(above, min(largest, DEEPEST)), st.sampled_from(known))


@functools.cache
def _sizes(name: str, largest: int) -> st.SearchStrategy[int]:
    smallest = least_size(name)
    top = max(smallest, min(largest, RUNTIME_SIZES[-1]))
    usual = [size for size in RUNTIME_SIZES if size <= top]
    return st.one_of(st.integers(smallest, top), st.sampled_from(usual))


def for_each(
    strategy: st.SearchStrategy[Drawn],
    call: Callable[[Drawn], None],
    *,
    examples: int,
    seed: int,
) -> None:
    """Call `call` with at most `examples` draws. An exception of `call` ends the draws and is raised again.

    hypothesis does not shrink: gemmgen.verification.reduction finds smaller situations.
    """

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,  # an emulated launch takes what it takes
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        phases=(hypothesis.Phase.generate,),
    )
    @hypothesis.given(strategy)
    def drawn(value: Drawn) -> None:
        try:
            call(value)
        except Exception as error:
            raise _Stop(error) from error

    try:
        with _no_found_constants():
            drawn()
    except _Stop as stop:
        raise stop.error from stop.error.__cause__
    except AssertionError as error:  # hypothesis asserts that its engine runs, also where an interrupt came before
        raise (interrupt_of(error) or error) from None


class _Stop(BaseException):
    """Carries `error` through hypothesis, which would repeat the draw for an Exception."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@contextmanager
def _no_found_constants() -> Iterator[None]:
    """Keep newer versions of hypothesis from mixing constants of imported modules into draws.

    Otherwise another command, another script around gemmgen.verify, an installed package or a checkout would draw
    different situations.
    """
    providers = sys.modules.get("hypothesis.internal.conjecture.providers")
    if providers is None or not hasattr(providers, "_get_local_constants"):
        yield
        return
    from unittest import mock  # it imports asyncio, which a verdict from the cache does without

    known = providers.CONSTANTS_CACHE
    with mock.patch.multiple(
        providers, _get_local_constants=providers.Constants, CONSTANTS_CACHE=type(known)(known.max_size)
    ):
        yield
