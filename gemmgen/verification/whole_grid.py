"""Runs every block of a large grid: at a smaller K, with errors confirmed at the kernel's own K.

In a second the emulator runs a few tiles of 4096 x 4096 x 4096, or all of them with K = 32. The short run shows which
tile of C each block computes, from which rows of A and columns of B, and whether it respects the edges of C. It reads C
(beta = 1), so that an element which two blocks store is wrong, and one that none stores keeps its old value.
`shortened` says for which texts this is the same kernel.

Bisection narrows an error of the short run down to one or two tiles, which then run at the kernel's own K. The kernel
fails only if they are wrong there: an edited text may depend on its K in other ways, and be right.

The tiles at the ends of the numbering (the first, the last, and the ends of rows of tiles) also run at the kernel's own
K.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np

from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.streamk import Numbers
from gemmgen.problem.gemm import Case
from gemmgen.run.executor import Executor, LoadedKernel
from gemmgen.run.turns import TURNS, grid_of, tiles_in_turns
from gemmgen.support.errors import CandidateFailed
from gemmgen.verification.checks import (
    Mask,
    Unjudged,
    Wrong,
    check_tiles,
    check_whole,
    elements_written,
    launch_cost,
    tiles_of,
)
from gemmgen.verification.comparison import compare
from gemmgen.verification.data import make_operands
from gemmgen.verification.domain import DomainTally
from gemmgen.verification.shorter_k import shortened
from gemmgen.verification.situation import SHALLOW, VAST_ELEMENTS, Situation, free_sizes, open_case, with_room

OWN_FLOPS = 2e9  # limit of a run at the kernel's own K, if K can be smaller: some seconds on CUDA cores
SHORT_FLOPS = 2e10  # limit of a short run: some seconds on tensor cores, with one or two steps of K
MOST_ELEMENTS = 2**26  # limit of C
BEYOND = 3  # rows and columns beyond two tiles, if M or N is left to run time
UNEVEN = (41, 47, 55, 61)  # numbers of tile rows or columns; in f32, n * (1 / n) < 1 for these n
RASTER_ELEMENTS = 2**22  # limit of all matrices of the second raster situation: half a second for both
GROUP_ROWS = 8  # tile rows per group of a raster, if the config has no GROUP
DEPTH, PRODUCTS = 64, 2  # K and batch, if they are left to run time


@dataclass(frozen=True)
class Grid:
    """A grid of `blocks` blocks that all ran with K = `k`.

    ends  tiles that also ran at the kernel's own K, if that is larger
    """

    blocks: int
    k: int
    ends: int = 0

    def __str__(self) -> str:
        besides = f", and {self.ends} of its tiles at the kernel's own K" if self.ends else ""
        return f"all {self.blocks:,} blocks of one grid at K = {self.k}{besides}"


def grid_situations(source: KernelSource, seed: int = 0) -> list[Situation]:
    """The launch of the fixed sizes of C, with a little more than two tiles along a size that is left to run time.

    If both M and N are left to run time, launches of rasters with UNEVEN tile columns or rows.
    """
    problem, tile = source.problem, dict(source.launch.grid)
    if problem.m is None and problem.n is None:
        return _raster_situations(source, seed)
    wanted = {"m": 2 * tile.get("M", 1) + BEYOND, "n": 2 * tile.get("N", 1) + BEYOND, "k": DEPTH, "batch": PRODUCTS}
    return [Situation(open_case(problem, wanted, beta=1.0), "exact", seed=0)]


def _raster_situations(source: KernelSource, seed: int) -> list[Situation]:
    """Two launches: UNEVEN tile columns by more tile rows than a raster's group has, and the other way round.

    If tiles are large there is only one of the two, chosen by the seed, or none. Tiles divide M and N, because a tile
    count that is rounded wrongly shows there.
    """
    problem, tile = source.problem, dict(source.launch.grid)
    few, many = max(GROUP_ROWS, source.config.get("GROUP", 0)) + 1, UNEVEN[seed // 2 % len(UNEVEN)]
    found: list[Situation] = []
    for rows, columns in ((many, few), (few, many)) if seed % 2 else ((few, many), (many, few)):
        sizes = {"m": rows * tile.get("M", 1), "n": columns * tile.get("N", 1), "k": SHALLOW, "batch": 1}
        case = open_case(problem, sizes)
        elements = sum(matrix.elements for matrix in case.matrices)
        if elements <= (RASTER_ELEMENTS if found else VAST_ELEMENTS):
            found.append(Situation(case, "exact", seed=1))
    return with_room(source.launch, found)


def check_grid(executor: Executor, kernel: LoadedKernel, situation: Situation, tally: DomainTally) -> None:
    """Run every block of the grid of `situation` and record it in `tally`; a few tiles if M and N are run-time sizes.

    Raises Wrong and CandidateFailed.
    """
    case, launch = situation.case, kernel.source.launch
    if case.problem.m is None and case.problem.n is None:
        if tally.numbered:  # else nobody knows which blocks compute the first tiles of rows
            check_tiles(kernel, situation, make_operands(situation), _starts(launch, case), {}, tally.empty())
        return
    cost = launch_cost(case, launch)
    cheap = case.problem.k is None or kernel.can_run_whole(case) or cost <= OWN_FLOPS
    try:
        _require_room(case)
        short = None if cheap else _shorter(kernel.source, case)
        if cheap or (short is None and cost <= SHORT_FLOPS):
            check_whole(kernel, situation, make_operands(situation), tally.empty())
            tally.grid = str(Grid(launch.blocks(case), case.k))
        else:
            tally.grid = str(_check_short(executor, kernel, short, situation, tally.empty()))
    except Unjudged as why:
        tally.no_grid = str(why)


def _shorter(source: KernelSource, case: Case) -> KernelSource | None:
    """`source` with a K for which its grid costs at most SHORT_FLOPS; None if its text cannot be changed to one."""
    return shortened(source, int(SHORT_FLOPS * case.k / max(case.flops, 1)))


def _require_room(case: Case) -> None:
    if case.c.elements > MOST_ELEMENTS:
        raise Unjudged(f"C has more than {MOST_ELEMENTS:,} elements")
    if case.problem.k is None and case.flops > SHORT_FLOPS:
        raise Unjudged(f"it takes {case.flops:.2g} FLOPs, more than {SHORT_FLOPS:.2g}")


def _check_short(
    executor: Executor, kernel: LoadedKernel, short: KernelSource | None, whole: Situation, tally: DomainTally
) -> Grid:
    case, launch = whole.case, kernel.source.launch
    shorter, situation = _load_short(executor, short, case)
    with closing(shorter):
        if not tally.numbered:  # no tile can be run at the kernel's own K: nobody knows which block computes it
            if not _is_right(shorter, situation):
                raise Unjudged(f"with K = {situation.case.k} in its text it is wrong; it numbers its tiles itself")
            return Grid(launch.blocks(case), situation.case.k)
        suspects = _suspects(shorter, situation)
    operands = make_operands(whole)
    if suspects is not None:
        check_tiles(kernel, whole, operands, suspects, {}, tally)
        if launch.persistent:  # the error may depend on the tile that the block computed before
            in_turns = tiles_in_turns(launch, case, suspects[:1], grid_of(launch, case, min(TURNS)))
            check_tiles(kernel, whole, operands, in_turns, {}, tally)
        raise Unjudged(f"with K = {situation.case.k} in its text it is wrong; the same tiles are right at its own K")
    ends = _ends(launch, case)
    check_tiles(kernel, whole, operands, ends, {}, tally)
    return Grid(launch.blocks(case), situation.case.k, len(ends))


def _load_short(executor: Executor, short: KernelSource | None, case: Case) -> tuple[LoadedKernel, Situation]:
    """The kernel with a smaller K, and a situation with the other sizes of `case`. Raises Unjudged."""
    if short is None:
        raise Unjudged("its text cannot be changed to a smaller K")
    situation = Situation(short.problem.case(**free_sizes(case), beta=1.0), "exact", seed=1)
    try:
        return executor.load(short), situation
    except CandidateFailed as error:
        raise Unjudged(f"with K = {short.problem.k} in its text it does not load: {error.failure.reason}") from error


def right_at_small_k(executor: Executor, source: KernelSource, situation: Situation) -> bool:
    """Whether all blocks together are right at a smaller K. False if the text cannot be shortened."""
    try:
        _require_room(situation.case)
        kernel, short = _load_short(executor, _shorter(source, situation.case), situation.case)
    except Unjudged:
        return False
    with closing(kernel):
        return _is_right(kernel, short)


def _is_right(kernel: LoadedKernel, situation: Situation) -> bool:
    try:
        check_whole(kernel, situation, make_operands(situation), DomainTally())
    except (Wrong, CandidateFailed):
        return False
    return True


def _ends(launch: Launch, case: Case) -> Numbers:
    tiles = launch.tiles(case)
    lines = [-(-int(case.values[name]) // tile) for name, tile in launch.grid]
    return np.unique([end % tiles for line in lines for end in (0, line - 1, -line, -1)])


def _starts(launch: Launch, case: Case) -> Numbers:
    """The first tile of each row of tiles (of each column, if columns are longer) and the last tile.

    A tile number divided by a float reciprocal falls short at the start of a row. Such a block then computes another
    tile, so all of these run together.
    """
    tiles = launch.tiles(case)
    longest = max(-(-int(case.values[name]) // tile) for name, tile in launch.grid if name in ("M", "N"))
    return np.unique([*range(0, tiles, longest), tiles - 1])


def _suspects(kernel: LoadedKernel, situation: Situation) -> Numbers | None:
    """The numbers of a few tiles that are wrong when the whole grid runs; None if it is right."""
    case, launch = situation.case, kernel.source.launch
    tiles, operands, mismatch = np.arange(launch.tiles(case)), make_operands(situation), None
    try:
        for name in case.written:
            result = kernel.run(case, operands, seed=situation.seed, watch=False, output=name)
            mismatch = mismatch or compare(situation, result, output=name).mismatch
    except CandidateFailed:
        return _first_that(lambda some: _crashes(kernel, situation, some), tiles)
    if mismatch is None:
        return None
    written = partial(_written, kernel, situation)
    place = (mismatch.row, mismatch.col) if mismatch.matrix is None else (mismatch.matrix, mismatch.row, mismatch.col)
    near = _near(case, launch, place, written(tiles))
    return _idle(case, launch, written, tiles) if near is None else _writers(written, near, tiles)


Place = tuple[int, ...]  # an element of C


def _near(case: Case, launch: Launch, place: Place, written: Mask) -> Place | None:
    """`place`, or an element of its tile that some block writes; None if no block writes any of the tile."""
    if written[place]:
        return place
    tile = tiles_of(case, launch, np.array([place]))[0].index
    there = np.argwhere(written[tile])
    return tuple((there[0] + [part.start for part in tile]).tolist()) if len(there) else None


def _idle(case: Case, launch: Launch, written: Callable[[Numbers], Mask], tiles: Numbers) -> Numbers:
    """One of `tiles` whose blocks write none, or two whose blocks write the same."""

    def too_few(some: Numbers) -> bool:
        return len(tiles_of(case, launch, np.argwhere(written(some)))) < len(some)

    found = _first_that(too_few, tiles)
    if len(found) == 1:
        return found
    first, second = np.array_split(found, 2)
    both = np.argwhere(written(first) & written(second))
    return _writers(written, tuple(both[0].tolist()), found) if len(both) else found


def _first_that(wrong: Callable[[Numbers], bool], tiles: Numbers) -> Numbers:
    """The smallest part of `tiles`, found by bisection, for which `wrong` holds."""
    while len(tiles) > 1:
        half = next((half for half in np.array_split(tiles, 2) if wrong(half)), None)
        if half is None:
            return tiles
        tiles = half
    return tiles


def _writers(written: Callable[[Numbers], Mask], place: Place, tiles: Numbers) -> Numbers:
    """The `tiles` whose blocks write the element at `place`."""
    if not written(tiles)[place]:
        return tiles[:0]
    if len(tiles) == 1:
        return tiles
    return np.concatenate([_writers(written, place, half) for half in np.array_split(tiles, 2)])


def _crashes(kernel: LoadedKernel, situation: Situation, tiles: Numbers) -> bool:
    blocks = kernel.source.launch.blocks_of(situation.case, tiles).tolist()
    try:
        kernel.run(situation.case, make_operands(situation), seed=situation.seed, blocks=blocks, watch=False)
    except CandidateFailed:
        return True
    return False


def _written(kernel: LoadedKernel, situation: Situation, tiles: Numbers) -> Mask:
    blocks = kernel.source.launch.blocks_of(situation.case, tiles).tolist()
    return elements_written(kernel, situation, make_operands(situation), blocks)
