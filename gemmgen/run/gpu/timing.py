"""The protocol and the results of measurements: records that need no GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import truediv
from statistics import geometric_mean, median, quantiles
from typing import Any, Literal

from gemmgen.problem.gemm import Case
from gemmgen.support.errors import Failure
from gemmgen.support.short_repr import brief

MOST_SETS = 4096  # graph nodes; problems under 100^3 then rotate over less than twice the L2


@dataclass(frozen=True)
class Protocol:
    """The protocol of a measurement: how long and how often it measures.

    Inputs lie in rotating sets that together hold at least twice the L2 cache. All contestants warm up together until
    two rounds agree within `STABLE`; then each round takes one sample of each contestant.

    samples      rounds
    sample_us    least device time of one sample, in microseconds: as many launches as that needs
    warmup_s     least duration of the warm-up, in seconds; four times that is its limit
    most_sets    input sets at most, whatever the cache holds: small problems would take thousands
    least_sets   input sets at least, even if one is larger than twice the cache
    data         values of the inputs: "uniform" in [-1, 1], or "normal" with a variance of 1
    repeats      how often rounds are measured again if they drift by more than `DRIFT` from beginning to end
    """

    name: str
    samples: int
    sample_us: float
    warmup_s: float
    most_sets: int = MOST_SETS
    least_sets: int = 2
    data: Literal["uniform", "normal"] = "uniform"
    repeats: int = 0


STABLE = 0.01  # relative change between two rounds of the warm-up
DRIFT = 0.015  # relative change between the first and the last half of a measurement's rounds
RANK = Protocol("rank", samples=3, sample_us=1_000, warmup_s=0.05)  # orders a search's candidates; the fastest go on
QUICK = Protocol("quick", samples=5, sample_us=1_000, warmup_s=0.05)  # finds the library's best; files of times
# At each of hundreds of sizes, where differences of a few percent between kernels decide. The warm-up brings the card
# to its power limit, which changes their order: one was ahead by 1% below the limit and 6% behind at it (H200,
# 2026-11-29, 326x6144x4096 bf16).
GRID = Protocol("grid", samples=5, sample_us=500, warmup_s=0.1, most_sets=64, least_sets=1)
COARSE = replace(GRID, name="coarse", samples=3, sample_us=250, warmup_s=0.005)  # of candidates, of which some go on
# At each of dozens of sizes: which of a library's dozens of kernels and candidates is the fastest.
LIBRARY = Protocol("library", samples=7, sample_us=1_200, warmup_s=0.02)
FINAL = Protocol("final", samples=15, sample_us=4_000, warmup_s=0.25, repeats=2)  # chooses among a search's fastest
GEMM_BATCHED = "gemmBatched"  # of cuBLAS, the baseline of batches of pointers
CAREFUL = Protocol("careful", samples=21, sample_us=10_000, warmup_s=1.0, repeats=2)  # supports a claim
NORMAL = replace(CAREFUL, name="normal", warmup_s=0.25, data="normal")  # the same claim of other data


@dataclass(frozen=True)
class Conditions:
    """The place of a measurement, and readings of the card while it ran. None: the card does not tell, or access is not
    allowed.

    worker      the machine and the card's UUID: "host/GPU-...", by which a cluster names its workers, too
    limited_by  reasons that kept the clock below its highest
    drift       relative increase in time from the first half of the rounds to the last: 0.01 is 1%
    repeated    how often the rounds were measured again, because they drifted by more than `DRIFT`
    """

    card: str
    driver: str
    worker: str
    power_limit_w: float | None = None
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    temperature_c: float | None = None
    limited_by: tuple[str, ...] = ()
    drift: float = 0.0
    repeated: int = 0


@brief
@dataclass(frozen=True)
class Timing:
    """Microseconds per launch, one mean per sample, and the protocol that they come from.

    Samples with the same index of contestants in one measurement were taken one after the other.

    place  index among the contestants of the measurement, from 0; their order differs from round to round
    """

    samples_us: tuple[float, ...]
    protocol: dict[str, str | int | float]
    conditions: Conditions | None = None
    place: int = 0

    @property
    def median_us(self) -> float:
        return median(self.samples_us)

    @property
    def spread(self) -> float:
        """Interquartile range relative to the median; 0 for a single sample."""
        if len(self.samples_us) < 2:
            return 0.0
        low, _, high = quantiles(self.samples_us, n=4)
        return (high - low) / self.median_us

    @property
    def is_final(self) -> bool:
        """Whether it was taken among the fastest, and for longer."""
        return self.protocol.get("protocol") == FINAL.name

    def tflops(self, case: Case) -> float:
        return case.flops / self.median_us * 1e-6

    def gbs(self, case: Case) -> float:
        """GB/s for the least traffic that the case needs."""
        return case.bytes_moved / self.median_us * 1e-3


def timing_from(fields: Mapping[str, Any]) -> Timing:
    """Read a Timing from the JSON of its `asdict`. Raises TypeError, ValueError or KeyError for anything else."""
    seen = fields["conditions"]
    conditions = None if seen is None else Conditions(**{**seen, "limited_by": tuple(seen["limited_by"])})
    return Timing(tuple(fields["samples_us"]), fields["protocol"], conditions, fields["place"])


@dataclass(frozen=True)
class Beside:
    """The things that a measurement times beside the kernels.

    heuristics  how many of cuBLASLt's algorithms contend to be the baseline: their fastest is timed again, interleaved
                with the kernels. None: all that it offers
    moving      whether the operands' bytes are moved alone, too, which takes about half a second
    """

    heuristics: int | None = None
    moving: bool = True


FULL = Beside()  # supports a claim
FIRST = Beside(heuristics=1, moving=False)  # what a call of cuBLASLt takes
BEST = Beside(moving=False)


@brief
@dataclass(frozen=True)
class Baseline:
    """cuBLASLt at its best; for a batch of pointers cuBLAS's gemmBatched, which has one algorithm.

    algorithm   index of the fastest in the heuristics' own order (0: what cuBLASLt would take)
    offered     how many the heuristics offered and were timed
    first       time of algorithm 0, from the contest that chose the best
    timing      time of the best, interleaved with the candidates'
    version     the library's version
    """

    algorithm: int
    offered: int
    first: Timing
    timing: Timing
    version: str

    @property
    def choice(self) -> str:
        """The baseline's algorithm for a table: "#2 of 8", or "gemmBatched"."""
        return GEMM_BATCHED if self.version.endswith(GEMM_BATCHED) else f"#{self.algorithm} of {self.offered}"


