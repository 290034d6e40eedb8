"""Times of a search's candidates: quick times of all, then a comparison of the fastest; all are cached by content."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any, TypeVar

from gemmgen.kernel.model import representative
from gemmgen.problem.gemm import Problem
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.run.gpu.timing import FINAL, QUICK, RANK, Timing, steady, timing_from
from gemmgen.run.gpu.timing import Protocol as TimingProtocol
from gemmgen.run.target import Target
from gemmgen.search.trial import Progress, Trial, by_time
from gemmgen.support.errors import Failure
from gemmgen.support.files import Store, code_digest, content_key

Kept = TypeVar("Kept")
FINALISTS = 8  # the fastest: re-timed together, on a card that is as warm as it gets, where their order may be another


@dataclass(frozen=True)
class Measurements:
    """Measures candidates for `problem` on `target`. Without a GPU nothing is timed, and predictions stand."""

    problem: Problem
    target: Target
    store: Store
    progress: Progress

    def measure(self, trials: list[Trial]) -> list[Trial]:
        """Time quickly the candidates that compiled and have no cached time."""
        if self.target.gpu is None:
            return trials
        self.progress.stage("measure", sum(trial.failure is None for trial in trials))
        unknown = self.unknown(trials)
        fresh = dict(zip((trial.source.name for trial in unknown), self._run(unknown, RANK), strict=True))
        return [trial if trial.failure else self._measured(trial, fresh.get(trial.source.name)) for trial in trials]

    def unknown(self, trials: Sequence[Trial]) -> list[Trial]:
        """The candidates that `measure` would time, as they have no cached time."""
        return [trial for trial in trials if trial.failure is None and self._known(trial) is None]

    def together(self, trials: Sequence[Trial]) -> list[Trial]:
        """Time all candidates that compiled and have not failed in one run, cached or not, for a file of times."""
        alive = [trial for trial in trials if trial.failure is None]
        together = dict(zip(map(id, alive), self._run(alive, QUICK), strict=True))
        return [trial.timed(together.get(id(trial))) for trial in trials]

    def rank(self, rounds: Sequence[Sequence[Trial]]) -> list[Trial]:
        """All trials, the fastest first: the best of each round are timed again in one run, and the others follow.

        A card slows down by a tenth under longer load, so times from different rounds are hardly comparable.
        """
        alive = [by_time(trial for trial in one if trial.failure is None) for one in rounds]
        best = [trial for one in alive for trial in one[:FINALISTS]]
        chosen = {id(trial) for trial in best}
        others = [trial for one in rounds for trial in one if id(trial) not in chosen]
        if len(rounds) > 1:
            again = self._run(best, RANK)
            best = [trial.timed(timing) for trial, timing in zip(best, again, strict=True)]
        return by_time(best) + by_time(others)

    def compare(self, trials: list[Trial]) -> list[Trial]:
        """Time the first FINALISTS of `trials` again, interleaved and for longer, so that their ratios are paired.

        They stay in front, in their new order. Without a GPU nothing changes.
        """
        alive = [trial for trial in trials if trial.failure is None][:FINALISTS]
        if self.target.gpu is None or not alive:
            return trials
        self.progress.stage("compare", 1)
        timed = [trial.timed(timing) for trial, timing in zip(alive, self._run(alive, FINAL), strict=True)]
        ran = [trial for trial in timed if trial.failure is None]
        times = steady([trial.timing for trial in ran if trial.timing is not None])
        # The order of `pick_measured`: the first of them that is right is the winner, so verification starts with it.
        finalists = [trial for _, trial in sorted(zip(times, ran, strict=True), key=itemgetter(0))]
        finalists += [trial for trial in timed if trial.failure is not None]
        self.progress.step("compare", None)
        chosen = {id(trial) for trial in alive}
        return [*finalists, *(trial for trial in trials if id(trial) not in chosen)]

    def _measured(self, trial: Trial, fresh: Timing | Failure | None) -> Trial:
        """`trial` with its timing: a fresh one, which is cached, or the cached one."""
        if isinstance(fresh, Timing):
            self.store.put("timing", self._key(trial), json.dumps(asdict(fresh)).encode())
        trial = trial.timed(fresh or self._known(trial))
        self.progress.step("measure", trial)
        return trial

    def _run(self, trials: Sequence[Trial], protocol: TimingProtocol) -> tuple[Timing | Failure, ...]:
        """Time `trials` interleaved in one run.

        A comparison that was made before returns its cached times, so that the same search has the same winner.
        """
        gpu = self.target.gpu
        if gpu is None or not trials:
            return ()
        if protocol is QUICK:  # used for a file of times
            return self._timed(gpu, trials, protocol)
        codes = [trial.machine_code for trial in trials]
        key = self._content_key(protocol, *sorted(codes))
        kept = self._read("comparison", key, lambda entries: {one: timing_from(at) for one, at in entries.items()})
        if kept is None or not kept.keys() >= set(codes):
            fresh = self._timed(gpu, trials, protocol)
            kept = {code: one for code, one in zip(codes, fresh, strict=True) if isinstance(one, Timing)}
            if len(kept) < len(trials):
                return fresh
            entries = {code: asdict(one) for code, one in kept.items()}
            self.store.put("comparison", key, json.dumps(entries).encode())
        return tuple(kept[code] for code in codes)

    def _read(self, kind: str, key: str, parse: Callable[[Any], Kept]) -> Kept | None:
        """The value in the store; None if there is none, or if another version wrote it."""
        payload = self.store.get(kind, key)
        try:
            return None if payload is None else parse(json.loads(payload))
        except (AttributeError, TypeError, ValueError, KeyError):
            return None

    def _timed(
        self, gpu: GpuExecutor, trials: Sequence[Trial], protocol: TimingProtocol
    ) -> tuple[Timing | Failure, ...]:
        kernels: list[GpuKernel] = []
        for trial in trials:
            assert trial.compiled is not None
            kernels.append(gpu.load_compiled(trial.source, trial.compiled))
        try:
            return gpu.measure_many(kernels, representative(self.problem), protocol).timings
        finally:
            for kernel in kernels:
                kernel.close()

    def _known(self, trial: Trial) -> Timing | None:
        return self._read("timing", self._key(trial), timing_from)

    def _key(self, trial: Trial) -> str:
        return self._content_key(RANK, trial.machine_code)

    def _content_key(self, protocol: TimingProtocol, *codes: str) -> str:
        description, case = self.target.executor.description, representative(self.problem)
        return content_key(
            *codes, description, str(case), json.dumps(asdict(protocol)), code_digest("run/gpu/timing.py")
        )
