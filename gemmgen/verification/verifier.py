"""Is the kernel right? A property test: random situations, and the smallest one that fails."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.case import Case
from gemmgen.problem.gemm import Problem
from gemmgen.run.coverage import Coverage
from gemmgen.run.executor import Executor, LoadedKernel
from gemmgen.support.brief import brief
from gemmgen.support.errors import MEMORY, CandidateFailed, Failure
from gemmgen.support.html import shown_as
from gemmgen.verification.checks import Seen, Wrong, check, check_apart, cost_with_edges, failing, runs_whole
from gemmgen.verification.comparison import Mismatch
from gemmgen.verification.data import make_operands
from gemmgen.verification.determinism import (
    REPEATED_COST,
    RUNS,
    Determinism,
    compare_runs,
    depth_of_parts,
    peers_of,
    revealing,
)
from gemmgen.verification.domain import Domain, DomainTally, Errors, domain_from, errors_from
from gemmgen.verification.extent import apart_situations
from gemmgen.verification.reduction import smallest
from gemmgen.verification.replay import Replayed, Replayer
from gemmgen.verification.ring import check_ring
from gemmgen.verification.sanitizers.tool import SanitizerResult
from gemmgen.verification.seeker import Seeker
from gemmgen.verification.situation import (
    FAR_SIZES,
    Situation,
    Stratum,
    far_situations,
    products_beyond_16_bits,
    stratum,
    vast_situations,
    with_room,
    without_scale,
)
from gemmgen.verification.tails import Tail, check_tail, tails
from gemmgen.verification.whole_grid import check_grid, grid_situations, right_at_small_k

DEFAULT_EXAMPLES = 100  # situations of `gemmgen verify` and of a certificate
THOROUGH = 20  # from so many examples on, sizes that take long are among them
EXHAUSTIVE = 100  # and from so many on those that take a second
SOUGHT_PART = 4  # of so many situations drawn, one gives way, towards the end, to one for what has not run
FAR_ELEMENTS = 2**27  # of situations of many rows or columns: these take some 3 GB
SHRINK_SECONDS = 60.0  # where each run crashes, shrinking would take hours; one that hangs does not shrink


@shown_as("verdict.html")
@brief
@dataclass(frozen=True)
class Verdict:
    """What verification found.

    executor     "gpu" or "emulator"
    examples     situations that were run
    worst        largest error over its bound, over all random data (at most 1 where the kernel passes)
    failure      None where every situation passed
    situation    the smallest one found that fails
    mismatch     its first wrong element, where it ran to the end
    sampled      of these, situations whose grid did not run whole: the blocks of SAMPLE_TILES random tiles did
    found_after  situations up to the first one that failed; None where none failed. Shrinking counts nowhere
    depends      the smallest one passes alone, in a process of its own: it fails after earlier launches only
    sanitizers   what compute-sanitizer's tools made of the kernel, where they were asked; see with_sanitizers.py
    determinism  whether runs of one launch gave the same bits; None where they were not compared
    domain       what was run; None where something failed
    errors       how far off random data was; None where something failed, or none was drawn
    coverage     what ran of the kernel's text; None where something failed, or the executor does not count that
    assumes      what the kernel needs and CUDA does not promise; see LoadedKernel.assumed
    replayed     how many elements of C were as the kernel's plan says; None where it says nothing of them
    """

    executor: str
    examples: int
    seed: int
    worst: float
    failure: Failure | None = None
    situation: Situation | None = None
    mismatch: Mismatch | None = None
    sampled: int = 0
    found_after: int | None = None
    depends: bool = False
    sanitizers: tuple[SanitizerResult, ...] = ()
    determinism: Determinism | None = None
    domain: Domain | None = None
    errors: Errors | None = None
    coverage: Coverage | None = None
    assumes: tuple[str, ...] = ()
    replayed: Replayed | None = None

    @property
    def passed(self) -> bool:
        return self.failure is None

    @property
    def deterministic(self) -> bool | None:
        """Whether all runs of one launch gave the same bits; None where they were not compared."""
        return None if self.determinism is None else self.determinism.difference is None


def verdict_from(fields: Mapping[str, Any]) -> Verdict:
    """The Verdict of a kernel that passed, of what `asdict` and JSON made of it.

    Raises TypeError, KeyError or ValueError for anything else.
    """
    domain, errors, determinism = (fields[name] for name in ("domain", "errors", "determinism"))
    return Verdict(
        **{
            **fields,
            "domain": None if domain is None else domain_from(domain),
            "errors": None if errors is None else errors_from(errors),
            "determinism": None if determinism is None else Determinism(**determinism),
            "sanitizers": (),  # a search asks none
            "coverage": None,  # and keeps none
            "assumes": tuple(fields["assumes"]),
            "replayed": None if fields.get("replayed") is None else Replayed(**fields["replayed"]),
        }
    )


def verify(
    executor: Executor,
    source: KernelSource,
    *,
    examples: int,
    seed: int = 0,
    runs: int = RUNS,
    largest: int = FAR_SIZES[-1],
    shrink: bool = True,
    shrink_seconds: float = SHRINK_SECONDS,
    bits: bool = False,
    on_example: Callable[[], None] = lambda: None,
) -> Verdict:
    """Property-test `source` on `executor`: at most `examples` situations, then shrinking if one fails.

    If none fails, one launch runs `runs` times (1: that is left out) in schedules and placements of their own. Bits
    that differ are a failure.

    Without `shrink` the first situation that fails stands; with it the smallest one found within `shrink_seconds`.
    Elements of C that are not as the kernel's plan says fail a text that gemmgen renders, and with `bits` any text.

    `largest` bounds run-time sizes. A kernel that does not compile or load is a Verdict with that failure and no
    examples.
    """
    try:
        kernel = executor.load(source)
    except CandidateFailed as error:
        return Verdict(executor.name, 0, seed, np.inf, error.failure)
    replayer = Replayer(source, executor=executor.name, strict=bits)
    tested = _Property(kernel, replayer, on_example, largest)
    tested.tally.right_at_small_k = partial(right_at_small_k, executor, source)
    try:
        thorough = kernel.runs_apart and examples >= THOROUGH
        apart = apart_situations(source) if thorough else []
        ends = list(tails(source, dense=examples >= EXHAUSTIVE)) if thorough else []
        by_their_end = any(tail.size == "M" for tail in ends)
        far = _beyond_draws(source, largest, examples, by_their_end, whole=not kernel.runs_parts)
        drawn = examples - len(far) - len(apart) - len(ends)
        stratified_test(tested, source.problem, largest, drawn, seed, instead=tested.seeker.next)
        for situation in far:  # last: what fails before has smaller sizes
            tested(situation)
        for situation, extent in apart:
            tested.run_apart(situation, extent, partial(check_apart, apart=extent))
        for tail in ends:
            tested.run_apart(tail.situation, tail.far, partial(_check_tail, tail=tail))
        if kernel.runs_parts and examples >= EXHAUSTIVE:
            tested.run_grid(executor, seed)
            tested.run_ring()
        determinism = tested.repeat(runs) if runs > 1 else None
        coverage, assumes = kernel.coverage(), kernel.assumed()
    except Wrong:
        if shrink:
            tested.reduce(shrink_seconds)
        wrong = tested.found
        assert wrong is not None
        found = Verdict(executor.name, tested.examples, seed, np.inf, wrong.failure, wrong.situation, wrong.mismatch)
        depends = tested.after_launches and _passes_alone(executor, source, wrong, tested.seen)
        return replace(
            found,
            sampled=tested.sampled,
            found_after=tested.found_after,
            depends=depends,
            determinism=tested.determinism,
        )
    finally:
        kernel.close()
    passed = Verdict(executor.name, tested.examples, seed, tested.worst, sampled=tested.sampled)
    domain, errors = tested.tally.domain(), tested.tally.errors()
    ran = replace(passed, determinism=determinism, domain=domain, errors=errors, coverage=coverage, assumes=assumes)
    return replace(ran, replayed=replayer.replayed)


def _passes_alone(executor: Executor, source: KernelSource, wrong: Wrong, seen: Seen) -> bool:
    """Whether what failed passes as the first launch of a process, beside what samples before it have `seen`."""
    if wrong.failure.kind in ("timeout", "nondeterministic"):
        return False
    kernel = executor.load(source)
    try:
        return failing(kernel, wrong.situation, seen) is None
    finally:
        kernel.close()


def _beyond_draws(
    source: KernelSource, largest: int, examples: int, by_their_end: bool, whole: bool
) -> list[Situation]:
    """The situations that a run of so many `examples` ends with, in the place of as many draws.

    by_their_end  whether rows beyond 16 bits run at the end of a launch besides: then none that take so many elements
    whole         whether all blocks of a launch run, and no end by itself
    """
    far = far_situations(source, largest) if examples >= THOROUGH else []
    most = FAR_ELEMENTS // 4 if by_their_end else FAR_ELEMENTS
    far = [one for one in far if _elements(one.case) <= most]
    if examples < EXHAUSTIVE:
        return far
    products = products_beyond_16_bits(source.problem) if whole or source.problem.pointers else []
    products = products if whole else with_room(source, products)
    return [*far, *vast_situations(source, largest), *products]


def _elements(case: Case) -> int:
    return sum(matrix.elements for matrix in case.matrices)


def make_data(problem: Problem, examples: int, seed: int) -> None:
    """Make, and keep, the operands that `verify` of a kernel of `problem` will ask for, where all sizes are fixed."""
    if None in (problem.m, problem.n, problem.k, problem.batch):
        return

    def make(situation: Situation) -> None:
        make_operands(situation)

    beyond = without_scale(problem) if examples >= THOROUGH else []
    stratified_test(make, problem, FAR_SIZES[-1], examples - len(beyond), seed)
    for situation in beyond:
        make(situation)


class CheckFar(Protocol):
    """Runs a situation whose offsets pass 32 bits; returns the largest error over its bound."""

    def __call__(self, kernel: LoadedKernel, situation: Situation, *, tally: DomainTally) -> float: ...


class _Property:
    """The property that is tested: this kernel computes every situation right."""

    def __init__(
        self,
        kernel: LoadedKernel,
        replayer: Replayer,
        on_example: Callable[[], None],
        largest: int,
    ) -> None:
        self.kernel = kernel
        self.seeker = Seeker(kernel, largest)
        self.on_example = on_example
        self.examples = 0
        self.worst = 0.0
        self.sampled = 0
        self.found: Wrong | None = None
        self.drawn = True  # rather than one of gemmgen.verification.extent, or of many runs
        self.found_after: int | None = None
        self.seen: Seen = {}
        self.tally = DomainTally()
        self.tally.replayer = replayer
        self.determinism: Determinism | None = None

    def __call__(self, situation: Situation) -> None:
        self.examples += 1
        self.sampled += not runs_whole(self.kernel, situation)
        self.on_example()
        try:
            self.worst = max(self.worst, check(self.kernel, situation, self.seen, self.tally))
            self.seeker.ran(situation)
        except CandidateFailed as error:
            raise self._keep(Wrong(situation, error.failure, None)) from error
        except Wrong as error:
            self._keep(error)
            raise

    @property
    def after_launches(self) -> bool:
        """Whether what was found may hang on the launches before it."""
        return self.drawn and self.found_after != 1

    def reduce(self, seconds: float) -> None:
        """Make the situation that was found smaller, as far as one launch of it shows the failure."""
        if self.found is not None and self.drawn:
            self.found = smallest(self.found, self._failing, seconds)

    def _failing(self, situation: Situation) -> Wrong | None:
        self.on_example()
        tally = DomainTally()
        tally.replayer = self.tally.replayer
        return failing(self.kernel, situation, tally=tally)

    def run_apart(self, situation: Situation, apart: Case, check_far: CheckFar) -> None:
        """A situation of gemmgen.verification.extent, or a tail, which the kernel meets as `apart`.

        Where the system has no room for it the tally says so.
        """
        self.drawn = False
        self.examples += 1
        self.on_example()
        distances = ", ".join(f"{name} = {apart.values[name]}" for name in _distances_of(apart))
        try:
            self.worst = max(self.worst, check_far(self.kernel, situation, tally=self.tally))
        except CandidateFailed as error:
            if error.failure.kind == "unjudged" and error.failure.source == MEMORY:
                self.examples -= 1
                self.tally.no_extent = error.failure.reason
                return
            raise self._keep(Wrong(situation, _with_words(error.failure, distances), None)) from error
        except Wrong as error:
            raise self._keep(Wrong(situation, _with_words(error.failure, distances), error.mismatch)) from error

    def run_grid(self, executor: Executor, seed: int) -> None:
        """Every block of a large grid, or some of odd ones: see gemmgen.verification.whole_grid."""
        self.drawn = False
        for situation in grid_situations(self.kernel.source, seed):
            self._run_grid(executor, situation)

    def _run_grid(self, executor: Executor, situation: Situation) -> None:
        try:
            check_grid(executor, self.kernel, situation, self.tally)
        except CandidateFailed as error:
            raise self._keep(Wrong(situation, error.failure, None)) from error
        except Wrong as error:
            self._keep(error)
            raise

    def run_ring(self) -> None:
        """The kernel on integers in the place of floats: see gemmgen.verification.ring."""
        self.drawn = False
        try:
            check_ring(self.kernel, self.tally)
        except Wrong as error:
            self._keep(error)
            raise

    def repeat(self, runs: int) -> Determinism | None:
        """Compare `runs` runs of the largest launch tried that takes little time, with random data.

        Raises Wrong where they differ, or where one fails.
        """
        cases, self.drawn = self.tally.cases, False
        if not cases:
            return None
        costs = {case: cost_with_edges(case, self.kernel.source.launch) for case in cases}
        affordable = [case for case in cases if costs[case] <= REPEATED_COST]
        deep = depth_of_parts(self.kernel.source)
        case = min(cases, key=lambda one: costs[one])
        if affordable:
            source = self.kernel.source
            case = max(affordable, key=lambda one: (peers_of(source, one) > 2, min(one.k, deep), one.flops))
        situation = Situation(revealing(case), "random", 0)
        try:
            self.determinism = compare_runs(self.kernel, situation, runs)
        except CandidateFailed as error:
            raise self._keep(Wrong(situation, error.failure, None)) from error
        difference = self.determinism.difference
        if difference is not None:
            raise self._keep(Wrong(situation, Failure("nondeterministic", difference, "verifier"), None))
        return self.determinism

    def _keep(self, wrong: Wrong) -> Wrong:
        self.found, self.found_after = wrong, self.examples
        return wrong


def _check_tail(kernel: LoadedKernel, situation: Situation, tally: DomainTally, tail: Tail) -> float:
    return check_tail(kernel, tail, tally)


def _distances_of(case: Case) -> list[str]:
    """What makes offsets large: distances, or the sizes of a launch without such."""
    distances = [name for name in case.problem.runtime_names if name.startswith(("ld", "stride_"))]
    return distances or [name for name in ("M", "batch") if name in case.problem.runtime_names]


def _with_words(failure: Failure, words: str) -> Failure:
    return replace(failure, reason=f"{failure.reason}; for the kernel {words}")


def stratified_test(
    tested: Callable[[Situation], None],
    problem: Problem,
    largest: int,
    examples: int,
    seed: int,
    *,
    instead: Callable[[], Situation | None] = lambda: None,
) -> None:
    """`for_each` situation of `problem`, each of the next stratum.

    The last of SOUGHT_PART parts are those that `instead` gives, while it does.
    """
    from gemmgen.verification.seeding import for_each  # late, as hypothesis takes 0.2 s, and a known verdict none
    from gemmgen.verification.strategies import situations

    numbers = itertools.count()

    def test(drawn: Callable[[Stratum], Situation]) -> None:
        number = next(numbers)
        sought = instead() if number >= examples - examples // SOUGHT_PART else None
        tested(sought or drawn(stratum(number)))

    for_each(situations(problem, largest), test, examples=examples, seed=seed)