@brief
@dataclass(frozen=True)
class InterleavedTimings:
    """Kernels measured together: timings in input order, and what they are compared with if that was asked for.

    moving  time to move the operands' bytes alone: a kernel that reads A and B, writes C and computes nothing. None for
            a batch of pointers, whose bytes are not contiguous
    lacking  the reason why there is no baseline, if the library has no kernel for the problem
    """

    timings: tuple[Timing | Failure, ...]
    baseline: Baseline | None = None
    moving: Timing | None = None
    lacking: Failure | None = None

    def steady_us(self) -> tuple[list[float], float | None]:
        """Microseconds of the kernels, infinite for one that failed, and of the baseline if there is one.

        They have the ratios of a typical round: see `steady`.
        """
        ran = [one for one in self.timings if isinstance(one, Timing)]
        theirs = [] if self.baseline is None else [self.baseline.timing]
        times = iter(steady([*ran, *theirs]))
        ours = [next(times) if isinstance(one, Timing) else math.inf for one in self.timings]
        return ours, next(times, None)


def steady(timings: Sequence[Timing]) -> list[float]:
    """Microseconds of each contestant of one measurement, without the changes that all contestants of a round share.

    A card at its power limit changes its clock during a measurement, and two medians may come from rounds with
    different clocks. So each sample counts by its ratio to the mean of its round.
    """
    if not timings:
        return []
    rounds = round_means([one.samples_us for one in timings])
    usual = median(rounds)
    return [usual * median(map(truediv, one.samples_us, rounds)) for one in timings]


def round_means(samples_us: Sequence[Sequence[float]]) -> list[float]:
    """The geometric mean of each round over the samples of all contestants."""
    return [geometric_mean(samples) for samples in zip(*samples_us, strict=True)]


def drift_of(samples_us: Sequence[Sequence[float]]) -> float:
    """The relative increase in time from the first half of the rounds to the last; 0 for a single round.

    All contestants together are the reference: they never change, and each is in every round, including cuBLASLt. At
    its power limit a card's clock swings within a second, so that single rounds say little.
    """
    means = round_means(samples_us)
    half = len(means) // 2
    return geometric_mean(means[-half:]) / geometric_mean(means[:half]) - 1 if half else 0.0


def speedup(ours: Timing, theirs: Timing) -> float:
    """The speedup: the median over the rounds of theirs / ours. Both must come from one measurement."""
    return median(their / our for our, their in zip(ours.samples_us, theirs.samples_us, strict=True))
