"""Determinism of a launch: several runs, with different schedules and placements, must give the same bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.families import k_tile_of
from gemmgen.kernel.launch import Launch
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.dtype import DType
from gemmgen.problem.gemm import Case
from gemmgen.run.executor import LoadedKernel, Operands
from gemmgen.verification.checks import cost_with_edges
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation

RUNS = 10  # of one launch, whose results must have the same bits
REPEATED_COST = 5e7  # of such a launch where there is a choice; of a larger one that sampling may divide, some tiles
REPEATED_TILES = 2  # at least
MOST_PEERS = 4  # blocks of a tile of stream-K, mostly
ENLARGED = 2.0**20  # alpha, for what is left of sums of numbers near 1 that cancel out

Words = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Determinism:
    """The comparison of several runs of one launch, with different schedules and placements.

    situation    the situation that ran
    blocks, grid the number of blocks that ran, and of those in the grid
    difference   the first element whose bits differ; None if there is none
    """

    runs: int
    situation: str
    blocks: int
    grid: int
    difference: str | None = None


def depth_of_parts(source: KernelSource) -> int:
    """The K from which each block that shares a tile has products to sum; 1 if no blocks share tiles."""
    launch = source.launch
    return max(launch.splits, MOST_PEERS) * k_tile_of(source) if launch.adds_up else 1


def peers_of(launch: Launch, case: Case) -> int:
    """The largest number of blocks that add up a tile of `case`. A sum of two has the same bits in either order."""
    if launch.stream is None:
        return launch.splits
    schedule = launch.schedule(launch.stream, case)
    _, peers = schedule.arrivals(np.arange(schedule.grid))
    return int(peers.max(initial=1)) if schedule.stream_blocks else 1


def revealing(case: Case) -> Case:
    """`case` with scalars that let the order of summation show in C."""
    return replace(case, alpha=ENLARGED, beta=0.0) if _hides_order(case) else replace(case, alpha=1.0, beta=1.0)


def _hides_order(case: Case) -> bool:
    """Whether C's type has fewer bits than sums, whose last bits depend on the order."""
    types = case.problem.types
    by_alpha = "alpha" in case.problem.epilogue.scalars
    return not types.accumulator.is_integer and types.c.precision < types.accumulator.precision and by_alpha


def _cancelling(case: Case, operands: Operands) -> Operands:
    """Read-only `operands` whose second half of K cancels the first, so that only sums' rounding errors remain."""
    if case.problem.inputs.conv is not None:  # whose rows share elements
        return operands
    half = case.k // 2
    a, b = operands.a.copy(), operands.b.copy()
    of_a, of_b = case.a.view(a), case.b.view(b)
    of_a[..., half : 2 * half] = of_a[..., :half]
    of_b[..., half : 2 * half, :] = of_b[..., :half, :]
    negated = of_a[..., half : 2 * half] if case.b.dtype.is_integer else of_b[..., half : 2 * half, :]
    np.negative(negated, out=negated)
    for changed in (a, b):  # executors keep what nobody can change from run to run
        changed.flags.writeable = False
    return replace(operands, a=a, b=b)


def compare_runs(kernel: LoadedKernel, situation: Situation, runs: int) -> Determinism:
    """Run one situation `runs` times, each time with another seed, and compare the bits of C.

    Other outputs are compared as well. If C has fewer bits than sums have, the sums cancel except for their rounding
    errors: `revealing` gives the scalars for that.

    One more run is watched for data races. It does not count, as watched code is compiled differently and may round
    differently.

    On executors that run parts, a launch that costs more than REPEATED_COST runs only some neighbouring tiles; with
    stream-K the last of them is shared. Raises CandidateFailed (the kernel does not run to the end).
    """
    case, operands, launch = situation.case, make_operands(situation), kernel.source.launch
    operands = _cancelling(case, operands) if _hides_order(case) else operands
    tiles = launch.tiles(case)
    blocks = np.arange(launch.blocks(case))
    cost = cost_with_edges(case, launch)
    complete = cost <= REPEATED_COST or not kernel.runs_parts
    if not complete:
        count = min(tiles, max(REPEATED_TILES, int(REPEATED_COST * tiles / cost)))
        whole = launch.whole_tiles(case)
        lowest = max(0, whole - count + 1) if whole < tiles else 0
        start = int(np.random.default_rng(situation.seed).integers(lowest, tiles - count + 1))
        blocks = launch.blocks_of(case, range(start, start + count))

    def run(name: str, seed: int, watch: bool = False) -> Words:
        order = np.random.default_rng(seed).permutation(blocks)
        part = None if complete else [int(block) for block in order]
        result = kernel.run(case, operands, seed=seed, blocks=part, watch=watch, output=name)
        matrix = case.tensors[name]
        return matrix.view(result.view(matrix.dtype.bits))

    run("C", situation.seed, watch=True)  # whether there is a race does not hang on the schedule
    first = {name: run(name, situation.seed) for name in case.written}
    difference = None
    for seed in range(situation.seed + 1, situation.seed + runs):
        for name, matrix in case.written.items():
            seeds = f"seeds {situation.seed} and {seed}"
            difference = difference or _first_difference(first[name], run(name, seed), name, matrix.dtype, seeds)
    return Determinism(runs, str(situation), len(blocks), launch.blocks(case), difference)


def _first_difference(first: Words, again: Words, name: str, dtype: DType, seeds: str) -> str | None:
    differs = first != again
    if not differs.any():
        return None
    at = tuple(int(index) for index in np.argwhere(differs)[0])
    one, other = (float(dtype.decode(bits[at].view(dtype.numpy))) for bits in (first, again))
    place = "".join(f"[{index}]" for index in at)
    return (
        f"{name}{place} is {one:.9g} in one run and {other:.9g} in another of the same launch ({seeds}); "
        f"{int(differs.sum())} elements differ"
    )
