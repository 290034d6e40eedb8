"""Stream-K: which steps of which tiles each block takes, as `templates/device/stream_k.cu` deals them out.

A grid of one block a tile ends with a wave that leaves a part of the card idle. Here all tiles of whole waves have a
block each. Those of the last wave have one each, too, which does only the first steps along K; what is left of them is
dealt out to the helpers, the blocks that the wave has room for besides, in equal runs of steps, tile after tile. So all
blocks of the wave end together, a tile has parts of few blocks, which the last to come adds up, and most blocks
go through the same depths of K at the same time, so that they find in the L2 what others fetched.

Osama et al., Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the
GPU, PPoPP 2023: a hybrid with a data-parallel part, whose runs begin where the tiles do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmgen.support.errors import require

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
        """Blocks of the launch: whole waves."""
        return -(-self.tiles // self.stream.blocks) * self.stream.blocks

    @property
    def whole(self) -> int:
        """Tiles of which each is one block's alone: the first ones, in whole waves."""
        return self.tiles - self.shared

    @property
    def shared(self) -> int:
        """Tiles that blocks share."""
        return self.tiles % self.stream.blocks

    @property
    def parts(self) -> int:
        """Parts of shared tiles, and one, at most: each of a tile's own block or a helper, who may go on in another."""
        return self.stream.blocks + self.shared

    @property
    def steps(self) -> int:
        """Steps of a tile: at least one, which stores C where K = 0."""
        return max(1, -(-self.k // self.stream.depth))

    @property
    def own(self) -> int:
        """Steps of a shared tile that its own block does: what each of a wave's blocks has to do."""
        return -(-self.shared * self.steps // self.stream.blocks)

    @property
    def rest(self) -> int:
        """Steps of all shared tiles that helpers do."""
        return self.shared * (self.steps - self.own)

    @property
    def helpers(self) -> int:
        """Blocks that do the rest, behind those of the tiles; where it is few steps, some have nothing to do."""
        return min(self.rest, self.stream.blocks - self.shared)

    def blocks_of(self, tiles: Numbers) -> Numbers:
        """The blocks that have a part of `tiles`, in their order."""
        first, last = self._helpers_of(tiles[tiles >= self.whole])
        helpers = (np.arange(*ends) for ends in zip(first, last + 1, strict=True))
        return np.unique(np.concatenate([tiles, *helpers]))

    def arrivals(self, blocks: Numbers) -> tuple[Numbers, Numbers]:
        """(how many of `blocks` have a part of each shared tile, how many of all blocks have)."""
        here = np.bincount(blocks, minlength=self.grid)
        before = np.concatenate([[0], np.cumsum(here)])
        first, last = self._helpers_of(np.arange(self.whole, self.tiles))
        return here[self.whole : self.tiles] + before[last + 1] - before[first], last - first + 2

    def _helpers_of(self, shared: Numbers) -> tuple[Numbers, Numbers]:
        """(first, last) block that helps with each of `shared` tiles; the last before the first where none does."""
        if self.helpers == 0:
            return np.full_like(shared, self.tiles), np.full_like(shared, self.tiles - 1)
        begin = (shared - self.whole) * (self.steps - self.own)
        ends = begin, begin + self.steps - self.own - 1
        first, last = (((step + 1) * self.helpers - 1) // self.rest + self.tiles for step in ends)
        return first, last
