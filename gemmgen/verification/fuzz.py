"""Fuzzing: whole cases, kernel and situation, drawn with hypothesis until one fails, which is then made small.

A kernel costs a compilation and serves many situations, so the two are drawn apart: points of the space here, and for
each of them situations in a lane, a process that compiles and runs it while others do so with other kernels.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import hypothesis

from gemmgen.kernel.families.base import Family, first_rejection
from gemmgen.kernel.naming import full_name_of, parse_name
from gemmgen.kernel.render import render
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import Limits
from gemmgen.run.executor import Executor, LoadedKernel
from gemmgen.support.child import Child, ChildDied, as_done, in_order
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput
from gemmgen.verification.checks import Wrong, check
from gemmgen.verification.corpus import Entry, entries, read, save
from gemmgen.verification.random_kernels import LAYOUTS, RandomKernel, draw_points, schedules, simpler
from gemmgen.verification.seeding import for_each
from gemmgen.verification.situation import (
    ALL_DATA_KINDS,
    EDGES,
    FAR_SIZES,
    DataKind,
    Situation,
    edges,
    far_situations,
    simpler_situations,
)
from gemmgen.verification.strategies import wide_situations

LARGEST = 160  # of run-time sizes, long sides of tall and flat shapes apart
PER_KERNEL = 40  # situations
FAR_KERNELS = 8  # one in so many kernels meets sizes that 16 bits cannot count
SEED_STEP = 2**20  # no two runs draw the same situations
SHRINK_EXAMPLES = 60  # situations for a kernel that may be simpler
MOST_REDUCTIONS = 200  # of a situation
SHRINK_TRIALS = 60  # kernels
SHRINK_SECONDS = 90.0

Cell = tuple[str, str, str]  # schedule, layout, edge class


@dataclass(frozen=True)
class Found:
    """A failure: of a kernel, in a situation (None where it does not load)."""

    source: KernelSource
    failure: Failure
    situation: Situation | None

    def entry(self, executor: str) -> Entry:
        return Entry(full_name_of(self.source), self.source.digest, executor, self.failure, self.situation)


@dataclass(frozen=True)
class Replay:
    """What became of a corpus entry.

    found    the failure it still has; None where it passes
    refused  the constraint that its kernel breaks by now
    changed  True where the kernel's text is not what it was
    """

    path: Path
    entry: Entry
    found: Found | None
    refused: str | None = None
    changed: bool = False


@dataclass
class FuzzTally:
    """What was tried so far.

    cells     (schedule, layout, edge class) that a situation met, of `space` that there are
    worst     largest error over its bound
    worst_in  the kernel and the situation of that one
    """

    space: int
    situations: int = 0
    kernels: int = 0
    worst: float = 0.0
    worst_in: str = ""
    started: float = field(default_factory=time.monotonic)
    cells: set[Cell] = field(default_factory=set)
    data: dict[DataKind, int] = field(default_factory=lambda: dict.fromkeys(ALL_DATA_KINDS, 0))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def rate(self) -> float:
        """Situations a second."""
        return self.situations / max(self.seconds, 1e-9)

    def add(self, point: RandomKernel, tried: Tried) -> None:
        """A kernel, and the situations that it met."""
        self.kernels += 1
        self.situations += tried.data.total()
        for kind, count in tried.data.items():
            self.data[kind] += count
        layout = str(point.problem.layout)
        self.cells.update((point.schedule, layout, edge) for edge in tried.edges)
        if tried.worst > self.worst:
            self.worst, self.worst_in = tried.worst, tried.worst_in


@dataclass
class Tried:
    """What one kernel met: how many situations of each kind of data, edges, and its largest error over its bound."""

    data: Counter[DataKind] = field(default_factory=Counter)
    edges: set[str] = field(default_factory=set)
    worst: float = 0.0
    worst_in: str = ""
    found: Found | None = None

    def count(self, situation: Situation) -> None:
        self.data[situation.data] += 1
        self.edges.update(edges(situation.case))


@dataclass(frozen=True)
class FuzzJob:
    """A kernel to try in so many situations; `far`: of these the first are what draws hardly reach."""

    source: KernelSource
    examples: int
    seed: int
    far: bool

    def run(self, executor: Executor) -> Tried:
        """A lane's part. Raises CandidateFailed where the executor is not available, which is no kernel's fault."""
        tried, source = Tried(), self.source
        loaded = _loaded(executor, source)
        if isinstance(loaded, Failure):
            return replace(tried, found=Found(source, loaded, None))
        far = far_situations(source, FAR_SIZES[-1])[: self.examples - 1] if self.far else []
        try:
            found = _try(loaded, self.examples - len(far), self.seed, tried)
            for situation in far if found is None else []:
                tried.count(situation)
                found = found or _first(loaded, situation)
        finally:
            loaded.close()
        return replace(tried, found=found)


@dataclass(frozen=True)
class SmallerJob:
    """A kernel that may be simpler than the one that was found: does it fail in the same way?"""

    source: KernelSource
    found: Found

    def run(self, executor: Executor) -> Found | None:
        """A lane's part: how it fails."""
        source, found = self.source, self.found
        loaded = _loaded(executor, source)
        if isinstance(loaded, Failure):
            same = found.situation is None and loaded.kind == found.failure.kind
            return Found(source, loaded, None) if same else None
        try:
            if found.situation is None:
                return None
            known = _first(loaded, _adapted(source, found.situation))
            tried = _try(loaded, SHRINK_EXAMPLES, found.situation.seed, Tried())
        finally:
            loaded.close()
        same_kind = [one for one in (tried, known) if one is not None and one.failure.kind == found.failure.kind]
        return min(same_kind, key=_size) if same_kind else None


