"""Verifies many kernels in parallel: each lane is a process with its own executor, on the GPU or an emulator.

A kernel that hangs or breaks its context costs one restart of a worker; the other lanes continue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gemmgen.kernel.source import KernelSource
from gemmgen.pool.cluster import Cluster
from gemmgen.pool.remote import ONE_THREAD
from gemmgen.pool.worker import GPU
from gemmgen.problem.gemm import Problem
from gemmgen.run.compile import compile_many
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.launches import HANG_SECONDS
from gemmgen.run.executor import Executor
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.run.target import Target
from gemmgen.support.child import Child, crew, spread
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.support.threads import cores
from gemmgen.verification.data import OPERANDS
from gemmgen.verification.determinism import RUNS
from gemmgen.verification.host_memory import at_a_time
from gemmgen.verification.reference import EXPECTED
from gemmgen.verification.sanitizers.tool import Tool
from gemmgen.verification.verifier import SHRINK_SECONDS, Verdict, verify
from gemmgen.verification.with_sanitizers import sanitize

LANES = 8  # on a GPU, at most; their contexts take turns on it
MOST_ON_GPU = 16  # of lanes that compile, too
TIMEOUT = 4.0  # seconds for a run on a GPU, where the problems are small
GPU_SHRINK_SECONDS = 5.0


@dataclass(frozen=True)
class VerifyJob:
    """A kernel to verify with at most `examples` situations, and tools of compute-sanitizer to watch it on a GPU.

    Without `shrink` the first failing situation is reported; for `bits` and `runs` see `verify`.
    """

    source: KernelSource
    examples: int
    seed: int = 0
    tools: tuple[Tool, ...] = ()
    shrink: bool = True
    bits: bool = False
    runs: int = RUNS

    def run(self, executor: Executor) -> Verdict:
        """Run the job in a lane: the verdict of `executor`, with the tools on a GPU."""
        verdict = verify(
            executor,
            self.source,
            examples=self.examples,
            seed=self.seed,
            runs=self.runs,
            shrink=self.shrink,
            shrink_seconds=GPU_SHRINK_SECONDS if isinstance(executor, GpuExecutor) else SHRINK_SECONDS,
            bits=self.bits,
        )
        if isinstance(executor, GpuExecutor) and self.tools:
            return sanitize(executor, self.source, verdict, self.tools)
        return verdict


OnVerdict = Callable[[VerifyJob, Verdict], None]


class Job(Protocol):
    """A request to a lane: a record that can be pickled, as its answer can."""

    def run(self, executor: Executor) -> Any:
        """Run the job and return its answer. Raises CandidateFailed, which the caller receives."""


class Lane:
    """The child's side on a GPU: it answers a Job. `store` is a folder; "" means the user's."""

    kind: type[GpuExecutor | EmulatorExecutor] = GpuExecutor

    def __init__(self, store: str, lanes: str, timeout: str) -> None:
        for kept in (OPERANDS, EXPECTED):
            kept.share(int(lanes))  # of the memory
        self._executor = self.kind(Store(Path(store) if store else None), timeout=float(timeout))

    def __call__(self, job: Job) -> Any:
        return job.run(self._executor)


class EmulatorLane(Lane):
    """The child's side with an emulator."""

    kind = EmulatorExecutor


@dataclass(frozen=True)
class Lanes:
    """The place where many kernels are verified: the target's executor, with as many at a time as it has room for.

    processes  largest number of emulator lanes; None: one per core
    workers    lanes of a cluster that verify instead
    """

    target: Target
    store: Store
    processes: int | None = None
    workers: Sequence[Child] = ()

    def verdicts(self, jobs: Sequence[VerifyJob], on_done: Callable[[], None] = lambda: None) -> list[Verdict]:
        """Return the verdicts in the jobs' order. Raises CandidateFailed (unavailable), and GemmgenError if a lane
        fails."""

        def done(job: VerifyJob, verdict: Verdict) -> None:
            on_done()

        if not jobs:
            return []
        if self.workers:
            return spread(self.workers, jobs, _ask, done)
        executor = self.target.executor
        if self.target.gpu is None and isinstance(executor, EmulatorExecutor):
            return emulate_many(executor, jobs, done, self.processes)
        return verify_many(jobs, self.target.arch, self.store, done)


def verify_many(
    jobs: Sequence[VerifyJob],
    arch: str,
    store: Store,
    on_done: OnVerdict = lambda job, verdict: None,
    timeout: float = TIMEOUT,
) -> list[Verdict]:
    """Return the verdicts on the GPU in the jobs' order; all kernels are compiled first, in parallel.

    timeout  time limit of one run, in seconds

    Raises CandidateFailed (unavailable), and GemmgenError if a lane itself fails.
    """
    compile_many([job.source for job in jobs], arch, store)
    with crew(gpu_lanes(min(LANES, cores() // 2, len(jobs)), store, timeout)) as lanes:
        return spread(lanes, jobs, _ask, on_done)


def emulate_many(
    emulator: EmulatorExecutor,
    jobs: Sequence[VerifyJob],
    on_done: OnVerdict = lambda job, verdict: None,
    processes: int | None = None,
) -> list[Verdict]:
    """Return the verdicts of emulators like `emulator`, one per core or `processes` many, in the jobs' order.

    Raises CandidateFailed (unavailable), and GemmgenError if a lane itself fails.
    """
    with crew(emulator_lanes(emulator, [job.source.problem for job in jobs], processes)) as lanes:
        return spread(lanes, jobs, _ask, on_done)


def gpu_lanes(most: int, store: Store, timeout: float = TIMEOUT) -> list[Child]:
    """Start at most `most` processes, and at least one, with this machine's GPU; `timeout` in seconds is for one
    run."""
    count = max(1, most)
    settings = str(store.root), str(count), str(timeout)
    return [Child(f"{__name__}:Lane", *settings, environment=ONE_THREAD) for _ in range(count)]


def cluster_lanes(cluster: Cluster, resource: str) -> list[Child]:
    """A lane for each worker that has the resource: a GPU, or cores for an emulator."""
    kind, timeout = (Lane, TIMEOUT) if resource == GPU else (EmulatorLane, HANG_SECONDS)
    return cluster.lanes(resource, f"{__name__}:{kind.__name__}", "", str(cluster.share(resource)), str(timeout))


def lanes_like(executor: Executor) -> list[Child]:
    """Start processes with executors like this one, for kernels of small problems: one per core, on a GPU at most
    MOST_ON_GPU."""
    if isinstance(executor, EmulatorExecutor):
        return emulator_lanes(executor, [Problem(None, None, None)] * cores())
    assert isinstance(executor, GpuExecutor)
    return gpu_lanes(min(MOST_ON_GPU, cores()), executor.store)


def emulator_lanes(
    emulator: EmulatorExecutor, problems: Sequence[Problem], processes: int | None = None
) -> list[Child]:
    """Start processes with emulators like `emulator`: one per core, or `processes`, as far as memory for `problems`
    allows."""
    count = max(1, min(processes or cores(), len(problems), at_a_time(problems)))
    settings = str(emulator.store.root), str(count), str(emulator.timeout)
    return [Child(f"{__name__}:EmulatorLane", *settings, environment=ONE_THREAD) for _ in range(count)]


def _ask(lane: Child, job: VerifyJob) -> Verdict:
    """Ask a lane. Raises CandidateFailed if the executor is unavailable, because it is then so for all kernels."""
    verdict: Verdict = lane.request(job)
    if verdict.failure is not None and verdict.failure.kind == "unavailable":
        raise CandidateFailed(verdict.failure)
    return verdict
