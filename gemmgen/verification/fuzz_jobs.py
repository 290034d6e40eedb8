"""What a lane does for `fuzz`: tries a kernel in situations, or one that may be simpler, or fails in smaller ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import hypothesis

from gemmgen.kernel.naming import full_name_of
from gemmgen.kernel.source import KernelSource
from gemmgen.run.executor import Executor, LoadedKernel
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput
from gemmgen.verification.checks import Wrong, check
from gemmgen.verification.corpus import Entry
from gemmgen.verification.seeding import for_each
from gemmgen.verification.situation import (
    FAR_SIZES,
    DataKind,
    Situation,
    edges,
    far_situations,
    simpler_situations,
)
from gemmgen.verification.strategies import wide_situations

LARGEST = 160  # of run-time sizes, long sides of tall and flat shapes apart
SHRINK_EXAMPLES = 60  # situations for a kernel that may be simpler
MOST_REDUCTIONS = 200  # of a situation


class Job(Protocol):
    @property
    def source(self) -> KernelSource: ...

    def run(self, executor: Executor) -> Any: ...


@dataclass(frozen=True)
class Found:
    """A failure: of a kernel, in a situation (None where it does not load)."""

    source: KernelSource
    failure: Failure
    situation: Situation | None

    def entry(self, executor: str) -> Entry:
        return Entry(full_name_of(self.source), self.source.digest, executor, self.failure, self.situation)


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


def _next_reduction(kernel: LoadedKernel, found: Found) -> Found | None:
    if found.situation is None:
        return None
    for simpler_situation in simpler_situations(found.situation):
        smaller = _first(kernel, simpler_situation)
        if smaller is not None and smaller.failure.kind == found.failure.kind:
            return smaller
    return None


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


def _loaded(executor: Executor, source: KernelSource) -> LoadedKernel | Failure:
    try:
        return executor.load(source)
    except CandidateFailed as error:
        if error.failure.kind == "unavailable":
            raise
        return error.failure