@dataclass(frozen=True)
class ReduceJob:
    """What is to fail in a smaller situation: hypothesis cannot turn a shape of one form into one of another."""

    found: Found

    @property
    def source(self) -> KernelSource:
        return self.found.source

    def run(self, executor: Executor) -> Found:
        """A lane's part: the smallest."""
        found = self.found
        loaded = _loaded(executor, found.source)
        if isinstance(loaded, Failure):
            return found
        try:
            for _ in range(MOST_REDUCTIONS):
                smaller = _next_reduction(loaded, found)
                if smaller is None:
                    break
                found = smaller
        finally:
            loaded.close()
        return found


@dataclass(frozen=True)
class ReplayJob:
    """A kernel of the corpus, and the situation in which it failed; None where it did not load."""

    source: KernelSource
    situation: Situation | None

    def run(self, executor: Executor) -> Found | None:
        """A lane's part: the failure that it still has."""
        loaded = _loaded(executor, self.source)
        if isinstance(loaded, Failure):
            return Found(self.source, loaded, None)
        try:
            return _first(loaded, self.situation)
        finally:
            loaded.close()


@dataclass(frozen=True)
class Report:
    """The end of a run. Only one of `replays` that fail and `found` stops it early.

    path   where `found` was written
    """

    executor: str
    seed: int
    seconds: float
    tally: FuzzTally
    missed: tuple[Cell, ...]
    replays: tuple[Replay, ...] = ()
    found: Found | None = None
    path: Path | None = None
    simplified: int = 0

    @property
    def passed(self) -> bool:
        return self.found is None and all(replay.found is None for replay in self.replays)


@dataclass(frozen=True)
class Budget:
    """When to stop: at whichever comes first. None: never."""

    seconds: float | None = None
    situations: int | None = None

    def shares(self, tally: FuzzTally) -> Iterator[int]:
        """Situations of each kernel, until the budget is spent."""
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
    on_step: Callable[[FuzzTally, str], None] = lambda tally, doing: None,
) -> Report:
    """Replay `corpus`, then draw cases until `budget` is spent or one fails; that one is shrunk and saved.

    `lanes` do all that runs a kernel: processes that have an `executor`, "gpu" or "emulator". `on_step` hears of every
    kernel, and what is being done. Raises InvalidInput (a corrupt corpus), and CandidateFailed where the executor is
    not available.
    """
    space = {
        (s, layout, edge)
        for family in families
        for s in schedules(family)
        for layout in LAYOUTS
        for edge in EDGES
        if not family.small_batches or edge != "K = 0"  # whose sizes are fixed, and not 0
    }
    tally = FuzzTally(len(space))
    replays = []
    for path, entry in entries(corpus):
        replays.append(_replay(lanes[0], limits, path, entry))
        on_step(tally, f"replay {len(replays)}")
    report = Report(executor, seed, 0.0, tally, (), tuple(replays))
    found = None
    if report.passed:
        found = _search(lanes, limits, families, budget, seed, tally, on_step)
    report = replace(report, seconds=tally.seconds, missed=tuple(sorted(space - tally.cells)))
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
    """Run one entry of a corpus again. Raises InvalidInput where it is none."""
    return _replay(lane, limits, path, read(path))


def shrink(
    lanes: Sequence[Child],
    limits: Limits,
    point: RandomKernel,
    found: Found,
    on_trial: Callable[[], None] = lambda: None,
) -> tuple[Found, int]:
    """(the smallest kernel and situation that fail in the same way, kernels tried for it).

    Lanes try candidates side by side, and of those that fail the first in order is taken.
    """
    deadline, tried = time.monotonic() + SHRINK_SECONDS, {point.name}
    while (step := _simpler(lanes, limits, point, found, tried, deadline, on_trial)) is not None:
        point, found = step
    if found.situation is not None:
        smallest: Found = _ask(lanes[0], ReduceJob(found))
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
    """The first of the simpler kernels, as far as none has `tried` it, that fails in the same way."""

    def candidates() -> Iterator[tuple[RandomKernel, SmallerJob]]:
        for candidate in simpler(point, limits):
            if time.monotonic() > deadline:
                return
            if candidate.name not in tried:
                yield candidate, SmallerJob(_rendered(candidate), found)

    with closing(in_order(lanes, candidates(), _ask_of)) as answers:
        for (candidate, _), smaller in answers:
            if len(tried) > SHRINK_TRIALS:
                break
            tried.add(candidate.name)
            on_trial()
            if smaller is not None and smaller.failure.kind == found.failure.kind:
                return candidate, smaller
    return None


