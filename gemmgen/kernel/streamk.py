"""Stream-K: which k tiles of which tiles of C each block does, as `templates/device/stream_k.cu` deals them out.

A grid of one block per tile ends with a wave that leaves a part of the card idle. Here the tiles of whole waves are
data-parallel, one block each. Each tile of the last wave has an owner, which does only its first k tiles. The remaining
k tiles are dealt out to the stream blocks, which fill the rest of the wave, in equal ranges, tile after tile. So all
blocks of the wave end together, and a tile has few peers; the last of them adds up their partial sums. Most blocks go
through the same k at the same time, so that they find in L2 what others fetched.

Osama et al., Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the
GPU, PPoPP 2023: a hybrid with a data-parallel part, whose work units begin where the tiles do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gemmgen.support.errors import require

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """The division of the tiles of a launch's last wave.

    blocks  blocks per wave: as many as run at once
    depth   depth of a k tile, which is never split
    """

    blocks: int
    depth: int

    def __post_init__(self) -> None:
        for value, meaning in ((self.blocks, "blocks share the last wave"), (self.depth, "of K are a k tile")):
            require(type(value) is int and value >= 1, f"{value} {meaning}")


@dataclass(frozen=True)
class Schedule:
    """Which block computes which k tiles of `tiles` tiles of C, each a sum over `k`. Tiles and blocks are numbered, and
    figures named, as in the kernel."""

    stream: Stream
    tiles: int
    k: int

    @property
    def grid(self) -> int:
        """Blocks of the launch, in whole waves."""
        return -(-self.tiles // self.stream.blocks) * self.stream.blocks

    @property
    def data_parallel(self) -> int:
        """Tiles that one block computes alone: the first ones, in whole waves."""
        return self.tiles - self.last_wave

    @property
    def last_wave(self) -> int:
        """Tiles of the last wave, which its blocks divide."""
        return self.tiles % self.stream.blocks

    @property
    def partials(self) -> int:
        """Partial tiles in the workspace: one per owner, that is, per tile of the last wave; one per stream block, and
        one more where its work unit reaches into the next tile."""
        return self.stream.blocks + self.last_wave

    @property
    def k_tiles(self) -> int:
        """k tiles per tile of C: at least one, whose epilogue stores C if K = 0."""
        return max(1, -(-self.k // self.stream.depth))

    @property
    def owner_k_tiles(self) -> int:
        """k tiles that the owner of a tile of the last wave computes: an equal share of the wave's work."""
        return -(-self.last_wave * self.k_tiles // self.stream.blocks)

    @property
    def streamed(self) -> int:
        """k tiles that stream blocks compute."""
        return self.last_wave * (self.k_tiles - self.owner_k_tiles)

    @property
    def stream_blocks(self) -> int:
        """The number of stream blocks, which follow the owners: no more than there are k tiles for them."""
        return min(self.streamed, self.stream.blocks - self.last_wave)

    @property
    def idle(self) -> int:
        """Blocks of the launch that do nothing, because the last wave has more blocks than k tiles to deal out."""
        return self.grid - self.tiles - self.stream_blocks

    @property
    def fewest_k_tiles(self) -> int:
        """Minimum number of k tiles that any busy block computes of a tile."""
        if not self.last_wave:
            return self.k_tiles
        if not self.stream_blocks:
            return self.owner_k_tiles
        blocks = np.arange(self.stream_blocks + 1) * self.streamed // self.stream_blocks
        tiles = np.arange(self.last_wave + 1) * (self.k_tiles - self.owner_k_tiles)
        return int(min(self.owner_k_tiles, np.diff(np.union1d(blocks, tiles)).min()))

    def blocks_of(self, tiles: Numbers) -> Numbers:
        """The blocks that compute k tiles of `tiles`, in order."""
        first, last = self._stream_blocks_of(tiles[tiles >= self.data_parallel])
        stream_blocks = (np.arange(*ends) for ends in zip(first, last + 1, strict=True))
        return np.unique(np.concatenate([tiles, *stream_blocks]))

    def arrivals(self, blocks: Numbers) -> tuple[Numbers, Numbers]:
        """Return, for each tile of the last wave, (how many of `blocks` are its peers, how many peers it has)."""
        here = np.bincount(blocks, minlength=self.grid)
        before = np.concatenate([[0], np.cumsum(here)])
        first, last = self._stream_blocks_of(np.arange(self.data_parallel, self.tiles))
        return here[self.data_parallel : self.tiles] + before[last + 1] - before[first], last - first + 2

    def _stream_blocks_of(self, tiles: Numbers) -> tuple[Numbers, Numbers]:
        """(first, last) stream block of each of `tiles` of the last wave; if a tile has none, last is before first."""
        if self.stream_blocks == 0:
            return np.full_like(tiles, self.tiles), np.full_like(tiles, self.tiles - 1)
        per_tile = self.k_tiles - self.owner_k_tiles  # streamed
        begin = (tiles - self.data_parallel) * per_tile
        ends = begin, begin + per_tile - 1
        first, last = (((k_tile + 1) * self.stream_blocks - 1) // self.streamed + self.tiles for k_tile in ends)
        return first, last
