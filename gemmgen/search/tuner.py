"""The stages of a search, one line each: problem -> space -> order -> render -> compile -> time -> verify -> pick.

`tune` needs no GPU: without one the emulator verifies and the model ranks, and every figure says "predicted". Compiled
kernels, verdicts and timings are cached by content, so that an interrupted search resumes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from gemmgen.families import MMA, SEARCHED, SIMT, WGMMA, Config, Family
from gemmgen.kernel.model import predict
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render_plan
from gemmgen.render.naming import problem_name
from gemmgen.run.compile import CompiledKernel, compile_many, compiler_processes
from gemmgen.run.target import Target
from gemmgen.search.candidate_times import Measurements
from gemmgen.search.candidate_verdicts import Verifications, examples_for
from gemmgen.search.experience import nearest, remember, was_searched
from gemmgen.search.explorer import search_of, unsuited
from gemmgen.search.order import Ranked, Search, rounds
from gemmgen.search.result import TuneResult
from gemmgen.search.space import Space
from gemmgen.search.trial import Progress, Trial
from gemmgen.support.child import Child, crew
from gemmgen.support.errors import Failure, GemmgenError
from gemmgen.support.files import Store, content_key
from gemmgen.support.threads import thread_pool
from gemmgen.verification.verifier import make_data

DEFAULT_BUDGET = {"gpu": 64, "emulator": 8}  # candidates
# On a GPU where a kernel of a family that tiles a large C is predicted to be the fastest: the model orders those best
# (docs/studies.md).
TILED, TILED_BUDGET = (SIMT, MMA, WGMMA), 48
WON_SHARE = 4  # one candidate of so many, at most, because it won a similar problem


def tune(
    problem: Problem,
    target: Target,
    store: Store,
    *,
    families: Sequence[Family] = SEARCHED,
    budget: int | None = None,
    seed: int = 0,
    start: Sequence[tuple[Family, Config]] = (),
    progress: Progress | None = None,
    verifies: bool = True,
    summation: str | None = None,
) -> TuneResult:
    """Find the fastest correct kernel of `families` for `problem` on `target`, trying `budget` candidates.

    The default of `budget` is `default_budget`. Families that accept no config for the problem are left out; the others
    share the budget. Configs in `start` are tried first. A caller that verifies the winner itself may turn `verifies`
    off. All candidates are of the class `summation` (see `Plan.summation`); None: of any.

    Raises GemmgenError if no config is accepted or none survives.
    """
    # Simultaneous searches of one problem take turns and share times; else noise would give each its own winner.
    key = content_key(problem_name(problem), target.executor.description, target.arch)
    with (
        store.alone("search", key, shared=target.gpu is None),
        crew(compiler_processes()) as compilers,
        thread_pool() as helpers,
    ):
        given = problem, target, store, families, seed, progress or Progress(), compilers, start, helpers
        tuner = Tuner(*given, verifies, summation)
        result = tuner.run(budget)
        return result if target.gpu is None else tuner.learned(result)


@dataclass
class Tuner:
    """The stages of one search, and what they share.

    compilers   processes that compile; they stay between searches
    helpers     threads for work that nothing waits for yet
    seconds     seconds that each phase took so far
    experience  configs that it starts with because they won similar problems on this card
    """

    problem: Problem
    target: Target
    store: Store
    families: Sequence[Family]
    seed: int
    progress: Progress
    compilers: Sequence[Child] = ()
    start: Sequence[tuple[Family, Config]] = ()
    helpers: ThreadPoolExecutor | None = None
    verifies: bool = True
    summation: str | None = None
    trials: list[Trial] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    experience: list[Ranked] = field(default_factory=list)
    _data: Future[None] | None = None  # what verification will ask for
    bodies: set[str] = field(default_factory=set)  # of all that was rendered
    measurements: Measurements = field(init=False)
    verifications: Verifications = field(init=False)

    def __post_init__(self) -> None:
        self.measurements = Measurements(self.problem, self.target, self.store, self.progress)
        self.verifications = Verifications(self.problem, self.target, self.store, self.seed, self.progress)

    def run(self, budget: int | None = None) -> TuneResult:
        self._start_helpers(budget or DEFAULT_BUDGET[self.target.executor.name])
        with self._phase("explore"):
            search = self.explore()
        if self.target.gpu is not None and not was_searched(self.store, self.target.executor.description, self.problem):
            self._make_data()  # not before: the space is gone through in this process, too
        budget = budget or default_budget(search, self.target)
        measured: list[list[Trial]] = []
        for batch in self._batches(search, min(budget, len(search.ranked))):
            with self._phase("compile"):
                compiled = self.compile(self.render(batch))
            with self._phase("measure"):
                measured.append(self.measure(compiled))
                self.trials += measured[-1]
        with self._phase("measure"):
            self.trials = self.measurements.rank(measured)
        with self._phase("compare"):
            self.trials = self.measurements.compare(self.trials)
        if self.verifies:
            with self._phase("verify"):
                self.trials = self.verifications.fastest(self.trials, self._data)
        return self._result(search.spaces)

    def explore(self) -> Search:
        """The spaces of the families, except for families that are hopeless compared with another."""
        self.progress.stage("explore", 1)
        search, explored = search_of(self.problem, self.families, self.target.spec, self.summation)
        if not search.spaces:
            raise GemmgenError(unsuited(self.problem, self.target.arch, explored))
        if all(space.family not in self.families for space in search.spaces):
            self.families = tuple(space.family for space in search.spaces)
        self.progress.step("explore", None)
        return search

    def learned(self, result: TuneResult) -> TuneResult:
        """Return `result`, after recording its winner for the next searches on this card."""
        winner = result.winner
        remember(self.store, self.target.executor.description, self.problem, winner.source.family, winner.config)
        return result

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def _start_helpers(self, budget: int) -> None:
        """Start work that is needed soon, in parallel with the search of the space. Without a GPU the cores are busy
        already."""
        if self.target.gpu is not None and self.helpers is not None:
            self.helpers.submit(self.target.gpu.prepare)
            for compiler in self.compilers[:budget]:
                compiler.start()

    def _make_data(self) -> None:
        """Make the operands of verification's situations while kernels are compiled and timed."""
        if self.helpers is not None and self._data is None:
            self._data = self.helpers.submit(make_data, self.problem, examples_for(self.problem), self.seed)

    def _batches(self, search: Search, budget: int) -> Iterator[list[Ranked]]:
        """The first batch, then `rounds` if times are measured; else the configs with the best predictions."""
        given = search.given(self.start)
        if self.target.gpu is None:
            yield given + search.first(max(0, budget - len(given)))
            return
        won = nearest(self.store, self.target.executor.description, self.problem, self.families)
        self.experience = search.given(won[: budget // WON_SHARE])
        yield from rounds(search, budget, given + self.experience, self._tried)

    def _tried(self) -> list[tuple[Config, float | None]]:
        return [(trial.config, None if trial.timing is None else trial.time_us) for trial in self.trials]

    def render(self, batch: Sequence[Ranked]) -> list[Trial]:
        """Render the configs of `batch`, without kernels that another config gave before, as not every axis changes
        every kernel."""
        trials = [Trial(render_plan(entry.plan, self.target.arch), entry.plan, entry.prediction) for entry in batch]
        fresh = {trial.source.body: trial for trial in reversed(trials) if trial.source.body not in self.bodies}
        self.bodies |= fresh.keys()
        return list(reversed(fresh.values()))

    def compile(self, trials: list[Trial]) -> list[Trial]:
        """Compile all trials; those that spill registers to memory are out."""
        self.progress.stage("compile", len(trials))
        sources, step = [trial.source for trial in trials], lambda *_: self.progress.step("compile", None)
        results = compile_many(sources, self.target.arch, self.store, step, compilers=self.compilers)
        return [self._compiled(trial, result) for trial, result in zip(trials, results, strict=True)]

    def measure(self, trials: list[Trial]) -> list[Trial]:
        """Time all trials that compiled; the data for verification is made meanwhile."""
        if self.target.gpu is not None and self.measurements.unknown(trials):
            self._make_data()
        return self.measurements.measure(trials)

    def _compiled(self, trial: Trial, result: CompiledKernel | Failure) -> Trial:
        if isinstance(result, Failure):
            return replace(trial, failure=result)
        trial = replace(trial, compiled=result, prediction=predict(trial.plan, self.target.spec, result.registers))
        if result.spill_bytes:
            reason = f"{result.spill_bytes} bytes of registers spill to local memory ({result.registers} registers)"
            return replace(trial, failure=Failure("rejected", reason, "ptxas"))
        return trial

    def _result(self, spaces: Sequence[Space]) -> TuneResult:
        in_order = sorted(spaces, key=lambda space: self.families.index(space.family))
        experience = [entry.config for entry in self.experience]
        return TuneResult.of(self.problem, self.target, in_order, self.trials, self.seconds, experience)


def default_budget(search: Search, target: Target) -> int:
    """The default number of candidates to try."""
    if target.gpu is not None and search.ranked[0].family in TILED:
        return TILED_BUDGET
    return DEFAULT_BUDGET[target.executor.name]
