"""A launch as data: grid, block and attributes, launches before it, and the workspace that it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmgen.kernel.prepare import LineSums, Prepare, Step, tiles_of_sizes
from gemmgen.kernel.streamk import Numbers, Schedule, Stream
from gemmgen.kernel.tensor_map import UNIT, TensorMap
from gemmgen.problem.device import MAX_THREADS
from gemmgen.problem.gemm import Case
from gemmgen.support.errors import require

WORKSPACE = ("partials", "semaphores")  # of a launch whose blocks share tiles of C: see Workspace
SEMAPHORE_BYTES = 4
MOST_SHARED_BYTES = 2**20  # no GPU has as much for a block
MOST_CLUSTER_BLOCKS = 16  # of sm_90, beyond 8 for kernels that ask
DEPENDENT_LAUNCH = "programmatic_stream_serialization"  # the kernel before may still run: see grid_dependency_wait
LAUNCH_ATTRIBUTES = ("cooperative", DEPENDENT_LAUNCH)


@dataclass(frozen=True)
class Workspace:
    """Device memory that a launch needs besides its operands; it has no partials if each tile has one block.

    partials  bytes of the sums that blocks leave for the block that adds them; their contents before the launch do not
              matter
    semaphores   counters of 4 bytes, one per tile: zero before the first launch and after each launch
    prepared  bytes of copies and sums of operands by part name; their contents before the first launch do not matter
    partial_align    alignment of the partials, in bytes: the size of an element
    """

    partials: int
    semaphores: int
    prepared: tuple[tuple[str, int], ...] = ()
    partial_align: int = SEMAPHORE_BYTES

    @property
    def lengths(self) -> dict[str, int]:
        """Bytes of each part, by its name."""
        sums = zip(WORKSPACE, (self.partials, SEMAPHORE_BYTES * self.semaphores), strict=True)
        return dict(sums) | dict(self.prepared)

    @property
    def aligns(self) -> dict[str, int]:
        """The alignment of each part, in bytes: kernels may rely on it, and on no more."""
        sums = zip(WORKSPACE, (self.partial_align, SEMAPHORE_BYTES), strict=True)
        return dict(sums) | {name: UNIT for name, _ in self.prepared}


@dataclass(frozen=True)
class Launch:
    """Launch geometry: a one-dimensional grid of one-dimensional blocks.

    threads       threads per block
    grid          ((size name, tile), ...): C has the product of ceil(size / tile) tiles, each computed by a block or a
                  cluster. The sizes are M, N and batch; a tile spans all of a size that is left out
    shared_bytes  dynamic shared memory per block, in bytes (0: the kernel declares its own)
    splits        blocks that share a tile, each with a part of K: blocks from t * splits on compute tile t. A cluster
                  adds up in its shared memory, other blocks in the workspace
    stream        stream-K: how the blocks of the last wave divide its tiles; None if each tile has its own blocks
    cluster       blocks that share a tile, each with its rows, or its part of K, and run at once on neighbouring SMs:
                  blocks from t * cluster on compute tile t
    attributes    further launch attributes by CUDA's names: see LAUNCH_ATTRIBUTES
    summed        elements of workspace per block besides its tile: sums of A and B, or a second product's tile
    maps          tensor maps of the operands that TMA moves, in the order of the kernel's parameters
    persistent    whether block b also does the work of blocks b + gridDim.x, b + 2 gridDim.x, ...: any smaller grid
                  computes the same
    prepares      launches before it on the same stream, in order: the kernel reads their copies and sums
    overlapped    whether these may start before the launch ahead of them has ended: they wait for it themselves
    groups        groups of rows, each of which begins with a tile of its own and may be empty, so that the number of
                  tiles is known on the device alone: the grid counts the most that there can be; 0: none. If it counts
                  batch, too, each has its own C
    """

    threads: int
    grid: tuple[tuple[str, int], ...]
    shared_bytes: int = 0
    splits: int = 1
    stream: Stream | None = None
    cluster: int = 1
    attributes: tuple[str, ...] = ()
    summed: int = 0
    maps: tuple[TensorMap, ...] = ()
    persistent: bool = False
    prepares: tuple[Step, ...] = ()
    overlapped: bool = False
    groups: int = 0

    def __post_init__(self) -> None:
        require(type(self.threads) is int and 1 <= self.threads <= MAX_THREADS, f"{self.threads} threads a block")
        for size, tile in self.grid:
            require(
                size in ("M", "N", "K", "batch") and type(tile) is int and tile >= 1,
                f"the grid divides {size} by {tile}",
            )
        shared = self.shared_bytes
        require(type(shared) is int and 0 <= shared < MOST_SHARED_BYTES, f"{shared} bytes of shared memory a block")
        require(type(self.splits) is int and self.splits >= 1, f"{self.splits} blocks share a tile")
        require(
            self.stream is None or self.splits == 1,
            f"{self.splits} blocks share a tile, and a stream of blocks all tiles",
        )
        require(
            type(self.cluster) is int and 1 <= self.cluster <= MOST_CLUSTER_BLOCKS, f"{self.cluster} blocks a cluster"
        )
        for name in self.attributes:
            known = ", ".join(LAUNCH_ATTRIBUTES)
            require(name in LAUNCH_ATTRIBUTES, f"unknown launch attribute {name!r}: known are {known}")
        require(not self.persistent or not self.adds_up, "blocks that share tiles are not persistent")
        require(self.groups == 0 or self.persistent, f"tiles of {self.groups} groups of rows need persistent blocks")
        require(
            self.cluster in (1, self.splits) or not self.adds_up,
            f"{self.splits} blocks share K in clusters of {self.cluster}",
        )
        mapped = [one.parameter for one in self.maps]
        require(len(set(mapped)) == len(mapped), f"two tensor maps of one name: {', '.join(mapped)}")
        self._require_prepares()

    def _require_prepares(self) -> None:
        """Raise InvalidInput unless each workspace part has exactly one launch that writes it, and sums of copies have
        a copy."""
        parts = [one.part for one in self.prepares]
        require(len(set(parts)) == len(parts), f"two launches write one part of the workspace: {', '.join(parts)}")
        for one in self.sums:
            copied = self.prepared(one.operand) is not None
            told = "is" if copied else "is not"
            require(one.copied == copied, f"{one.source} is summed, and {one.operand} {told} copied")

    @property
    def document(self) -> dict[str, Any]:
        """The launch as JSON-ready data; fields that few launches set are left out when empty."""
        few = ("maps", "persistent", "prepares", "overlapped", "groups")
        said = asdict(self) | {
            "maps": tuple(one.document for one in self.maps),
            "prepares": tuple(one.document for one in self.prepares),
        }
        return {name: value for name, value in said.items() if value or name not in few}

    @property
    def row_groups(self) -> int:
        """The number of groups that share the rows of one C; 0 where each has its own, as a product of a batch."""
        return 0 if "batch" in dict(self.grid) else self.groups

    def tiles(self, case: Case) -> int:
        """Tiles of C that the grid computes for `case`, at most."""
        return self.tiles_of_sizes(case.values)

    def tiles_of_sizes(self, sizes: Mapping[str, float]) -> int:
        """Tiles of C that the grid computes for M, N, K and, in a batch, the batch size; with `groups` the most that
        ends of groups can give."""
        if not self.row_groups:
            return tiles_of_sizes(self.grid, sizes)
        (_, height), *others = self.grid
        rows = int(sizes["M"])
        groups = min(self.row_groups, rows)  # that have a row
        return (groups + (rows - groups) // height) * tiles_of_sizes(others, sizes)

    def typical_tiles(self, case: Case) -> int:
        """Tiles of C for `case`; with groups that share its rows if all have the same number of them."""
        if not self.row_groups:
            return self.tiles(case)
        (_, height), *others = self.grid
        groups = min(self.row_groups, case.m)
        even = groups * -(-case.m // (groups * height)) * tiles_of_sizes(others, case.values)
        return min(even, self.tiles(case))

    def typical_blocks(self, case: Case) -> int:
        """The number of blocks that have a tile of those."""
        return self.blocks_per_tile * self.typical_tiles(case) if self.groups else self.blocks(case)

    def blocks(self, case: Case) -> int:
        """The number of blocks of the full grid for `case`."""
        return self.blocks_of_sizes(case.values)

    def blocks_of_sizes(self, sizes: Mapping[str, float]) -> int:
        """The number of blocks of the full grid for M, N, K and, in a batch, the batch size."""
        tiles = self.tiles_of_sizes(sizes)
        return (
            self.blocks_per_tile * tiles if self.stream is None else Schedule(self.stream, tiles, int(sizes["K"])).grid
        )

    def resident(self, blocks: int, sms: int) -> int:
        """The grid of a persistent kernel that does the work of `blocks`, if an SM has room for one block.

        It is the smallest grid that takes no more turns than `sms` blocks would: idle SMs leave their power to the
        others. With `groups` nobody knows the number of turns, and no SM is left idle.
        """
        clusters, at_once = blocks // self.cluster, sms // self.cluster
        if self.groups:
            return min(clusters, at_once) * self.cluster
        turns = max(1, -(-clusters // at_once))
        return -(-clusters // turns) * self.cluster

    @property
    def blocks_per_tile(self) -> int:
        """Blocks that share a tile, if there is no `stream`."""
        return max(self.splits, self.cluster)

    def schedule(self, stream: Stream, case: Case) -> Schedule:
        """The stream-K schedule for `case`: which block computes which k tiles."""
        return Schedule(stream, self.tiles(case), case.k)

    def whole_tiles(self, case: Case) -> int:
        """The number of tiles that stream-K does not divide: the first ones, in whole waves."""
        return self.tiles(case) if self.stream is None else self.schedule(self.stream, case).data_parallel

    def blocks_of(self, case: Case, tiles: npt.ArrayLike) -> Numbers:
        """The blocks that compute `tiles`, in order; with `stream` some of them compute k tiles of other tiles, too."""
        numbers = np.array(tiles, np.int64)
        if self.stream is None:
            return (numbers[:, None] * self.blocks_per_tile + np.arange(self.blocks_per_tile)).ravel()
        return self.schedule(self.stream, case).blocks_of(numbers)

    def tiles_of(self, case: Case, blocks: Numbers) -> Numbers:
        """The tiles that `blocks` complete without other blocks. Without `stream` they must be all blocks of their
        tiles."""
        if self.stream is None:
            return np.unique(blocks // self.blocks_per_tile)
        schedule = self.schedule(self.stream, case)
        arrived, needed = schedule.arrivals(blocks)
        complete = schedule.data_parallel + np.flatnonzero(arrived == needed)
        return np.concatenate([np.sort(blocks[blocks < schedule.data_parallel]), complete])

    def semaphores_left(self, case: Case, blocks: Numbers) -> Numbers:
        """The values of the semaphores once `blocks` have run: zero for each tile that is complete or not begun."""
        if self.stream is None:
            return np.zeros(self.workspace(case).semaphores, np.int64)
        semaphores = np.zeros(self.stream.blocks, np.int64)
        arrived, needed = self.schedule(self.stream, case).arrivals(blocks)
        semaphores[: len(arrived)] = np.where(arrived == needed, 0, arrived)
        return semaphores

    @property
    def partial_elements(self) -> int:
        """Elements of workspace that a block writes: a whole tile, even at C's edges, and sums of A and B."""
        return math.prod(tile for _, tile in self.grid) + self.summed

    def workspace(self, case: Case) -> Workspace:
        """The workspace that `case` needs."""
        element = case.problem.types.accumulator.size
        size = self.partial_elements * element
        prepared = tuple((one.part, one.bytes(case)) for one in self.prepares)
        if not self.leaves_partials:
            return Workspace(0, 0, prepared)
        if self.stream is not None:
            schedule = self.schedule(self.stream, case)
            return Workspace(schedule.partials * size, self.stream.blocks, prepared, element)
        return Workspace(self.tiles(case) * self.splits * size, self.tiles(case), prepared, element)

    @property
    def adds_up(self) -> bool:
        """Whether blocks share tiles, each with a part of K."""
        return self.splits > 1 or self.stream is not None

    @property
    def leaves_partials(self) -> bool:
        """Whether blocks leave sums in the workspace, so that a launch needs partials and semaphores."""
        return self.adds_up and self.cluster == 1

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the workspace parts that the launch needs."""
        return (*(WORKSPACE if self.leaves_partials else ()), *(one.part for one in self.prepares))

    @property
    def copies(self) -> tuple[Prepare, ...]:
        """The launches before this one that copy operands."""
        return tuple(one for one in self.prepares if isinstance(one, Prepare))

    @property
    def sums(self) -> tuple[LineSums, ...]:
        """The launches before this one that sum lines of operands."""
        return tuple(one for one in self.prepares if isinstance(one, LineSums))

    def sums_of(self, operand: str) -> tuple[LineSums, ...]:
        """The launch, if any, that sums the lines of `operand`, "A" or "B"."""
        return tuple(one for one in self.sums if one.operand == operand)

    def prepared(self, operand: str) -> Prepare | None:
        """The launch that copies `operand`; None if the kernel reads the operand itself."""
        return next((one for one in self.copies if one.operand == operand), None)
