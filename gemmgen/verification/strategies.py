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
import numpy.random  # noqa: F401 - hypothesis imports it with the first draw, where an interrupt would be lost
from hypothesis import strategies as st

from gemmgen.problem.gemm import Problem
from gemmgen.problem.types import Types
from gemmgen.verification.data import data_seed
from gemmgen.verification.scalars import (
    EXACT_SCALARS,
    HUGE_SCALARS,
    INTEGER_SCALARS,
    RANDOM_SCALARS,
    SCALAR_KINDS,
    SHRINKING_SCALARS,
    Scalars,
    extreme_scalars,
    full_mantissa,
)
from gemmgen.verification.situation import (
    BATCHES,
    DATA_KINDS,
    DEEP_SIZES,
    DEEPEST,
    DIFFERENT,
    EXACT_KINDS,
    FACTORS,
    FAR_DEPTH,
    GATHERED,
    PADDINGS,
    RUNTIME_SIZES,
    SEED_STEP,
    SEEDS,
    SHARED,
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
    distances = draw(_distances(problem.runtime_names, problem.ld_align, problem.pointers, problem.inputs.gathered))
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


def _on_side(situation: Situation, stratum: Stratum) -> Situation:
    """`situation` with a seed for which rare data singles out the stratum's operand."""
    if situation.data in DATA_KINDS or side_of(data_seed(situation)) == stratum.side:
        return situation
    return replace(situation, seed=situation.seed ^ 1)


# Strategies are cached: hypothesis takes longer to make one than to draw from it.


@functools.cache
def _distances(
    runtime_names: tuple[str, ...], ld_align: int, pointers: bool, gathered: bool
) -> st.SearchStrategy[dict[str, int]]:
    """Paddings of the run-time leading dimensions and strides (SHARED: one matrix for all products), and the batch.

    For pointers also the number of distinct matrices A and B, and the rows of an A whose rows are gathered.
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
    if gathered:
        strategies["rows_a"] = st.sampled_from(GATHERED)
    return _each_of(strategies)


@st.composite
def _each_of(draw: st.DrawFn, strategies: dict[str, st.SearchStrategy[int]]) -> dict[str, int]:
    return {name: draw(strategy) for name, strategy in strategies.items()}


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
