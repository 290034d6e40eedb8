"""The number of runs that a search needs: ours and Kernel Tuner's strategies, replayed on recorded times of a whole
space.

The space is that of the search, without configs predicted to take model_times.WITHIN times the least time: they are
missing for all tuners alike. Kernel Tuner (pip install kernel-tuner) simulates its strategies from the cache file that
`gemmgen results` writes; our search orders configs by the model, and learns from the times.

Kernel Tuner: https://github.com/KernelTuner/kernel_tuner
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gemmgen.exports.json_records import Document, problem_document
from gemmgen.families import Config, Family
from gemmgen.lab.formats.cache import cache_document
from gemmgen.lab.formats.results import Result, results_of
from gemmgen.lab.study.times import DATA, Times, load_times
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.search.order import Ranked, Search, rounds
from gemmgen.search.space import Space, explore
from gemmgen.support.errors import GemmgenError, InvalidInput
from gemmgen.support.short_repr import brief

RECORDED = tuple(sorted(DATA.glob("h200_*_space.json")))
OURS = "gemmgen"
STRATEGIES = {  # of Kernel Tuner, with its own settings
    "random_sample": "random",
    "mls": "multi-start local search",
    "greedy_ils": "greedy iterated local search",
    "simulated_annealing": "simulated annealing",
    "genetic_algorithm": "genetic algorithm",
    "diff_evo": "differential evolution",
    "hybrid_vndx": "hybrid VND",
    "adaptive_tabu_greywolf": "tabu and grey wolf",
}
BUDGETS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # runs of one search
SEEDS = 20  # searches of each strategy with each budget
NEAR = 0.02  # relative: a search has found what takes so much longer than the fastest, at most
LEAST_CONFIGS = 100  # recorded of a problem, for a search to have a choice
PATIENCE = 100  # questions for each run of its budget, after which a search that knows all answers ends
MISSING = "Kernel Tuner is missing: pip install kernel-tuner"


@brief
@dataclass(frozen=True)
class Recorded:
    """Microseconds for each config of one space."""

    problem: Problem
    family: Family
    device: DeviceSpec
    us: Mapping[Config, float]

    @cached_property
    def fastest_us(self) -> float:
        return min(self.us.values())

    def lost(self, found_us: float) -> float:
        """How much longer than the fastest it takes, relative."""
        return found_us / self.fastest_us - 1


@dataclass(frozen=True)
class Outcome:
    """The losses of one tuner's searches with one budget: how much longer than the fastest their best takes,
    relative.

    lost  one loss per seed; our search draws nothing, and has only one
    """

    tuner: str
    budget: int
    lost: tuple[float, ...]

    @property
    def found(self) -> float:
        """The share of the searches whose best is NEAR the fastest."""
        return sum(one <= NEAR for one in self.lost) / len(self.lost)


@brief
@dataclass(frozen=True)
class Contest:
    """All tuners on one recorded space."""

    recorded: Recorded
    outcomes: tuple[Outcome, ...]

    def of(self, tuner: str) -> tuple[Outcome, ...]:
        """The outcomes of one tuner, the smallest budget first."""
        return tuple(one for one in self.outcomes if one.tuner == tuner)

    def needed(self, tuner: str) -> int | None:
        """The least budget from which on half of its searches are NEAR the fastest; None if there is none."""
        enough = None
        for one in reversed(self.of(tuner)):
            if one.found < 0.5:
                break
            enough = one.budget
        return enough

    def lost(self, tuner: str, budget: int) -> float:
        """The median loss of its searches with that budget."""
        return next(median(one.lost) for one in self.of(tuner) if one.budget == budget)


def tuners_of(contests: Sequence[Contest]) -> tuple[str, ...]:
    """All tuners, ours first."""
    return tuple(dict.fromkeys(one.tuner for contest in contests for one in contest.outcomes))


def require_kernel_tuner() -> None:
    """Raise GemmgenError if Kernel Tuner is missing."""
    if find_spec("kernel_tuner") is None:
        raise GemmgenError(MISSING)


def contest(recorded: Recorded, seeds: int = SEEDS) -> Contest:
    """Run ours and Kernel Tuner's strategies on one space. Raises GemmgenError if Kernel Tuner is missing."""
    require_kernel_tuner()
    budgets = [budget for budget in BUDGETS if budget < len(recorded.us)]
    ours = [Outcome(OURS, budget, (recorded.lost(search_recorded(recorded, budget)),)) for budget in budgets]
    return Contest(recorded, (*ours, *_kernel_tuner(recorded, budgets, seeds)))


# What was recorded


def load_recorded(paths: Iterable[Path] = RECORDED) -> tuple[Recorded, ...]:
    """The spaces with enough configs in files of measured times. Raises InvalidInput if there are none."""
    found = tuple(one for path in paths for one in spaces_of(load_times(path)))
    if not found:
        raise InvalidInput(f"no problem has times of {LEAST_CONFIGS} configs: see `gemmgen study model --measure`")
    return found


