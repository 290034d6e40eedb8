"""Tiles that the blocks of a persistent kernel compute in turns, where a few of them run of a grid."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.source import Launch
from gemmgen.problem.case import Case

TURNS = (4, 2)  # tiles of a block, or one less
RING_TURNS, RING_DEPTH = 10, 128  # where K is so small that a ring of stages goes round after many tiles alone

Numbers = npt.NDArray[np.int64]


def turns_of(case: Case) -> tuple[int, ...]:
    """How many tiles the blocks of a sample compute, most first."""
    return (RING_TURNS, *TURNS) if case.k <= RING_DEPTH else TURNS


def grid_of(launch: Launch, case: Case, turns: int) -> int:
    """Clusters of a grid whose blocks compute so many tiles each, or one less."""
    return -(-launch.tiles(case) // turns)


def tiles_in_turns(launch: Launch, case: Case, firsts: npt.ArrayLike, grid: int) -> Numbers:
    """All tiles of the clusters that begin with those of numbers `firsts`, of a `grid` of so many."""
    tiles = launch.tiles(case)
    return np.concatenate([np.arange(first, tiles, grid) for first in np.unique(np.array(firsts, np.int64))])


def by_turns(launch: Launch, case: Case, tiles: Numbers) -> tuple[Numbers, int]:
    """(clusters, how many the grid has) that compute just `tiles`, in the most turns that do; else one for each."""
    for turns in turns_of(case):
        grid = grid_of(launch, case, turns)
        firsts = np.array(list(dict.fromkeys((tiles % grid).tolist())), np.int64)
        computed = tiles_in_turns(launch, case, firsts, grid)
        if len(computed) == len(tiles) and np.isin(computed, tiles).all():
            return firsts, grid
    return tiles, launch.tiles(case)
