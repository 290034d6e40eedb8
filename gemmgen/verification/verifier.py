"""Property test of a kernel: random situations, and the smallest one that fails."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Case, Problem
from gemmgen.run.coverage import Coverage
from gemmgen.run.executor import Executor, LoadedKernel
from gemmgen.support.errors import MEMORY, CandidateFailed, Failure
from gemmgen.support.html import shown_as
from gemmgen.support.short_repr import brief
from gemmgen.verification.bit_replay import Replayed, Replayer
from gemmgen.verification.checks import (
    Seen,
    Wrong,
    check,
    check_apart,
    cost_with_edges,
    failing,
    runs_whole,
)
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
from gemmgen.verification.far_offsets import apart_situations, check_tail, tails
from gemmgen.verification.guided import Seeker
from gemmgen.verification.reduction import smallest
from gemmgen.verification.ring import check_ring
from gemmgen.verification.sanitizers.tool import SanitizerResult
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
from gemmgen.verification.whole_grid import check_grid, grid_situations, right_at_small_k

DEFAULT_EXAMPLES = 100  # situations of `gemmgen verify` and of a certificate
THOROUGH = 20  # from so many examples on, there are expensive situations
EXHAUSTIVE = 100  # from so many examples on, there are situations that take a second
SOUGHT_PART = 4  # the last quarter of the drawn situations aims at branches that have not run
FAR_ELEMENTS = 2**27  # limit of situations with many rows or columns: they take about 3 GB
SHRINK_SECONDS = 60.0  # if each run crashes, a full reduction would take hours


@shown_as("verdict.html")
@brief
@dataclass(frozen=True)
class Verdict:
    """The result of a verification.

    executor     "gpu" or "emulator"
    examples     situations that were run
    worst        largest ratio of an error to its bound, over all random data (at most 1 if the kernel passes)
    failure      None if every situation passed
    situation    the smallest failing situation that was found
    mismatch     its first wrong element, if it ran to its end
    sampled      situations in which only the blocks of SAMPLE_TILES random tiles ran
    found_after  situations up to the first failure, without those of the reduction; None if none failed
    depends      the reported situation passes in a new process: it fails only after earlier launches
    sanitizers   results of compute-sanitizer's tools, if they were asked for; see with_sanitizers.py
    determinism  whether runs of one launch gave the same bits; None if they were not compared
    domain       what was run; None if something failed
    errors       how far off random data was; None if something failed, or if none was drawn
    coverage     what ran of the kernel's text; None if something failed, or if the executor does not count it
    assumes      what the kernel needs although CUDA does not promise it; see LoadedKernel.assumed
    replayed     how many elements of C were as planned; None if the plan does not predict them
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
        """Whether all runs of one launch gave the same bits; None if they were not compared."""
        return None if self.determinism is None else self.determinism.difference is None


