"""Searches on recorded times: ours proposes what was recorded alone; what the contest adds up to; its files."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from gemmgen.cli import main
from gemmgen.families import WGMMA
from gemmgen.kernel.model import predict
from gemmgen.lab import tuners
from gemmgen.lab.prints import plots
from gemmgen.lab.prints.plots import why_no_plot
from gemmgen.lab.prints.tuners import write_contests
from gemmgen.lab.study.modelcheck import TOP
from gemmgen.lab.study.times import CheckRow, Measured, Times, load_times, save_times
from gemmgen.lab.tuners import (
    NEAR,
    OURS,
    RECORDED,
    STRATEGIES,
    Contest,
    Outcome,
    Recorded,
    RecordedSearch,
    contest,
    load_recorded,
    search_recorded,
    spaces_of,
)
from gemmgen.problem.device import DEVICES
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.types import Types
from gemmgen.search.space import explore
from gemmgen.search.tuner import TILED_BUDGET
from gemmgen.support.errors import InvalidInput

HELD_OUT = Path(__file__).parent / "data" / "h200_wgmma_times_held_out.json"
CARD = DEVICES["H200"]
PROBLEM = Problem(64, 64, 1024, types=Types.parse("bf16"), layout=Layout.parse("rc"))


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    """The configs of a small space; the one that the model likes least is the fastest by far."""
    configs = explore(WGMMA, PROBLEM, CARD).accepted
    us = {config: predict(WGMMA.plan(PROBLEM, config), CARD).time_us for config in configs}
    slowest = max(us, key=lambda config: us[config])
    return Recorded(PROBLEM, WGMMA, CARD, {**us, slowest: 1.0})


def test_our_search_proposes_recorded_configs_alone(recorded: Recorded) -> None:
    tried = [entry.config for entry in RecordedSearch(recorded).first(10**6)]
    assert set(tried) == set(recorded.us) and len(tried) == len(recorded.us)
    search = RecordedSearch(recorded)
    first = search.first(1)[0].config
    assert not search.moved("GROUP", 4, [(first, 1.0)])  # was not recorded
    assert len(search.next(3, [(first, 1.0)])) == 3


def test_a_budget_of_the_whole_space_finds_the_fastest(recorded: Recorded) -> None:
    found = [search_recorded(recorded, budget) for budget in (1, 4, len(recorded.us), 10**6)]
    assert found == sorted(found, reverse=True) and found[0] > found[-1] == recorded.fastest_us == 1.0


def test_what_a_tuner_needs_is_enough_with_every_larger_budget(recorded: Recorded) -> None:
    near, far = tuners.NEAR, 0.5
    kinds = {8: (near, near, far), 16: (far, far, near), 32: (near, far), 64: (0.0, near, far)}
    outcomes = [Outcome("one", budget, lost) for budget, lost in kinds.items()]
    never = [replace(one, tuner="other", lost=(far,)) for one in outcomes]
    result = Contest(recorded, (*outcomes, *never))
    assert [one.found for one in outcomes] == pytest.approx([2 / 3, 1 / 3, 1 / 2, 2 / 3])
    assert result.needed("one") == 32  # 8 would do, and 16 would not
    assert result.needed("other") is None
    assert result.lost("one", 64) == near and result.lost("other", 8) == far


def test_details_and_problems_of_few_configs_are_left_out(recorded: Recorded, tmp_path: Path) -> None:
    detail = next(iter(recorded.us)).with_values(GROUP=16)
    rows = [CheckRow(config.values, 168, us) for config, us in {**recorded.us, detail: 0.5}.items()]
    times = Times(CARD, {"date": "2026-11-23"}, (Measured(PROBLEM, WGMMA, tuple(rows)),))
    least = len(recorded.us)
    (space,) = spaces_of(times, least)
    assert space.us == recorded.us
    assert not list(spaces_of(times, least + 1))
    path, few = tmp_path / "times.json", replace(times, measured=(Measured(PROBLEM, WGMMA, tuple(rows[:20])),))
    save_times(few, path)
    with pytest.raises(InvalidInput, match="no problem has times of 100 configs"):
        load_recorded([path])


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_the_order_has_one_of_the_fastest_among_the_first_of_recorded_spaces(every: int) -> None:
    """Of four whole spaces of an H200, and of samples of four others that were timed in another order.

    Seen: the very fastest of all eight.
    """
    spaces = [space for path in (*RECORDED, HELD_OUT) for space in spaces_of(load_times(path), least=40)]
    assert len(spaces) == 8
    spaces = spaces[::every]
    lost = [space.lost(min(space.us[entry.config] for entry in RecordedSearch(space).first(TOP))) for space in spaces]
    assert sum(one <= NEAR for one in lost) >= 0.9 * len(lost)
    assert max(lost) <= 0.05
    assert all(space.lost(search_recorded(space, TILED_BUDGET)) <= NEAR for space in spaces)


def test_without_kernel_tuner_the_command_says_how_to_get_it(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuners, "find_spec", lambda name: None)
    monkeypatch.setattr("gemmgen.lab.commands.study.load_recorded", lambda paths: (recorded,))
    assert main(["study", "tuners"]) == 1
    assert capsys.readouterr().err == "gemmgen: failed: Kernel Tuner is missing: pip install kernel-tuner\n"


@pytest.mark.skipif(find_spec("kernel_tuner") is None, reason="Kernel Tuner is not installed")
def test_kernel_tuners_strategies_search_the_same_space(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuners, "BUDGETS", (4, 16))
    result = contest(recorded, seeds=2)
    assert {one.tuner for one in result.outcomes} == {OURS, *STRATEGIES.values()}
    assert {len(one.lost) for one in result.outcomes if one.tuner != OURS} == {2}
    assert all(lost >= 0 for one in result.outcomes for lost in one.lost)


def test_the_page_has_a_row_for_each_tuner(recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "FORMATS", ("svg",))
    outcomes = [Outcome(tuner, budget, (0.1 / budget,)) for tuner in (OURS, "random") for budget in (4, 8)]
    written = write_contests([Contest(recorded, tuple(outcomes))], "gemmgen study tuners", tmp_path)
    page = (tmp_path / "study_tuners.md").read_text()
    assert f"| {OURS} | 8 |" in page and "| random | 8 |" in page
    kinds = {"md", "json"} | (set() if why_no_plot() else {"svg"})
    assert {path.suffix[1:] for path in written.paths} == kinds