def spaces_of(times: Times, least: int = LEAST_CONFIGS) -> Iterator[Recorded]:
    """For each problem, the recorded configs of its search space, if there are at least `least`; without varied
    details.

    A detail that is newer than the times has its default in them, whatever the space has today.
    """
    for part in times.measured:
        family, problem = part.family, part.problem
        timed = {family.config_type(**row.values): row.us for row in part.rows}
        since = [axis for axis in family.config_type.axes() if axis.name not in part.rows[0].values]
        then = {axis.name: axis.default for axis in since if axis.name in family.details}
        accepted = explore(family, problem, times.device).accepted if len(timed) >= least else ()
        us = {was: timed[was] for was in (config.with_values(**then) for config in accepted) if was in timed}
        if len(us) >= least:
            yield Recorded(problem, family, times.device, us)


# Ours


class RecordedSearch(Search):
    """A search that proposes only recorded configs."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded.us
        configs = tuple(recorded.us)
        super().__init__([Space(recorded.family, recorded.problem, len(configs), configs, ())], recorded.device)

    def _sound(self, configs: Iterable[tuple[Family, Config]]) -> Iterator[Ranked]:
        return super()._sound((family, config) for family, config in configs if config in self._recorded)


def search_recorded(recorded: Recorded, budget: int) -> float:
    """Microseconds of the best config that our search finds in `budget` runs."""
    tried: list[tuple[Config, float | None]] = []
    for batch in rounds(RecordedSearch(recorded), min(budget, len(recorded.us)), (), lambda: tried):
        tried.extend((entry.config, recorded.us[entry.config]) for entry in batch)
    return min(us for _, us in tried if us is not None)


# Kernel Tuner


def _kernel_tuner(recorded: Recorded, budgets: Sequence[int], seeds: int) -> tuple[Outcome, ...]:
    """The outcomes of each of its strategies, simulated from a cache file."""
    from kernel_tuner import tune_kernel

    family, device = recorded.family, recorded.device.name
    rows = [Result(config.values, us) for config, us in recorded.us.items()]
    document = cache_document(results_of(*rows, problem=recorded.problem, family=family, device=device))
    known = {tuple(config.values.values()) for config in recorded.us}

    def is_recorded(config: Mapping[str, int]) -> bool:
        return tuple(config[name] for name in document["tune_params_keys"]) in known

    strategies = _Strategies(recorded, budgets, seeds)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        path = Path(folder) / "cache.json"
        path.write_text(json.dumps(document))
        tune_kernel(
            document["kernel_name"],
            "",
            tuple(document["problem_size"]),
            [],
            document["tune_params"],
            restrictions=is_recorded,
            lang="CUDA",
            strategy=strategies,
            strategy_options={},
            cache=str(path),
            simulation_mode=True,
            quiet=True,
        )
    return tuple(strategies.outcomes)


class _Strategies:
    """A strategy for Kernel Tuner that runs its own strategies one after the other, each as a new search in the same
    space."""

    def __init__(self, recorded: Recorded, budgets: Sequence[int], seeds: int) -> None:
        self._recorded, self._budgets, self._seeds = recorded, budgets, seeds
        self.outcomes: list[Outcome] = []

    def tune(self, space: Any, runner: Any, options: Any) -> list[Any]:
        """Run the strategies; Kernel Tuner calls this with its own records."""
        for strategy, name in STRATEGIES.items():
            for budget in self._budgets:
                seeds = range(self._seeds)
                lost = tuple(self._lost(strategy, budget, seed, space, runner, options) for seed in seeds)
                self.outcomes.append(Outcome(name, budget, lost))
        return []

    def _lost(self, strategy: str, budget: int, seed: int, space: Any, runner: Any, options: Any) -> float:
        from kernel_tuner import util
        from kernel_tuner.interface import Options, strategy_map

        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  where its strategies draw
        runner.visited_results = set()
        options["max_fevals"], options["budget"] = budget, _patient(util.TuningBudget)(None, budget)
        options.strategy_options = Options({"max_fevals": budget})
        found = strategy_map[strategy].tune(space, runner, options)
        return self._recorded.lost(1000 * min(one["time"] for one in found if one))


def _patient(budget: type[Any]) -> type[Any]:
    """A budget for Kernel Tuner that also ends a search that asks only for known configs.

    Such a search may go on for ever if few configs are neighbours.
    """
    from kernel_tuner.util import StopCriterionReached

    class Patient(budget):  # type: ignore[misc]
        asked = 0

        def raise_exception_if_done(self) -> None:
            self.asked += 1
            if self.asked > PATIENCE * self.max_fevals:
                raise StopCriterionReached(f"{self.asked} configs for {self.num_fevals} runs")
            super().raise_exception_if_done()

    return Patient


def tuners_document(contests: Sequence[Contest]) -> Document:
    """The contest as JSON-ready data."""
    return {
        "study": "tuners",
        "near": NEAR,
        "spaces": [
            {
                "problem": problem_document(one.recorded.problem),
                "family": one.recorded.family.name,
                "device": one.recorded.device.name,
                "configs": len(one.recorded.us),
                "fastest_us": one.recorded.fastest_us,
                "needed": {tuner: one.needed(tuner) for tuner in tuners_of(contests)},
                "outcomes": [
                    {
                        "tuner": outcome.tuner,
                        "budget": outcome.budget,
                        "found": outcome.found,
                        "median_lost": round(median(outcome.lost), 4),
                    }
                    for outcome in one.outcomes
                ],
            }
            for one in contests
        ],
    }
