"""Verdicts on a search's candidates: as few as suffice to show that the winner is right; cached by content."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace

from gemmgen.kernel.model import representative
from gemmgen.problem.gemm import Problem
from gemmgen.run.executor import load_in_parallel
from gemmgen.run.target import Target
from gemmgen.search.trial import Progress, Trial
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.support.files import Store, content_key, generator_digest
from gemmgen.verification.data import LARGE_EFFORT, effort
from gemmgen.verification.determinism import RUNS
from gemmgen.verification.verifier import Verdict, verdict_from, verify

EXAMPLES = 20  # situations a candidate must pass to be a finalist; see examples_for
LARGE_EXAMPLES = 5  # where one takes over LARGE_EFFORT
TOO_SLOW = Failure("rejected", "a faster one is right", "tuner")


@dataclass(frozen=True)
class Verifications:
    """Verifies candidates for `problem` on `target`, in situations that `seed` draws."""

    problem: Problem
    target: Target
    store: Store
    seed: int
    progress: Progress

    def fastest(self, trials: list[Trial], data: Future[None] | None = None) -> list[Trial]:
        """Property-test from the first trial on, until one is right: no slower one can win. `data` makes the operands
        meanwhile.

        Finalists stay in untested, and so do all others without a GPU; if times were measured, the slower ones are out.
        """
        self.progress.stage("verify", 1)
        if data is not None:
            data.result()
        right = False

        def judged(trial: Trial) -> Trial:
            nonlocal right
            if trial.failure is not None:
                return trial
            if right:
                return trial if self.target.gpu is None or trial.is_finalist else replace(trial, failure=TOO_SLOW)
            trial = self._verified(trial)
            right = trial.failure is None
            return trial

        return [judged(trial) for trial in trials]

    def all(self, trials: list[Trial]) -> list[Trial]:
        """Property-test every candidate that compiled."""
        alive = [trial for trial in trials if trial.failure is None]
        self.progress.stage("verify", len(alive))
        if self.target.gpu is None:
            load_in_parallel(self.target.executor, [trial.source for trial in alive if self._known(trial) is None])
        return [trial if trial.failure else self._verified(trial) for trial in trials]

    def _verified(self, trial: Trial) -> Trial:
        verdict = self._known(trial)
        if verdict is None:
            examples = examples_for(self.problem)
            # Which block of a tile is last differs from run to run.
            runs = RUNS if trial.source.launch.adds_up else 1
            verdict = verify(self.target.executor, trial.source, examples=examples, seed=self.seed, runs=runs)
            if verdict.failure is not None and verdict.failure.kind == "unavailable":
                raise CandidateFailed(verdict.failure)  # not the candidate's fault: all others would fail, too
            verdict = replace(verdict, coverage=None)  # it stands for other texts of the same machine code, too
            if verdict.passed:  # a failure is found again, with its situation
                self.store.put("verdict", self._key(trial), json.dumps(asdict(verdict)).encode())
        trial = replace(trial, verdict=verdict, failure=verdict.failure)
        self.progress.step("verify", trial)
        return trial

    def _known(self, trial: Trial) -> Verdict | None:
        payload = self.store.get("verdict", self._key(trial))
        try:
            return None if payload is None else verdict_from(json.loads(payload))
        except (TypeError, ValueError, KeyError):  # written by another version
            return None

    def _key(self, trial: Trial) -> str:
        demanded = str(examples_for(self.problem)), str(self.seed)
        return content_key(trial.machine_code, self.target.executor.environment, *demanded, generator_digest())


def examples_for(problem: Problem) -> int:
    """The number of situations that a kernel of `problem` must pass to be a finalist."""
    return LARGE_EXAMPLES if effort(representative(problem)) > LARGE_EFFORT else EXAMPLES
