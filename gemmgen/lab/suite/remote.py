"""Steps of the suite on a cluster: one job per shape, which sends files and brings changed ones back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from gemmgen.exports.writing import remove_text, text_path, write_text
from gemmgen.lab.runtime_m import problem_of
from gemmgen.lab.runtime_page import result_path
from gemmgen.lab.scores import failure_path
from gemmgen.lab.suite.plan import ShapeOutcome, Step, SuitePlan
from gemmgen.lab.suite.predicting import predict_all
from gemmgen.lab.suite.runtime import measure_products
from gemmgen.lab.suite.timing import measure_all
from gemmgen.pool.cluster import Cluster
from gemmgen.problem.gemm import Problem
from gemmgen.run.target import Target, open_target
from gemmgen.support.child import Child, ChildDied, as_done
from gemmgen.support.files import Store, write_atomic
from gemmgen.support.scratch import scratch_folder

Files = Mapping[str, bytes | None]  # by their paths in the folder of all cards; None: there is none any more


@dataclass(frozen=True)
class ShapeJob:
    """One problem, or one product, in the step "measure" or "predict", and the `files` that it starts from.

    plan  the client's plan, restricted to this problem or product
    """

    step: Step
    plan: SuitePlan
    files: Files

    @property
    def problem(self) -> Problem:
        return self.plan.problems[0] if self.plan.problems else problem_of(self.plan.products[0])


@dataclass(frozen=True)
class ShapeDone:
    """The outcome of a job, and the files that changed."""

    outcome: ShapeOutcome
    files: Files


class SuiteLane:
    """The worker's side: it answers ShapeJobs, in its own folder."""

    def __init__(self) -> None:
        self._store = Store()
        self._targets: dict[tuple[Step, str], Target] = {}

    def __call__(self, job: ShapeJob) -> ShapeDone:
        outcomes: list[ShapeOutcome] = []
        with scratch_folder() as out:
            for name, data in job.files.items():
                assert data is not None
                write_atomic(out / name, data)
            plan = replace(job.plan, folder=out / job.plan.folder.name)
            target = self._target(job.step, plan.arch)
            step = measure_all if job.step == "measure" else predict_all
            step(plan, target, self._store, outcomes.append)
            if job.step == "measure":
                measure_products(plan, target, self._store, outcomes.append)
            after = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
        (outcome,) = outcomes
        changed = {name: data for name, data in after.items() if job.files.get(name) != data}
        return ShapeDone(outcome, {**changed, **dict.fromkeys(set(job.files) - set(after))})

    def _target(self, step: Step, arch: str) -> Target:
        """The target, opened once, as a GPU's worker and an emulator's runtime take a while to start."""
        if (step, arch) not in self._targets:
            measures = step == "measure"
            self._targets[step, arch] = open_target(
                "gpu" if measures else "emulator", "auto" if measures else arch, self._store
            )
        return self._targets[step, arch]


def suite_lanes(cluster: Cluster, step: Step) -> list[Child]:
    """A lane for each worker that can do the step. Raises InvalidInput if none can."""
    resource = cluster.resource_for("gpu" if step == "measure" else "emulator")
    return cluster.lanes(resource, f"{__name__}:{SuiteLane.__name__}")


def run_on(lanes: Sequence[Child], step: Step, plan: SuitePlan, on_done: Callable[[ShapeOutcome], None]) -> None:
    """Run the step "measure" or "predict" of `plan` on these lanes; `on_done` receives each outcome.

    A shape whose search ends its process has failed.
    """
    with closing(as_done(lanes, _jobs(step, plan), _ask)) as answers:
        for _, done in answers:
            for name, data in done.files.items():
                _put(plan.folder.parent / name, data)
            on_done(done.outcome)


def _jobs(step: Step, plan: SuitePlan) -> Iterator[ShapeJob]:
    alone = replace(plan, problems=(), products=(), deadline=None)
    for problem in plan.problems:
        if plan.late:
            return
        kernels = [one for one in plan.on_file() if one.source.problem == problem] + plan.borrowed(problem)
        paths = [path for one in kernels if one.path for path in (text_path(one.path), one.path.with_suffix(".json"))]
        yield ShapeJob(
            step, replace(alone, problems=(problem,)), _read(plan, [*paths, failure_path(problem, plan.folder)])
        )
    for product in plan.products if step == "measure" else ():
        if plan.late:
            return
        path = result_path(plan.folder, product.name)
        yield ShapeJob(step, replace(alone, products=(product,)), _read(plan, [path]))


def _put(path: Path, data: bytes | None) -> None:
    """Have the file be as the worker left it; None: gone."""
    if path.suffix == ".cu":
        remove_text(path) if data is None else write_text(path, data.decode())
    elif data is None:
        path.unlink(missing_ok=True)
    else:
        write_atomic(path, data)


def _read(plan: SuitePlan, paths: Sequence[Path]) -> Files:
    out = plan.folder.parent
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in paths if path.is_file()}


def _ask(lane: Child, job: ShapeJob) -> ShapeDone:
    try:
        done: ShapeDone = lane.request(job)
    except ChildDied as error:
        return ShapeDone(ShapeOutcome(job.step, job.problem, "failed", 0.0, reason=str(error)), {})
    return done
