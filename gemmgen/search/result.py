"""The result of a search: its candidates in order, the finalists and the winner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gemmgen.families import Config
from gemmgen.kernel.model import MODEL_ERROR
from gemmgen.problem.gemm import Problem
from gemmgen.run.gpu.timing import Timing, speedup, steady
from gemmgen.run.target import Target
from gemmgen.search.space import Space
from gemmgen.search.trial import Trial, by_time
from gemmgen.support.errors import GemmgenError
from gemmgen.support.html import shown_as
from gemmgen.support.short_repr import brief

TIE = 0.01  # relative difference below which two measured kernels count as equally fast


@dataclass(frozen=True)
class Pick:
    """Indices of the winner and its ties among the contestants.

    ties    contestants as fast as the winner: within TIE of it, round by round; within MODEL_ERROR if times are
            predicted
    """

    winner: int
    ties: tuple[int, ...]


def pick_measured(timings: Sequence[Timing], among: Sequence[int] = ()) -> Pick:
    """The fastest contestant; all from one interleaved measurement, so that rounds pair up.

    among  indices of the contestants that may win; empty: all
    """
    times = steady(timings)
    winner = min(among or range(len(timings)), key=times.__getitem__)
    return _split(winner, [speedup(timings[winner], timing) - 1 for timing in timings], TIE)


def pick_predicted(times_us: Sequence[float]) -> Pick:
    """The contestant with the lowest predicted time. Ties are those that the model cannot tell from it."""
    winner = min(range(len(times_us)), key=lambda index: times_us[index])
    return _split(winner, [time / times_us[winner] - 1 for time in times_us], MODEL_ERROR)


def _split(winner: int, more_by: list[float], tie: float) -> Pick:
    """Split off the ties; `more_by`: how much more than the winner each contestant takes, relative (0.01: 1%)."""
    return Pick(winner, tuple(index for index, by in enumerate(more_by) if index != winner and by <= tie))


@shown_as("tune.html")
@brief
@dataclass(frozen=True)
class TuneResult:
    """The result of a search.

    spaces      the spaces of the families that were searched
    trials      all candidates: the fastest first, then those that failed
    finalists   the candidates among which the winner was chosen; without a GPU all but the winner are only predicted,
                not verified
    pick        indices into `finalists`
    seconds     seconds that each phase of the search took
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
        """Return the result with the winner under a user's name. Raises InvalidInput."""
        winner = replace(self.winner, source=self.winner.source.renamed(name))

        def named(trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
            return tuple(winner if trial is self.winner else trial for trial in trials)

        return replace(self, trials=named(self.trials), finalists=named(self.finalists))

    @property
    def ties(self) -> tuple[Trial, ...]:
        return tuple(self.finalists[index] for index in self.pick.ties)

    @classmethod
    def of(
        cls,
        problem: Problem,
        target: Target,
        spaces: Sequence[Space],
        trials: Sequence[Trial],
        seconds: Mapping[str, float],
        experience: Sequence[Config],
    ) -> TuneResult:
        """The result with the winner among `trials`. Raises GemmgenError if none of them survived."""
        alive = by_time(trial for trial in trials if trial.failure is None)
        out = [trial for trial in trials if trial.failure is not None]
        if not alive:
            reasons = "; ".join(f"{trial.config}: {trial.failure.reason}" for trial in out[:3] if trial.failure)
            raise GemmgenError(f"none of {len(out)} candidates survived: {reasons}")
        finalists = alive
        if target.gpu is None:
            pick = pick_predicted([trial.time_us for trial in finalists])
        else:  # where all of them were wrong, the fastest that is right
            finalists = [trial for trial in alive if trial.is_finalist] or alive[:1]
            verified = [index for index, trial in enumerate(finalists) if trial.verdict is not None]
            pick = pick_measured([trial.timing for trial in finalists if trial.timing is not None], verified)
        chosen = {id(trial) for trial in finalists}
        others = [trial for trial in alive if id(trial) not in chosen]
        return cls(
            problem,
            target.spec.name,
            target.arch,
            target.executor.name,
            tuple(spaces),
            (*finalists, *others, *out),
            tuple(finalists),
            pick,
            {phase: round(spent, 3) for phase, spent in seconds.items()},
            tuple(experience),
        )
