"""A candidate of a search with all its results, and the interface for progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from gemmgen.families import Config
from gemmgen.kernel.model import Prediction
from gemmgen.kernel.plan import Plan
from gemmgen.kernel.source import KernelSource
from gemmgen.support.errors import Failure
from gemmgen.support.files import content_key, sha256
from gemmgen.support.html import shown_as
from gemmgen.support.short_repr import brief

if TYPE_CHECKING:  # what made these records a trial only holds
    from gemmgen.run.compile import CompiledKernel
    from gemmgen.run.gpu.timing import Timing
    from gemmgen.verification.verifier import Verdict

Stage = Literal["explore", "compile", "verify", "measure", "compare", "explain", "bench"]


class Progress:
    """Receives the progress of `tune`, and shows nothing of it. `total` may grow during the search; `about` says what
    the next stages are for."""

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
    """One candidate with all its results.

    prediction  the model's prediction, from the compiled kernel's registers once it is compiled
    failure     the reason why it is out; None while it is in
    timing      the measured time; None if it was not measured
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
        """Microseconds per launch: measured if it was, else predicted; `time_kind` says which."""
        return self.timing.median_us if self.timing is not None else self.prediction.time_us

    @property
    def time_kind(self) -> Literal["measured", "predicted"]:
        return "predicted" if self.timing is None else "measured"

    @property
    def is_finalist(self) -> bool:
        """Whether it was timed with the fastest, and for longer."""
        return self.timing is not None and self.timing.is_final

    @property
    def machine_code(self) -> str:
        """A digest of what a run depends on: the text, which the emulator compiles, and the cubin, which a GPU runs."""
        assert self.compiled is not None
        return content_key(self.source.digest, sha256(self.compiled.cubin))

    def timed(self, timing: Timing | Failure | None) -> Trial:
        """The trial with `timing`, or with the reason why there is none; None changes nothing."""
        if isinstance(timing, Failure):
            return replace(self, failure=timing)
        return self if timing is None else replace(self, timing=timing)


def by_time(trials: Iterable[Trial]) -> list[Trial]:
    """The trials sorted by time, the fastest first."""
    return sorted(trials, key=lambda trial: trial.time_us)
