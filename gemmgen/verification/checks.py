"""Runs a kernel in one situation, whole or in part, and compares what it writes with the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.launch import Launch
from gemmgen.problem.gemm import Case
from gemmgen.problem.operands import is_amax
from gemmgen.run.executor import Floats, LoadedKernel, Operands
from gemmgen.run.turns import grid_of, tiles_in_turns, turns_of
from gemmgen.support.errors import CandidateFailed, Failure
from gemmgen.verification.companions import by_rows, computed, groups_of_rows, index_in_c
from gemmgen.verification.comparison import Compared, Mismatch, compare, compare_amax
from gemmgen.verification.data import make_operands
from gemmgen.verification.device_check import judge
from gemmgen.verification.domain import DomainTally
from gemmgen.verification.reference import Index
from gemmgen.verification.situation import Situation
from gemmgen.verification.tensor_core import Codes
from gemmgen.verification.window import Window

SAMPLE_TILES = 4  # tiles of C that run if the case does not run whole
# With more tiles or products than this, each sample has the last tile (see situation.MANY_TILES). If tiles have places
# in a workspace, it also has the tile whose number is equal to the last one's in its lower 15 or 16 bits.
SHORT_TILES = 2**15
SOME_COST = 1e7  # FLOPs; an executor that samples runs more expensive cases whole for one seed in WHOLE_SEEDS
WHOLE_SEEDS = 8
THREAD_FLOPS = 200  # cost of a thread, besides its arithmetic
# The byte that fills C to show which elements are written. In no type is it NaN, which a result may be, nor 0x7F, 0x80,
# 0 or 0xFF, which saturated results are.
POISON = 0xA5
WHOLE_COST = 5e9  # FLOPs; all blocks run at the kernel's own K, to explain an unexpected sample, up to this: seconds
OWN_TILES = "tiles"  # source of a Failure: the kernel numbers its tiles itself, and samples of it hang
REPLAY = "replay"  # source of a Failure: bits of C differ from the plan


class Wrong(Exception):
    """Ends a property test: the kernel fails in this situation."""

    def __init__(self, situation: Situation, failure: Failure, mismatch: Mismatch | None) -> None:
        super().__init__(f"{situation}: {failure.reason}")
        self.situation, self.failure, self.mismatch = situation, failure, mismatch


class Unjudged(Exception):
    """The reason why a kernel cannot be judged in one of the ways of verification."""


class UnexpectedTiles(Wrong):
    """Blocks wrote other tiles than the launch's plan says. Right only if the kernel numbers its tiles itself."""

    def __init__(self, situation: Situation, reason: str) -> None:
        super().__init__(situation, Failure("wrong", reason, "verifier"), None)


Mask = npt.NDArray[np.bool_]
# By M, N and batch: the tile numbers that samples have run so far, and the tiles of C that they wrote.
Seen = dict[tuple[int, int, int], tuple[set[int], set[Window]]]


def check(
    kernel: LoadedKernel, situation: Situation, seen: Seen | None = None, tally: DomainTally | None = None
) -> float:
    """Run one situation and count it in `tally`. Returns the largest ratio of an error to its bound.

    `seen` carries the tiles of earlier samples from one situation to the next: if two blocks write the same tile, and
    none writes another, the two are rarely in one sample.

    If a sample's blocks write unexpected tiles although all blocks together are right, the kernel numbers its tiles
    itself. From then on samples accept whichever tiles their blocks write.

    Raises Wrong (with the first wrong element) and CandidateFailed (the kernel does not run to its end; unjudged if a
    sample of a kernel that numbers its tiles itself hangs, because a few blocks then do the work of all).
    """
    operands, tally = make_operands(situation), tally or DomainTally()
    if runs_whole(kernel, situation):
        return check_whole(kernel, situation, operands, tally)
    seen = {} if seen is None else seen
    try:
        return _check_sample(kernel, situation, operands, seen, tally)
    except UnexpectedTiles:
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
    """Whether all blocks together are right: in this situation, or at a smaller K if it costs more than WHOLE_COST."""
    if launch_cost(situation.case, kernel.source.launch) > WHOLE_COST:
        return tally.right_at_small_k(situation)
    # With beta = 1 a tile that is computed twice is wrong.
    added = replace(situation, case=replace(situation.case, alpha=1.0, beta=1.0), data="exact")
    try:
        for one in (situation, added):
            check_whole(kernel, one, make_operands(one), DomainTally())
    except (Wrong, CandidateFailed):
        return False
    return True


