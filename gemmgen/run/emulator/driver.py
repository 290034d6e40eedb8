"""EmulatorExecutor: kernels on the CPU, with memory and synchronisation checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from types import TracebackType
from typing import Any

import numpy as np

from gemmgen.kernel.again import never_of
from gemmgen.kernel.source import DEPENDENT_LAUNCH, KernelSource, Launch
from gemmgen.kernel.tensor_map import TiledTensor
from gemmgen.problem.case import Case
from gemmgen.run.arguments import Argument, arguments_of, packed
from gemmgen.run.coverage import Coverage, Near
from gemmgen.run.emulator.arena import ArenaLayout, Blocks, SharedArena
from gemmgen.run.emulator.compiler import Executables, HostCompiler
from gemmgen.run.emulator.counters import Counters
from gemmgen.run.emulator.failures import failed
from gemmgen.run.emulator.server import MAX_ARGUMENT_BYTES, Request, Server
from gemmgen.run.executor import Floats, Operands, tells
from gemmgen.run.judging import Places, Rule
from gemmgen.run.turns import by_turns
from gemmgen.support.errors import CandidateFailed, InvalidInput, require
from gemmgen.support.files import Store
from gemmgen.support.lifeline import Lifelines

WHOLE_FLOPS = 5e8  # a fraction of a second; verification samples the tiles of larger cases
WHOLE_THREADS = 2**21  # and of those with more threads: a row of 16 x 16 threads for 2^16 columns stays below
WATCHED_FLOPS = 2e6  # a launch is watched for races as far as this goes,
WATCHED_WORK = 2e8  # this, with what its tiles compute beyond the edges of C,
WATCHED_THREADS = 2**16  # and this, where K is small: a second at most
WATCHED_COPY = 2**26  # bytes: what is remembered of the accesses to them takes 36 times as much
MOST_TILES = 3  # of a persistent kernel's block
WATCHED_SEEDS = 8  # of so many seeds, one watches blocks of a larger launch

HANG_SECONDS = 4.0  # of processor time: most launches take a tenth of it
THREAD_SECONDS = 2e-5  # that a launch may take beside for each of its threads,
FLOP_SECONDS = 4e-9  # for each FLOP of its tiles, with those beyond the edges of C,
STILL_RUNS = " still runs"  # behind block and thread in what faults.hpp says of one that hangs
COPY_SECONDS = 1e-7  # and for each byte that is prepared,
SUM_SECONDS = 1e-5  # line that is summed,
STRIDE_SECONDS = 5e-7  # and thread that comes to a tile of these, whether it has work there or not,
WATCHED_FLOP_SECONDS = 3e-8  # and where it is watched: on a slow machine it takes a quarter of these


@dataclass(frozen=True)
class _Run:
    """What was asked for (case, seed and blocks), and what came of it."""

    asked: tuple[Case, Case | None, int, tuple[int, ...] | None]
    operands: Operands
    outputs: dict[str, Floats]


class EmulatedKernel:
    """A kernel's executable and its process. See `EmulatorExecutor` for what a seed selects."""

    runs_parts = True

    def __init__(self, source: KernelSource, executables: Executables, timeout: float) -> None:
        self.source = source
        self.runs_apart = not source.launch.prepares  # which read all of an operand, also where there is no memory
        self._timeout = timeout
        self._arena = SharedArena()
        self._counters = Counters(executables.sites, source.text, never_of(source))
        shared = self._arena.file, self._counters.file, executables.confinement
        self._fast = Server(source, executables.fast, *shared)
        self._watched = Server(source, executables.watched, *shared)
        self._last: _Run | None = None
        self._waits: str | None = None  # what waits for blocks of lower numbers
        self.closed = False

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

    def _run(
        self, case: Case, operands: Operands, seed: int, blocks: Sequence[int] | None, watch: bool, apart: Case | None
    ) -> dict[str, Floats]:
        def run(waits: str | None) -> dict[str, Floats]:
            self._waits = waits
            return self._run_blocks(case, operands, *self._blocks(case, seed, blocks), seed, watch, apart)

        try:
            return run(self._waits)
        except CandidateFailed as error:
            if error.failure.kind != "timeout" or seed == 0 or self._waits is not None:
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
        if apart is not None:
            return self._launch(self._fast, case, operands, order, grid, seed, apart=apart)
        if not watch or len(watched) < len(order):
            if watch and len(watched):
                self._launch(self._watched, case, operands, watched, grid, seed, quiet=True)
            return self._launch(self._fast, case, operands, order, grid, seed)
        return self._launch(self._watched, case, operands, order, grid, seed)

    def watched(self, case: Case, *, seed: int, blocks: Sequence[int] | None = None) -> int:
        """How many blocks of such a run are watched."""
        return len(self._blocks(case, seed, blocks)[1])

    def coverage(self) -> Coverage | None:
        """What its launches ran of the text so far; None where it has no probes."""
        return self._counters.coverage()

    def assumed(self) -> tuple[str, ...]:
        """See `LoadedKernel.assumed`."""
        waits = "waits for blocks of lower numbers: CUDA promises no order of blocks"
        return () if self._waits is None else (f"{self._waits} {waits}",)

    def lacking(self) -> dict[int, Near | None]:
        """See `LoadedKernel.lacking`."""
        return self._counters.lacking()

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
        server: Server,
        case: Case,
        operands: Operands,
        blocks: Blocks,
        grid: int,
        seed: int,
        quiet: bool = False,
        apart: Case | None = None,
    ) -> dict[str, Floats]:
        workspace, whole = (self.source.launch.workspace(one) for one in (case, apart or case))
        room = max(len(blocks), MOST_TILES) if self.source.launch.prepares else len(blocks)
        layout = ArenaLayout.of(case, workspace, room, seed, apart, whole)
        self._arena.fill(layout, case, operands, blocks)
        self._prepare(server, layout, case, seed, quiet)
        self._arena.list_blocks(layout, blocks)
        # Blocks that share C are watched by one process, which also finds the same race first each time.
        workers = 1 if server is self._watched else len(os.sched_getaffinity(0))
        tiles = len(blocks) * -(-self.source.launch.blocks(case) // max(grid, 1))  # of one block each
        timeout = self._timeout + long_work(self.source.launch, case, tiles, server is self._watched)
        how = {
            "grid": grid,
            "block_count": len(blocks),
            "seed": seed,
            "workers": workers,
            "timeout": timeout,
            "quiet": quiet,
        }
        server.launch(_request(self.source, layout, apart or case, **how))
        self._counters.launched(tells(case))
        results = {name: self._arena.result(layout, case, name, operands.by_name[name]) for name in case.written}
        for name in results:
            outside = self._arena.write_outside(layout, case, name)
            if outside is not None:
                raise failed("crash", f"the kernel writes outside {name}: {outside}")
        trouble = self._arena.workspace_trouble(layout, self.source.launch.semaphores_left(case, blocks))
        if trouble is not None:
            raise failed("crash", trouble)
        return results

    def close(self) -> None:
        if not self.closed:
            self._fast.close()
            self._watched.close()
            self._arena.close()
            self._counters.close()
            self._last, self.closed = None, True

    def _prepare(self, server: Server, layout: ArenaLayout, case: Case, seed: int, quiet: bool) -> None:
        """The launches before the kernel's own, by few blocks: any number computes the same."""
        *steps, kernel = self.source.program
        timeout = self._timeout + long_preparation(self.source, case)
        how = {"seed": seed, "workers": 1, "timeout": timeout, "quiet": quiet}
        for entry, (step, prepare) in enumerate(zip(steps, kernel.launch.prepares, strict=True), 1):
            grid = min(step.launch.blocks(case), 1 + seed % MOST_TILES)
            if grid == 0:  # with K = 0 there is nothing to copy
                continue
            self._arena.list_blocks(layout, _block_order(grid, seed))
            request = _request(step, layout, case, grid=grid, block_count=grid, **how)
            runs = server if prepare.bytes(case) <= WATCHED_COPY else self._fast
            runs.launch(replace(request, placements=layout.preparing(prepare.part), entry=entry))


class EmulatorExecutor:
    """Runs kernels on the CPU. A context manager: leaving it ends their processes.

    Each block's threads run on one core, one at a time, each until it has to wait; blocks spread over the
    cores. The seed selects what a GPU is free to do:

        seed 0      threads and blocks in their natural order, any other seed in orders of its own
        seed % 2    operands touch the guard pages above (0) or below (1) them
        seed // 2 % 2   cp.async and TMA land as late (0) or as early (1) as they may
        seed // 4 % 2   wgmma computes as late (0) or as early (1) as it may
        seed // 8 % 2   dynamic shared memory has just the alignment that its declaration asks for (1), or any (0)
        seed % 8    blocks of a large launch are watched for races (0) or none (others)
        seed % 3    a persistent kernel's blocks each do one more tile than that, where all of them run

    GPUs start blocks in their natural order, though CUDA does not promise it. A kernel that hangs in any other, as a
    serial split-K does whose blocks wait for those before, gets that one from there on: see `LoadedKernel.assumed`.
    It has to hang twice, and to end in between.

    A launch hangs that takes `timeout` seconds of processor time more than its size explains. With `cores_to_spare` a
    kernel is compiled in both of its forms at once.
    Raises CandidateFailed (unavailable) where the machine has no C++ compiler.
    """

    name = "emulator"

    def __init__(self, store: Store | None = None, timeout: float = HANG_SECONDS, cores_to_spare: bool = False) -> None:
        self._compiler = replace(HostCompiler.find(), running=Lifelines())
        self.store = store if store is not None else Store()
        self.timeout = timeout
        self._cores_to_spare = cores_to_spare
        self._loaded: list[EmulatedKernel] = []
        self.description = self._compiler.version
        self.flags = self._compiler.flags
        self.environment = self._compiler.environment

    @property
    def unconfined(self) -> tuple[str, ...]:
        """See `Confinement.missing`."""
        return self._compiler.confinement(self.store).missing

    def prepare(self) -> None:
        """Begin to compile what every kernel is linked with, which takes seconds the first time on a machine.

        It does not wait. What fails fails again in `load`.
        """

        def compile_runtime() -> None:
            with suppress(CandidateFailed):
                self._compiler.runtime(self.store)

        Thread(target=compile_runtime, daemon=True).start()

    def load(self, source: KernelSource) -> EmulatedKernel:
        """Compile, or fetch from the store. Raises CandidateFailed: unjudged, where the emulator lacks what it uses."""
        executables = self._compiler.executables(source, self.store, at_once=self._cores_to_spare)
        kernel = EmulatedKernel(source, executables, self.timeout)
        self._loaded = [*(other for other in self._loaded if not other.closed), kernel]
        return kernel

    def close(self) -> None:
        """End its kernels' processes, and compilers that threads still wait for."""
        self._compiler.running.close()
        self._compiler = replace(self._compiler, running=Lifelines())
        for kernel in self._loaded:
            kernel.close()
        self._loaded.clear()

    def __enter__(self) -> EmulatorExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _request(step: KernelSource, layout: ArenaLayout, case: Case, **how: Any) -> Request:
    launch, arguments = step.launch, _arguments(step, case, layout)
    return Request(
        layout,
        threads=launch.threads,
        shared_bytes=launch.shared_bytes,
        cluster=launch.cluster,
        dependent=DEPENDENT_LAUNCH in launch.attributes,
        arguments=arguments,
        placements=layout.placements,
        **how,
    )


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
