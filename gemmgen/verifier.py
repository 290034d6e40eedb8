"""Is the kernel right? A property test with hypothesis: random situations, and the smallest one that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import hypothesis
import numpy as np

from gemmgen.errors import CandidateFailed, Failure
from gemmgen.executor import Executor, Floats, LoadedKernel, Operands
from gemmgen.problem import Case
from gemmgen.reference import Mismatch, Window, compare, make_operands
from gemmgen.situation import FAR_SIZES, Situation, situations
from gemmgen.source import KernelSource, Launch

SAMPLE_TILES = 4  # of C, of a case that the executor does not run whole
POISON = 0x7FFCBEEF  # a NaN that no kernel computes; two of them are a double's


@dataclass(frozen=True)
class Verdict:
    """What verification found.

    executor     "gpu" or "emulator"
    examples     situations that were run
    worst        largest error over its bound, over all random data (at most 1 where the kernel passes)
    failure      None where every situation passed
    situation    the smallest one found that fails
    mismatch     its first wrong element, where it ran to the end
    sampled      True where only the blocks of SAMPLE_TILES random tiles of each grid ran, and these were checked
    found_after  situations up to the first one that failed, before shrinking; None where none failed
    """

    executor: str
    examples: int
    seed: int
    worst: float
    failure: Failure | None = None
    situation: Situation | None = None
    mismatch: Mismatch | None = None
    sampled: bool = False
    found_after: int | None = None

    @property
    def passed(self) -> bool:
        return self.failure is None


class Wrong(Exception):
    """Stops a property test: this situation fails."""

    def __init__(self, situation: Situation, failure: Failure, mismatch: Mismatch | None) -> None:
        super().__init__(f"{situation}: {failure.reason}")
        self.situation, self.failure, self.mismatch = situation, failure, mismatch


def verify(
    executor: Executor,
    source: KernelSource,
    *,
    examples: int,
    seed: int = 0,
    largest: int = FAR_SIZES[-1],
    on_example: Callable[[], None] = lambda: None,
) -> Verdict:
    """Property-test `source` on `executor`: at most `examples` situations, then shrinking if one fails.

    `largest` bounds run-time sizes. A kernel that does not compile or load is a Verdict with that
    failure and no examples.
    """
    try:
        kernel = executor.load(source)
    except CandidateFailed as error:
        return Verdict(executor.name, 0, seed, np.inf, error.failure)
    tested = _Property(kernel, on_example)
    try:
        property_test(tested, situations(source.problem, largest), examples, seed)
    except (Wrong, hypothesis.errors.Flaky):
        wrong = tested.found
        assert wrong is not None
        found = Verdict(executor.name, tested.examples, seed, np.inf, wrong.failure, wrong.situation, wrong.mismatch)
        return replace(found, sampled=tested.sampled, found_after=tested.found_after)
    finally:
        kernel.close()
    return Verdict(executor.name, tested.examples, seed, tested.worst, sampled=tested.sampled)


# The tiles of M x N x batch, by the grid's numbers, that samples have run so far, and those of C that they wrote.
Seen = dict[tuple[int, int, int], tuple[set[int], set[Window]]]


def check(kernel: LoadedKernel, situation: Situation, seen: Seen | None = None) -> float:
    """Run one situation; returns the largest error over its bound.

    `seen` carries what samples showed from one situation to the next: two blocks that write the same tile, while
    another stays unwritten, are seldom in one sample. Where blocks add up a tile together, random data are run
    again with another seed, hence in another order: the bits must be the same.

    Raises Wrong (with the first wrong element) and CandidateFailed (the kernel does not run to the end).
    """
    operands = make_operands(situation)
    if not kernel.runs_whole(situation.case):
        return _check_sample(kernel, situation, operands, {} if seen is None else seen)
    result = kernel.run(situation.case, operands, seed=situation.seed)
    worst = _judge(situation, result, Window.whole(situation.case))
    if kernel.source.launch.splits > 1 and situation.data == "random":
        _check_determinism(kernel, situation, operands, result)
    return worst


def _check_determinism(kernel: LoadedKernel, situation: Situation, operands: Operands, result: Floats) -> None:
    again = kernel.run(situation.case, operands, seed=situation.seed + 1)
    c, bits = situation.case.c, situation.case.problem.dtype.bits
    differs = c.view(result.view(bits) != again.view(bits))
    if differs.any():
        at = tuple(int(index) for index in np.argwhere(differs)[0])
        one, other = (float(c.view(values)[at]) for values in (result, again))
        place = "".join(f"[{index}]" for index in at)
        reason = f"C{place} depends on the order in which blocks run: {one:.9g} and {other:.9g}"
        raise Wrong(situation, Failure("wrong", reason, "verifier"), None)


def _judge(situation: Situation, result: Floats, window: Window) -> float:
    worst, mismatch = compare(situation, result, window)
    if mismatch is not None:
        raise Wrong(situation, Failure("wrong", str(mismatch), "verifier"), mismatch)
    return worst


def _check_sample(kernel: LoadedKernel, situation: Situation, operands: Operands, seen: Seen) -> float:
    """Run the blocks of a few random tiles and check what they write of C, as many tiles; the rest must stay."""
    case, launch = situation.case, kernel.source.launch
    rng = np.random.default_rng(situation.seed)
    numbers = [
        int(tile) for tile in rng.choice(launch.tiles(case), min(SAMPLE_TILES, launch.tiles(case)), replace=False)
    ]
    chosen = [int(tile * launch.splits + split) for tile in numbers for split in rng.permutation(launch.splits)]
    tiles = _tiles_written(kernel, situation, operands, chosen)
    if len(tiles) != len(numbers):
        reason = f"blocks {chosen} write {len(tiles)} tiles of C, not {len(numbers)}"
        raise Wrong(situation, Failure("wrong", reason, "verifier"), None)
    all_numbers, all_tiles = seen.setdefault((case.m, case.n, case.batch), (set(), set()))
    all_numbers.update(numbers)
    all_tiles.update(tiles)
    if len(all_tiles) != len(all_numbers):
        of = f"{len(all_numbers) * launch.splits} of the grid's {launch.blocks(case)} blocks"
        reason = f"{of} write {len(all_tiles)} tiles of C, not {len(all_numbers)}: some write the same"
        raise Wrong(situation, Failure("wrong", reason, "verifier"), None)
    result = kernel.run(case, operands, seed=situation.seed, blocks=chosen)
    outside = case.c.view(result != operands.c) & ~np.isnan(case.c.view(operands.c))
    for tile in tiles:
        outside[tile.index] = False
    if outside.any():
        place = "".join(f"[{index}]" for index in np.argwhere(outside)[0])
        reason = f"blocks {chosen} write C{place}, outside of the tiles that they write with beta = 0"
        raise Wrong(situation, Failure("wrong", reason, "verifier"), None)
    return max(_judge(situation, result, tile) for tile in tiles)


def _tiles_written(kernel: LoadedKernel, situation: Situation, operands: Operands, blocks: list[int]) -> list[Window]:
    """The tiles in which a run of `blocks` with beta = 0 changes C, seen by what happens to poison."""
    case = replace(situation.case, beta=0.0)
    dtype = case.problem.dtype
    poison = np.full(operands.c.size * dtype.words, POISON, np.uint32).view(dtype.numpy)
    result = kernel.run(case, replace(operands, c=poison), seed=situation.seed, blocks=blocks)
    written = case.c.view(result.view(dtype.bits) != poison.view(dtype.bits))
    return [tile for tile in _tiles(case, kernel.source.launch) if written[tile.index].any()]


def _tiles(case: Case, launch: Launch) -> list[Window]:
    """The tiles of C, as the launch's grid divides it."""
    tile = dict(launch.grid)
    height, width, depth = tile.get("M", case.m), tile.get("N", case.n), tile.get("batch", 1)
    batched = case.problem.batched
    return [
        Window(
            *(top, left, min(top + height, case.m), min(left + width, case.n)),
            *((first, min(first + depth, case.batch)) if batched else ()),
        )
        for first in range(0, case.batch, depth)
        for top in range(0, case.m, height)
        for left in range(0, case.n, width)
    ]