def failing(
    kernel: LoadedKernel, situation: Situation, seen: Seen | None = None, tally: DomainTally | None = None
) -> Wrong | None:
    """The failure of `kernel` in `situation`; None if it passes. See `check`."""
    try:
        check(kernel, situation, seen, tally)
    except CandidateFailed as error:
        return Wrong(situation, error.failure, None)
    except Wrong as wrong:
        return wrong
    return None


def check_whole(kernel: LoadedKernel, situation: Situation, operands: Operands, tally: DomainTally) -> float:
    """Run all blocks at any cost, and compare as `check` does."""
    case, seed = situation.case, situation.seed
    worst = _check_in_place(kernel, situation, tally)
    if worst is None:
        worst = _check_on_host(kernel, situation, operands, tally)
    tally.ran(situation, kernel.source.launch.blocks(case), kernel.watched(case, seed=seed), whole=True)
    return worst


def _check_in_place(kernel: LoadedKernel, situation: Situation, tally: DomainTally) -> float | None:
    """Let the executor compare C in place; None if it cannot, so that numpy must."""
    at = tally.planned_places(situation, Window.whole(situation.case))
    judged = judge(kernel, situation, at)
    if judged is None:
        return None
    comparison, bits = judged
    worst = _judge(situation, comparison, tally)
    if at is not None:
        _require_planned(situation, bits, at, tally)
    return worst


def _check_on_host(kernel: LoadedKernel, situation: Situation, operands: Operands, tally: DomainTally) -> float:
    case, seed, worst = situation.case, situation.seed, 0.0
    for name in case.written:
        result = kernel.run(case, operands, seed=seed, watch=name == "C", output=name)
        worst = max(worst, _judge_whole(kernel, situation, operands, result, name, tally))
        if name == "C":
            for window in computed(case, operands)[:1]:
                _judge_bits(situation, result, window, tally)
    return worst


def _judge_whole(
    kernel: LoadedKernel, situation: Situation, operands: Operands, result: Floats, output: str, tally: DomainTally
) -> float:
    """As `_judge` of all that a run has to compute; rows of C of no group, or that no index names, keep their bits."""
    c, windows = situation.case.c, computed(situation.case, operands)
    if windows == [Window.whole(situation.case)] and not situation.case.problem.inputs.scattered:
        return _judge(situation, compare(situation, result, output=output, multiply=kernel.multiply), tally)
    changed = c.view(result.view(c.dtype.bits)) != c.view(operands.c.view(c.dtype.bits))
    for window in windows:
        changed[index_in_c(situation.case, operands, window)] = False
    if changed.any():
        place = "".join(f"[{index}]" for index in np.argwhere(changed)[0])
        raise Wrong(situation, Failure("wrong", f"C{place} is written, {_idle(situation.case)}", "verifier"), None)
    found = (_judge(situation, compare(situation, result, window, output), tally) for window in windows)
    return max(found, default=0.0)


def _idle(case: Case) -> str:
    """What is wrong with a row of C that is written and should not."""
    return "a row that no index names" if case.problem.inputs.scattered else "a row of no group"


def check_apart(kernel: LoadedKernel, situation: Situation, apart: Case, tally: DomainTally) -> float:
    """Run and compare as `check` does, with lines or matrices as far apart, for the kernel, as in `apart`."""
    case, operands, worst = situation.case, make_operands(situation), 0.0
    for name in case.written:
        result = kernel.run(case, operands, seed=situation.seed, watch=False, output=name, apart=apart)
        worst = max(worst, _judge_whole(kernel, situation, operands, result, name, tally))
    tally.ran_apart(apart)
    return worst


def compare_tail(
    kernel: LoadedKernel, situation: Situation, far: Case, blocks: list[int], window: Window, tally: DomainTally
) -> float:
    """Run `blocks` of the launch `far`, which compute `window` of its end, `situation`; see `check`."""
    operands, worst = make_operands(situation), 0.0
    for name in situation.case.written:
        result = kernel.run(
            situation.case, operands, seed=situation.seed, blocks=blocks, watch=False, output=name, apart=far
        )
        worst = max(worst, _judge_tiles(situation, operands, result, name, [window], blocks, tally))
    return worst


def runs_whole(kernel: LoadedKernel, situation: Situation) -> bool:
    """Whether all blocks run. Cases that cost more than SOME_COST run whole only for multiples of WHOLE_SEEDS."""
    case, launch = situation.case, kernel.source.launch
    if not kernel.can_run_whole(case):
        return False
    few = launch.tiles(case) <= 2 * SAMPLE_TILES or launch_cost(case, launch) <= SOME_COST or not kernel.runs_parts
    return few or situation.seed % WHOLE_SEEDS == 0


