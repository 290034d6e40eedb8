"""Many kernels on a GPU, several at a time: each lane is a process that verifies, with a worker of its own.

A kernel that hangs or breaks its context costs a worker's start; the other lanes go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmgen.child import Child, spread
from gemmgen.compile import compile_many, cores
from gemmgen.files import Store
from gemmgen.gpu.executor import GpuExecutor
from gemmgen.gpu.sanitizer import Tool
from gemmgen.sanitize import sanitize
from gemmgen.source import KernelSource
from gemmgen.verifier import Verdict, verify

LANES = 8  # at most; their contexts take turns on the GPU
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # numpy's, in each of them
TIMEOUT = 4.0  # seconds for a run; these are small
SHRINK_SECONDS = 5.0


@dataclass(frozen=True)
class Job:
    """A kernel to verify with `examples` situations at most, and the tools of compute-sanitizer to watch it."""

    source: KernelSource
    examples: int
    seed: int
    tools: tuple[Tool, ...] = ()


class Lane:
    """The child's side: answers a Job with its Verdict."""

    def __init__(self, store: str) -> None:
        self._gpu = GpuExecutor(Store(Path(store)), timeout=TIMEOUT)

    def __call__(self, job: Job) -> Verdict:
        verdict = verify(self._gpu, job.source, examples=job.examples, seed=job.seed, shrink_seconds=SHRINK_SECONDS)
        if not job.tools:
            return verdict
        return sanitize(self._gpu, job.source, verdict, job.tools)


def verify_many(
    jobs: Sequence[Job], arch: str, store: Store, on_done: Callable[[], None] = lambda: None
) -> list[Verdict]:
    """The verdicts in the jobs' order; all kernels are compiled first, side by side.

    Raises CandidateFailed (unavailable), and GemmgenError where a lane itself fails.
    """
    compile_many([job.source for job in jobs], arch, store)
    count = max(1, min(LANES, cores() // 2, len(jobs)))
    lanes = [Child(f"{__name__}:Lane", str(store.root), environment=ONE_THREAD) for _ in range(count)]
    return spread(lanes, jobs, _ask, lambda job, verdict: on_done())


def _ask(lane: Child, job: Job) -> Verdict:
    verdict: Verdict = lane.request(job)
    return verdict
