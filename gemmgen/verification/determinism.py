"""Has one launch the same bits each time? Several runs of it, in schedules and placements of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.problem.dtype import DType
from gemmgen.run.executor import LoadedKernel
from gemmgen.verification.checks import cost_with_edges
from gemmgen.verification.data import make_operands
from gemmgen.verification.situation import Situation

RUNS = 10  # of one launch, whose results must have the same bits
REPEATED_COST = 5e7  # of such a launch where there is a choice; of a larger one that sampling may divide, some tiles
REPEATED_TILES = 2  # at least

Words = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Determinism:
    """One launch, run several times in schedules and placements of their own.

    situation    what ran
    blocks, grid how many blocks of the grid ran, out of how many
    difference   the first element whose bits differ; None where there is none
    """

    runs: int
    situation: str
    blocks: int
    grid: int
    difference: str | None = None


def compare_runs(kernel: LoadedKernel, situation: Situation, runs: int) -> Determinism:
    """Run one situation `runs` times, each time with a seed of its own, and compare the bits of C.

    Likewise those of what else the kernel writes.

    One run more is watched for data races: what is watched is compiled in another way, which may round in another.

    A launch that costs more than REPEATED_COST runs in part, on executors that run parts: some neighbouring tiles, the
    last of which is shared where blocks stream.
    Raises CandidateFailed (the kernel does not run to the end).
    """
    case, operands, launch = situation.case, make_operands(situation), kernel.source.launch
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
