"""The choice of the winner: a pure function of measured or predicted times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmgen.kernel.model import MODEL_ERROR
from gemmgen.run.gpu.timing import Timing, speedup, steady

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
