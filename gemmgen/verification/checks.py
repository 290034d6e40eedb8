"""One situation: runs a kernel in it, whole or in part, and holds what it writes against the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.source import Launch
from gemmgen.problem.case import Case
from gemmgen.problem.operands import is_amax
from gemmgen.run.executor import Floats, LoadedKernel, Operands
from gemmgen.run.turns import grid_of, tiles_in_turns, turns_of
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.verification.comparison import Compared, Mismatch, compare, compare_amax
from gemmgen.verification.data import make_operands
from gemmgen.verification.domain import DomainTally
from gemmgen.verification.judged import judge
from gemmgen.verification.situation import Situation
from gemmgen.verification.window import Window

SAMPLE_TILES = 4  # of C, of a case that the executor does not run whole
SHORT_TILES = 2**15  # with more tiles, or products, the last tile is in each sample: see situation.MANY_TILES
# and, where tiles have places in a workspace, the one whose number is the last one's in 16 or 15 bits.
SOME_COST = 1e7  # an executor that samples runs larger cases whole for a few seeds only
WHOLE_SEEDS = 8  # of so many seeds, one runs such a case whole
THREAD_FLOPS = 200  # what a thread costs beside its arithmetic
# Of bytes that stand in C to see what is written: no NaN, which results may be, and none of 0x7F, 0x80, 0 and 0xFF,
# which saturated results are.
POISON = 0xA5
WHOLE_COST = 5e9  # of a run of all blocks where samples are not what they should be: some seconds
OWN_TILES = "tiles"  # the source of what is not judged as a kernel numbers its tiles itself
REPLAY = "replay"  # the source of what is not as planned


class Wrong(Exception):
    """Stops a property test: this situation fails."""

    def __init__(self, situation: Situation, failure: Failure, mismatch: Mismatch | None) -> None:
        super().__init__(f"{situation}: {failure.reason}")
        self.situation, self.failure, self.mismatch = situation, failure, mismatch


class Misplaced(Wrong):
    """Blocks have not computed the tiles of their numbers: wrong, unless the kernel numbers its tiles itself."""

    def __init__(self, situation: Situation, reason: str) -> None:
        super().__init__(situation, Failure("wrong", reason, "verifier"), None)


Mask = npt.NDArray[np.bool_]


# The tiles of M x N x batch, by the grid's numbers, that samples have run so far, and those of C that they wrote.
Seen = dict[tuple[int, int, int], tuple[set[int], set[Window]]]


def check(
    kernel: LoadedKernel, situation: Situation, seen: Seen | None = None, tally: DomainTally | None = None
) -> float:
    """Run one situation; returns the largest error over its bound, and counts it in `tally`.

    `seen` carries what samples showed from one situation to the next: two blocks that write the same tile, while
    another stays unwritten, are seldom in one sample.

    Where blocks of a sample have not computed the tiles of their numbers, and all blocks are right, the kernel numbers
    its tiles itself, and samples show which these are.

    Raises Wrong (with the first wrong element) and CandidateFailed (the kernel does not run to the end; or unjudged,
    where a few blocks do the work of all).
    """
    operands, tally = make_operands(situation), tally or DomainTally()
    if runs_whole(kernel, situation):
        return check_whole(kernel, situation, operands, tally)
    seen = {} if seen is None else seen
    try:
        return _check_sample(kernel, situation, operands, seen, tally)
    except Misplaced:
        if not tally.numbered or not _is_right_whole(kernel, situation, tally):
            raise
    tally.numbered = False
    try:
        return _check_sample(kernel, situation, operands, seen, tally)
    except CandidateFailed as error:
        if error.failure.kind != "timeout":
            raise
        raise CandidateFailed(Failure("unjudged", f"{situation}: {error.failure.reason}", OWN_TILES)) from error


def _is_right_whole(kernel: LoadedKernel, situation: Situation, tally: DomainTally) -> bool:
    """Whether all blocks are right together: here, or at a smaller K where that takes long."""
    if launch_cost(situation.case, kernel.source.launch) > WHOLE_COST:
        return tally.right_at_small_k(situation)
    added = replace(
        situation, case=replace(situation.case, alpha=1.0, beta=1.0), data="exact"
    )  # C shows what is computed twice
    try:
        for one in (situation, added):
            check_whole(kernel, one, make_operands(one), DomainTally())
    except (Wrong, CandidateFailed):
        return False
    return True


def failing(
    kernel: LoadedKernel, situation: Situation, seen: Seen | None = None, tally: DomainTally | None = None
) -> Wrong | None:
    """How `kernel` fails in `situation`; None where it passes. See `check`."""
    try:
        check(kernel, situation, seen, tally)
    except CandidateFailed as error:
        return Wrong(situation, error.failure, None)
    except Wrong as wrong:
        return wrong
    return None


def check_whole(kernel: LoadedKernel, situation: Situation, operands: Operands, tally: DomainTally) -> float:
    """The same with all blocks, whatever that takes."""
    case, seed = situation.case, situation.seed
    worst = _check_in_place(kernel, situation, tally)
    if worst is None:
        worst = _check_on_host(kernel, situation, operands, tally)
    tally.ran(situation, kernel.source.launch.blocks(case), kernel.watched(case, seed=seed), whole=True)
    return worst


def _check_in_place(kernel: LoadedKernel, situation: Situation, tally: DomainTally) -> float | None:
    """By the executor where it can judge C; None where numpy is to."""
    at = tally.planned_places(situation, Window.whole(situation.case))
    judged = judge(kernel, situation, at)
    if judged is None:
        return None
    comparison, bits = judged
    worst = _judge(situation, comparison, tally)
    if at is not None:
        _require_planned(situation, tally.replayed_at(situation, bits, at))
    return worst


def _check_on_host(kernel: LoadedKernel, situation: Situation, operands: Operands, tally: DomainTally) -> float:
    case, seed, worst = situation.case, situation.seed, 0.0
    for name in case.written:
        result = kernel.run(case, operands, seed=seed, watch=name == "C", output=name)
        comparison = compare(situation, result, output=name, multiply=kernel.multiply)
        worst = max(worst, _judge(situation, comparison, tally))
        if name == "C":
            _judge_bits(situation, result, Window.whole(case), tally)
    return worst


def check_apart(kernel: LoadedKernel, situation: Situation, apart: Case, tally: DomainTally) -> float:
    """Run one situation whose lines, or matrices, lie as far apart for the kernel as those of `apart`; see `check`."""
    case, operands, worst = situation.case, make_operands(situation), 0.0
    for name in case.written:
        result = kernel.run(case, operands, seed=situation.seed, watch=False, output=name, apart=apart)
        worst = max(worst, _judge(situation, compare(situation, result, output=name), tally))
    tally.ran_apart(apart)
    return worst


def compare_tail(
    kernel: LoadedKernel, situation: Situation, far: Case, blocks: list[int], window: Window, tally: DomainTally
) -> float:
    """Run `blocks` of `far`, whose end `situation` is and of it `window` theirs; see `check`."""
    operands, worst = make_operands(situation), 0.0
    for name in situation.case.written:
        result = kernel.run(
            situation.case, operands, seed=situation.seed, blocks=blocks, watch=False, output=name, apart=far
        )
        if is_amax(name):
            comparison = compare_amax(situation, result, [window], name)
        else:
            _require_inside(situation, operands, result, name, [window], blocks)
            comparison = compare(situation, result, window, name)
        worst = max(worst, _judge(situation, comparison, tally))
    return worst


def runs_whole(kernel: LoadedKernel, situation: Situation) -> bool:
    """Whether all blocks run. Where that takes long, they do for seed 0 and one seed in WHOLE_SEEDS."""
    case, launch = situation.case, kernel.source.launch
    if not kernel.can_run_whole(case):
        return False
    few = launch.tiles(case) <= 2 * SAMPLE_TILES or launch_cost(case, launch) <= SOME_COST or not kernel.runs_parts
    return few or situation.seed % WHOLE_SEEDS == 0


def launch_cost(case: Case, launch: Launch) -> float:
    """Of a run of all blocks, in FLOPs."""
    return case.flops + THREAD_FLOPS * launch.blocks(case) * launch.threads


def cost_with_edges(case: Case, launch: Launch) -> float:
    """The same with what tiles compute beyond C's edges, which is nearly all where K is deep and C small."""
    beyond = 2.0 * launch.partial_elements * launch.tiles(case) * case.k - case.flops
    return launch_cost(case, launch) + max(beyond, 0.0)


