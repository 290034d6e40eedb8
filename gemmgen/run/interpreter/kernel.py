"""InterpreterExecutor: kernels on the CPU, as the PTX that NVRTC makes of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from threading import Thread
from types import TracebackType
from typing import Any

from gemmgen.kernel.again import never_of
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.case import Case
from gemmgen.problem.device import parse_arch
from gemmgen.run.emulator.arena import ArenaLayout, SharedArena
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.confine import Confinement
from gemmgen.run.emulator.launches import HANG_SECONDS, EmulatedLaunches, Step, of_launch
from gemmgen.run.interpreter.coverage import Counters
from gemmgen.run.interpreter.instructions import instruction_table
from gemmgen.run.interpreter.program import interpreter, program_key
from gemmgen.run.interpreter.ptx import PtxCompilers
from gemmgen.run.interpreter.server import Program, Request, Server
from gemmgen.run.nvrtc import FLAGS, LINES, compiler_version
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store, content_key
from gemmgen.support.lifeline import Lifelines


class InterpretedKernel(EmulatedLaunches):
    """A kernel's PTX and the process that interprets it."""

    def __init__(
        self, source: KernelSource, program: Program, executable: bytes, confinement: Confinement, timeout: float
    ) -> None:
        arena, counters = SharedArena(), Counters(source.text, program.ptx, never_of(source))
        super().__init__(source, counters, arena, timeout)
        self._counters: Counters = counters
        self._server = Server(program, executable, arena.file, confinement, counters.file)

    def start(self) -> None:
        """Load the PTX. Raises CandidateFailed: unjudged, for what the interpreter lacks."""
        self._server.start()
        self._counters.loaded()

    def _send(self, step: Step, layout: ArenaLayout, case: Case, **how: Any) -> None:
        how |= of_launch(step.source, layout, case)
        self._server.launch(Request(layout, step.source.name, placements=step.placements, watch=step.watch, **how))

    def _end_processes(self) -> None:
        self._server.close()


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