class _Property:
    """The property that hypothesis tests: this kernel computes every situation right."""

    def __init__(self, kernel: LoadedKernel, on_example: Callable[[], None]) -> None:
        self.kernel = kernel
        self.on_example = on_example
        self.examples = 0
        self.worst = 0.0
        self.sampled = False
        self.found: Wrong | None = None
        self.found_after: int | None = None
        self.seen: Seen = {}

    def __call__(self, situation: Situation) -> None:
        self.examples += 1
        self.sampled |= not self.kernel.runs_whole(situation.case)
        self.on_example()
        try:
            self.worst = max(self.worst, check(self.kernel, situation, self.seen))
        except CandidateFailed as error:
            raise self._keep(Wrong(situation, error.failure, None)) from error
        except Wrong as error:
            self._keep(error)
            raise

    def _keep(self, wrong: Wrong) -> Wrong:
        self.found = wrong  # the last one is the smallest: hypothesis shrinks
        if self.found_after is None:
            self.found_after = self.examples
        return wrong


def property_test(
    tested: Callable[[Situation], None],
    strategy: hypothesis.strategies.SearchStrategy[Situation],
    examples: int,
    seed: int,
) -> None:
    """Call `tested` with `examples` situations at most; one that it raises on is shrunk, and raised at the end."""
    settings = hypothesis.settings(
        max_examples=examples,
        deadline=None,  # an emulated launch takes what it takes
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )

    @hypothesis.seed(seed)
    @settings
    @hypothesis.given(strategy)
    def property_holds(situation: Situation) -> None:
        tested(situation)

    property_holds()
