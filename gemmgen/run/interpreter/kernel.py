"""InterpreterExecutor: kernels on the CPU, as the PTX that NVRTC makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from types import TracebackType
from typing import Any

import numpy as np

from gemmgen.kernel.again import never_of
from gemmgen.kernel.source import DEPENDENT_LAUNCH, KernelSource
from gemmgen.problem.case import Case
from gemmgen.problem.device import parse_arch
from gemmgen.run.coverage import Coverage, Near
from gemmgen.run.emulator.arena import ArenaLayout, Blocks, Placement, SharedArena
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.confine import Confinement
from gemmgen.run.emulator.driver import (
    HANG_SECONDS,
    MOST_TILES,
    STILL_RUNS,
    WATCHED_COPY,
    WATCHED_FLOPS,
    WATCHED_THREADS,
    WATCHED_WORK,
    WHOLE_FLOPS,
    WHOLE_THREADS,
    _arguments,
    _block_order,
    _blocks_of_clusters,
    _check_sizes,
    _clusters_of,
    _tile_work,
    _watched_blocks,
    long_preparation,
    long_work,
)
from gemmgen.run.emulator.failures import failed
from gemmgen.run.executor import Floats, Operands, tells
from gemmgen.run.interpreter.coverage import Counters
from gemmgen.run.interpreter.instructions import instruction_table
from gemmgen.run.interpreter.program import interpreter, program_key
from gemmgen.run.interpreter.ptx import PtxCompilers
from gemmgen.run.interpreter.server import Program, Request, Server
from gemmgen.run.judging import Places, Rule
from gemmgen.run.nvrtc import FLAGS, LINES, compiler_version
from gemmgen.run.turns import by_turns
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store, content_key
from gemmgen.support.lifeline import Lifelines
from gemmgen.support.threads import cores


@dataclass(frozen=True)
class _Run:
    """What was asked for (case, seed and blocks), and what came of it."""

    asked: tuple[Case, Case | None, int, tuple[int, ...] | None]
    operands: Operands
    outputs: dict[str, Floats]


class InterpretedKernel:
    """A kernel's PTX and the process that interprets it. See `EmulatorExecutor` for what a seed selects."""

    runs_parts = True

    def __init__(
        self, source: KernelSource, program: Program, executable: bytes, confinement: Confinement, timeout: float
    ) -> None:
        self.source = source
        self.runs_apart = not source.launch.prepares  # which read all of an operand, also where there is no memory
        self._timeout = timeout
        self._arena = SharedArena()
        self._counters = Counters(source.text, program.ptx, never_of(source))
        self._server = Server(program, executable, self._arena.file, confinement, self._counters.file)
        self._last: _Run | None = None
        self._waits: str | None = None  # what waits for blocks of lower numbers
        self.closed = False

    def start(self) -> None:
        """Load the PTX. Raises CandidateFailed: unjudged, for what the interpreter lacks."""
        self._server.start()
        self._counters.loaded()

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
        """What its launches ran of the text so far."""
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
        whole = len(watched) == len(order)
        if watch and apart is None and len(watched) and not whole:
            self._launch(case, operands, watched, grid, seed, watch=True, quiet=True)
        watches = watch and apart is None and whole
        return self._launch(case, operands, order, grid, seed, watch=watches, apart=apart)

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
        room = max(len(blocks), MOST_TILES) if launch.prepares else len(blocks)
        layout = ArenaLayout.of(case, workspace, room, seed, apart, whole)
        self._arena.fill(layout, case, operands, blocks)
        self._prepare(layout, case, seed, watch, quiet)
        self._arena.list_blocks(layout, blocks)
        tiles = len(blocks) * -(-launch.blocks(case) // max(grid, 1))  # of one block each
        timeout = self._timeout + long_work(launch, case, tiles, watch)
        request = _request(
            self.source,
            layout,
            apart or case,
            placements=layout.placements,
            grid=grid,
            block_count=len(blocks),
            seed=seed,
            # Blocks that share C are watched by one thread, which also finds the same race first each time.
            workers=1 if watch else cores(),
            timeout=timeout,
            quiet=quiet,
            watch=watch,
        )
        self._server.launch(request)
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

    def _prepare(self, layout: ArenaLayout, case: Case, seed: int, watch: bool, quiet: bool) -> None:
        """The launches before the kernel's own, by few blocks: any number computes the same."""
        *steps, kernel = self.source.program
        timeout = self._timeout + long_preparation(self.source, case)
        for step, prepare in zip(steps, kernel.launch.prepares, strict=True):
            grid = min(step.launch.blocks(case), 1 + seed % MOST_TILES)
            if grid == 0:  # with K = 0 there is nothing to copy
                continue
            self._arena.list_blocks(layout, _block_order(grid, seed))
            request = _request(
                step,
                layout,
                case,
                placements=layout.preparing(prepare.part),
                grid=grid,
                block_count=grid,
                seed=seed,
                workers=1,
                timeout=timeout,
                quiet=quiet,
                watch=watch and prepare.bytes(case) <= WATCHED_COPY,
            )
            self._server.launch(request)


class InterpreterExecutor:
    """Runs kernels on the CPU: the PTX that NVRTC makes of them. A context manager: leaving it ends their processes.

    A seed selects what it does for `EmulatorExecutor`.

    Raises CandidateFailed (unavailable) where the machine has no C++ compiler, or no NVRTC.
    """

    name = "emulator"

    def __init__(self, store: Store | None = None, timeout: float = HANG_SECONDS) -> None:
        self._compiler = replace(HostCompiler.find(), running=Lifelines())
        self._ptx = PtxCompilers()
        self.store = store if store is not None else Store()
        self.timeout = timeout
        self._loaded: list[InterpretedKernel] = []
        self.description = compiler_version()
        self.flags = (*FLAGS, LINES)

    @property
    def environment(self) -> str:
        """A key for what results depend on beside the kernel: NVRTC, its flags, and the interpreter."""
        return content_key(self.description, *self.flags, program_key(self._compiler))

    @property
    def unconfined(self) -> tuple[str, ...]:
        """See `Confinement.missing`."""
        return self._compiler.confinement(self.store).missing

    def prepare(self) -> None:
        """Begin to compile the interpreter, which takes a while the first time on a machine.

        It does not wait. What fails fails again in `load`.
        """

        def compile_interpreter() -> None:
            with suppress(CandidateFailed):
                interpreter(self._compiler, self.store)

        Thread(target=compile_interpreter, daemon=True).start()

    def load(self, source: KernelSource) -> InterpretedKernel:
        """Compile, or fetch from the store, and load the PTX.

        Raises CandidateFailed: compile, or unjudged, where the interpreter lacks what the kernel uses.
        """
        program = Program(source.name, self._ptx.ptx(source, self.store), instruction_table(parse_arch(source.arch)))
        executable = interpreter(self._compiler, self.store)
        confinement = self._compiler.confinement(self.store)
        kernel = InterpretedKernel(source, program, executable, confinement, self.timeout)
        try:
            kernel.start()
        except BaseException:
            kernel.close()
            raise
        self._loaded = [*(other for other in self._loaded if not other.closed), kernel]
        return kernel

    def close(self) -> None:
        """End its kernels' processes, and compilers that threads still wait for."""
        self._compiler.running.close()
        self._compiler = replace(self._compiler, running=Lifelines())
        self._ptx.close()
        for kernel in self._loaded:
            kernel.close()
        self._loaded.clear()

    def __enter__(self) -> InterpreterExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _request(
    step: KernelSource, layout: ArenaLayout, case: Case, *, placements: tuple[Placement, ...], **how: Any
) -> Request:
    launch = step.launch
    return Request(
        layout,
        step.name,
        threads=launch.threads,
        shared_bytes=launch.shared_bytes,
        cluster=launch.cluster,
        dependent=DEPENDENT_LAUNCH in launch.attributes,
        arguments=_arguments(step, case, layout),
        placements=placements,
        **how,
    )