def _next_reduction(kernel: LoadedKernel, found: Found) -> Found | None:
    if found.situation is None:
        return None
    for simpler_situation in simpler_situations(found.situation):
        smaller = _first(kernel, simpler_situation)
        if smaller is not None and smaller.failure.kind == found.failure.kind:
            return smaller
    return None


def _search(
    lanes: Sequence[Child],
    limits: Limits,
    families: Sequence[Family],
    budget: Budget,
    seed: int,
    tally: FuzzTally,
    on_step: Callable[[FuzzTally, str], None],
) -> tuple[RandomKernel, Found] | None:
    def jobs() -> Iterator[tuple[RandomKernel, FuzzJob]]:
        drawn = zip(budget.shares(tally), draw_points(families, limits, seed), strict=False)
        for number, (share, point) in enumerate(drawn, 1):
            yield point, FuzzJob(_rendered(point), share, seed * SEED_STEP + number, far=number % FAR_KERNELS == 0)

    # As they get done: of 60 kernels one takes 20 s to compile, and 1 s is usual.
    with closing(as_done(lanes, jobs(), _ask_of)) as answers:
        for (point, _), answer in answers:
            tried = Tried(found=answer) if isinstance(answer, Found) else answer
            tally.add(point, tried)
            on_step(tally, "fuzz")
            if tried.found is not None:
                return point, tried.found
    return None


class _Job(Protocol):
    @property
    def source(self) -> KernelSource: ...

    def run(self, executor: Executor) -> Any: ...


def _ask(lane: Child, job: _Job) -> Any:
    """The answer; Found where a kernel ends the process that compiles it, or that runs it."""
    try:
        return lane.request(job)
    except ChildDied as error:
        return Found(job.source, Failure("crash", str(error), "lane"), None)


def _ask_of(lane: Child, drawn: tuple[RandomKernel, _Job]) -> Any:
    return _ask(lane, drawn[1])


def _rendered(point: RandomKernel) -> KernelSource:
    return render(point.problem, point.family, point.config)


def _try(kernel: LoadedKernel, examples: int, seed: int, tried: Tried) -> Found | None:
    """The smallest situation found in which `kernel` fails; those that it met are counted in `tried`."""
    failures: list[Wrong] = []

    def holds(situation: Situation) -> None:
        if not failures:  # what shrinking runs is not counted
            tried.count(situation)
        try:
            worst = check(kernel, situation)
        except CandidateFailed as error:
            failures.append(Wrong(situation, error.failure, None))
            raise failures[-1] from error
        except Wrong as error:
            failures.append(error)
            raise
        if worst > tried.worst:
            tried.worst, tried.worst_in = worst, f"{full_name_of(kernel.source)}, {situation}"

    try:
        for_each(wide_situations(kernel.source.problem, LARGEST), holds, examples=examples, seed=seed)
    except (Wrong, hypothesis.errors.Flaky):
        wrong = failures[-1]  # the last one is the smallest: hypothesis shrinks
        return Found(kernel.source, wrong.failure, wrong.situation)
    return None


def _size(found: Found) -> tuple[int, int]:
    """How large a situation is: launches first, then what makes them odd."""
    assert found.situation is not None
    case = found.situation.case
    plain = (case.alpha == 1, case.beta == 0, found.situation.data == "exact", found.situation.seed == 0)
    return case.m + case.n + case.k + case.batch, case.lda + case.ldb + case.ldc + sum(not one for one in plain)


def _first(kernel: LoadedKernel, situation: Situation | None) -> Found | None:
    """How `kernel` fails in `situation`."""
    if situation is None:
        return None
    try:
        check(kernel, situation)
    except CandidateFailed as error:
        return Found(kernel.source, error.failure, situation)
    except Wrong as error:
        return Found(kernel.source, error.failure, situation)
    return None


def _adapted(source: KernelSource, situation: Situation) -> Situation | None:
    """`situation` for another problem: its run-time sizes and scalars, where they fit."""
    case = situation.case
    sizes = {name.lower(): size for name, size in case.values.items() if name in source.problem.runtime_names}
    try:
        adapted = source.problem.case(
            **{name: int(size) for name, size in sizes.items()}, alpha=case.alpha, beta=case.beta
        )
    except InvalidInput:
        return None
    return replace(situation, case=adapted)


def _replay(lane: Child, limits: Limits, path: Path, entry: Entry) -> Replay:
    point = RandomKernel(*parse_name(entry.kernel))
    rejection = first_rejection(point.family, point.problem, point.config, limits)
    if rejection is not None:
        return Replay(path, entry, None, refused=str(rejection))
    source = _rendered(point)
    found: Found | None = _ask(lane, ReplayJob(source, entry.situation))
    return Replay(path, entry, found, changed=source.digest != entry.digest)


def _loaded(executor: Executor, source: KernelSource) -> LoadedKernel | Failure:
    try:
        return executor.load(source)
    except CandidateFailed as error:
        if error.failure.kind == "unavailable":
            raise
        return error.failure
