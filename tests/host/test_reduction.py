"""The reported situation is the smallest in each coordinate. No kernel runs: a predicate says what fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import Failure, FailureKind
from gemmgen.verification.reduction import ALPHAS, BETAS, OTHER_SEEDS, changed, plainer, smallest
from gemmgen.verification.situation import STRATA, Situation, data_kinds, distances_of, free_sizes, stratum
from gemmgen.verification.strategies import situations

FREE = Problem(None, None, None, lda=None, ldb=None, ldc=None)
PROBLEMS = (
    FREE,
    replace(FREE, ld_align=4, batch=None, stride_a=None, stride_c=None),
    replace(FREE, m=17, batch=None, pointers=True),
    Problem(None, 8, None, types="s8,s8,s32"),
)
LARGEST = 60
Predicate = Callable[[Situation], bool]


@dataclass(frozen=True)
class Bug:
    """A condition on a situation under which a played kernel fails."""

    situation: Situation
    kind: FailureKind = "wrong"

    @property
    def failure(self) -> Failure:
        return Failure(self.kind, "fails", "test")


def reduced(fails: Predicate, start: Situation, seconds: float = 60.0) -> Situation:
    assert fails(start)
    return smallest(Bug(start), lambda one: Bug(one) if fails(one) else None, seconds).situation


@st.composite
def failures(draw: st.DrawFn) -> tuple[Situation, Predicate]:
    """A situation, and a predicate that holds for it: of some coordinates each, and of none together."""
    problem = draw(st.sampled_from(PROBLEMS))
    start = draw(situations(problem, LARGEST))(stratum(draw(st.integers(0, STRATA))))
    least = {name: draw(st.integers(-1, size)) for name, size in free_sizes(start.case).items()}
    divisors = {name: draw(st.sampled_from((1, 1, 2, 16, 37))) for name in least}
    apart = {name: draw(st.booleans()) and distance != 0 for name, distance in distances_of(start.case).items()}
    refused = draw(st.sets(st.sampled_from(ALPHAS))) - {start.case.alpha}, draw(st.sets(st.sampled_from(BETAS)))
    kinds = {start.data, *draw(st.sets(st.sampled_from(data_kinds(problem.types))))}
    seeds = {start.seed, *draw(st.sets(st.integers(0, OTHER_SEEDS)))}

    def fails(one: Situation) -> bool:
        sizes, started = free_sizes(one.case), free_sizes(start.case)
        distances = distances_of(one.case)
        return (
            all(sizes[name] >= bound for name, bound in least.items() if divisors[name] == 1)
            and all(sizes[name] % divisor == started[name] % divisor for name, divisor in divisors.items())
            and all(distances[name] != 0 for name, held in apart.items() if held)
            and one.case.alpha not in refused[0]
            and one.case.beta not in refused[1] - {start.case.beta}
            and one.data in kinds
            and one.seed in seeds
        )

    return start, fails


@settings(max_examples=40, deadline=None)
@given(failures())
def test_no_single_coordinate_can_be_smaller(failure: tuple[Situation, Predicate]) -> None:
    start, fails = failure
    least = reduced(fails, start)
    assert fails(least)
    for name, values in plainer(least).items():
        assert not any(fails(changed(least, name, value)) for value in values), name


@pytest.mark.parametrize(
    ("fails", "sizes"),
    [
        (lambda one: one.case.m > 20, (21, 1, 0)),
        (lambda one: one.case.k % 37 == 0 and one.case.k > 0 and one.case.n > 2000, (1, 2001, 37)),
        (lambda one: one.case.m * one.case.n > 1000, (1, 1001, 0)),
        (lambda one: one.case.k > one.case.n > one.case.m, (1, 2, 3)),
        (lambda one: (one.case.k + 3 * one.seed) % 8 != 0 and one.case.k > 300, (1, 1, 301)),
    ],
    ids=["many rows", "some depths", "many elements", "in order", "data that hides it"],
)
def test_sizes_are_the_smallest(fails: Predicate, sizes: tuple[int, int, int]) -> None:
    start = Situation(FREE.case(700, 2562, 3145, lda=4000, alpha=-1.75, beta=2.0), "sparse", 1235)
    least = reduced(fails, start)
    assert least.case == FREE.case(*sizes) and least.data == "exact"
    assert least.seed == next(seed for seed in range(OTHER_SEEDS) if fails(replace(least, seed=seed)))


def test_another_kind_of_failure_does_not_count() -> None:
    start = Situation(FREE.case(9, 9, 9), "exact", 0)
    least = smallest(Bug(start), lambda one: Bug(one, "wrong" if one.case.m > 4 else "crash"), 60.0)
    assert least.situation.case == FREE.case(5, 1, 0)


def test_data_that_its_types_seldom_have_becomes_plain() -> None:
    """Even sizes meet sparse data, of integers, too."""
    least = reduced(lambda one: True, Situation(PROBLEMS[-1].case(512, k=512), "sparse", 1))
    assert (least.case.m, least.case.k, least.data, least.seed) == (1, 0, "exact", 0)


def test_minus_zero_is_not_plain() -> None:
    start = Situation(FREE.case(1, 1, 1, beta=-0.0), "exact", 0)
    assert str(reduced(lambda one: True, start).case.beta) == "0.0"
    assert str(reduced(lambda one: str(one.case.beta) == "-0.0", start).case.beta) == "-0.0"


@pytest.mark.parametrize(("kind", "seconds"), [("wrong", 0.0), ("timeout", 60.0)])
def test_what_hangs_or_has_no_time_stays(kind: FailureKind, seconds: float) -> None:
    start = Bug(Situation(FREE.case(9, 9, 9), "exact", 0), kind)
    assert smallest(start, lambda one: Bug(one, kind), seconds) is start
