"""EmulatorExecutor: kernels on the CPU, with memory and synchronisation checked."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from threading import Thread
from types import TracebackType
from typing import Any

from gemmgen.kernel.again import never_of
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.case import Case
from gemmgen.run.emulator.arena import ArenaLayout, SharedArena
from gemmgen.run.emulator.compiler import Executables, HostCompiler
from gemmgen.run.emulator.counters import Counters
from gemmgen.run.emulator.launches import HANG_SECONDS, EmulatedLaunches, Step, of_launch
from gemmgen.run.emulator.server import Request, Server
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.support.lifeline import Lifelines


class EmulatedKernel(EmulatedLaunches):
    """A kernel's executables and their processes."""

    def __init__(self, source: KernelSource, executables: Executables, timeout: float) -> None:
        arena, counters = SharedArena(), Counters(executables.sites, source.text, never_of(source))
        super().__init__(source, counters, arena, timeout)
        shared = arena.file, counters.file, executables.confinement
        self._fast = Server(source, executables.fast, *shared)
        self._watched = Server(source, executables.watched, *shared)

    def _send(self, step: Step, layout: ArenaLayout, case: Case, **how: Any) -> None:
        how |= of_launch(step.source, layout, case)
        server = self._watched if step.watch else self._fast
        server.launch(Request(layout, placements=step.placements, entry=step.number, **how))

    def _end_processes(self) -> None:
        self._fast.close()
        self._watched.close()


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
