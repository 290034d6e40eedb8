"""One search for all run-time sizes of a product: each kernel is compiled once and timed at many sizes.

The text of such a kernel does not depend on the sizes that it is tuned for, so a candidate for one size serves all
others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gemmgen.families import FAMILIES
from gemmgen.kernel.model import Prediction, predict, representative
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render_plan
from gemmgen.run.compile import CompiledKernel, compile_many, compiler_processes
from gemmgen.run.gpu.executor import BesideLibrary, GpuKernel
from gemmgen.run.gpu.timing import COARSE, InterleavedTimings
from gemmgen.run.target import Target
from gemmgen.search.explorer import PROCESS, Named
from gemmgen.search.kernel_set import FAR, Times, near_best, smallest_set, weights_of
from gemmgen.search.order import Ranked
from gemmgen.search.trial import Progress, Trial
from gemmgen.support.child import Child, crew
from gemmgen.support.errors import CandidateFailed, GemmgenError
from gemmgen.support.files import Store
from gemmgen.support.threads import cores, in_threads
from gemmgen.support.words import plural

EACH = 6  # candidates of each size in the first round, which are those that the model ranks first
LATER = 2  # further rounds, with as many at each of the sizes that `_wanting` names
BEHIND = 16  # sizes, at most, at which cuBLASLt leads: more are tried there
HARDER = 2  # times as many in each later round where cuBLASLt leads, or DRAM is the limit, as the model says
# A candidate is timed at sizes for which the model predicts less than so many times the least of all: fewer than in a
# library's choice, as the best of hundreds is seldom one of which the model thinks so little.
SEARCH_HOPE = 1.3
PREDICTED_EACH = 1  # without a GPU times tell nothing new
NEAR = 0.03  # a kernel that is so close to the fastest of a size may be the fastest when timed again
MOST_FINALISTS = 48


@dataclass(frozen=True)
class Finalists:
    """Compiled kernels for many sizes.

    problems   the problem with each of the typical sizes
    trials     the kernels; each is the fastest at some size, or close to it
    tried      number of candidates that were compiled
    times_us   times of these kernels for each problem, as the search measured them; predicted without a GPU
    """

    problems: tuple[Problem, ...]
    trials: tuple[Trial, ...]
    tried: int
    times_us: Times


def tune_many(
    problems: Sequence[Problem],
    target: Target,
    store: Store,
    *,
    most: int = MOST_FINALISTS,
    each: int | None = None,
    suits: Callable[[Trial], bool] = lambda trial: True,
    summation: str | None = None,
    progress: Progress | None = None,
) -> Finalists:
    """Find kernels for `problems`, which differ only in their typical sizes, in one search.

    most   most kernels in the smallest set; on a GPU others within NEAR of the fastest join it, up to MOST_FINALISTS in
           all
    each   candidates per size in the first round (None: EACH, without a GPU PREDICTED_EACH)
    suits  a predicate that rejects candidates before they are compiled
    summation  the class of summation that all kernels must have: see `Plan.summation`; None: any

    On a GPU all candidates are timed at all sizes for which the model does not rule them out. Without one the model's
    times decide, and only the smallest set that serves all sizes is compiled. Raises GemmgenError if no candidate
    survives.
    """
    with ExitStack() as stack:
        count = max(1, min(cores(), len(problems)))
        explorers = stack.enter_context(crew([Child(PROCESS) for _ in range(count)]))
        compilers = stack.enter_context(crew(compiler_processes()))
        given = tuple(problems), target, store, progress or Progress(), most, suits, summation
        search = _ManySizes(*given, explorers, compilers)
        return search.predicted(each or PREDICTED_EACH) if target.gpu is None else search.measured(each or EACH)


@dataclass
class _ManySizes:
    problems: tuple[Problem, ...]
    target: Target
    store: Store
    progress: Progress
    most: int
    suits: Callable[[Trial], bool]
    summation: str | None
    explorers: Sequence[Child]
    compilers: Sequence[Child]
    trials: list[Trial] = field(default_factory=list)  # those that compiled
    tried: int = 0
    _predictions: list[list[float]] = field(default_factory=list)  # of each trial, for all problems
    _library: Times = field(init=False)  # cuBLASLt's microseconds for each problem; infinite where unknown
    _known: set[Named] = field(default_factory=set)
    _bodies: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._library = np.full(len(self.problems), math.inf)

    @cached_property
    def _weights(self) -> Times | None:
        """The weights of the problems, if only one size varies among them."""
        cases = [representative(problem) for problem in self.problems]
        axes = [[getattr(case, axis) for case in cases] for axis in ("m", "n", "k")]
        varying = [sizes for sizes in axes if len(set(sizes)) > 1]
        alone = len(varying) == 1 and sorted(set(varying[0])) == varying[0]
        return weights_of(varying[0]) if alone else None

    def measured(self, each: int) -> Finalists:
        gpu = self.target.gpu
        assert gpu is not None
        timer = BesideLibrary(gpu)
        times = np.empty((len(self.problems), 0))
        for _ in range(1 + LATER):
            counts = self._wanting(times, each) if times.size else dict.fromkeys(range(len(times)), each)
            fresh = self._compiled(self._rendered(self._explored(counts, times)))
            times = self._timed(timer, times, fresh)
            if not np.isfinite(times).any():
                raise self._nothing()
        wanted = smallest_set(times, self.most, self._weights, FAR)[-1].kernels
        close = near_best(times, NEAR, MOST_FINALISTS)
        more = [one for one in close if one not in wanted][: max(0, MOST_FINALISTS - len(wanted))]
        return self._finalists(times, sorted([*wanted, *more]))

    def _wanting(self, times: Times, each: int) -> dict[int, int]:
        """The problems for which to try more, and how many: one for each kernel of the best set, those where cuBLASLt
        is faster, and those limited by DRAM, for which the model predicts the same of many kernels."""
        ratios = self._library / times.min(axis=1)
        behind = [place for place in np.argsort(ratios).tolist() if ratios[place] < 1][:BEHIND]
        alike = [place for place, best in enumerate(times.argmin(axis=1).tolist()) if self._streams(place, best)]
        chosen = _stands_for(times, smallest_set(times, self.most, self._weights, FAR)[-1].kernels)
        return dict.fromkeys(chosen, each) | dict.fromkeys([*behind, *alike], each * HARDER)

    def _streams(self, place: int, trial: int) -> bool:
        """Whether DRAM limits a trial's product of the problem at this place, as the model says."""
        return self._prediction(self.trials[trial], self.problems[place]).bound == "DRAM"

    def predicted(self, each: int) -> Finalists:
        everywhere = dict.fromkeys(range(len(self.problems)), each)
        trials = self._rendered(self._explored(everywhere, np.empty((len(self.problems), 0))))
        while trials:
            times = np.array([self._predicted(one) for one in trials]).T
            wanted = [trials[one] for one in smallest_set(times, self.most, self._weights)[-1].kernels]
            fresh = self._compiled([one for one in wanted if one.compiled is None])
            if len(fresh) == len(wanted):
                return self._finalists(times[:, [trials.index(one) for one in wanted]], range(len(fresh)))
            failed = {one.source.body for one in wanted} - {one.source.body for one in fresh}
            trials = [one for one in trials if one.source.body not in failed]
            self.trials.clear()
        raise self._nothing()

    def _finalists(self, times: Times, places: Sequence[int]) -> Finalists:
        if not len(places):
            raise self._nothing()
        trials = tuple(self.trials[one] for one in places)
        return Finalists(self.problems, trials, self.tried, times[:, list(places)])

    def _nothing(self) -> GemmgenError:
        problems = f"{self.problems[0]} at {plural(len(self.problems), 'size')}"
        if not self.tried:
            return GemmgenError(f"the search has no candidate for {problems}")
        failed = f"{plural(self.tried, 'candidate')} failed to compile, spilled registers or failed to run"
        return GemmgenError(f"no kernel for {problems}: {failed}")

    def _explored(self, counts: Mapping[int, int], times: Times) -> Iterator[tuple[Problem, Named]]:
        """The explorers' proposals, so many for the problem at each place, given the times so far; each config once."""
        self.progress.stage("explore", len(counts))
        # A problem goes to the same explorer in each round: that one has its space.
        turns = [
            [place for place in counts if place % len(self.explorers) == one] for one in range(len(self.explorers))
        ]

        def ask(turn: int) -> list[tuple[int, list[Named]]]:
            found = []
            for place in turns[turn]:
                timed = [
                    ((trial.source.family, trial.config), us)
                    for trial, us in zip(self.trials, times[place].tolist(), strict=True)
                    if math.isfinite(us)
                ]
                message = self.problems[place], self.target.spec, self.summation, counts[place], timed
                found.append((place, self.explorers[turn].request(message)))
                self.progress.step("explore", None)
            return found

        answers = dict(pair for found in in_threads(ask, range(len(turns))) for pair in found)
        for place in counts:
            for named in answers[place]:
                if named not in self._known:
                    self._known.add(named)
                    yield self.problems[place], named

    def _rendered(self, asked: Iterator[tuple[Problem, Named]]) -> list[Trial]:
        """A trial for each new text."""
        fresh = []
        for problem, (family, config) in asked:
            entry = Ranked.of(problem, FAMILIES[family], config, self.target.spec)
            trial = Trial(render_plan(entry.plan, self.target.arch), entry.plan, entry.prediction)
            if trial.source.body not in self._bodies and self.suits(trial):
                self._bodies.add(trial.source.body)
                fresh.append(trial)
        return fresh

    def _compiled(self, trials: Sequence[Trial]) -> list[Trial]:
        """The trials that compile without spilling registers; they join the others."""
        self.progress.stage("compile", len(trials))
        self.tried += len(trials)
        sources, step = [trial.source for trial in trials], lambda *_: self.progress.step("compile", None)
        results = compile_many(sources, self.target.arch, self.store, step, compilers=self.compilers)
        alive = [
            replace(trial, compiled=result)
            for trial, result in zip(trials, results, strict=True)
            if isinstance(result, CompiledKernel) and not result.spill_bytes
        ]
        self.trials += alive
        self._predictions += [self._predicted(one) for one in alive]
        return alive

    def _timed(self, timer: BesideLibrary, times: Times, fresh: Sequence[Trial]) -> Times:
        """`times` with a column for each fresh kernel; infinite at sizes for which the model rules it out."""
        self.progress.stage("measure", len(self.problems))
        kernels: dict[str, GpuKernel] = {}
        rows = np.full((len(self.problems), len(fresh)), math.inf)
        try:
            for place, problem in enumerate(self.problems):
                predicted = [column[place] for column in self._predictions]
                own = predicted[len(predicted) - len(fresh) :]
                hopeful = [n for n, us in enumerate(own) if us < SEARCH_HOPE * min(predicted)]
                # The fastest so far is timed again: its old time over its new one makes two runs comparable.
                anchors = [int(times[place].argmin())] if np.isfinite(times[place]).any() else []
                chosen = [fresh[n] for n in hopeful] + [self.trials[one] for one in anchors]
                if hopeful:
                    *found, library = _times(timer, chosen, problem, kernels)
                    # If the anchor fails, nothing makes the runs comparable: the new times stay as they are.
                    comparable = bool(anchors) and math.isfinite(found[-1])
                    scale = times[place, anchors[0]] / found[-1] if comparable else 1.0
                    rows[place, hopeful] = np.array(found[: len(hopeful)]) * scale
                    self._library[place] = library * scale
                self.progress.step("measure", None)
        finally:
            for kernel in kernels.values():
                kernel.close()
        return np.hstack([times, rows])

    def _predicted(self, trial: Trial) -> list[float]:
        """The model's microseconds for each of the problems."""
        return [self._prediction(trial, problem).time_us for problem in self.problems]

    def _prediction(self, trial: Trial, problem: Problem) -> Prediction:
        registers = trial.compiled.registers if trial.compiled else None
        return predict(replace(trial.plan, problem=problem), self.target.spec, registers)