def _judge(situation: Situation, comparison: Compared, tally: DomainTally) -> float:
    """The largest error over its bound. Raises Wrong."""
    if comparison.trouble is not None:
        raise Wrong(situation, Failure("wrong", comparison.trouble, "verifier"), comparison.mismatch)
    tally.compared(situation, comparison)
    return comparison.worst


def _judge_bits(situation: Situation, result: Floats, window: Window, tally: DomainTally) -> None:
    """Hold C inside `window` against the kernel's plan. Raises Wrong."""
    _require_planned(situation, tally.replayed(situation, result, window))


def _require_planned(situation: Situation, trouble: str | None) -> None:
    if trouble is not None:
        raise Wrong(situation, Failure("wrong", trouble, REPLAY), None)


def _check_sample(
    kernel: LoadedKernel, situation: Situation, operands: Operands, seen: Seen, tally: DomainTally
) -> float:
    """Run the blocks of a few random tiles and check what they write of C, as many tiles; the rest must stay.

    Where blocks stream, the last of these tiles is one that they share.
    """
    return check_tiles(
        kernel, situation, operands, sampled(situation.case, kernel.source.launch, situation.seed), seen, tally
    )


def sampled(case: Case, launch: Launch, seed: int) -> npt.NDArray[np.int64]:
    """The tiles, by the grid's numbers, that run of a case that does not run whole.

    For two seeds of three, or more, the blocks of a persistent kernel compute theirs in turns.
    """
    rng = np.random.default_rng(seed)
    tiles, whole = launch.tiles(case), launch.whole_tiles(case)
    long = max(tiles, case.batch) > SHORT_TILES
    several = turns_of(case)
    turns = (1, *several)[seed % (1 + len(several))]
    if launch.persistent and turns > 1 and tiles > SAMPLE_TILES:
        grid = grid_of(launch, case, turns)
        firsts = rng.choice(grid, min(max(1, SAMPLE_TILES // turns), grid), replace=False)
        if long:
            firsts[0] = (tiles - 1) % grid
        return tiles_in_turns(launch, case, firsts, grid)
    drawn = rng.choice(tiles, min(SAMPLE_TILES, tiles), replace=False)
    if long and tiles - 1 not in drawn:
        drawn[0] = tiles - 1
    alike = (tiles - 1) % (2 * SHORT_TILES if tiles > 2 * SHORT_TILES else SHORT_TILES)
    if tiles > SHORT_TILES and launch.leaves_partials and launch.stream is None and alike not in drawn:
        drawn[1] = alike
    if whole < tiles:
        drawn = np.unique([*drawn[:-1], rng.integers(whole, tiles)])
    return drawn


def check_tiles(
    kernel: LoadedKernel,
    situation: Situation,
    operands: Operands,
    drawn: npt.NDArray[np.int64],
    seen: Seen,
    tally: DomainTally,
) -> float:
    """The same of the tiles `drawn`, by the grid's numbers."""
    case, launch = situation.case, kernel.source.launch
    blocks = launch.blocks_of(case, drawn)
    numbers = launch.tiles_of(case, blocks).tolist()
    chosen: list[int] = np.random.default_rng(situation.seed).permutation(blocks).tolist()
    written = tiles_written(kernel, situation, operands, chosen)
    if not written or (len(written) != len(numbers) and tally.numbered):
        raise Misplaced(situation, f"blocks {chosen} write {len(written)} tiles of C, not {len(numbers)}")
    all_numbers, all_tiles = seen.setdefault((case.m, case.n, case.batch), (set(), set()))
    all_numbers.update(numbers)
    all_tiles.update(written)
    if len(all_tiles) != len(all_numbers) and tally.numbered:
        reason = f"the blocks of {len(all_numbers)} tiles write {len(all_tiles)} tiles of C: some write the same"
        reason += ", of this and other samples" if len(all_numbers) > len(numbers) else ""
        raise Misplaced(situation, reason)
    worst = 0.0
    for name in case.written:
        result = kernel.run(case, operands, seed=situation.seed, blocks=chosen, watch=name == "C", output=name)
        if is_amax(name):
            comparisons = [compare_amax(situation, result, written, name)]
        else:
            _require_inside(situation, operands, result, name, written, chosen)
            comparisons = [compare(situation, result, tile, name) for tile in written]
        worst = max(worst, *(_judge(situation, comparison, tally) for comparison in comparisons))
        if name == "C":
            _judge_bits(situation, result, written[0], tally)
    watched = kernel.watched(case, seed=situation.seed, blocks=chosen)
    tally.ran(situation, len(chosen), watched, whole=len(chosen) == launch.blocks(case))
    return worst


def _require_inside(
    situation: Situation, operands: Operands, result: Floats, output: str, tiles: list[Window], blocks: list[int]
) -> None:
    """Raises Wrong where `output` changed outside of `tiles`."""
    matrix = situation.case.tensors[output]
    bits = matrix.dtype.bits
    outside = matrix.view(result.view(bits) != operands.by_name[output].view(bits))
    for tile in tiles:
        outside[tile.index] = False
    if outside.any():
        place = "".join(f"[{index}]" for index in np.argwhere(outside)[0])
        reason = f"blocks {blocks} write {output}{place}, outside of the tiles that they write with beta = 0"
        raise Misplaced(situation, reason)


def tiles_written(kernel: LoadedKernel, situation: Situation, operands: Operands, blocks: list[int]) -> list[Window]:
    """The tiles in which a run of `blocks` with beta = 0 changes C."""
    written = np.argwhere(elements_written(kernel, situation, operands, blocks))
    return tiles_of(situation.case, kernel.source.launch, written)


def elements_written(kernel: LoadedKernel, situation: Situation, operands: Operands, blocks: list[int]) -> Mask:
    """Which elements of C such a run changes, seen by what happens to poison.

    A byte of C may happen to be what was there: of such types a second run begins with other poison.
    """
    case = replace(situation.case, beta=0.0)
    dtype = case.c.dtype

    def changed(byte: int) -> Mask:
        poison = np.full(operands.c.nbytes, byte, np.uint8).view(dtype.numpy)
        result = kernel.run(case, replace(operands, c=poison), seed=situation.seed, blocks=blocks, watch=False)
        return case.c.view(result.view(dtype.bits) != poison.view(dtype.bits))

    return changed(POISON) | changed(POISON ^ 0xFF) if dtype.size == 1 else changed(POISON)


def tiles_of(case: Case, launch: Launch, elements: npt.NDArray[np.int64]) -> list[Window]:
    """The tiles of C that hold `elements`, given by their indices, as the launch's grid divides it."""
    tile = dict(launch.grid)
    height, width, depth = tile.get("M", case.m), tile.get("N", case.n), tile.get("batch", 1)
    sizes = (depth, height, width) if case.problem.batched else (height, width)
    counts = [1 + int(most) for most in (elements // sizes).max(axis=0, initial=0)]
    numbers = np.unique(np.ravel_multi_index(tuple((elements // sizes).T), counts))
    places = zip(*(axis.tolist() for axis in np.unravel_index(numbers, counts)), strict=True)
    return [_tile(case, height, width, depth, *place) for place in places]


def _tile(case: Case, height: int, width: int, depth: int, *number: int) -> Window:
    top, left = number[-2] * height, number[-1] * width
    edges = top, left, min(top + height, case.m), min(left + width, case.n)
    if not case.problem.batched:
        return Window(*edges)
    return Window(*edges, number[0] * depth, min((number[0] + 1) * depth, case.batch))
