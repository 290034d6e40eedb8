"""Launches of an emulated kernel: which blocks run, which of them are watched, and how long a launch may take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmgen.kernel.contract import Contract
from gemmgen.kernel.launch import DEPENDENT_LAUNCH, Launch
from gemmgen.kernel.prepare import Step
from gemmgen.kernel.source import KernelSource
from gemmgen.kernel.tensor_map import TiledTensor
from gemmgen.problem.gemm import Case
from gemmgen.render.rerender import never_of
from gemmgen.run.arguments import Argument, arguments_of, packed
from gemmgen.run.coverage import Coverage, Near
from gemmgen.run.emulator.arena import ArenaLayout, Blocks, SharedArena
from gemmgen.run.emulator.coverage import Counters
from gemmgen.run.emulator.failures import failed
from gemmgen.run.emulator.instructions import RING
from gemmgen.run.emulator.server import Program, Request, Server
from gemmgen.run.executor import Floats, LoadedKernel, Operands, tells
from gemmgen.run.turns import by_turns
from gemmgen.support.errors import CandidateFailed, InvalidInput, require
from gemmgen.support.threads import cores

MAX_ARGUMENT_BYTES = 4096  # CUDA's own limit before 12.1
STILL_RUNS = " still runs"  # follows block and thread in launch.hpp's message about a hang
WHOLE_FLOPS = 5e8  # a fraction of a second; verification samples the tiles of larger cases,
WHOLE_THREADS = 2**21  # and of cases with more threads; 2^16 columns of one row of 16 x 16 blocks stay below
WATCHED_FLOPS = 2e6  # limits of what is watched for races, a second at most: FLOPs in C,
WATCHED_WORK = 2e8  # FLOPs of whole tiles,
WATCHED_THREADS = 2**16  # and threads
WATCHED_COPY = 2**26  # limit of a watched copy, in bytes: the record of its accesses is 36 times as large
MOST_TILES = 3  # tiles per block of a persistent kernel, if the whole grid runs
WATCHED_SEEDS = 8  # one seed in 8 watches some blocks of a larger launch

VARIABLE = re.compile(r"^(?:\.\w+ )*\.global\b", re.MULTILINE)  # a PTX variable that outlives a launch

# The time limit of a launch, in processor seconds: HANG_SECONDS plus these. A slow machine takes a quarter of them.
HANG_SECONDS = 4.0  # most launches take a tenth of it
THREAD_SECONDS = 2e-5  # per thread
FLOP_SECONDS = 4e-9  # per FLOP of whole tiles
WATCHED_FLOP_SECONDS = 3e-8  # the same in a watched launch
COPY_SECONDS = 1e-7  # per byte that is copied before the launch
SUM_SECONDS = 1e-5  # per row or column that is summed before the launch
STRIDE_SECONDS = 5e-7  # per thread and tile of these launches, idle or not


@dataclass(frozen=True)
class _Asked:
    """A run as it was requested: the arguments of `EmulatedKernel.run`."""

    case: Case
    operands: Operands
    seed: int
    blocks: tuple[int, ...] | None
    watch: bool
    apart: Case | None

    @property
    def seen(self) -> Case:
        """The case with the distances that the kernel sees."""
        return self.apart or self.case

    def launches_as(self, other: _Asked) -> bool:
        """Whether both give the same launch."""
        mine, others = ((one.case, one.apart, one.seed, one.blocks) for one in (self, other))
        return mine == others and self.operands is other.operands


class EmulatedKernel(LoadedKernel):
    """A kernel's PTX and the process that interprets it. See `EmulatorExecutor` for what a seed selects.

    quiet  whether the kernel's own output is discarded
    """

    runs_parts = True

    def __init__(
        self, source: KernelSource, program: Program, executable: bytes, timeout: float, quiet: bool = False
    ) -> None:
        self.source = source
        self._arena, self._timeout, self._quiet = SharedArena(), timeout, quiet
        self._program, self._executable = program, executable
        self._counters = Counters(source.text, program.ptx, never_of(source))
        self._server = Server(program, executable, self._arena.file, self._counters.file)
        self._has_variables = VARIABLE.search(program.ptx) is not None
        self._last: tuple[_Asked, dict[str, Floats]] | None = None  # with its outputs
        self._waits: str | None = None  # the block and thread that wait for blocks of lower numbers, if any do
        self.closed = False

    def start(self) -> None:
        """Load the PTX. Raises CandidateFailed: unjudged, for what the interpreter lacks."""
        self._server.start()
        self._counters.loaded()

    def in_ring(self) -> EmulatedKernel:
        """See `LoadedKernel.in_ring`."""
        program = replace(self._program, table=f"{RING}\n{self._program.table}")
        twin = EmulatedKernel(self.source, program, self._executable, self._timeout, quiet=True)
        twin._waits = self._waits
        twin.start()
        return twin

    def can_run_whole(self, case: Case) -> bool:
        launch = self.source.launch
        return case.flops <= WHOLE_FLOPS and launch.blocks(case) * launch.threads <= WHOLE_THREADS

    def run(
        self,
        case: Case,
        operands: Operands,
        *,
        seed: int = 0,
        blocks: Sequence[int] | None = None,
        watch: bool = True,
        output: str = "C",
        apart: Case | None = None,
    ) -> Floats:
        """Run one launch, or only its `blocks`. Returns the storage of `output` afterwards, with unchanged padding.

        With `apart` the kernel sees rows, or matrices, as far from each other as in that case. Those of `case` whose
        distance differs have whole pages; the rest of what the kernel sees has no memory. No block is watched.

        A request for another output with the same arguments as the last launch does not run it again.

        All blocks of a small launch are watched for races. In a larger one, for some seeds, a few blocks run twice:
        watched, and then with all others. Without `watch` no block is watched.

        Raises CandidateFailed: launch, crash or race (with block, thread, place and line of the .cu), or timeout.
        """
        _check_sizes(case, operands)
        asked = _Asked(case, operands, seed, None if blocks is None else tuple(blocks), watch, apart)
        if output == "C" or self._last is None or not self._last[0].launches_as(asked):
            self._last = None
            self._last = asked, self._run(asked)
        return self._last[1][output]

    def watched(self, case: Case, *, seed: int, blocks: Sequence[int] | None = None) -> int:
        """The number of blocks that a run with these arguments watches for races."""
        return len(self._blocks(case, seed, blocks)[1])

    def coverage(self) -> Coverage | None:
        """The lines and conditions that all launches so far have run; None if nothing is counted."""
        return self._counters.coverage()

    def assumed(self) -> tuple[str, ...]:
        """See `LoadedKernel.assumed`."""
        waits = "waits for blocks of lower numbers: CUDA promises no order of blocks"
        return () if self._waits is None else (f"{self._waits} {waits}",)

    def lacking(self) -> dict[int, Near | None]:
        """See `LoadedKernel.lacking`."""
        return self._counters.lacking()

    def close(self) -> None:
        if not self.closed:
            self._server.close()
            self._arena.close()
            self._counters.close()
            self._last, self.closed = None, True

    def _run(self, asked: _Asked) -> dict[str, Floats]:
        def run(waits: str | None) -> dict[str, Floats]:
            self._waits = waits
            return self._run_blocks(asked)

        try:
            return run(self._waits)
        except CandidateFailed as error:
            in_order = asked.seed == 0 and asked.blocks is None
            if error.failure.kind != "timeout" or in_order or self._waits is not None:
                raise
            waits, _, _ = error.failure.reason.partition(STILL_RUNS)
        results = run(waits)
        try:
            return run(None)  # again: the machine may have been busy
        except CandidateFailed as error:
            if error.failure.kind != "timeout":
                raise
            self._waits = waits
        return results

    def _run_blocks(self, asked: _Asked) -> dict[str, Floats]:
        order, watched, grid = self._blocks(asked.case, asked.seed, asked.blocks)
        watch, whole = asked.watch and asked.apart is None, len(watched) == len(order)
        if watch and len(watched) and not whole:
            self._launch(asked, watched, grid, watch=True, quiet=True)
            self._reset_variables()
        results = self._launch(asked, order, grid, watch=watch and whole, quiet=self._quiet)
        if len(order) < grid:
            self._reset_variables()
        return results

    def _reset_variables(self) -> None:
        """Reset the kernel's global variables for the next launch, after a run of only some blocks."""
        if self._has_variables:
            self._server.end()

    def _blocks(self, case: Case, seed: int, blocks: Sequence[int] | None) -> tuple[Blocks, Blocks, int]:
        """(the blocks of a run in order, those that are watched, the number of blocks in the grid)."""
        launch = self.source.launch
        clusters = launch.blocks(case) // launch.cluster
        if launch.persistent and blocks is None:
            clusters = -(-clusters // (1 + seed % MOST_TILES))
        order = _block_order(clusters, seed) if blocks is None else _clusters_of(blocks, launch.cluster)
        if launch.persistent and blocks is not None:
            order, clusters = by_turns(launch, case, order)
        grid = clusters * launch.cluster
        order = np.sort(order) if self._waits is not None else order
        order = _blocks_of_clusters(order, launch.cluster)
        flops, threads = case.flops / launch.tiles(case), launch.threads * launch.blocks_per_tile  # of a tile
        work = max(_tile_work(launch, case), 1.0)
        affordable = int(min(WATCHED_FLOPS / max(flops, 1.0), WATCHED_WORK / work, WATCHED_THREADS / threads))
        return order, _watched_blocks(launch, case, order, affordable, seed), grid

    def _launch(self, asked: _Asked, blocks: Blocks, grid: int, *, watch: bool, quiet: bool) -> dict[str, Floats]:
        launch, case = self.source.launch, asked.case
        workspace, whole = (launch.workspace(one) for one in (case, asked.seen))
        before = [self._blocks_before(step, one, asked) for step, one in self._steps]
        room = max(len(few) for few in (blocks, *(few for few, _ in before)))
        layout = ArenaLayout.of(case, workspace, room, asked.seed, asked.apart, whole)
        self._arena.fill(layout, case, asked.operands, blocks)
        self._prepare(layout, asked, before, watch, quiet)
        self._arena.list_blocks(layout, blocks)
        tiles = len(blocks) * -(-launch.blocks(case) // max(grid, 1))  # one block per tile
        self._send(
            self.source,
            layout,
            asked,
            placements=layout.placements,
            watch=watch,
            grid=grid,
            block_count=len(blocks),
            # One worker watches all blocks that share C, and so finds the same race first each time.
            workers=1 if watch else cores(),
            timeout=self._timeout + long_work(launch, case, tiles, watch),
            quiet=quiet,
        )
        self._counters.launched(tells(case))
        return self._results(layout, asked, blocks)

    def _results(self, layout: ArenaLayout, asked: _Asked, blocks: Blocks) -> dict[str, Floats]:
        """The outputs of the launch. Raises CandidateFailed: crash, if it wrote outside them."""
        case, before = asked.case, asked.operands.by_name
        results = {name: self._arena.result(layout, case, name, before[name]) for name in case.written}
        for name in results:
            outside = self._arena.write_outside(layout, case, name)
            if outside is not None:
                raise failed("crash", f"the kernel writes outside {name}: {outside}")
        trouble = self._arena.workspace_trouble(layout, self.source.launch.semaphores_left(case, blocks))
        if trouble is not None:
            raise failed("crash", trouble)
        return results

    @property
    def _steps(self) -> list[tuple[KernelSource, Step]]:
        """The launches before the kernel's own."""
        return list(zip(self.source.program, self.source.launch.prepares, strict=False))

    def _blocks_before(self, step: KernelSource, prepare: Step, asked: _Asked) -> tuple[Blocks, int]:
        """(the blocks of a launch before the kernel's own, the number of blocks in its grid).

        Any number of blocks computes the same, so there are few. If only the end of a larger launch runs, the grid has
        one block per tile, and the blocks of the last tiles run.
        """
        case, seed = asked.case, asked.seed
        if prepare.bytes(asked.seen) != prepare.bytes(case):
            end = prepare.blocks_of_end(case, asked.seen)
            return end.start + _block_order(len(end), seed), end.stop
        grid = min(step.launch.blocks(case), 1 + seed % MOST_TILES)
        return _block_order(grid, seed), grid

    def _prepare(
        self, layout: ArenaLayout, asked: _Asked, before: list[tuple[Blocks, int]], watch: bool, quiet: bool
    ) -> None:
        """Run the launches before the kernel's own; `before` has the blocks of each."""
        timeout = self._timeout + long_preparation(self.source.contract, asked.case)
        for (step, prepare), (blocks, grid) in zip(self._steps, before, strict=True):
            if grid == 0:  # with K = 0 there is nothing to copy
                continue
            self._arena.list_blocks(layout, blocks)
            self._send(
                step,
                layout,
                asked,
                placements=layout.preparing(prepare.part),
                watch=watch and prepare.bytes(asked.case) <= WATCHED_COPY,
                grid=grid,
                block_count=len(blocks),
                workers=1,
                timeout=timeout,
                quiet=quiet,
            )

    def _send(self, step: KernelSource, layout: ArenaLayout, asked: _Asked, **how: Any) -> None:
        """Run one launch of `step` to its end; `how` has the other fields of its Request. Raises CandidateFailed."""
        launch = step.launch
        request = Request(
            layout,
            step.name,
            seed=asked.seed,
            threads=launch.threads,
            shared_bytes=launch.shared_bytes,
            cluster=launch.cluster,
            dependent=DEPENDENT_LAUNCH in launch.attributes,
            arguments=_arguments(step.contract, asked.seen, layout),
            **how,
        )
        self._server.launch(request)


def _arguments(contract: Contract, case: Case, layout: ArenaLayout) -> tuple[Argument, ...]:
    """The arguments of a launch of `case`; a pointer is the number of its operand."""
    numbers = {placed.name: number for number, placed in enumerate(layout.placements)}
    try:
        arguments = arguments_of(contract, case, numbers, TiledTensor.pack)
    except InvalidInput as error:
        raise failed("launch", str(error)) from error
    size = len(packed(arguments))
    if size > MAX_ARGUMENT_BYTES:
        raise failed("launch", f"{size} bytes of arguments are more than {MAX_ARGUMENT_BYTES}")
    return arguments


def _tile_work(launch: Launch, case: Case) -> float:
    """FLOPs of a whole tile, those beyond the edges of C included."""
    return max(case.flops / launch.tiles(case), 2.0 * launch.partial_elements * case.k)


def long_work(launch: Launch, case: Case, blocks: int, watched: bool) -> float:
    """The part of the time limit that depends on a launch's size, in processor seconds, rounded to tenths."""
    pieces = case.problem.types.compute.pieces
    products = 1 if pieces is None else len(pieces.pairs)
    flops = products * _tile_work(launch, case) * launch.tiles(case) * blocks / launch.blocks(case)
    of_flops = flops * (WATCHED_FLOP_SECONDS if watched else FLOP_SECONDS)
    return round(blocks * launch.threads * THREAD_SECONDS + of_flops, 1)


def long_preparation(contract: Contract, case: Case) -> float:
    """The part of the time limit, as in `long_work`, for the launches before the kernel: each may take as long as all
    together."""
    *steps, kernel = contract.program
    seconds = COPY_SECONDS * sum(length for _, length in kernel.launch.workspace(case).prepared)
    seconds += SUM_SECONDS * sum(one.elements(case) for one in kernel.launch.sums)
    seconds += STRIDE_SECONDS * sum(step.launch.blocks(case) * step.launch.threads for step in steps)
    return round(seconds, 1)


def _block_order(grid: int, seed: int) -> Blocks:
    return np.arange(grid) if seed == 0 else np.random.default_rng(seed).permutation(grid)


def _clusters_of(blocks: Sequence[int], size: int) -> Blocks:
    """The clusters that `blocks` make up, in the order of their first blocks. Raises InvalidInput for part of one."""
    clusters = np.fromiter(dict.fromkeys(block // size for block in blocks), np.int64)
    require(len(clusters) * size == len(blocks), f"blocks {list(blocks)} are no whole clusters of {size}")
    return clusters


def _blocks_of_clusters(clusters: Blocks, size: int) -> Blocks:
    return (clusters[:, None] * size + np.arange(size)).ravel()


def _watched_blocks(launch: Launch, case: Case, order: Blocks, affordable: int, seed: int) -> Blocks:
    """The blocks to watch: all if there are `affordable` tiles; else those of some, for one seed in WATCHED_SEEDS.

    Some tiles include the last one, the first one or neither, in turn, because the ends of grids are special.
    """
    tiles = launch.tiles_of(case, order)
    if affordable >= len(tiles):
        return order
    if seed % WATCHED_SEEDS:
        return order[:0]
    chosen = np.random.default_rng(seed).choice(tiles, max(affordable, 1), replace=False)
    turn = seed // WATCHED_SEEDS % 3
    if turn < 2 and not np.isin((ends := (tiles.max(), tiles.min()))[turn], chosen):
        chosen[0] = ends[turn]
    return order[np.isin(order, launch.blocks_of(case, chosen))]


def _check_sizes(case: Case, operands: Operands) -> None:
    for name, matrix in case.tensors.items():
        storage = operands.by_name[name]
        require(
            storage.shape == (matrix.elements,) and storage.dtype == matrix.dtype.numpy,
            f"{name} is {storage.dtype} {storage.shape}; its storage is {matrix.elements} of {matrix.dtype.numpy}",
        )