def _stands_for(times: Times, kernels: Sequence[int]) -> list[int]:
    """For each of `kernels` that is the fastest somewhere, a size in the middle of those sizes."""
    best = times[:, list(kernels)].argmin(axis=1)
    served = (np.flatnonzero(best == place).tolist() for place in range(len(kernels)))
    return [places[len(places) // 2] for places in served if places]


def _times(
    timer: BesideLibrary, trials: Sequence[Trial], problem: Problem, kernels: dict[str, GpuKernel]
) -> list[float]:
    """Microseconds of each trial, and last of cuBLASLt's first heuristic, interleaved; infinite for one that fails.

    `kernels` holds the loaded kernels.
    """
    loaded: list[GpuKernel | None] = []
    for trial in trials:
        assert trial.compiled is not None
        name = trial.source.name
        try:
            kernels[name] = kernels.get(name) or timer.gpu.load_compiled(trial.source, trial.compiled)
        except CandidateFailed:
            loaded.append(None)
            continue
        loaded.append(kernels[name])
    measured = [one for one in loaded if one]
    try:
        found = timer.measure(measured, representative(problem), COARSE)
    except CandidateFailed as error:
        found = InterleavedTimings((error.failure,) * len(measured))
    ours, library = found.steady_us()
    times = iter(ours)
    return [*(next(times) if one else math.inf for one in loaded), math.inf if library is None else library]
