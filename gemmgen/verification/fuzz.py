"""Fuzzing: hypothesis draws whole cases, kernel and situation, until one fails, which is then made small.

A kernel costs a compilation and serves many situations, so the two are drawn separately: kernels here, and the
situations of each kernel in a lane, a process that compiles and runs it while other lanes work on other kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gemmgen.families.base import Family, first_rejection
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import Limits
from gemmgen.render.kernel_text import render
from gemmgen.render.naming import parse_name
from gemmgen.support.child import Child, ChildDied, as_done, in_order
from gemmgen.support.errors import Failure
from gemmgen.verification.corpus import Entry, entries, read, save
from gemmgen.verification.fuzz_jobs import Found, FuzzJob, Job, ReduceJob, ReplayJob, SmallerJob, Tried
from gemmgen.verification.random_kernels import RandomKernel, draw_points, simpler
from gemmgen.verification.situation import ALL_DATA_KINDS, DataKind

PER_KERNEL = 40  # situations
FAR_KERNELS = 8  # one in so many kernels meets sizes that 16 bits cannot count
SEED_STEP = 2**20  # no two runs draw the same situations
SHRINK_TRIALS = 60  # kernels
SHRINK_SECONDS = 90.0  # for kernels, and as many for situations


@dataclass(frozen=True)
class Replay:
    """The result of replaying a corpus entry.

    found    the failure that it still shows; None if it passes
    refused  the constraint that its kernel breaks now
    changed  True if the kernel's text has changed
    """

    path: Path
    entry: Entry
    found: Found | None
    refused: str | None = None
    changed: bool = False


@dataclass
class FuzzTally:
    """The counts of what was tried so far.

    worst     largest error over its bound
    worst_in  the kernel and the situation with that error
    """

    situations: int = 0
    kernels: int = 0
    worst: float = 0.0
    worst_in: str = ""
    started: float = field(default_factory=time.monotonic)
    data: dict[DataKind, int] = field(default_factory=lambda: dict.fromkeys(ALL_DATA_KINDS, 0))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def rate(self) -> float:
        """Situations per second."""
        return self.situations / max(self.seconds, 1e-9)

    def add(self, tried: Tried) -> None:
        """Count a kernel and its situations."""
        self.kernels += 1
        self.situations += tried.data.total()
        for kind, count in tried.data.items():
            self.data[kind] += count
        if tried.worst > self.worst:
            self.worst, self.worst_in = tried.worst, tried.worst_in


@dataclass(frozen=True)
class Report:
    """The end of a run. It ends early only if `replays` fail or a failure is `found`.

    path   the file to which `found` was written
    """

    executor: str
    seed: int
    seconds: float
    tally: FuzzTally
    replays: tuple[Replay, ...] = ()
    found: Found | None = None
    path: Path | None = None
    simplified: int = 0

    @property
    def passed(self) -> bool:
        return self.found is None and all(replay.found is None for replay in self.replays)


@dataclass(frozen=True)
class Budget:
    """The limits of a run; the one reached first ends it. None: no limit."""

    seconds: float | None = None
    situations: int | None = None

    def shares(self, tally: FuzzTally) -> Iterator[int]:
        """Yield the number of situations of each kernel, until the budget is spent."""
        left = self.situations
        while (self.seconds is None or tally.seconds < self.seconds) and left != 0:
            share = PER_KERNEL if left is None else min(PER_KERNEL, left)
            yield share
            left = None if left is None else left - share


def fuzz(
    lanes: Sequence[Child],
    executor: str,
    limits: Limits,
    families: Sequence[Family],
    corpus: Path,
    budget: Budget,
    *,
    seed: int = 0,
    open_sizes: Sequence[str] = (),
    on_step: Callable[[FuzzTally, str], None] = lambda tally, doing: None,
) -> Report:
    """Replay `corpus`, then draw cases until `budget` is spent or one fails; that one is shrunk and saved.

    Kernels leave at least `open_sizes` to run time ("M", "N", "K", "batch").

    `lanes` are the processes that run kernels, each with an `executor`, "gpu" or "emulator". `on_step` is told of every
    kernel and every step. Raises InvalidInput (a corrupt corpus), and CandidateFailed if the executor is not available.
    """
    tally = FuzzTally()
    replays = []
    for path, entry in entries(corpus):
        replays.append(_replay(lanes[0], limits, path, entry))
        on_step(tally, f"replay {len(replays)}")
    report = Report(executor, seed, 0.0, tally, tuple(replays))
    found = None
    if report.passed:
        points = (one for one in draw_points(families, limits, seed) if {*open_sizes} <= {*one.problem.open_sizes})
        found = _search(lanes, points, budget, seed, tally, on_step)
    report = replace(report, seconds=tally.seconds)
    if found is None:
        return report
    point, first = found
    path = save(first.entry(executor), corpus)  # as it is: shrinking may be interrupted
    smallest, trials = shrink(lanes, limits, point, first, lambda: on_step(tally, "shrink"))
    smaller = save(smallest.entry(executor), corpus)
    if smaller != path:
        path.unlink()
    return replace(report, found=smallest, path=smaller, simplified=trials)


def replay(lane: Child, limits: Limits, path: Path) -> Replay:
    """Run one entry of a corpus again. Raises InvalidInput if it is not one."""
    return _replay(lane, limits, path, read(path))


def shrink(
    lanes: Sequence[Child],
    limits: Limits,
    point: RandomKernel,
    found: Found,
    on_trial: Callable[[], None] = lambda: None,
) -> tuple[Found, int]:
    """Return (the smallest kernel and situation that fail in the same way, number of kernels tried).

    Lanes try candidates in parallel; the first in order that fails is taken.
    """
    deadline, tried = time.monotonic() + SHRINK_SECONDS, {point.name}
    while (step := _simpler(lanes, limits, point, found, tried, deadline, on_trial)) is not None:
        point, found = step
    if found.situation is not None:
        smallest: Found = _ask(lanes[0], ReduceJob(found, SHRINK_SECONDS))
        found = smallest if smallest.failure.kind == found.failure.kind else found
    return found, len(tried) - 1


def _simpler(
    lanes: Sequence[Child],
    limits: Limits,
    point: RandomKernel,
    found: Found,
    tried: set[str],
    deadline: float,
    on_trial: Callable[[], None],
) -> tuple[RandomKernel, Found] | None:
    """The first simpler kernel not yet `tried` that fails in the same way."""

    def candidates() -> Iterator[tuple[RandomKernel, SmallerJob]]:
        for candidate in simpler(point, limits):
            if time.monotonic() > deadline:
                return
            if candidate.name not in tried:
                yield candidate, SmallerJob(_rendered(candidate), found)

    with closing(in_order(lanes, candidates(), lambda lane, drawn: _ask(lane, drawn[1]))) as answers:
        for (candidate, _), smaller in answers:
            if len(tried) > SHRINK_TRIALS:
                break
            tried.add(candidate.name)
            on_trial()
            if smaller is not None and smaller.failure.kind == found.failure.kind:
                return candidate, smaller
    return None


def _search(
    lanes: Sequence[Child],
    points: Iterable[RandomKernel],
    budget: Budget,
    seed: int,
    tally: FuzzTally,
    on_step: Callable[[FuzzTally, str], None],
) -> tuple[RandomKernel, Found] | None:
    def jobs() -> Iterator[tuple[RandomKernel, FuzzJob]]:
        drawn = zip(budget.shares(tally), points, strict=False)
        for number, (share, point) in enumerate(drawn, 1):
            yield point, FuzzJob(_rendered(point), share, seed * SEED_STEP + number, far=number % FAR_KERNELS == 0)

    # In the order in which they finish: of 60 kernels one takes 20 s to compile, and 1 s is usual.
    with closing(as_done(lanes, jobs(), lambda lane, drawn: _ask(lane, drawn[1]))) as answers:
        for (point, _), answer in answers:
            tried = Tried(found=answer) if isinstance(answer, Found) else answer
            tally.add(tried)
            on_step(tally, "fuzz")
            if tried.found is not None:
                return point, tried.found
    return None


def _ask(lane: Child, job: Job) -> Any:
    """Ask a lane; return Found if the kernel ends the process that compiles or runs it."""
    try:
        return lane.request(job)
    except ChildDied as error:
        return Found(job.source, Failure("crash", str(error), "lane"), None)


def _rendered(point: RandomKernel) -> KernelSource:
    return render(point.problem, point.family, point.config)


def _replay(lane: Child, limits: Limits, path: Path, entry: Entry) -> Replay:
    point = RandomKernel(*parse_name(entry.kernel))
    rejection = first_rejection(point.family, point.problem, point.config, limits)
    if rejection is not None:
        return Replay(path, entry, None, refused=str(rejection))
    source = _rendered(point)
    found: Found | None = _ask(lane, ReplayJob(source, entry.situation))
    return Replay(path, entry, found, changed=source.digest != entry.digest)
