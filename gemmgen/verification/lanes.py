"""Many kernels verified at a time: each lane is a process with an executor of its own, on the GPU or an emulator.

A kernel that hangs or breaks its context costs a worker's start; the other lanes go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmgen.kernel.source import KernelSource
from gemmgen.run.compile import compile_many, cores
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.executor import Executor
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.support.child import Child, crew, spread
from gemmgen.support.files import Store
from gemmgen.verification.sanitizers.tool import Tool
from gemmgen.verification.verifier import SHRINK_SECONDS, Verdict, verify
from gemmgen.verification.with_sanitizers import sanitize

LANES = 8  # on a GPU, at most; their contexts take turns on it
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # numpy's, in each of them
TIMEOUT = 4.0  # seconds for a run on a GPU; these are small
GPU_SHRINK_SECONDS = 5.0


@dataclass(frozen=True)
class VerifyJob:
    """A kernel to verify with `examples` situations at most, and the tools of compute-sanitizer to watch it on a GPU.

    Without `shrink` the first situation that fails stands.
    """

    source: KernelSource
    examples: int
    seed: int = 0
    tools: tuple[Tool, ...] = ()
    shrink: bool = True

    def verdict(self, executor: Executor, shrink_seconds: float = SHRINK_SECONDS) -> Verdict:
        """What `executor` finds, the tools apart."""
        return verify(
            executor,
            self.source,
            examples=self.examples,
            seed=self.seed,
            shrink=self.shrink,
            shrink_seconds=shrink_seconds,
        )


class Lane:
    """The child's side on a GPU: answers a VerifyJob with its Verdict."""

    def __init__(self, store: str) -> None:
        self._gpu = GpuExecutor(Store(Path(store)), timeout=TIMEOUT)

    def __call__(self, job: VerifyJob) -> Verdict:
        verdict = job.verdict(self._gpu, GPU_SHRINK_SECONDS)
        return sanitize(self._gpu, job.source, verdict, job.tools) if job.tools else verdict


class EmulatorLane:
    """The child's side with an emulator."""

    def __init__(self, store: str, timeout: str) -> None:
        self._emulator = EmulatorExecutor(Store(Path(store)), float(timeout))

    def __call__(self, job: VerifyJob) -> Verdict:
        return job.verdict(self._emulator)


def verify_many(
    jobs: Sequence[VerifyJob], arch: str, store: Store, on_done: Callable[[], None] = lambda: None
) -> list[Verdict]:
    """The verdicts on the GPU, in the jobs' order; all kernels are compiled first, side by side.

    Raises CandidateFailed (unavailable), and GemmgenError where a lane itself fails.
    """
    compile_many([job.source for job in jobs], arch, store)
    count = max(1, min(LANES, cores() // 2, len(jobs)))
    lanes = [Child(f"{__name__}:Lane", str(store.root), environment=ONE_THREAD) for _ in range(count)]
    with crew(lanes):
        return spread(lanes, jobs, _ask, lambda job, verdict: on_done())


def emulate_many(
    emulator: EmulatorExecutor, jobs: Sequence[VerifyJob], on_done: Callable[[], None] = lambda: None
) -> list[Verdict]:
    """The verdicts of emulators as `emulator` is, one a core, in the jobs' order.

    Raises GemmgenError where a lane itself fails.
    """
    with crew(emulator_lanes(emulator, len(jobs))) as lanes:
        return spread(lanes, jobs, _ask, lambda job, verdict: on_done())


def emulator_lanes(emulator: EmulatorExecutor, most: int) -> list[Child]:
    """Processes with emulators as `emulator` is, one a core and no more than `most`."""
    settings = str(emulator.store.root), str(emulator.timeout)
    count = max(1, min(cores(), most))
    return [Child(f"{__name__}:EmulatorLane", *settings, environment=ONE_THREAD) for _ in range(count)]


def _ask(lane: Child, job: VerifyJob) -> Verdict:
    verdict: Verdict = lane.request(job)
    return verdict
