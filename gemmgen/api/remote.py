"""Searches on the workers of a cluster: one job per problem, with the result of `tune`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from gemmgen.exports.json_records import Document, Origin, provenance
from gemmgen.exports.writing import Folder, require_writable, write_kernel
from gemmgen.families import SEARCHED, family_named
from gemmgen.pool.cluster import Cluster
from gemmgen.pool.worker import GPU
from gemmgen.problem.gemm import Problem
from gemmgen.run.target import DeviceChoice, Target, open_target
from gemmgen.search.result import TuneResult
from gemmgen.search.tuner import tune
from gemmgen.support.child import Child, ChildDied, as_done, crew
from gemmgen.support.errors import GemmgenError
from gemmgen.support.files import Store
from gemmgen.verification.host_memory import require_memory


@dataclass(frozen=True)
class TuneJob:
    """One search, as `gemmgen.tune` takes it."""

    problem: Problem
    device: DeviceChoice
    arch: str
    family: str | None
    budget: int | None
    seed: int
    command: str


@dataclass(frozen=True)
class Tuned:
    """The result of a search, and the winner's record; only the reason if it found none."""

    result: TuneResult | None
    record: Document
    reason: str = ""


class TuneLane:
    """The worker's side: it answers TuneJobs. Targets are opened once, because a GPU's worker takes a while to
    start."""

    def __init__(self) -> None:
        self._store = Store()
        self._targets: dict[tuple[DeviceChoice, str], Target] = {}

    def __call__(self, job: TuneJob) -> Tuned:
        target = self._targets.get((job.device, job.arch))
        if target is None:
            target = self._targets[job.device, job.arch] = open_target(job.device, job.arch, self._store)
        families = SEARCHED if job.family is None else (family_named(job.family),)
        try:
            require_memory(job.problem)
            found = tune(job.problem, target, self._store, families=families, budget=job.budget, seed=job.seed)
        except GemmgenError as error:
            return Tuned(None, {}, str(error))
        return Tuned(found, provenance(found.winner, Origin.of(target, job.command)))


def tune_on(
    cluster: Cluster, problems: Sequence[Problem], job: TuneJob, out: Folder | None = None
) -> Iterator[TuneResult]:
    """Yield the result of a search for each problem, in order, with device, budget and so on from `job`.

    out  folder for the winners' NAME.cu and NAME.json

    Winners are written as they are found. Raises InvalidInput if no worker can run the search, and at the end
    GemmgenError with the problems whose searches found nothing.
    """
    if out is not None:
        require_writable(Path(out))
    resource = cluster.resource_for(job.device)
    device: DeviceChoice = "gpu" if resource == GPU else "emulator"
    jobs = enumerate(replace(job, problem=problem, device=device) for problem in problems)
    found, failed, following = dict[int, Tuned](), list[str](), 0
    lanes = cluster.lanes(resource, f"{__name__}:{TuneLane.__name__}")
    with crew(lanes), closing(as_done(lanes, jobs, _ask)) as answers:
        for (number, asked), done in answers:
            found[number] = done
            if done.result is None:
                failed.append(f"{asked.problem}: {done.reason}")
            elif out is not None:
                write_kernel(done.result.winner.source, done.record, Path(out))
            while following in found:
                result, following = found.pop(following).result, following + 1
                if result is not None:
                    yield result
    if failed:
        raise GemmgenError("; ".join(failed))


def _ask(lane: Child, numbered: tuple[int, TuneJob]) -> Tuned:
    _, job = numbered
    try:
        done: Tuned = lane.request(job)
    except ChildDied as error:
        return Tuned(None, {}, str(error))
    return done
