"""EmulatorExecutor: kernels on the CPU, with memory and synchronisation checked."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from threading import Thread

from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import parse_arch
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.emulator.failures import failed
from gemmgen.run.emulator.instructions import instruction_table
from gemmgen.run.emulator.launches import HANG_SECONDS, EmulatedKernel
from gemmgen.run.emulator.program import interpreter, program_key, require_room
from gemmgen.run.emulator.ptx import GivenPtx, PtxCompilers
from gemmgen.run.emulator.server import Program, missing_guards
from gemmgen.run.nvrtc import FLAGS, LINES, compiler_version
from gemmgen.support.child_lifetime import Lifelines
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store, content_key


class EmulatorExecutor:
    """Runs kernels on the CPU, by their PTX. A context manager: leaving it ends all processes.

    Each block's threads run on one core, one at a time, each until it has to wait; blocks spread over the
    cores. The seed selects what a GPU is free to do:

        seed 0      threads and blocks run in their natural order; any other seed has its own orders
        seed % 2    operands touch the guard pages above (0) or below (1) them
        seed // 2 % 2   cp.async and TMA complete as late (0) or as early (1) as they may
        seed // 4 % 2   wgmma computes as late (0) or as early (1) as it may
        seed // 8 % 2   dynamic shared memory has exactly the alignment that its declaration asks for (1), or any (0)
        seed % 8    some blocks of a large launch are watched for races (0), or none (others)
        seed % 3    each block of a persistent kernel computes one more tile than this, if all blocks run

    GPUs start blocks in their natural order, although CUDA does not promise it. A serial split-K, whose blocks wait for
    earlier ones, hangs in any other order. If a kernel hangs in another order, ends in the natural one and hangs again,
    its blocks run in natural order from then on: see `LoadedKernel.assumed`.

    A launch counts as hanging if it takes `timeout` seconds of processor time more than its size explains.
    Raises CandidateFailed (unavailable) if the machine has no C++ compiler, no NVRTC, or no disk space to build the
    interpreter.
    """

    name = "emulator"

    def __init__(self, store: Store | None = None, timeout: float = HANG_SECONDS) -> None:
        self._compiler = replace(HostCompiler.find(), running=Lifelines())
        self._ptx = PtxCompilers()
        self._given: GivenPtx | None = None
        self.store = store if store is not None else Store()
        require_room(self._compiler, self.store)
        self.timeout = timeout
        self._loaded: list[EmulatedKernel] = []
        self.description = compiler_version()
        self.flags: tuple[str, ...] = (*FLAGS, LINES)

    @property
    def environment(self) -> str:
        """A key of everything except the kernel on which results depend: NVRTC, its flags and the interpreter."""
        return content_key(self.description, *self.flags, program_key(self._compiler))

    @property
    def unconfined(self) -> tuple[str, ...]:
        """The guards that this system lacks, in words: what a kernel's program could therefore read or call."""
        return missing_guards(interpreter(self._compiler, self.store))

    def prepare(self) -> None:
        """Start to compile the interpreter without waiting: the first build on a machine takes a while.

        Errors are reported by `load`.
        """

        def compile_interpreter() -> None:
            with suppress(CandidateFailed):
                interpreter(self._compiler, self.store)

        Thread(target=compile_interpreter, daemon=True).start()

    def use_ptx(self, given: GivenPtx) -> None:
        """Load `given` instead of NVRTC's PTX from now on."""
        self._given, self.description = given, given.compiler

    def load(self, source: KernelSource) -> EmulatedKernel:
        """Compile the PTX, take it from the store or from `use_ptx`, and load it.

        Raises CandidateFailed: compile; or unjudged, if the interpreter lacks what the kernel uses, or if the given PTX
        belongs to another kernel.
        """
        if self._given is None:
            arch, ptx = parse_arch(source.arch), self._ptx.ptx(source, self.store)
        else:
            if self._given.digest != source.digest:
                raise failed("unjudged", f"{self._given.file} is the PTX of another kernel")
            arch, ptx = parse_arch(self._given.arch), self._given.text
        program = Program(source.name, ptx, instruction_table(arch), arch)
        executable = interpreter(self._compiler, self.store)
        kernel = EmulatedKernel(source, program, executable, self.timeout)
        try:
            kernel.start()
        except BaseException:
            kernel.close()
            raise
        self._loaded = [*(other for other in self._loaded if not other.closed), kernel]
        return kernel

    def close(self) -> None:
        """End the processes of all kernels, and compilers that threads still wait for."""
        self._compiler.running.close()
        self._compiler = replace(self._compiler, running=Lifelines())
        self._ptx.close()
        for kernel in self._loaded:
            kernel.close()
        self._loaded.clear()

    def __enter__(self) -> EmulatorExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
