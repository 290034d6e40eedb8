"""The path, a line a stage: problem -> space -> order -> render -> compile -> time -> verify -> pick.

`tune` needs no GPU: there the emulator verifies and the model ranks, and every figure says "predicted".
Compiled kernels, verdicts and timings are kept by content, so that an interrupted search resumes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, Protocol

from gemmgen.kernel.families import NAIVE, SEARCHED, Config, Family
from gemmgen.kernel.model import Prediction, predict, representative
from gemmgen.kernel.plan import Plan
from gemmgen.kernel.render import render_plan
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.problem.wgmma import Wgmma
from gemmgen.run.compile import CompiledKernel, compile_many, compiler_processes
from gemmgen.run.executor import load_in_parallel
from gemmgen.run.gpu.executor import GpuKernel
from gemmgen.run.gpu.timing import FINAL, QUICK, Timing
from gemmgen.run.gpu.timing import Protocol as TimingProtocol
from gemmgen.run.target import Target
from gemmgen.search.experience import nearest, remember, was_searched
from gemmgen.search.order import Ranked, Search, rounds
from gemmgen.search.pick import Pick, pick_measured, pick_predicted
from gemmgen.search.space import Space, explore
from gemmgen.support.brief import brief
from gemmgen.support.child import Child, crew
from gemmgen.support.errors import Failure, GemmgenError
from gemmgen.support.files import Store, code_digest, content_key, sha256
from gemmgen.support.html import shown_as
from gemmgen.support.threads import thread_pool
from gemmgen.verification.data import LARGE_EFFORT, effort
from gemmgen.verification.determinism import RUNS
from gemmgen.verification.verifier import Verdict, make_data, verdict_from, verify

Stage = Literal["explore", "compile", "verify", "measure", "compare", "explain", "bench"]

DEFAULT_BUDGET = {"gpu": 64, "emulator": 8}  # candidates
WGMMA_BUDGET = 32  # on a GPU where a kernel by wgmma is predicted to be the fastest: the model orders those best
EXAMPLES = 20  # situations a candidate must pass to be a finalist; see examples_for
LARGE_EXAMPLES = 5  # where one takes over LARGE_EFFORT
# What a verdict depends on beside the kernel.
JUDGES = tuple(
    f"verification/{module}.py"
    for module in (
        *("verifier", "checks", "extent", "tails", "seeker", "seeding", "strategies", "situation"),
        *("data", "reference", "comparison", "domain", "products", "multiplied", "judged", "linear", "tensor_bound"),
    )
)
WON_SHARE = 4  # one candidate of so many, at most, because it won a similar problem
FINALISTS = 4  # the fastest: re-timed together
TOO_SLOW = Failure("rejected", "a faster one is right", "tuner")


class Progress(Protocol):
    """Hears what `tune` does. `total` may grow while the search goes on; `about` says what the next stages are for."""

    def about(self, what: str) -> None: ...

    def stage(self, name: Stage, total: int) -> None: ...

    def step(self, name: Stage, trial: Trial | None) -> None: ...


class Silent:
    """A Progress that nobody sees."""

    def about(self, what: str) -> None:
        pass

    def stage(self, name: Stage, total: int) -> None:
        pass

    def step(self, name: Stage, trial: Trial | None) -> None:
        pass


@shown_as("trial.html")
@brief
@dataclass(frozen=True)
class Trial:
    """One candidate and all that became of it.

    prediction  from the compiled kernel's registers once it is compiled
    failure     why it is out; None while it is in
    timing      None where nothing was measured
    """

    source: KernelSource
    plan: Plan
    prediction: Prediction
    compiled: CompiledKernel | None = None
    verdict: Verdict | None = None
    timing: Timing | None = None
    failure: Failure | None = None

    @property
    def config(self) -> Config:
        return self.plan.config

    @property
    def time_us(self) -> float:
        """Microseconds a launch: measured where it was, else predicted; `time_kind` says which."""
        return self.timing.median_us if self.timing is not None else self.prediction.time_us

    @property
    def time_kind(self) -> Literal["measured", "predicted"]:
        return "predicted" if self.timing is None else "measured"


@shown_as("tune.html")
@brief
@dataclass(frozen=True)
class TuneResult:
    """What a search found.

    spaces      of the families that were searched
    trials      all candidates: the fastest first, then those that are out
    finalists   of which the winner was chosen; without a GPU all but the winner are predicted alone, not verified
    pick        indices into `finalists`
    seconds     that each phase of the search took
    experience  configs among the first tried because they won similar problems on this card
    """

    problem: Problem
    target: str
    arch: str
    executor: str
    spaces: tuple[Space, ...]
    trials: tuple[Trial, ...]
    finalists: tuple[Trial, ...]
    pick: Pick
    seconds: Mapping[str, float] = field(default_factory=dict)
    experience: tuple[Config, ...] = ()

    @property
    def winner(self) -> Trial:
        return self.finalists[self.pick.winner]

    def renamed(self, name: str) -> TuneResult:
        """With the winner under a name that a user gives. Raises InvalidInput."""
        winner = replace(self.winner, source=self.winner.source.renamed(name))

        def named(trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
            return tuple(winner if trial is self.winner else trial for trial in trials)

        return replace(self, trials=named(self.trials), finalists=named(self.finalists))

    @property
    def ties(self) -> tuple[Trial, ...]:
        return tuple(self.finalists[index] for index in self.pick.ties)


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
) -> TuneResult:
    """Find the fastest correct kernel of `families` for `problem` on `target`, trying `budget` candidates.

    Where nobody says how many: `default_budget`. Families that accept no config for the problem are left out; the
    others share the budget. What was best before may be a `start`: it comes first. A caller that shows itself that
    the winner is right needs none that `verifies`.

    Raises GemmgenError where no config is accepted or none survives.
    """
    with crew(compiler_processes()) as compilers, thread_pool() as helpers:
        tuner = Tuner(problem, target, store, families, seed, progress or Silent(), compilers, start, helpers, verifies)
        return tuner.learned(tuner.run(budget)) if target.gpu is not None else tuner.run(budget)


@dataclass
class Tuner:
    """The stages of one search, sharing what they all need.

    compilers   processes that compile, from search to search
    helpers     threads for what nobody waits for yet
    seconds     that each phase took so far
    experience  what it starts with because that won similar problems on this card
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
    trials: list[Trial] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    experience: list[Ranked] = field(default_factory=list)
    _data: Future[None] | None = None  # what verification will ask for
    bodies: set[str] = field(default_factory=set)  # of all that was rendered

    def run(self, budget: int | None = None) -> TuneResult:
        self._start_helpers(budget or DEFAULT_BUDGET[self.target.executor.name])
        with self._phase("explore"):
            search = self._explore()
        budget = budget or default_budget(search, self.target)
        measured: list[list[Trial]] = []
        for batch in self._batches(search, min(budget, len(search.ranked))):
            with self._phase("compile"):
                compiled = self.compile(self.render(batch))
            with self._phase("measure"):
                measured.append(self.measure(compiled))
                self.trials += measured[-1]
        with self._phase("measure"):
            self.trials = self.rank(measured)
        with self._phase("compare"):
            self.trials = self.compare(self.trials)
        if self.verifies:
            with self._phase("verify"):
                self.trials = self.verify_fastest(self.trials)
        return self._result(search.spaces)

    def _explore(self) -> Search:
        """The spaces of the families, but of those that have no hope beside another."""
        self.progress.stage("explore", 1)
        search, explored = Search((), self.target.spec), []
        for family in reversed(self.families):  # those of tensor cores stand last
            if search.hopeless(family, self.problem):
                continue
            explored.append(explore(family, self.problem, self.target.spec))
            if explored[-1].accepted:
                search.add(explored[-1])
        if not search.spaces and self.families == SEARCHED:  # two products on a card without wgmma, say
            self.families = (NAIVE,)
            return self._explore()
        if not search.spaces:
            raise GemmgenError("; ".join(self._unsuited(space) for space in explored))
        self.progress.step("explore", None)
        return search

    def learned(self, result: TuneResult) -> TuneResult:
        """`result`, whose winner the next searches on this card start with."""
        winner = result.winner
        remember(self.store, self.target.executor.description, self.problem, winner.source.family, winner.config)
        return result

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def _start_helpers(self, budget: int) -> None:
        """What is needed soon starts beside the search through the space. Without a GPU its cores have enough to do."""
        if self.target.gpu is not None and self.helpers is not None:
            self.helpers.submit(self.target.gpu.prepare)
            for compiler in self.compilers[:budget]:
                compiler.start()
            if not was_searched(self.store, self.target.executor.description, self.problem):
                self._make_data()

    def _make_data(self) -> None:
        """Those of the situations that verification will draw, while kernels are compiled and timed."""
        if self.helpers is not None and self._data is None:
            self._data = self.helpers.submit(make_data, self.problem, examples_for(self.problem), self.seed)

    def _unsuited(self, space: Space) -> str:
        reasons = "; ".join(f"{rule.expression}: {rule.because}" for rule, _ in space.rejected[:3])
        return f"no config of {space.family.name} suits {self.problem} on {self.target.arch} ({reasons})"

    def _batches(self, search: Search, budget: int) -> Iterator[list[Ranked]]:
        """What to start with, then `rounds`, where times are measured; else those that are predicted to be fastest."""
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
        """Those of `batch` that are no kernel which another config gave before: not every detail tells everywhere."""
        trials = [Trial(render_plan(entry.plan, self.target.arch), entry.plan, entry.prediction) for entry in batch]
        fresh = {trial.source.body: trial for trial in reversed(trials) if trial.source.body not in self.bodies}
        self.bodies |= fresh.keys()
        return list(reversed(fresh.values()))

    def compile(self, trials: list[Trial]) -> list[Trial]:
        """Compile all; what spills registers to memory is out."""
        self.progress.stage("compile", len(trials))
        results = compile_many(
            [trial.source for trial in trials],
            self.target.arch,
            self.store,
            lambda source, result: self.progress.step("compile", None),
            compilers=self.compilers,
        )
        return [self._compiled(trial, result) for trial, result in zip(trials, results, strict=True)]

    def _compiled(self, trial: Trial, result: CompiledKernel | Failure) -> Trial:
        if isinstance(result, Failure):
            return replace(trial, failure=result)
        trial = replace(trial, compiled=result, prediction=predict(trial.plan, self.target.spec, result.registers))
        if result.spill_bytes:
            reason = f"{result.spill_bytes} bytes of registers spill to local memory ({result.registers} registers)"
            return replace(trial, failure=Failure("rejected", reason, "ptxas"))
        return trial

    def verify_fastest(self, trials: list[Trial]) -> list[Trial]:
        """Property-test from the first on, until one is right: no slower one can win.

        Finalists stay in, untested, and without a GPU all others; where times were measured the slower ones are out.
        """
        self.progress.stage("verify", 1)
        if self._data is not None:
            self._data.result()
        right = False

        def judged(trial: Trial) -> Trial:
            nonlocal right
            if trial.failure is not None:
                return trial
            if right:
                return trial if self.target.gpu is None or _is_finalist(trial) else replace(trial, failure=TOO_SLOW)
            trial = self._verified(trial)
            right = trial.failure is None
            return trial

        return [judged(trial) for trial in trials]

    def verify(self, trials: list[Trial]) -> list[Trial]:
        """Property-test every candidate that compiled."""
        alive = [trial for trial in trials if trial.failure is None]
        self.progress.stage("verify", len(alive))
        if self.target.gpu is None:
            load_in_parallel(
                self.target.executor, [trial.source for trial in alive if self._known_verdict(trial) is None]
            )
        return [trial if trial.failure else self._verified(trial) for trial in trials]

    def _verified(self, trial: Trial) -> Trial:
        verdict = self._known_verdict(trial)
        if verdict is None:
            examples = examples_for(self.problem)
            # Which block of a tile is last differs from run to run.
            runs = RUNS if trial.source.launch.adds_up else 1
            verdict = verify(self.target.executor, trial.source, examples=examples, seed=self.seed, runs=runs)
            verdict = replace(verdict, coverage=None)  # it stands for other texts of the same machine code, too
            if verdict.passed:  # a failure is found again, with its situation
                self.store.put("verdict", self._verdict_key(trial), json.dumps(asdict(verdict)).encode())
        trial = replace(trial, verdict=verdict, failure=verdict.failure)
        self.progress.step("verify", trial)
        return trial

    def _known_verdict(self, trial: Trial) -> Verdict | None:
        payload = self.store.get("verdict", self._verdict_key(trial))
        try:
            return None if payload is None else verdict_from(json.loads(payload))
        except (TypeError, ValueError, KeyError):  # written by another version
            return None

    def _verdict_key(self, trial: Trial) -> str:
        demanded = (
            str(examples_for(self.problem)),
            str(self.seed),
            code_digest(*JUDGES),
        )
        return content_key(_machine_code(trial), self.target.executor.environment, *demanded)

    def measure(self, trials: list[Trial]) -> list[Trial]:
        """Time what compiled, quickly; without a GPU the predictions stand."""
        if self.target.gpu is None:
            return trials
        alive = [trial for trial in trials if trial.failure is None]
        self.progress.stage("measure", len(alive))
        unknown = [trial for trial in alive if self._known_timing(trial) is None]
        if unknown:
            self._make_data()
        fresh = dict(zip((trial.source.name for trial in unknown), self._time_together(unknown, QUICK), strict=True))
        return [trial if trial.failure else self._measured(trial, fresh.get(trial.source.name)) for trial in trials]

    def measure_together(self, trials: Sequence[Trial]) -> list[Trial]:
        """Time what compiled, and did not fail before, quickly and in one run, whatever is known of it."""
        alive = [trial for trial in trials if trial.failure is None]
        together = dict(zip(map(id, alive), self._time_together(alive, QUICK), strict=True))
        return [_with_timing(trial, together.get(id(trial))) for trial in trials]

    def rank(self, rounds: Sequence[Sequence[Trial]]) -> list[Trial]:
        """All trials, the fastest first: those of each round timed again, in one run, and behind them the others.

        A card under load for longer is slower, by a tenth: times of one round say little beside another's.
        """
        alive = [_by_time(trial for trial in one if trial.failure is None) for one in rounds]
        best = [trial for one in alive for trial in one[:FINALISTS]]
        chosen = {id(trial) for trial in best}
        others = [trial for one in rounds for trial in one if id(trial) not in chosen]
        if len(rounds) > 1:
            again = self._time_together(best, QUICK)
            best = [_with_timing(trial, timing) for trial, timing in zip(best, again, strict=True)]
        return _by_time(best) + _by_time(others)

    def _measured(self, trial: Trial, fresh: Timing | Failure | None) -> Trial:
        """`trial` with its timing: a fresh one, which is kept, or the one that is known."""
        if isinstance(fresh, Timing):
            self.store.put("timing", self._timing_key(trial), json.dumps(asdict(fresh)).encode())
        trial = _with_timing(trial, fresh or self._known_timing(trial))
        self.progress.step("measure", trial)
        return trial

    def _time_together(self, trials: Sequence[Trial], protocol: TimingProtocol) -> tuple[Timing | Failure, ...]:
        """Time `trials` interleaved in one run."""
        gpu = self.target.gpu
        if gpu is None or not trials:
            return ()
        kernels: list[GpuKernel] = []
        for trial in trials:
            assert trial.compiled is not None
            kernels.append(gpu.load_compiled(trial.source, trial.compiled))
        try:
            return gpu.measure_many(kernels, representative(self.problem), protocol).timings
        finally:
            for kernel in kernels:
                kernel.close()

    def _known_timing(self, trial: Trial) -> Timing | None:
        payload = self.store.get("timing", self._timing_key(trial))
        try:
            fields = None if payload is None else json.loads(payload)
            return None if fields is None else Timing(tuple(fields["samples_us"]), fields["protocol"])
        except (TypeError, ValueError, KeyError):  # written by another version
            return None

    def _timing_key(self, trial: Trial) -> str:
        description, case = self.target.executor.description, representative(self.problem)
        return content_key(
            _machine_code(trial), description, str(case), json.dumps(asdict(QUICK)), code_digest("run/gpu/timing.py")
        )

    def _result(self, spaces: Sequence[Space]) -> TuneResult:
        alive = _by_time(trial for trial in self.trials if trial.failure is None)
        out = [trial for trial in self.trials if trial.failure is not None]
        if not alive:
            reasons = "; ".join(f"{trial.config}: {trial.failure.reason}" for trial in out[:3] if trial.failure)
            raise GemmgenError(f"none of {len(out)} candidates survived: {reasons}")
        finalists = alive
        if self.target.gpu is None:
            pick = pick_predicted([trial.time_us for trial in finalists])
        else:  # where all of them were wrong, the fastest that is right
            finalists = [trial for trial in alive if _is_finalist(trial)] or alive[:1]
            pick = pick_measured([trial.timing for trial in finalists if trial.timing is not None])
        chosen = {id(trial) for trial in finalists}
        others = [trial for trial in alive if id(trial) not in chosen]
        return TuneResult(
            self.problem,
            self.target.spec.name,
            self.target.arch,
            self.target.executor.name,
            tuple(sorted(spaces, key=lambda space: self.families.index(space.family))),
            (*finalists, *others, *out),
            tuple(finalists),
            pick,
            {phase: round(seconds, 3) for phase, seconds in self.seconds.items()},
            tuple(entry.config for entry in self.experience),
        )

    def compare(self, trials: list[Trial]) -> list[Trial]:
        """Time the FINALISTS first of `trials` again, interleaved and for longer, so that their ratios are paired.

        They come first again, in their new order. Without a GPU nothing changes.
        """
        alive = [trial for trial in trials if trial.failure is None][:FINALISTS]
        if self.target.gpu is None or not alive:
            return trials
        self.progress.stage("compare", 1)
        timed = zip(alive, self._time_together(alive, FINAL), strict=True)
        finalists = _by_time(_with_timing(trial, timing) for trial, timing in timed)
        self.progress.step("compare", None)
        chosen = {id(trial) for trial in alive}
        return [*finalists, *(trial for trial in trials if id(trial) not in chosen)]


def default_budget(search: Search, target: Target) -> int:
    """Candidates to try where nobody says how many."""
    if target.gpu is not None and isinstance(search.ranked[0].plan.mma, Wgmma):
        return WGMMA_BUDGET
    return DEFAULT_BUDGET[target.executor.name]


def examples_for(problem: Problem) -> int:
    """How many situations a kernel of `problem` must pass to be a finalist."""
    return LARGE_EXAMPLES if effort(representative(problem)) > LARGE_EFFORT else EXAMPLES


def _machine_code(trial: Trial) -> str:
    """What a run depends on: the text, which the emulator compiles, and the cubin, which a GPU runs."""
    assert trial.compiled is not None
    return content_key(trial.source.digest, sha256(trial.compiled.cubin))


def _is_finalist(trial: Trial) -> bool:
    return trial.timing is not None and trial.timing.protocol["protocol"] == FINAL.name


def _by_time(trials: Iterable[Trial]) -> list[Trial]:
    return sorted(trials, key=lambda trial: trial.time_us)


def _with_timing(trial: Trial, timing: Timing | Failure | None) -> Trial:
    if isinstance(timing, Failure):
        return replace(trial, failure=timing)
    return trial if timing is None else replace(trial, timing=timing)
