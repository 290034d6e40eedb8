"""Jobs of `fuzz`: try a kernel in situations, try a simpler kernel, or reduce a failure's situation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from gemmgen.kernel.source import KernelSource
from gemmgen.render.naming import full_name_of
from gemmgen.run.executor import Executor, LoadedKernel
from gemmgen.support.errors import CandidateFailed, Failure, InvalidInput
from gemmgen.verification.checks import Wrong, check, failing
from gemmgen.verification.corpus import Entry
from gemmgen.verification.reduction import smallest
from gemmgen.verification.situation import FAR_SIZES, DataKind, Situation, far_situations
from gemmgen.verification.verifier import stratified_test

LARGEST = 160  # largest run-time size
SHRINK_EXAMPLES = 60  # situations for a kernel that may be simpler


Answer = TypeVar("Answer")


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
    """The record of one kernel: situations per kind of data, and its largest error over its bound."""

    data: Counter[DataKind] = field(default_factory=Counter)
    worst: float = 0.0
    worst_in: str = ""
    found: Found | None = None


@dataclass(frozen=True)
class FuzzJob:
    """A kernel to try in `examples` situations; with `far` the first ones are those that draws rarely reach."""

    source: KernelSource
    examples: int
    seed: int
    far: bool

    def run(self, executor: Executor) -> Tried | Found:
        """Run the job in a lane. Raises CandidateFailed if the executor is not available, which is not the kernel's
        fault."""
        return _loaded(executor, self.source, self._tried)

    def _tried(self, kernel: LoadedKernel) -> Tried:
        tried = Tried()
        far = far_situations(self.source, FAR_SIZES[-1])[: self.examples - 1] if self.far else []
        found = _try(kernel, self.examples - len(far), self.seed, tried)
        for situation in far if found is None else []:
            tried.data[situation.data] += 1
            found = found or _first(kernel, situation)
        return replace(tried, found=found)


@dataclass(frozen=True)
class SmallerJob:
    """A simpler kernel than the one that was found: does it fail in the same way?"""

    source: KernelSource
    found: Found

    def run(self, executor: Executor) -> Found | None:
        """Run the job in a lane; return a failure, which may be of another kind."""
        return _loaded(executor, self.source, self._fails)

    def _fails(self, kernel: LoadedKernel) -> Found | None:
        situation = self.found.situation
        if situation is None:
            return None
        known = _first(kernel, _adapted(self.source, situation))
        if known is not None and known.failure.kind == self.found.failure.kind:
            return known
        return _try(kernel, SHRINK_EXAMPLES, situation.seed, Tried())


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
        if found.situation is None:
            return found
        wrong = Wrong(found.situation, found.failure, None)
        least = _loaded(executor, self.source, lambda kernel: smallest(wrong, partial(failing, kernel), self.seconds))
        return found if isinstance(least, Found) else replace(found, failure=least.failure, situation=least.situation)


@dataclass(frozen=True)
class ReplayJob:
    """A kernel of the corpus, and the situation in which it failed; None if it did not load."""

    source: KernelSource
    situation: Situation | None

    def run(self, executor: Executor) -> Found | None:
        """Run the job in a lane; return the failure that it still shows."""
        return _loaded(executor, self.source, lambda kernel: _first(kernel, self.situation))


def _try(kernel: LoadedKernel, examples: int, seed: int, tried: Tried) -> Found | None:
    """The failure in the first drawn situation that fails; None if all pass. `tried` counts the situations."""

    def holds(situation: Situation) -> None:
        tried.data[situation.data] += 1
        try:
            worst = check(kernel, situation)
        except CandidateFailed as error:
            raise Wrong(situation, error.failure, None) from error
        if worst > tried.worst:
            tried.worst, tried.worst_in = worst, f"{full_name_of(kernel.source)}, {situation}"

    try:
        stratified_test(holds, kernel.source.problem, LARGEST, examples, seed)
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


def _loaded(executor: Executor, source: KernelSource, use: Callable[[LoadedKernel], Answer]) -> Answer | Found:
    """What `use` makes of the loaded kernel; the failure of a kernel that does not load."""
    try:
        kernel = executor.load(source)
    except CandidateFailed as error:
        if error.failure.kind == "unavailable":
            raise
        return Found(source, error.failure, None)
    with closing(kernel):
        return use(kernel)
