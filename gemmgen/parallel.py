"""Many verifications at once: on the emulator a process a core, each with an emulator of its own."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from gemmgen.child import Child
from gemmgen.emulator import EmulatorExecutor
from gemmgen.executor import Executor
from gemmgen.files import Store
from gemmgen.source import KernelSource
from gemmgen.verifier import Verdict, verify


@dataclass(frozen=True)
class Job:
    """What to verify, and the arguments of `gemmgen.verifier.verify`."""

    source: KernelSource
    examples: int
    seed: int = 0
    shrink: bool = True

    def verdict(self, executor: Executor) -> Verdict:
        return verify(executor, self.source, examples=self.examples, seed=self.seed, shrink=self.shrink)


def verify_all(executor: Executor, jobs: Iterable[Job], on_done: Callable[[], None] = lambda: None) -> list[Verdict]:
    """The verdict of every job, in their order; `on_done` is called, in this thread, as each gets ready.

    A GPU takes one job after another. Raises ChildDied where one of the processes is killed.
    """
    cores = len(os.sched_getaffinity(0)) if isinstance(executor, EmulatorExecutor) else 1
    if not isinstance(executor, EmulatorExecutor) or cores == 1:
        verdicts = []
        for job in jobs:
            verdicts.append(job.verdict(executor))
            on_done()
        return verdicts
    children = [Child(f"{__name__}:process", str(executor.store.root), str(executor.timeout)) for _ in range(cores)]
    idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
    for child in children:
        idle.put(child)

    def verdict(job: Job) -> Verdict:
        child = idle.get()
        try:
            answer: Verdict = child.request(job)
            return answer
        finally:
            idle.put(child)

    pool = ThreadPoolExecutor(cores)  # a thread waits for each process
    try:
        futures = [pool.submit(verdict, job) for job in jobs]
        for future in as_completed(futures):
            future.result()
            on_done()
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.close()


def process(store: str, timeout: str) -> Callable[[Job], Verdict]:
    """What a child of `verify_all` answers with."""
    executor = EmulatorExecutor(Store(Path(store)), float(timeout))
    return lambda job: job.verdict(executor)
