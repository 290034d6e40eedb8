"""Jobs of `fuzz`: try a kernel in situations, try a simpler kernel, or reduce a failure's situation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from gemmgen.kernel.source import KernelSource
from gemmgen.render.naming import full_name_of
from gemmgen.run.executor import Executor, LoadedKernel
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput
from gemmgen.verification.checks import Wrong, check, failing
from gemmgen.verification.corpus import Entry
from gemmgen.verification.reduction import smallest
from gemmgen.verification.seeding import for_each
from gemmgen.verification.situation import FAR_SIZES, DataKind, Situation, edges, far_situations
from gemmgen.verification.strategies import wide_situations

LARGEST = 160  # largest run-time size, except for the long sides of tall and flat shapes
SHRINK_EXAMPLES = 60  # situations for a kernel that may be simpler


class Job(Protocol):
    @property
    def source(self) -> KernelSource: ...

    def run(self, executor: Executor) -> Any: ...


@dataclass(frozen=True)
class Found:
    """The failure of a kernel in a situation (None if the kernel does not load)."""

    source: KernelSource
    failure: Failure
    situation: Situation | None

    def entry(self, executor: str) -> Entry:
        return Entry(full_name_of(self.source), self.source.digest, executor, self.failure, self.situation)


@dataclass
class Tried:
    """The record of one kernel: situations per kind of data, edge classes, and its largest error over its bound."""

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
    """A kernel to try in `examples` situations; with `far` the first ones are those that draws rarely reach."""

    source: KernelSource
    examples: int
    seed: int
    far: bool

    def run(self, executor: Executor) -> Tried:
        """Run the job in a lane. Raises CandidateFailed if the executor is not available, which is not the kernel's
        fault."""
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
    """A simpler kernel than the one that was found: does it fail in the same way?"""

    source: KernelSource
    found: Found

    def run(self, executor: Executor) -> Found | None:
        """Run the job in a lane; return the failure, if it is the same."""
        source, found = self.source, self.found
        loaded = _loaded(executor, source)
        if isinstance(loaded, Failure):
            same = found.situation is None and loaded.kind == found.failure.kind
            return Found(source, loaded, None) if same else None
        try:
            if found.situation is None:
                return None
            known = _first(loaded, _adapted(source, found.situation))
            if known is not None and known.failure.kind == found.failure.kind:
                return known
            tried = _try(loaded, SHRINK_EXAMPLES, found.situation.seed, Tried())
            return tried if tried is not None and tried.failure.kind == found.failure.kind else None
        finally:
            loaded.close()


@dataclass(frozen=True)
class ReduceJob:
    """Find the smallest situation in which `found` still fails, within `seconds`."""

    found: Found
    seconds: float

    @property
    def source(self) -> KernelSource:
        return self.found.source

    def run(self, executor: Executor) -> Found:
        """Run the job in a lane; return the smallest failing situation."""
        found = self.found
        loaded = _loaded(executor, found.source)
        if isinstance(loaded, Failure) or found.situation is None:
            return found
        wrong = Wrong(found.situation, found.failure, None)
        try:
            least = smallest(wrong, partial(failing, loaded), self.seconds)
        finally:
            loaded.close()
        return replace(found, failure=least.failure, situation=least.situation)


@dataclass(frozen=True)
class ReplayJob:
    """A kernel of the corpus, and the situation in which it failed; None if it did not load."""

    source: KernelSource
    situation: Situation | None

    def run(self, executor: Executor) -> Found | None:
        """Run the job in a lane; return the failure that it still shows."""
        loaded = _loaded(executor, self.source)
        if isinstance(loaded, Failure):
            return Found(self.source, loaded, None)
        try:
            return _first(loaded, self.situation)
        finally:
            loaded.close()


def _try(kernel: LoadedKernel, examples: int, seed: int, tried: Tried) -> Found | None:
    """The failure in the first drawn situation that fails; None if all pass. `tried` counts the situations."""

    def holds(situation: Situation) -> None:
        tried.count(situation)
        try:
            worst = check(kernel, situation)
        except CandidateFailed as error:
            raise Wrong(situation, error.failure, None) from error
        if worst > tried.worst:
            tried.worst, tried.worst_in = worst, f"{full_name_of(kernel.source)}, {situation}"

    try:
        for_each(wide_situations(kernel.source.problem, LARGEST), holds, examples=examples, seed=seed)
    except Wrong as wrong:
        return Found(kernel.source, wrong.failure, wrong.situation)
    return None


def _first(kernel: LoadedKernel, situation: Situation | None) -> Found | None:
    """The failure of `kernel` in `situation`, if any."""
    wrong = None if situation is None else failing(kernel, situation)
    return None if wrong is None else Found(kernel.source, wrong.failure, wrong.situation)


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