def verdict_from(fields: Mapping[str, Any]) -> Verdict:
    """The Verdict of a kernel that passed, from its JSON form (`asdict`).

    Raises TypeError, KeyError or ValueError for anything else.
    """
    domain, errors, determinism = (fields[name] for name in ("domain", "errors", "determinism"))
    return Verdict(
        **{
            **fields,
            "domain": None if domain is None else domain_from(domain),
            "errors": None if errors is None else errors_from(errors),
            "determinism": None if determinism is None else Determinism(**determinism),
            "sanitizers": (),  # a search does not run them
            "coverage": None,  # nor keep this
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
    """Property-test `source` on `executor` in at most `examples` situations.

    If none fails, one launch runs `runs` times with different schedules and placements (1: not at all); different bits
    are a failure.

    The verdict reports the first situation that fails or, with `shrink`, the smallest one found within
    `shrink_seconds`. Bits of C that differ from the kernel's plan fail a text as gemmgen renders it, and with `bits`
    any text.

    `largest` bounds run-time sizes. If the kernel does not compile or load, the verdict has that failure and no
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
        thorough = kernel.runs_parts and examples >= THOROUGH
        apart = apart_situations(source) if thorough else []
        ends = list(tails(source.contract, dense=examples >= EXHAUSTIVE)) if thorough else []
        by_their_end = any(tail.size == "M" for tail in ends)
        far = _beyond_draws(source, largest, examples, by_their_end, whole=not kernel.runs_parts)
        drawn = examples - len(far) - len(apart) - len(ends)
        stratified_test(tested, source.problem, largest, drawn, seed, instead=tested.seeker.next)
        for situation in far:  # after the draws, whose failures have smaller sizes
            tested(situation)
        for situation, extent in apart:
            tested.run_apart(situation, extent, partial(check_apart, kernel, situation, extent, tested.tally))
        for tail in ends:
            tested.run_apart(tail.situation, tail.far, partial(check_tail, kernel, tail, tested.tally))
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
        # It may depend on earlier launches, if there are any.
        depends = tested.drawn and tested.found_after != 1 and _passes_alone(executor, source, wrong, tested.seen)
        return Verdict(
            executor.name,
            tested.examples,
            seed,
            np.inf,
            wrong.failure,
            wrong.situation,
            wrong.mismatch,
            sampled=tested.sampled,
            found_after=tested.found_after,
            depends=depends,
            determinism=tested.determinism,
        )
    finally:
        kernel.close()
    return Verdict(
        executor.name,
        tested.examples,
        seed,
        tested.worst,
        sampled=tested.sampled,
        determinism=determinism,
        domain=tested.tally.domain(),
        errors=tested.tally.errors(),
        coverage=coverage,
        assumes=assumes,
        replayed=replayer.replayed,
    )


def _passes_alone(executor: Executor, source: KernelSource, wrong: Wrong, seen: Seen) -> bool:
    """Whether the failing situation passes as the first launch of a new process; `seen` is that of earlier samples."""
    if wrong.failure.kind in ("timeout", "nondeterministic"):
        return False
    with closing(executor.load(source)) as kernel:
        return failing(kernel, wrong.situation, seen) is None


def _beyond_draws(
    source: KernelSource, largest: int, examples: int, by_their_end: bool, whole: bool
) -> list[Situation]:
    """The fixed situations that replace the last draws of `examples`.

    by_their_end  rows beyond 16 bits run as a tail, so situations with so many elements are not needed here
    whole         the executor always runs all blocks, so it has no tails
    """
    far = far_situations(source, largest) if examples >= THOROUGH else []
    most = FAR_ELEMENTS // 4 if by_their_end else FAR_ELEMENTS
    far = [one for one in far if _elements(one.case) <= most]
    if examples < EXHAUSTIVE:
        return far
    products = products_beyond_16_bits(source.problem) if whole or source.problem.pointers else []
    products = products if whole else with_room(source.launch, products)
    return [*far, *vast_situations(source, largest), *products]


def _elements(case: Case) -> int:
    return sum(matrix.elements for matrix in case.matrices)


def make_data(problem: Problem, examples: int, seed: int) -> None:
    """Make and cache the operands that `verify` will need for `problem`, if all sizes are fixed."""
    if None in (problem.m, problem.n, problem.k, problem.batch):
        return

    def make(situation: Situation) -> None:
        make_operands(situation)

    beyond = without_scale(problem) if examples >= THOROUGH else []
    stratified_test(make, problem, FAR_SIZES[-1], examples - len(beyond), seed)
    for situation in beyond:
        make(situation)


class _Property:
    """The property under test: the kernel is right in each situation."""

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
        self.drawn = True  # the current situation comes from `check`: it is not a far, grid, ring or repeated run
        self.found_after: int | None = None
        self.seen: Seen = {}
        self.tally = DomainTally()
        self.tally.replayer = replayer
        self.determinism: Determinism | None = None

    def __call__(self, situation: Situation) -> None:
        self.examples += 1
        self.sampled += not runs_whole(self.kernel, situation)
        self.on_example()
        with self._keeping_failure(situation):
            self.worst = max(self.worst, check(self.kernel, situation, self.seen, self.tally))
            self.seeker.ran(situation)

    def reduce(self, seconds: float) -> None:
        """Reduce the failing situation to a smaller one that fails by itself."""
        if self.found is not None and self.drawn:
            self.found = smallest(self.found, self._failing, seconds)

    def _failing(self, situation: Situation) -> Wrong | None:
        self.on_example()
        return failing(self.kernel, situation, tally=self.tally.empty())

    def run_apart(self, situation: Situation, apart: Case, check_far: Callable[[], float]) -> None:
        """Run a situation of `apart_situations`, or a tail, which the kernel sees as `apart`.

        If the system has no memory for it, `tally.no_extent` says so.
        """
        self.drawn = False
        self.examples += 1
        self.on_example()
        distances = ", ".join(f"{name} = {apart.values[name]}" for name in _distances_of(apart))
        with self._keeping_failure(situation, f"; for the kernel {distances}"):
            try:
                self.worst = max(self.worst, check_far())
            except CandidateFailed as error:
                if error.failure.kind != "unjudged" or error.failure.source != MEMORY:
                    raise
                self.examples -= 1
                self.tally.no_extent = error.failure.reason

    def run_grid(self, executor: Executor, seed: int) -> None:
        """Run every block of a large grid, or tiles of rasters: see gemmgen.verification.whole_grid."""
        self.drawn = False
        for situation in grid_situations(self.kernel.source, seed):
            with self._keeping_failure(situation):
                check_grid(executor, self.kernel, situation, self.tally)

    def run_ring(self) -> None:
        """Run the kernel on integers in place of floats: see gemmgen.verification.ring."""
        self.drawn = False
        try:
            check_ring(self.kernel, self.tally)
        except Wrong as error:
            self._keep(error)
            raise

    def repeat(self, runs: int) -> Determinism | None:
        """Compare `runs` runs, with random data, of the largest affordable launch among those that were tried.

        Raises Wrong if they differ, or if one fails.
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
            case = max(affordable, key=lambda one: (peers_of(source.launch, one) > 2, min(one.k, deep), one.flops))
        situation = Situation(revealing(case), "random", 0)
        with self._keeping_failure(situation):
            self.determinism = compare_runs(self.kernel, situation, runs)
            difference = self.determinism.difference
            if difference is not None:
                raise Wrong(situation, Failure("nondeterministic", difference, "verifier"), None)
        return self.determinism

    @contextmanager
    def _keeping_failure(self, situation: Situation, words: str = "") -> Iterator[None]:
        """Keep a failure within, and raise it as Wrong; `words` follow its reason."""
        try:
            yield
        except (CandidateFailed, Wrong) as error:
            failure = replace(error.failure, reason=f"{error.failure.reason}{words}")
            mismatch = error.mismatch if isinstance(error, Wrong) else None
            raise self._keep(Wrong(situation, failure, mismatch)) from error

    def _keep(self, wrong: Wrong) -> Wrong:
        self.found, self.found_after = wrong, self.examples
        return wrong


def _distances_of(case: Case) -> list[str]:
    """The names of what makes offsets large: run-time distances, or else sizes."""
    distances = [name for name in case.problem.runtime_names if name.startswith(("ld", "stride_"))]
    return distances or [name for name in ("M", "batch") if name in case.problem.runtime_names]


def stratified_test(
    tested: Callable[[Situation], None],
    problem: Problem,
    largest: int,
    examples: int,
    seed: int,
    *,
    instead: Callable[[], Situation | None] = lambda: None,
) -> None:
    """Call `tested` with drawn situations of `problem`, each of the next stratum.

    In the last quarter (SOUGHT_PART), `instead` replaces draws as long as it returns situations.
    """
    from gemmgen.verification.strategies import for_each, situations  # late: importing hypothesis takes 0.2 s

    numbers = itertools.count()

    def test(drawn: Callable[[Stratum], Situation]) -> None:
        number = next(numbers)
        sought = instead() if number >= examples - examples // SOUGHT_PART else None
        tested(sought or drawn(stratum(number)))

    for_each(situations(problem, largest), test, examples=examples, seed=seed)
