"""Stream-K: which steps of which tiles each block takes, as `templates/device/stream_k.cu` deals them out.

A grid of one block a tile ends with a wave that leaves a part of the card idle. Here the tiles of all whole waves but
one have a block each; as many blocks as run at once share the others: an equal run of steps along K for each, tile
after tile. So all of them end together, and a tile has parts of two or three blocks, which the last to come adds up.

Osama et al., Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the
GPU, PPoPP 2023: the hybrid with a data-parallel part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmgen.errors import require

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """How a launch shares its last tiles.

    blocks  that share them: as many as run at once
    depth   of a step along K, which is never split
    """

    blocks: int
    depth: int

    def __post_init__(self) -> None:
        for value, meaning in ((self.blocks, "blocks share the last tiles"), (self.depth, "of K are a step")):
            require(type(value) is int and value >= 1, f"{value} {meaning}")


@dataclass(frozen=True)
class Shares:
    """How `tiles` tiles of `k` depths each are dealt out. Tiles and blocks are numbered as the kernel numbers them."""

    stream: Stream
    tiles: int
    k: int

    @property
    def grid(self) -> int:
        """Blocks of the launch."""
        return max(self.stream.blocks, self.tiles // self.stream.blocks * self.stream.blocks)

    @property
    def whole(self) -> int:
        """Tiles that have a block of their own: the first ones, by the first blocks."""
        return self.grid - self.stream.blocks

    @property
    def shared(self) -> int:
        """Tiles that blocks share."""
        return self.tiles - self.whole

    @property
    def parts(self) -> int:
        """Parts of shared tiles at most: one follows the other by another block or another tile."""
        return self.stream.blocks + self.shared - 1

    @property
    def steps(self) -> int:
        """Steps of a tile: at least one, which stores C where K = 0."""
        return max(1, -(-self.k // self.stream.depth))

    @property
    def sharers(self) -> int:
        """Blocks that share; the others, of a launch with fewer steps than blocks, have nothing to do."""
        return min(self.stream.blocks, self.shared * self.steps)

    def blocks_of(self, tiles: Numbers) -> tuple[Numbers, Numbers]:
        """(first, last) block of each of `tiles`."""
        start = np.maximum(tiles - self.whole, 0) * self.steps
        ends = start, start + self.steps - 1
        first, last = (((step + 1) * self.sharers - 1) // (self.shared * self.steps) + self.whole for step in ends)
        alone = tiles < self.whole
        return np.where(alone, tiles, first), np.where(alone, tiles, last)

    def arrivals(self, blocks: Numbers) -> tuple[Numbers, Numbers]:
        """(how many of `blocks` have a part of each shared tile, how many of all blocks have)."""
        here = np.zeros(self.grid + 1, np.int64)
        here[1:] = np.cumsum(np.bincount(blocks, minlength=self.grid))
        first, last = self.blocks_of(np.arange(self.whole, self.tiles))
        return here[last + 1] - here[first], last - first + 1
