"""Launches of an emulated kernel: which blocks run, which of them are watched, and how long a launch may take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmgen.kernel.again import never_of
from gemmgen.kernel.prepare import Step
from gemmgen.kernel.source import DEPENDENT_LAUNCH, KernelSource, Launch
from gemmgen.kernel.tensor_map import TiledTensor
from gemmgen.problem.case import Case
from gemmgen.run.arguments import Argument, arguments_of, packed
from gemmgen.run.coverage import Coverage, Near
from gemmgen.run.emulator.arena import ArenaLayout, Blocks, SharedArena
from gemmgen.run.emulator.coverage import Counters
from gemmgen.run.emulator.failures import failed
from gemmgen.run.emulator.instructions import RING
from gemmgen.run.emulator.server import Program, Request, Server
from gemmgen.run.executor import Floats, Operands, tells
from gemmgen.run.judging import Places, Rule
from gemmgen.run.turns import by_turns
from gemmgen.support.errors import CandidateFailed, InvalidInput, require
from gemmgen.support.threads import cores

MAX_ARGUMENT_BYTES = 4096  # CUDA's own limit before 12.1
STILL_RUNS = " still runs"  # behind block and thread in what launch.hpp says of one that hangs
WHOLE_FLOPS = 5e8  # a fraction of a second; verification samples the tiles of larger cases
WHOLE_THREADS = 2**21  # and of those with more threads: a row of 16 x 16 threads for 2^16 columns stays below
WATCHED_FLOPS = 2e6  # a launch is watched for races as far as this goes,
WATCHED_WORK = 2e8  # this, with what its tiles compute beyond the edges of C,
WATCHED_THREADS = 2**16  # and this, where K is small: a second at most
WATCHED_COPY = 2**26  # bytes: what is remembered of the accesses to them takes 36 times as much
MOST_TILES = 3  # of a persistent kernel's block
WATCHED_SEEDS = 8  # of so many seeds, one watches blocks of a larger launch

VARIABLE = re.compile(r"^(?:\.\w+ )*\.global\b", re.MULTILINE)  # of PTX: memory that outlasts a launch

HANG_SECONDS = 4.0  # of processor time: most launches take a tenth of it
THREAD_SECONDS = 2e-5  # that a launch may take beside for each of its threads,
FLOP_SECONDS = 4e-9  # for each FLOP of its tiles, with those beyond the edges of C,
COPY_SECONDS = 1e-7  # and for each byte that is prepared,
SUM_SECONDS = 1e-5  # line that is summed,
STRIDE_SECONDS = 5e-7  # and thread that comes to a tile of these, whether it has work there or not,
WATCHED_FLOP_SECONDS = 3e-8  # and where it is watched: on a slow machine it takes a quarter of these


@dataclass(frozen=True)
class _Run:
    """The launch that was asked for (case, seed and blocks), and its outputs."""

    asked: tuple[Case, Case | None, int, tuple[int, ...] | None]
    operands: Operands
    outputs: dict[str, Floats]


class EmulatedKernel:
    """A kernel's PTX and the process that interprets it. See `EmulatorExecutor` for what a seed selects.

    What a `quiet` one prints goes nowhere.
    """

    runs_parts = runs_apart = True

    def __init__(
        self, source: KernelSource, program: Program, executable: bytes, timeout: float, quiet: bool = False
    ) -> None:
        self.source = source
        self._arena, self._timeout, self._quiet = SharedArena(), timeout, quiet
        self._program, self._executable = program, executable
        self._counters = Counters(source.text, program.ptx, never_of(source))
        self._server = Server(program, executable, self._arena.file, self._counters.file)
        self._has_variables = VARIABLE.search(program.ptx) is not None
        self._last: _Run | None = None
        self._waits: str | None = None  # what waits for blocks of lower numbers
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
        """One launch, or its `blocks` only; returns C's storage afterwards, or `output`'s, its padding as it was.

        With `apart` the kernel sees lines, or matrices, as far from each other as that case has them. Those of `case`
        whose distance differs have whole pages, and the rest of what the kernel sees has no memory. None is watched.

        Who asks for another output of the launch before, by the same arguments, gets that of the same run.

        A small launch is watched for races as a whole. A larger one is not, but by some seeds a few of its
        blocks run twice: watched, and then with all others. Without `watch` none is watched.

        Raises CandidateFailed: launch, crash or race (with block, thread, place and line of the .cu), or timeout.
        """
        _check_sizes(case, operands)
        asked = case, apart, seed, None if blocks is None else tuple(blocks)
        if output == "C" or self._last is None or self._last.asked != asked or self._last.operands is not operands:
            self._last = None
            self._last = _Run(asked, operands, self._run(case, operands, seed, blocks, watch, apart))
        return self._last.outputs[output]

    def multiply(self, case: Case, operands: Operands, *, seed: int, sizes: bool) -> None:
        """See LoadedKernel: numpy is faster."""

    def judge(self, case: Case, operands: Operands, *, seed: int, rule: Rule, places: Places) -> None:
        """See LoadedKernel: likewise."""

    def watched(self, case: Case, *, seed: int, blocks: Sequence[int] | None = None) -> int:
        """How many blocks of such a run are watched."""
        return len(self._blocks(case, seed, blocks)[1])

    def coverage(self) -> Coverage | None:
        """The lines and conditions that its launches have run; None where nothing is counted."""
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

    def _run(
        self, case: Case, operands: Operands, seed: int, blocks: Sequence[int] | None, watch: bool, apart: Case | None
    ) -> dict[str, Floats]:
        def run(waits: str | None) -> dict[str, Floats]:
            self._waits = waits
            return self._run_blocks(case, operands, *self._blocks(case, seed, blocks), seed, watch, apart)

        try:
            return run(self._waits)
        except CandidateFailed as error:
            in_order = seed == 0 and blocks is None
            if error.failure.kind != "timeout" or in_order or self._waits is not None:
                raise
            waits, _, _ = error.failure.reason.partition(STILL_RUNS)
        results = run(waits)
        try:
            return run(None)  # once more: a busy machine may have been slow
        except CandidateFailed as error:
            if error.failure.kind != "timeout":
                raise
            self._waits = waits
        return results

    def _run_blocks(
        self,
        case: Case,
        operands: Operands,
        order: Blocks,
        watched: Blocks,
        grid: int,
        seed: int,
        watch: bool,
        apart: Case | None,
    ) -> dict[str, Floats]:
        whole = len(watched) == len(order)
        if watch and apart is None and len(watched) and not whole:
            self._launch(case, operands, watched, grid, seed, watch=True, quiet=True)
            self._forget()
        watches = watch and apart is None and whole
        results = self._launch(case, operands, order, grid, seed, watch=watches, quiet=self._quiet, apart=apart)
        if len(order) < grid:
            self._forget()
        return results

    def _forget(self) -> None:
        """Some blocks of a grid have run: no later launch finds what they left in variables of the kernel's own."""
        if self._has_variables:
            self._server.end()

    def _blocks(self, case: Case, seed: int, blocks: Sequence[int] | None) -> tuple[Blocks, Blocks, int]:
        """(the blocks of a run in their order, those of them that are watched, how many the grid has)."""
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

    def _launch(
        self,
        case: Case,
        operands: Operands,
        blocks: Blocks,
        grid: int,
        seed: int,
        *,
        watch: bool,
        quiet: bool = False,
        apart: Case | None = None,
    ) -> dict[str, Floats]:
        launch = self.source.launch
        workspace, whole = (launch.workspace(one) for one in (case, apart or case))
        before = [self._blocks_before(step, one, case, seed, apart) for step, one in self._steps]
        room = max(len(blocks), *(len(few) for few, _ in before)) if before else len(blocks)
        layout = ArenaLayout.of(case, workspace, room, seed, apart, whole)
        self._arena.fill(layout, case, operands, blocks)
        self._prepare(layout, case, before, seed, watch, quiet, apart)
        self._arena.list_blocks(layout, blocks)
        tiles = len(blocks) * -(-launch.blocks(case) // max(grid, 1))  # of one block each
        timeout = self._timeout + long_work(launch, case, tiles, watch)
        self._send(
            self.source,
            layout,
            apart or case,
            placements=layout.placements,
            watch=watch,
            grid=grid,
            block_count=len(blocks),
            seed=seed,
            # Blocks that share C are watched by one worker, which also finds the same race first each time.
            workers=1 if watch else cores(),
            timeout=timeout,
            quiet=quiet,
        )
        self._counters.launched(tells(case))
        return self._results(layout, case, operands, blocks)

    def _results(self, layout: ArenaLayout, case: Case, operands: Operands, blocks: Blocks) -> dict[str, Floats]:
        """All that the launch wrote. Raises CandidateFailed: crash, where that is more than it may."""
        results = {name: self._arena.result(layout, case, name, operands.by_name[name]) for name in case.written}
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

    def _blocks_before(
        self, step: KernelSource, prepare: Step, case: Case, seed: int, apart: Case | None
    ) -> tuple[Blocks, int]:
        """(the blocks of a launch before the kernel's own, how many its grid has).

        They are few: any number computes the same. Of the end of a larger launch they are those of its last tiles,
        where each tile has a block.
        """
        if apart is not None and prepare.bytes(apart) != prepare.bytes(case):
            end = prepare.blocks_of_end(case, apart)
            return end.start + _block_order(len(end), seed), end.stop
        grid = min(step.launch.blocks(case), 1 + seed % MOST_TILES)
        return _block_order(grid, seed), grid

    def _prepare(
        self,
        layout: ArenaLayout,
        case: Case,
        before: list[tuple[Blocks, int]],
        seed: int,
        watch: bool,
        quiet: bool,
        apart: Case | None,
    ) -> None:
        """The launches before the kernel's own, by the blocks of each."""
        timeout = self._timeout + long_preparation(self.source, case)
        for (step, prepare), (blocks, grid) in zip(self._steps, before, strict=True):
            if grid == 0:  # with K = 0 there is nothing to copy
                continue
            self._arena.list_blocks(layout, blocks)
            watches = watch and prepare.bytes(case) <= WATCHED_COPY
            self._send(
                step,
                layout,
                apart or case,
                placements=layout.preparing(prepare.part),
                watch=watches,
                grid=grid,
                block_count=len(blocks),
                seed=seed,
                workers=1,
                timeout=timeout,
                quiet=quiet,
            )

    def _send(self, step: KernelSource, layout: ArenaLayout, case: Case, **how: Any) -> None:
        """Run one launch of `step` to its end; `how` are the other fields of a Request. Raises CandidateFailed."""
        launch = step.launch
        request = Request(
            layout,
            step.name,
            threads=launch.threads,
            shared_bytes=launch.shared_bytes,
            cluster=launch.cluster,
            dependent=DEPENDENT_LAUNCH in launch.attributes,
            arguments=_arguments(step, case, layout),
            **how,
        )
        self._server.launch(request)


def _arguments(source: KernelSource, case: Case, layout: ArenaLayout) -> tuple[Argument, ...]:
    """What a launch of `case` passes; a pointer is the number of its operand."""
    numbers = {placed.name: number for number, placed in enumerate(layout.placements)}
    try:
        arguments = arguments_of(source, case, numbers, TiledTensor.pack)
    except InvalidInput as error:
        raise failed("launch", str(error)) from error
    size = len(packed(arguments))
    if size > MAX_ARGUMENT_BYTES:
        raise failed("launch", f"{size} bytes of arguments are more than {MAX_ARGUMENT_BYTES}")
    return arguments


def _tile_work(launch: Launch, case: Case) -> float:
    """FLOPs of a tile, with those beyond the edges of C."""
    return max(case.flops / launch.tiles(case), 2.0 * launch.partial_elements * case.k)


def long_work(launch: Launch, case: Case, blocks: int, watched: bool) -> float:
    """Seconds of processor time, in tenths, that a launch of so many `blocks` may take because of its size."""
    pieces = case.problem.types.compute.pieces
    products = 1 if pieces is None else len(pieces.pairs)
    flops = products * _tile_work(launch, case) * launch.tiles(case) * blocks / launch.blocks(case)
    of_flops = flops * (WATCHED_FLOP_SECONDS if watched else FLOP_SECONDS)
    return round(blocks * launch.threads * THREAD_SECONDS + of_flops, 1)


def long_preparation(source: KernelSource, case: Case) -> float:
    """The same of what `source` launches before: of each launch as much as of all."""
    *steps, kernel = source.program
    seconds = COPY_SECONDS * sum(length for _, length in kernel.launch.workspace(case).prepared)
    seconds += SUM_SECONDS * sum(one.elements(case) for one in kernel.launch.sums)
    seconds += STRIDE_SECONDS * sum(step.launch.blocks(case) * step.launch.threads for step in steps)
    return round(seconds, 1)


def _block_order(grid: int, seed: int) -> Blocks:
    return np.arange(grid) if seed == 0 else np.random.default_rng(seed).permutation(grid)


def _clusters_of(blocks: Sequence[int], size: int) -> Blocks:
    """The clusters that `blocks` are, which run at once: in the order of their first ones."""
    clusters = np.fromiter(dict.fromkeys(block // size for block in blocks), np.int64)
    require(len(clusters) * size == len(blocks), f"blocks {list(blocks)} are no whole clusters of {size}")
    return clusters


def _blocks_of_clusters(clusters: Blocks, size: int) -> Blocks:
    return (clusters[:, None] * size + np.arange(size)).ravel()


def _watched_blocks(launch: Launch, case: Case, order: Blocks, affordable: int, seed: int) -> Blocks:
    """All blocks of as many tiles as are affordable, those of some of more tiles for every eighth seed, else none.

    The last tile is among the latter, or the first, or neither, by turns: they are where grids end.
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
