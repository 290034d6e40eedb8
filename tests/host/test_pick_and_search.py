"""What is tried next, and what wins."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmgen.families import MMA, SIMT, SKINNY, WGMMA, Config
from gemmgen.families.base import first_rejection
from gemmgen.families.mma.axes import MmaConfig
from gemmgen.families.wgmma.axes import WgmmaConfig
from gemmgen.kernel.model import MODEL_ERROR, predict
from gemmgen.problem.device import DEVICES
from gemmgen.problem.epilogue import parse_epilogue
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.render.kernel_text import render, render_plan
from gemmgen.run.compile import CompiledKernel
from gemmgen.run.gpu.timing import Baseline, InterleavedTimings, Timing
from gemmgen.search.candidate_times import Measurements
from gemmgen.search.candidate_verdicts import Verifications
from gemmgen.search.order import REACH, Search, rounds
from gemmgen.search.result import Pick, pick_measured, pick_predicted
from gemmgen.search.space import Space, explore
from gemmgen.search.trial import Progress, Trial
from gemmgen.search.tuner import DEFAULT_BUDGET, TILED_BUDGET, Tuner, default_budget
from gemmgen.support.errors import Failure
from gemmgen.support.files import Store

CARD = DEVICES["H200"]
PROBLEM = Problem(512, 512, 512)
KINDS = ((object(), "gpu"), (None, "emulator"))
SHAPE = ("BM", "BN", "BK", "TM", "TN", "TA", "SLICES")


@pytest.fixture(scope="module")
def space() -> Space:
    return explore(SIMT, PROBLEM, CARD)


def timing(*samples: float) -> Timing:
    return Timing(samples, {})


def test_what_the_rounds_of_a_measurement_have_in_common_is_no_difference() -> None:
    """The clock falls by half in the third round: of one contestant the median is a fast round, of the other a slow."""
    one, other = timing(10, 10, 20, 20), timing(9, 9.1, 9, 18)
    broken = Failure("launch", "no memory", "gpu")
    ours, theirs = InterleavedTimings((one, broken, other), Baseline(0, 8, one, one, "cuBLASLt 13.1.0")).steady_us()
    assert ours[1] == math.inf and ours[0] == theirs and ours[0] / ours[2] == pytest.approx(1.1, abs=0.02)
    assert InterleavedTimings((other,)).steady_us() == ([pytest.approx(9.05)], None)
    assert InterleavedTimings((broken,)).steady_us() == ([math.inf], None)


def test_the_lowest_median_wins_and_ties_are_named() -> None:
    picked = pick_measured([timing(12, 12, 12), timing(10, 10, 90), timing(10.05, 10.05, 90.5), timing(11, 11, 91)])
    assert (picked.winner, picked.ties) == (1, (2,))


def test_samples_of_the_same_round_are_compared() -> None:
    """Both slow down in the second half: the slower has the lower median."""
    drifting, alike = timing(10, 10, 20, 20, 20), timing(10.05, 10.05, 10.05, 20.1, 20.1)
    assert pick_measured([drifting, alike]) == Pick(0, (1,))


def test_predictions_tie_where_the_model_cannot_tell_them_apart() -> None:
    picked = pick_predicted([2.0, 1.0, 1.0, 1.0 + MODEL_ERROR / 2, 1.0 + 2 * MODEL_ERROR])
    assert (picked.winner, picked.ties) == (1, (2, 3))


def test_a_family_without_hope_is_not_searched() -> None:
    """CUDA cores beside tensor cores: their arithmetic alone takes several times as long."""
    large, row = (Problem(m, 4096, 4096, types="bf16", layout="rc") for m in (4096, 1))
    for problem, without_hope in ((large, True), (row, False), (Problem(4096, 4096, 4096), False)):
        rival = WGMMA if problem.types.token == "bf16" else SKINNY
        search = Search((), CARD)
        assert not search.hopeless(SIMT, problem), "nothing is known yet"
        search.add(Space(rival, problem, 1, (rival.default(problem),), ()))
        assert search.hopeless(SIMT, problem) is without_hope
        assert not search.hopeless(rival, problem)


def test_the_first_round_tries_the_best_and_several_shapes(space: Space) -> None:
    """The more of a shape were tried, the better the next one of it must look."""
    search = Search([space], CARD)
    times = [entry.prediction.time_us for entry in search.ranked]
    assert times == sorted(times) and len(times) == len(space.accepted)
    best, first = search.ranked[: TILED_BUDGET // 2], search.first(TILED_BUDGET // 2)
    assert first[0] == best[0]
    shapes, best_shapes = (
        {tuple(entry.config.values[name] for name in SHAPE) for entry in entries} for entries in (first, best)
    )
    assert len(shapes) > len(best_shapes)
    assert max(entry.prediction.time_us for entry in first) < 1.5 * times[0]


@pytest.mark.parametrize(
    ("shape", "types", "epilogue", "fastest", "but"),
    [
        ((4096, 4096, 4096), "bf16", "", "128x256x64_c2_k1x0_s4_f1_g8_p1", ()),
        pytest.param(
            *((4096, 4096, 1024), "bf16", "bias+gelu", "128x128x64_c2_k1x0_s6_f1_g8_p1_o1", ()),
            marks=pytest.mark.soak,
        ),
        *(
            pytest.param(shape, types, "", fastest, (), marks=pytest.mark.soak)
            for shape, types, fastest in (
                ((2048, 2048, 2048), "bf16", "128x128x64_c2_k1x0_s6_f1_g8_p1_o1"),
                ((4096, 4096, 4096), "s8,s8,s32", "128x128x128_c2_k1x0_s6_f1_g8_p1_o1"),
                ((2048, 2048, 2048), "e4m3,e4m3,bf16_fast", "128x128x128_c2_k1x0_s6_f1_g8_p1_o1"),
            )
        ),
        # With 6 stages instead of 5, which the second round tries: tiles of more rows come before.
        ((8192, 8192, 8192), "e4m3,e4m3,bf16_promoted", "", "128x128x128_c2_k1x0_s5_f1_g8_p1", ("STAGES",)),
    ],
)
def test_the_first_round_has_what_was_the_fastest_on_an_h200(
    shape: tuple[int, int, int], types: str, epilogue: str, fastest: str, but: tuple[str, ...]
) -> None:
    """Of wgmma (2026-11-23, before BROADCAST), and both ways in which consumers share work."""
    told = {"epilogue": parse_epilogue(epilogue)} if epilogue else {}
    problem = Problem(*shape, types=Types.parse(types), layout=Layout.parse("rc"), **told)
    first = [entry.config for entry in Search([explore(WGMMA, problem, CARD)], CARD).first(TILED_BUDGET // 2)]
    found = WgmmaConfig.parse(fastest)
    assert found is not None
    other = {name: found.values[name] for name in (*but, "BROADCAST")}
    assert found in [config.with_values(**other) for config in first]
    assert {config.values["PINGPONG"] for config in first} == ({0} if "promoted" in types else {0, 1})


@pytest.mark.parametrize(
    ("shape", "typical", "rows", "columns"),
    [
        pytest.param((271, 4096, 4096), {}, 136, 64, marks=pytest.mark.soak),  # two tiles of rows, 128 in all
        ((2500, 2560, 10240), {}, 200, 128),  # 13 x 20 tiles, two waves of 132
        ((None, 4096, 4096), {"M": 271}, 136, 64),
    ],
)
def test_tiles_fit_few_rows_and_waves_where_a_and_b_change_places(
    shape: tuple[int | None, int, int], typical: dict[str, int], rows: int, columns: int
) -> None:
    """As they won on an H100 (2026-11-26)."""
    problem = Problem(*shape, types="bf16", layout="rc", typical=typical)
    first = [entry.config.values for entry in Search([explore(WGMMA, problem, CARD)], CARD).first(4)]
    assert (rows, columns, 1) in {(one["BM"], one["BN"], one["SWAP"]) for one in first}


def test_kernels_start_in_the_grids_order_where_l2_decides() -> None:
    """96x128 without a cluster, as it won on an H100 (2026-11-26), and nothing of tiles that wide ones make up for."""
    few, large = (Problem(*sizes, types="bf16", layout="rc") for sizes in ((450, 3072, 8192), (8192, 8192, 8192)))
    first = [entry.config.values for entry in Search([explore(WGMMA, few, CARD)], CARD).first(4)]
    assert ("96x128", 1, 0) in {(f"{one['BM']}x{one['BN']}", one["CLUSTER"], one["PDL"]) for one in first}
    late = [config.values for problem in (few, large) for config in explore(WGMMA, problem, CARD).accepted]
    assert all(one["CLUSTER"] * one["SPLIT"] == 1 and one["BM"] * one["BN"] < 128**2 for one in late if not one["PDL"])
    short = explore(WGMMA, Problem(450, 3072, 1024, types="bf16", layout="rc"), CARD)
    assert all(config.values["PDL"] for config in short.accepted)


def test_steps_of_8_need_a_size_to_fit() -> None:
    sizes = {"m": 1000, "n": 3000, "k": 4096}
    tiles = {
        name: {
            (one.values["SWAP"], one.values["BM"], one.values["BN"]) for one in explore(WGMMA, problem, CARD).accepted
        }
        for name in ("", *sizes)
        for problem in [Problem(**{**sizes, **({name: None} if name else {})}, types="bf16", layout="rc")]
    }
    fine = {
        name: {tile for tile in some if tile[1] % 32 not in (0, 16) or tile[2] % 32} for name, some in tiles.items()
    }
    assert fine[""] and fine["k"], "both sizes of C are known"
    assert all(bm % 64 == 0 for some in tiles.values() for swap, bm, _ in some if not swap)
    assert not {tile for tile in fine["m"] | fine["n"] if tile[1] % 16}, "no step of 8 without them"


def test_where_stores_take_longest_the_first_kernels_have_whole_sectors_and_enough_warps() -> None:
    """Of mma: a batch by pointers, 2 MB of C for each product of K = 64."""
    problem = Problem(1024, 1024, 64, types="bf16", layout="rc", batch=64, pointers=True)
    search = Search([explore(MMA, problem, CARD)], CARD)
    first = [entry.config.values for entry in search.first(12)]
    assert all(one["EXCHANGE"] == 1 and one["BK"] == 64 and one["STAGES"] == 2 for one in first)
    assert {(one["BM"] // one["WM"]) * (one["BN"] // one["WN"]) for one in first} >= {4, 8}
    assert len({(one["BM"], one["BN"]) for one in first}) >= 4
    fastest = MmaConfig(**first[0])
    [pairs] = search.moved("EXCHANGE", TILED_BUDGET, [(fastest, 1.0)])
    assert "EXCHANGE" in search.details([(fastest, 1.0)]) and pairs.config == fastest.with_values(EXCHANGE=0)


def test_more_starts_than_the_budget_are_all_that_is_tried(space: Space) -> None:
    search = Search([space], CARD)
    starts = [search.first(1)[0] for _ in range(4)]
    known = [(one.config, 1.0) for one in starts]
    assert list(rounds(search, 2, starts, lambda: known)) == [starts, []]


def test_nothing_is_tried_twice_and_neighbours_are_near(space: Space) -> None:
    search = Search([space], CARD)
    tried = [entry.config for entry in search.first(4)]
    for _ in range(3):
        fastest = tried[0]
        batch = [entry.config for entry in search.next(5, [(fastest, 1.0)])]
        assert len(batch) == 5
        assert all(1 <= differences(fastest, config) <= REACH for config in batch)
        tried += batch
    assert len(set(tried)) == len(tried) == 19


def test_the_fastest_is_tried_with_its_instructions_in_other_places_last(space: Space) -> None:
    search = Search([space], CARD)
    assert {config.values["HOIST"] for config in space.accepted} == {0, 2}
    assert {config.values["FMA_ORDER"] for config in space.accepted} == {0}
    slow, fast = [entry.config for entry in search.ranked if entry.config.values["HOIST"] == 0][:2]
    early = search.moved("HOIST", 4, [(slow, 2.0), (fast, 1.0)])
    leads = [
        one.with_values(HOIST=lead)
        for one in (fast, slow)
        for lead in (1, 2, 4)
        if lead < min(one.values["TM"], one.values["TN"])
    ]
    assert [entry.config for entry in early] == leads[:4]
    faster = early[0].config
    orders = search.moved("FMA_ORDER", 9, [(slow, 2.0), (fast, 1.0), (faster, 0.5)])
    assert [entry.config for entry in orders[:7]] == [faster.with_values(FMA_ORDER=order) for order in range(1, 8)]
    assert [entry.config for entry in orders[7:]] == [fast.with_values(FMA_ORDER=order) for order in (1, 2)]
    assert all(first_rejection(SIMT, space.problem, entry.config, CARD.arch.limits) is None for entry in orders), (
        "they compute the same"
    )
    assert all(entry.prediction == predict(SIMT.plan(space.problem, entry.config), CARD) for entry in (*early, *orders))
    assert {config.values["COPY_THREADS"] for config in space.accepted} == {0}
    transposed = next(entry.config for entry in search.ranked if entry.config.values["TA"])
    teams = search.moved("COPY_THREADS", 9, [(transposed, 1.0)])
    assert [entry.config.values["COPY_THREADS"] for entry in teams] == [16, 32][: transposed.values["BK"] // 16]
    flat = explore(SKINNY, Problem(8, 4096, 4096), CARD)
    assert Search([flat], CARD).moved("FMA_ORDER", 9, [(flat.accepted[0], 1.0)]) == [], "a family without orders"


@pytest.mark.parametrize(("stages", "left"), [(6, 5), (5, 5)])
def test_a_detail_takes_its_shared_memory_from_stages(stages: int, left: int) -> None:
    problem = Problem(4096, 4096, 1024, types=Types.parse("bf16"), layout=Layout.parse("rc"), epilogue="bias+gelu")
    config = WGMMA.default(problem).with_values(BN=128, PINGPONG=1, STAGES=stages)
    search = Search([Space(WGMMA, problem, 1, (config,), ())], CARD)
    [boxes] = search.moved("C_BOXES", None, [(config, 1.0)])
    assert boxes.config == config.with_values(C_BOXES=2, STAGES=left)


def test_what_was_best_before_comes_first_and_once(space: Space) -> None:
    space = replace(space, accepted=space.accepted[-200:])
    search = Search([space], CARD)
    known, moved = space.accepted[-1], space.accepted[-1].with_values(FMA_ORDER=3)
    refused = known.with_values(BM=7)
    assert [entry.config for entry in search.given([(SIMT, config) for config in (known, refused, moved)])] == [
        known,
        moved,
    ]
    assert known not in [entry.config for entry in search.first(len(space.accepted))]
    assert search.moved("FMA_ORDER", 1, [(moved, 1.0)])[0].config == known.with_values(FMA_ORDER=1), (
        "but for what was tried"
    )


def test_fewer_runs_are_the_default_where_the_model_orders_best(space: Space) -> None:
    gpu, emulator = (SimpleNamespace(gpu=one, executor=SimpleNamespace(name=name)) for one, name in KINDS)
    problem = Problem(4096, 4096, 4096, types="bf16", layout="rc")
    few = Problem(4, 4096, 4096)
    ones = (Space(family, one, 1, (family.default(one),), ()) for family, one in ((WGMMA, problem), (SKINNY, few)))
    searches = [Search([space], CARD), *(Search([one], CARD) for one in ones)]
    budgets = [TILED_BUDGET, TILED_BUDGET, DEFAULT_BUDGET["gpu"]]
    assert [default_budget(search, gpu) for search in searches] == budgets
    assert {default_budget(search, emulator) for search in searches} == {DEFAULT_BUDGET["emulator"]}


def test_a_tuner_starts_with_what_it_is_given(space: Space) -> None:
    known, target = space.accepted[-1], SimpleNamespace(gpu=None)
    tuner = Tuner(PROBLEM, target, Store(), (SIMT,), 0, Progress(), start=[(SIMT, known)])
    for budget, size in ((3, 3), (1, 1)):
        (batch,) = tuner._batches(Search([space], CARD), budget)
        assert batch[0].config == known and len(batch) == size


@pytest.fixture(scope="module")
def cube() -> Space:
    return explore(WGMMA, Problem(1024, 1024, 1024, types="bf16", layout="rc"), CARD)


@pytest.mark.parametrize("budget", [1, 10, 48, *(pytest.param(one, marks=pytest.mark.soak) for one in (5, 9, 11, 100))])
def test_a_search_tries_no_more_than_its_budget(budget: int, cube: Space, tmp_path: Path) -> None:
    """Also where several details share a round, of which each has its part."""
    target = SimpleNamespace(gpu=object(), executor=SimpleNamespace(description="a card"))
    tuner = Tuner(cube.problem, target, Store(tmp_path), (WGMMA,), 0, Progress())
    for batch in tuner._batches(Search([cube], CARD), budget):
        assert len(tuner.trials) + len(batch) <= budget
        tuner.trials += [
            Trial(None, entry.plan, entry.prediction, timing=timing(entry.prediction.time_us)) for entry in batch
        ]
    assert len(tuner.trials) == budget


def test_rounds_meet_in_one_run_before_they_are_ranked(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card was slower in the first round: its best is the fastest of all, and its fifth still is not."""
    plans = [SIMT.plan(PROBLEM, config) for config in space.accepted[:9]]
    trials = [
        Trial(render_plan(plan, "sm_90"), plan, predict(plan, CARD), timing=timing(us))
        for plan, us in zip(plans, (20, 21, 22, 23, 24, 18, 19, 20, 30), strict=True)
    ]
    broken = replace(trials[8], failure=Failure("wrong", "", "verifier"))
    true_us = dict(zip((trial.source.name for trial in trials), (9, 10, 11, 12, 13, 14, 15, 16), strict=False))
    tuner = Tuner(PROBLEM, SimpleNamespace(gpu=None), Store(), (SIMT,), 0, Progress())
    monkeypatch.setattr(
        Measurements, "_run", lambda self, some, _: tuple(timing(true_us[trial.source.name]) for trial in some)
    )
    monkeypatch.setattr("gemmgen.search.candidate_times.FINALISTS", 4)
    ranked = tuner.measurements.rank([trials[:5], [broken, *trials[5:8]]])
    names = [trial.source.name for trial in ranked]
    assert names[:7] == [trial.source.name for trial in (*trials[:4], *trials[5:8])]
    assert names[7] == trials[4].source.name and ranked[8] is broken
    assert tuner.measurements.rank([trials[:5]]) == trials[:5], "one round is one run"


