"""The smallest set of kernels for many sizes, and steps along a range: pure functions of times."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from dataclasses import asdict
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from hypothesis.extra.numpy import arrays

from gemmgen.exports.library.steps import MOST_STEPS, Division, Steps, behind, interpolated, steps_from, steps_of
from gemmgen.search.kernel_set import SHARE, near_best, smallest_set, weights_of

TIMES = arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 6)), elements=st.floats(1.0, 100.0))


@given(TIMES, st.integers(1, 6))
def test_sets_grow_one_by_one_and_each_is_better(times: np.ndarray, most: int) -> None:
    sets = smallest_set(times, most)
    assert [len(one.kernels) for one in sets] == list(range(1, len(sets) + 1))
    assert len(sets) <= most and not any(one.suffices for one in sets[:-1])
    for fewer, more in pairwise(sets):
        assert more.slowdown < fewer.slowdown
    last = sets[-1]
    best = times[:, list(last.kernels)].min(axis=1) / times.min(axis=1)
    assert math.isclose(last.slowdown, math.expm1(np.log(best).mean()), abs_tol=1e-9)
    if len(sets) < min(most, times.shape[1]) and not last.suffices:
        assert last.slowdown < 1e-9  # no kernel more gains anything


def test_a_set_of_one_is_the_kernel_with_the_least_loss_and_two_may_leave_it_out() -> None:
    """Where each of two kernels is the best at one half, a third that is fair at both stands alone first."""
    times = np.array([[1.0, 2.0, 1.2]] * 5 + [[2.0, 1.0, 1.2]] * 5)
    one, two = smallest_set(times, 3)
    assert (one.kernels, two.kernels) == ((2,), (0, 1))
    assert two.slowdown == 0 and two.suffices and two.close >= SHARE


def test_kernels_that_cannot_serve_a_size_are_joined_by_one_that_can() -> None:
    times = np.array([[1.0, math.inf], [math.inf, 1.0], [math.inf, math.inf]])
    assert smallest_set(times, 2)[-1].kernels == (0, 1)


def test_the_fastest_of_each_size_come_before_those_that_are_close() -> None:
    times = np.array([[1.0, 1.01, 1.02, 5.0], [9.0, 1.01, 1.02, 1.0]])
    assert near_best(times, 0.03, 2) == (0, 3)
    assert near_best(times, 0.03, 3) == (0, 1, 3)
    assert near_best(times, 0.0, 4) == (0, 3)


@given(TIMES)
def test_steps_lose_no_more_than_one_kernel_for_all(times: np.ndarray) -> None:
    sizes = [3 * (place + 1) for place in range(len(times))]
    steps = steps_of("N", sizes, times, [Division(1, 1, 132, 132)] * times.shape[1])
    assert steps.bounds == tuple(sorted(set(steps.bounds))) and len(steps.kernels) == len(steps.bounds) + 1
    for row, size in zip(times, sizes, strict=True):  # where the gap is large the steps follow it
        assert row[steps.kernel((7, size, 7))] <= 200 * row.min()


def test_steps_end_where_the_times_say() -> None:
    times, divisions = np.array([[1.0, 2.0], [2.0, 1.0]]), (Division(64, 8, 132, 132),) * 2
    assert steps_of("M", [128, 129], times, divisions) == Steps("M", (128,), (0, 1), divisions)


@given(st.integers(8, 256), st.integers(1, 64), st.floats(0.5, 4), st.floats(0.1, 2))
def test_times_of_waves_and_rows_are_found_between_those_that_were_taken(
    tile: int, blocks: int, wave_us: float, edge_us: float
) -> None:
    """A kernel that takes so long per wave, and more where rows of its last tile lie beyond the edge."""
    division = Division(tile, blocks, 132, 132)

    def us(size: int) -> float:
        _, waves, *_, edge, beyond, _ = division.terms(size)
        return 5 + wave_us * waves + edge_us * (edge + beyond)

    sizes = sorted({*range(1, 65, 7), *(e for e in division.edges(4096)), *range(65, 4097, 97), 4096})
    at = list(range(1, 4097, 13))
    found = interpolated(sizes, np.array([us(size) for size in sizes]), at, division)
    off = np.abs(np.log(found / np.array([us(size) for size in at])))
    assert np.quantile(off, 0.95) < 0.05 and off.max() < 0.25


def test_a_kernel_serves_no_sizes_between_two_at_which_it_was_not_timed() -> None:
    times = np.array([1.0, 2.0, math.nan, math.inf, 3.0])
    found = interpolated([1, 10, 20, 30, 40], times, [5, 15, 20, 25, 35, 40], Division(8, 1, 132, 132))
    assert np.isfinite(found).tolist() == [True, True, False, False, True, True]


def test_noise_makes_no_steps_and_there_are_few() -> None:
    generator = np.random.default_rng(0)
    noise = np.exp(generator.normal(0, 0.001, (200, 2)))
    divisions = [Division(1, 1, 132, 132)] * 2
    assert len(steps_of("M", range(101, 301), noise, divisions).bounds) <= 1
    restless = np.array([[1.0, 3.0] if place % 2 else [3.0, 1.0] for place in range(200)])
    assert len(steps_of("M", range(101, 301), restless, divisions).bounds) < MOST_STEPS


def test_a_set_is_behind_where_another_kernel_fills_its_tiles() -> None:
    """The kernel of smaller tiles, which the set lacks, is the faster one between sizes at which both were timed."""
    small, large = Division(96, 132, 132, 132), Division(128, 132, 132, 132)  # each tile of M is a wave

    def us(division: Division, wave_us: float, size: int) -> float:
        return 2.0 + wave_us * -(-size // division.tile)

    sizes = [1, 32, 64, 95, 120, 150, 190, 230, 250, 300, 330, 384]
    times = np.array([[us(small, 8.0, size), us(large, 10.0, size)] for size in sizes])
    assert behind(sizes, times, (small, large), (0, 1)) == []
    first, *_ = behind(sizes, times, (small, large), (1,))
    assert us(small, 8.0, first) < 0.98 * us(large, 10.0, first) and first not in sizes
    assert all(us(small, 8.0, size) < us(large, 10.0, size) for size in behind(sizes, times, (small, large), (1,)))


def test_steps_without_a_kernel_leave_its_sizes_to_the_next() -> None:
    a, b, c = (Division(tile, 8, 132, 132) for tile in (8, 16, 32))
    steps = Steps("M", (16, 64, 256), (0, 1, 2, 1), (a, b, c))
    assert steps_from(json.loads(json.dumps(asdict(steps)))) == steps
    assert steps.of([0, 2]) == Steps("M", (16,), (0, 1), (a, c))
    assert steps.of([1, 2]) == Steps("M", (64, 256), (0, 1, 0), (b, c))
    assert Steps("M", (16,), (2, 0), (a, b, c)).used() == ((0, 2), Steps("M", (16,), (1, 0), (a, c)))


def test_a_set_grows_for_a_single_size_that_is_far_behind() -> None:
    times = np.array([[1.0, 1.01]] * 99 + [[1.08, 1.0]])
    (one,) = smallest_set(times, 2)
    assert one.kernels == (0,) and one.suffices and math.isclose(one.worst, 0.08)
    assert smallest_set(times, 2, far=0.09) == (one,)
    assert [two.kernels for two in smallest_set(times, 2, far=0.06)] == [(0,), (0, 1)]


def test_the_kernel_of_the_worst_size_joins_before_others_that_gain_more_in_the_mean() -> None:
    times = np.array([[1.0, 1.019, 1.019, 1.019], [1.019, 1.0, 1.019, 1.019], [1.019, 1.019, 1.1, 1.0]])
    times = np.vstack([np.repeat(times[:2], 50, axis=0), times[2:]])
    times[-1, :3] = 1.1
    assert [one.kernels for one in smallest_set(times, 4, far=0.06)][1:] == [(0, 3)]


def test_sizes_count_by_their_weights() -> None:
    times = np.array([[1.0, 2.0]] + [[1.05, 1.0]] * 9)
    assert smallest_set(times, 1)[0].kernels == (0,)
    assert smallest_set(times, 1, [1] + [100] * 9)[0].kernels == (1,)
    assert smallest_set(times, 1, [1000] + [1] * 9)[0].kernels == (0,)
    sizes = [1, 8, 64, 65, 66, 67, 68, 69, 70, 8192]
    shares = weights_of(sizes) / weights_of(sizes).sum()
    assert shares[0] > 0.05 and shares[-1] > 0.3  # neither small sizes nor large ones are outvoted,
    assert shares[3:8].sum() < 0.1  # least of all by many beside each other


@given(st.lists(st.integers(1, 8192), min_size=2, unique=True), st.lists(st.integers(1, 8191), unique=True), st.data())
def test_looking_closer_halves_the_longest_gap_of_some_steps(
    known: list[int], bounds: list[int], data: st.DataObject
) -> None:
    known.sort()
    inside = sorted(bound for bound in bounds if known[0] <= bound < known[-1])
    division, count = Division(8, 1, 132, 132), data.draw(st.integers(0, 60))
    steps = Steps("M", tuple(inside), (0,) * (len(inside) + 1), (division,))
    found = steps.middles(known, count)
    assert len(found) <= count and not {*found} & {*known}
    assert all(known[0] < size < known[-1] for size in found)
    of_step = [bisect_left(steps.bounds, size) for size in found]
    missed = {*range(known[0], known[-1] + 1)} - {*known}
    steps_with_gaps = {bisect_left(steps.bounds, size) for size in missed}
    ends = (known[0] - 1, *inside, known[-1])
    ranges = [(step, low + 1, high) for step, (low, high) in enumerate(pairwise(ends))]
    assert len(found) == len({*found})
    blind = {step for step, low, high in ranges if not any(low <= size <= high for size in known)}
    if count >= len(blind):
        assert blind <= {*of_step}, "steps in which no size is known come first"
    if count <= len(inside):
        assert len(set(of_step)) == len(of_step) or {*of_step} == steps_with_gaps, "each is of another step"
    else:
        assert {*of_step} == steps_with_gaps


def test_the_middle_is_by_ratio_and_the_longest_steps_come_first() -> None:
    steps = Steps("M", (64,), (0, 1), (Division(8, 1, 132, 132),) * 2)
    assert steps.middles([1, 64, 1024, 8192], 2) == [8, 2896]
    assert steps.middles([1, 64, 1024, 8192], 1) == [2896]
    assert steps.middles([1, 64, 1024, 8192], 3) == [8, 256, 2896], "then other gaps"