def launch_cost(case: Case, launch: Launch) -> float:
    """The cost of a run of all blocks, in FLOPs."""
    return case.flops + THREAD_FLOPS * launch.blocks(case) * launch.threads


def cost_with_edges(case: Case, launch: Launch) -> float:
    """`launch_cost` plus the cost of what tiles compute beyond C's edges, which dominates if K is long and C small."""
    beyond = 2.0 * launch.partial_elements * launch.tiles(case) * case.k - case.flops
    return launch_cost(case, launch) + max(beyond, 0.0)


def _judge(situation: Situation, comparison: Compared, tally: DomainTally) -> float:
    """The largest ratio of an error to its bound. Raises Wrong."""
    if comparison.trouble is not None:
        raise Wrong(situation, Failure("wrong", comparison.trouble, "verifier"), comparison.mismatch)
    tally.compared(situation, comparison)
    return comparison.worst


def _judge_bits(situation: Situation, result: Floats, window: Window, tally: DomainTally) -> None:
    """Compare the bits of C inside `window` with the kernel's plan. Raises Wrong."""
    at, case = tally.planned_places(situation, window), situation.case
    if at is not None:
        got = by_rows(case, make_operands(situation), case.c.view(result.view(case.c.dtype.bits)))[at]
        _require_planned(situation, got, at, tally)


def _require_planned(situation: Situation, got: Codes, at: Index, tally: DomainTally) -> None:
    """Raise Wrong if `got`, the bits of C at places `at`, are not as planned."""
    assert tally.replayer is not None
    trouble = tally.replayer.compare(situation, got, at)
    if trouble is not None:
        raise Wrong(situation, Failure("wrong", trouble, REPLAY), None)


def _check_sample(
    kernel: LoadedKernel, situation: Situation, operands: Operands, seen: Seen, tally: DomainTally
) -> float:
    """Run the blocks of a few random tiles: they must write as many tiles of C, correctly, and nothing else.

    If the kernel has stream-K tiles, which several blocks share, one of them is in the sample.
    """
    return check_tiles(
        kernel, situation, operands, sampled(situation.case, kernel.source.launch, situation.seed), seen, tally
    )