def test_a_search_that_is_repeated_has_the_same_winner(
    space: Space, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a card whose times are noise: what one search has measured the next one with its store does not measure."""
    plans = [SIMT.plan(PROBLEM, config) for config in space.accepted[:4]]
    compiled = [CompiledKernel("", "sm_90", str(one).encode(), 64, 0, 0, 0, "", (), 0.0) for one in range(4)]
    pairs = zip(plans, compiled, strict=True)
    trials = [Trial(render_plan(plan, "sm_90"), plan, predict(plan, CARD), code) for plan, code in pairs]
    noise = itertools.cycle([11, 10, 13, 12, 14])
    monkeypatch.setattr(Measurements, "_timed", lambda self, gpu, some, _: tuple(timing(next(noise)) for _ in some))
    target = SimpleNamespace(gpu=object(), executor=SimpleNamespace(description="H200"))

    def order(kept: Store, given: list[Trial]) -> list[str]:
        return [trial.source.name for trial in Measurements(PROBLEM, target, kept, Progress()).compare(given)]

    first = order(store, trials)
    assert order(store, trials) == order(store, trials[::-1]) == first
    assert order(Store(store.root / "other"), trials) != first


def test_without_a_gpu_the_first_kernel_that_is_right_is_enough(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is predicted to be the fastest is wrong."""
    plans = [SIMT.plan(PROBLEM, config) for config in space.accepted[:4]]
    trials = [Trial(render_plan(plan, "sm_90"), plan, predict(plan, CARD)) for plan in plans]
    tested: list[Trial] = []

    def verified(self: Verifications, trial: Trial) -> Trial:
        tested.append(trial)
        return replace(trial, failure=Failure("wrong", "", "verifier")) if trial is trials[0] else trial

    monkeypatch.setattr(Verifications, "_verified", verified)
    tuner = Tuner(PROBLEM, SimpleNamespace(gpu=None), Store(), (SIMT,), 0, Progress())
    judged = tuner.verifications.fastest(trials)
    assert tested == trials[:2]
    assert [trial.failure is None for trial in judged] == [False, True, True, True]


def test_finalists_meet_in_one_run_before_the_fastest_is_verified(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timed for longer the second is the fastest, and wrong; the fourth comes next, and is right."""
    plans = [SIMT.plan(PROBLEM, config) for config in space.accepted[:6]]
    trials = [
        Trial(render_plan(plan, "sm_90"), plan, predict(plan, CARD), timing=Timing((us,), {"protocol": "quick"}))
        for plan, us in zip(plans, (10, 11, 12, 13, 14, 15), strict=True)
    ]
    final = [Timing((us,), {"protocol": "final"}) for us in (12, 9, 13, 10)]
    wrong, tested = Failure("wrong", "", "verifier"), list[str]()

    def verified(self: Verifications, trial: Trial) -> Trial:
        tested.append(trial.source.name)
        return replace(trial, failure=wrong) if trial.source is trials[1].source else trial

    monkeypatch.setattr(Verifications, "_verified", verified)
    monkeypatch.setattr(Measurements, "_run", lambda self, some, _: final)
    monkeypatch.setattr("gemmgen.search.candidate_times.FINALISTS", len(final))
    target = SimpleNamespace(gpu=object(), spec=CARD, arch="sm_90", executor=SimpleNamespace(name="gpu"))
    tuner = Tuner(PROBLEM, target, Store(), (SIMT,), 0, Progress())
    judged = tuner.verifications.fastest(tuner.measurements.compare(trials))
    assert tested == [trials[1].source.name, trials[3].source.name]
    assert [(trial.source, trial.failure) for trial in judged[:4]] == [
        (trials[place].source, wrong if place == 1 else None) for place in (1, 3, 0, 2)
    ]
    assert [trial.failure.reason for trial in judged[4:] if trial.failure] == ["a faster one is right"] * 2

    tuner.trials = tuner.measurements.compare(trials)  # a caller may verify itself
    result = tuner._result(())
    assert result.winner.source is trials[1].source and len(result.finalists) == len(final)
    assert [trial.source for trial in result.trials[4:]] == [trial.source for trial in trials[4:]]


def test_the_winner_is_a_kernel_that_was_verified(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock falls meanwhile: the second has the lower median, and round by round the first is faster."""
    plans = [SIMT.plan(PROBLEM, config) for config in space.accepted[:2]]
    trials = [Trial(render_plan(plan, "sm_90"), plan, predict(plan, CARD), timing=timing(10)) for plan in plans]
    samples = (10, 10, 20, 20, 20), (10.05, 10.05, 10.05, 20.1, 20.1)
    final = [Timing(one, {"protocol": "final"}) for one in samples]
    passed = object()
    monkeypatch.setattr(Verifications, "_verified", lambda self, trial: replace(trial, verdict=passed))
    monkeypatch.setattr(Measurements, "_run", lambda self, some, _: final)
    target = SimpleNamespace(gpu=object(), spec=CARD, arch="sm_90", executor=SimpleNamespace(name="gpu"))
    tuner = Tuner(PROBLEM, target, Store(), (SIMT,), 0, Progress())
    tuner.trials = tuner.verifications.fastest(tuner.measurements.compare(trials))
    assert [trial.verdict for trial in tuner.trials] == [passed, None]
    winner = tuner._result(()).winner
    assert winner.source is trials[0].source and winner.verdict is passed
    tuner.trials = [replace(trial, verdict=None) for trial in tuner.trials]
    tuner.trials[1] = replace(tuner.trials[1], verdict=passed)
    assert tuner._result(()).winner.source is trials[1].source, "a finalist that nobody verified does not win"


def test_a_tuner_renders_a_kernel_once_whatever_its_configs_are_called(space: Space) -> None:
    """Threads meet in no bank as 8 for a line, so a team of 8 is the same kernel; FMA_ORDER 4 is another one."""
    start = next(config for config in space.accepted if config.values["TA"] == 1 and config.values["ASYNC"] == 1)
    source = render(PROBLEM, SIMT, start)
    team = int(re.findall(r"constexpr int A_LANES = (\d+);", source.text)[0])
    same, other = start.with_values(COPY_THREADS=team), start.with_values(FMA_ORDER=4)
    assert render(PROBLEM, SIMT, same).text != source.text
    tuner = Tuner(PROBLEM, SimpleNamespace(gpu=None, arch="sm_90"), Store(), (SIMT,), 0, Progress())
    search = Search([space], CARD)
    assert [trial.config for trial in tuner.render(search.given([(SIMT, start), (SIMT, same)]))] == [start]
    again = search.given([(SIMT, same.with_values(FMA_ORDER=4)), (SIMT, other)])
    assert [trial.config.values["FMA_ORDER"] for trial in tuner.render(again)] == [4]


def differences(one: Config, other: Config) -> int:
    return sum(value != other.values[name] for name, value in one.values.items())


def test_a_small_space_runs_out(space: Space) -> None:
    few = Space(space.family, space.problem, 3, space.accepted[:3], ())
    search = Search([few], CARD)
    assert len(search.first(10)) == 3
    assert search.next(10, [(few.accepted[0], 1.0)]) == []


def test_families_share_the_first_round_and_the_fastest_leads_the_next(space: Space) -> None:
    flat = Problem(32, 4096, 4096)
    some = tuple(one for one in space.accepted[::3] if first_rejection(SIMT, flat, one, CARD.arch.limits) is None)
    search = Search([Space(SIMT, flat, len(some), some, ()), explore(SKINNY, flat, CARD)], CARD)
    first = search.first(8)
    assert {entry.family for entry in first} == {SKINNY, SIMT}
    rival = next(entry for entry in first if entry.family != first[0].family)  # was predicted to be slower
    fastest = rival.config
    following = search.next(6, [(fastest, 1.0)])
    assert {entry.family for entry in following} == {rival.family}
    assert all(1 <= differences(fastest, entry.config) <= REACH for entry in following)
