"""The step "predict": for an architecture that is not at hand, winners by the model, verified in the emulator."""

from __future__ import annotations

import time
from collections.abc import Callable

from gemmgen.exports.json_records import Origin, provenance
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.lab.suite.plan import (
    ROW_FAILS,
    ShapeOutcome,
    SuitePlan,
    failed,
    found,
    keep,
    outcome_of,
    retire,
    search_digest,
    searched_with,
)
from gemmgen.problem.gemm import Problem
from gemmgen.run.target import Target
from gemmgen.search.tuner import tune
from gemmgen.support.files import Store


def predict_all(plan: SuitePlan, target: Target, store: Store, on_done: Callable[[ShapeOutcome], None]) -> None:
    """Choose a kernel for each problem that has none on file; `on_done` receives each outcome."""
    assert target.gpu is None
    for problem in plan.problems:
        if plan.late:
            return
        on_done(_predicted(problem, plan, target, store))


def _predicted(problem: Problem, plan: SuitePlan, target: Target, store: Store) -> ShapeOutcome:
    started = time.monotonic()
    before = [kernel for kernel in plan.winners() if kernel.source.problem == problem]
    known = next((kernel for kernel in before if _stands(kernel, plan)), None)
    if known is not None:
        return outcome_of("predict", known, "on file", started)
    try:
        best = tune(problem, target, store, budget=plan.budget).winner
    except ROW_FAILS as error:
        return failed("predict", problem, error, plan, target.spec.name, started)
    record = provenance(best, Origin.of(target, plan.command))
    searched = {"code": search_digest(), "budget": plan.budget}
    kernel = keep(KernelFile(best.source), {**record, "suite": searched}, plan)
    for other in before:
        if other.source.name != kernel.source.name:
            retire(other)
    return found("predict", kernel, plan, started)


def _stands(kernel: KernelFile, plan: SuitePlan) -> bool:
    """Whether it was measured, as no prediction replaces that, or predicted by this code from as many candidates."""
    if kernel.measured_time is not None:
        return True
    return not plan.again and searched_with(kernel) >= plan.budget