def sampled(case: Case, launch: Launch, seed: int) -> npt.NDArray[np.int64]:
    """The numbers of the tiles that run if the case does not run whole.

    For at least two seeds in three, each block of a persistent kernel computes several of them in turn.
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
    same_low_bits = (tiles - 1) % (2 * SHORT_TILES if tiles > 2 * SHORT_TILES else SHORT_TILES)
    if tiles > SHORT_TILES and launch.leaves_partials and launch.stream is None and same_low_bits not in drawn:
        drawn[1] = same_low_bits
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
    """Run the tiles numbered `drawn`, and check as `_check_sample` does."""
    case, launch = situation.case, kernel.source.launch
    blocks = launch.blocks_of(case, drawn)
    numbers = launch.tiles_of(case, blocks).tolist()
    chosen: list[int] = np.random.default_rng(situation.seed).permutation(blocks).tolist()
    elements, worst = np.argwhere(elements_written(kernel, situation, operands, chosen)), 0.0
    written = (
        tiles_of_groups(case, launch, elements, operands) if launch.row_groups else tiles_of(case, launch, elements)
    )
    if case.problem.inputs.leaves_rows:  # tiles without a row of a group are not written, others maybe in part
        written = [part for tile in written for one in computed(case, operands) if (part := tile.part_in(one))]
    else:
        _require_tiles(situation, chosen, numbers, written, seen, tally)
    for name in case.written:
        result = kernel.run(case, operands, seed=situation.seed, blocks=chosen, watch=name == "C", output=name)
        worst = max(worst, _judge_tiles(situation, operands, result, name, written, chosen, tally))
        if name == "C" and written:
            _judge_bits(situation, result, written[0], tally)
    watched = kernel.watched(case, seed=situation.seed, blocks=chosen)
    tally.ran(situation, len(chosen), watched, whole=len(chosen) == launch.blocks(case))
    return worst


def _require_tiles(
    situation: Situation,
    blocks: list[int],
    numbers: list[int],
    written: list[Window],
    seen: Seen,
    tally: DomainTally,
) -> None:
    """Raises UnexpectedTiles unless `blocks` have written as many tiles as they have `numbers`, and no tile twice."""
    case = situation.case
    if not written or (len(written) != len(numbers) and tally.numbered):
        raise UnexpectedTiles(situation, f"blocks {blocks} write {len(written)} tiles of C, not {len(numbers)}")
    all_numbers, all_tiles = seen.setdefault((case.m, case.n, case.batch), (set(), set()))
    all_numbers.update(numbers)
    all_tiles.update(written)
    if len(all_tiles) != len(all_numbers) and tally.numbered:
        reason = f"the blocks of {len(all_numbers)} tiles write {len(all_tiles)} tiles of C: some write the same"
        reason += ", of this and other samples" if len(all_numbers) > len(numbers) else ""
        raise UnexpectedTiles(situation, reason)


def _judge_tiles(
    situation: Situation,
    operands: Operands,
    result: Floats,
    output: str,
    tiles: list[Window],
    blocks: list[int],
    tally: DomainTally,
) -> float:
    """As `_judge` of `tiles`. Raises UnexpectedTiles if `output` changed outside of them."""
    if is_amax(output):
        return _judge(situation, compare_amax(situation, result, tiles, output), tally)
    matrix = situation.case.tensors[output]
    bits = matrix.dtype.bits
    outside = matrix.view(result.view(bits) != operands.by_name[output].view(bits))
    for tile in tiles:
        outside[index_in_c(situation.case, operands, tile) if output == "C" else tile.index] = False
    if outside.any():
        place = "".join(f"[{index}]" for index in np.argwhere(outside)[0])
        reason = f"blocks {blocks} write {output}{place}, outside of the tiles that they write with beta = 0"
        raise UnexpectedTiles(situation, reason)
    return max((_judge(situation, compare(situation, result, tile, output), tally) for tile in tiles), default=0.0)


def elements_written(kernel: LoadedKernel, situation: Situation, operands: Operands, blocks: list[int]) -> Mask:
    """A mask of the elements of C, by rows of the product, that a run of `blocks` with beta = 0 changes.

    C is filled with POISON before.
    A one-byte result may be equal to POISON, so for such types a second run starts from other bytes.
    """
    case = replace(situation.case, beta=0.0)
    dtype = case.c.dtype

    def changed(byte: int) -> Mask:
        poison = np.full(operands.c.nbytes, byte, np.uint8).view(dtype.numpy)
        result = kernel.run(case, replace(operands, c=poison), seed=situation.seed, blocks=blocks, watch=False)
        return by_rows(case, operands, case.c.view(result.view(dtype.bits) != poison.view(dtype.bits)))

    return changed(POISON) | changed(POISON ^ 0xFF) if dtype.size == 1 else changed(POISON)


def tiles_of(case: Case, launch: Launch, elements: npt.NDArray[np.int64]) -> list[Window]:
    """The tiles of the launch's grid that contain `elements`, given by their indices in C."""
    tile = dict(launch.grid)
    height, width, depth = tile.get("M", case.m), tile.get("N", case.n), tile.get("batch", 1)
    sizes = (depth, height, width) if case.problem.batched else (height, width)
    counts = [1 + int(most) for most in (elements // sizes).max(axis=0, initial=0)]
    numbers = np.unique(np.ravel_multi_index(tuple((elements // sizes).T), counts))
    places = zip(*(axis.tolist() for axis in np.unravel_index(numbers, counts)), strict=True)
    return [_tile(case, height, width, depth, *place) for place in places]


def tiles_of_groups(case: Case, launch: Launch, elements: npt.NDArray[np.int64], operands: Operands) -> list[Window]:
    """The same where each group of rows begins with a tile; elements of no group are of none."""
    (_, height), (_, width) = launch.grid
    ends = operands.extra["offs"].astype(np.int64)
    rows, columns = elements[elements[:, 0] < ends[-1]].T
    group = groups_of_rows(operands, rows)
    begins = np.concatenate([[0], ends])[group]
    tops, lefts = begins + (rows - begins) // height * height, columns // width * width
    edges = np.unique([tops, lefts, np.minimum(tops + height, ends[group])], axis=1).T.tolist()
    return [Window(top, left, bottom, min(left + width, case.n)) for top, left, bottom in edges]


def _tile(case: Case, height: int, width: int, depth: int, *number: int) -> Window:
    top, left = number[-2] * height, number[-1] * width
    edges = top, left, min(top + height, case.m), min(left + width, case.n)
    if not case.problem.batched:
        return Window(*edges)
    return Window(*edges, number[0] * depth, min((number[0] + 1) * depth, case.batch))
