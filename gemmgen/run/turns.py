"""Tiles that the blocks of a persistent kernel compute in turns, if only a few blocks of a grid run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.launch import Launch
from gemmgen.problem.gemm import Case

TURNS = (4, 2)  # tiles of a block, or one less
RING_TURNS, RING_DEPTH = 10, 128  # where K is so small that a ring of stages goes round after many tiles alone

Numbers = npt.NDArray[np.int64]


def turns_of(case: Case) -> tuple[int, ...]:
    """The numbers of tiles per block that a sample tries, most first."""
    return (RING_TURNS, *TURNS) if case.k <= RING_DEPTH else TURNS


def grid_of(launch: Launch, case: Case, turns: int) -> int:
    """Clusters of a grid whose blocks compute `turns` tiles each, or one less."""
    return -(-launch.tiles(case) // turns)


def tiles_in_turns(launch: Launch, case: Case, firsts: npt.ArrayLike, grid: int) -> Numbers:
    """All tiles of the clusters that begin with the tiles `firsts`, in a grid of `grid` clusters."""
    tiles = launch.tiles(case)
    return np.concatenate([np.arange(first, tiles, grid) for first in np.unique(np.array(firsts, np.int64))])


def by_turns(launch: Launch, case: Case, tiles: Numbers) -> tuple[Numbers, int]:
    """Return (clusters, clusters in the grid) that compute exactly `tiles`, in as many turns as possible; else one
    cluster per tile."""
    for turns in turns_of(case):
        grid = grid_of(launch, case, turns)
        firsts = np.array(list(dict.fromkeys((tiles % grid).tolist())), np.int64)
        computed = tiles_in_turns(launch, case, firsts, grid)
        if len(computed) == len(tiles) and np.isin(computed, tiles).all():
            return firsts, grid
    return tiles, launch.tiles(case)
