"""The steps of the suite: what each needs, and how it runs."""

from __future__ import annotations

from collections.abc import Callable

from gemmgen.lab.suite.checking import check_all, emulator_check, sanitizer_check
from gemmgen.lab.suite.plan import ShapeOutcome, Step, SuitePlan
from gemmgen.lab.suite.predicting import predict_all
from gemmgen.lab.suite.remote import run_on, suite_lanes
from gemmgen.lab.suite.runtime import measure_products
from gemmgen.lab.suite.timing import gpu_of, measure_all
from gemmgen.pool.cluster import Cluster
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.gpu import why_no_gpu
from gemmgen.run.target import open_target
from gemmgen.support.child import crew
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.verification.sanitizers.tool import why_no_sanitizer

HERE: tuple[Step, ...] = ("measure", "sanitize", "emulate")  # of the card at hand
ELSEWHERE: tuple[Step, ...] = ("predict", "sanitize", "emulate")  # of an architecture or card that is named


def missing_for(step: Step) -> str | None:
    """The reason why this machine cannot run `step`, and the remedy; None if it can."""
    if step == "measure":
        return why_no_gpu()
    if step == "sanitize":
        return why_no_sanitizer()
    try:
        HostCompiler.find()
    except CandidateFailed as error:
        return error.failure.reason
    return None


def run_step(
    step: Step,
    plan: SuitePlan,
    store: Store,
    on_done: Callable[[ShapeOutcome], None],
    cluster: Cluster | None = None,
) -> None:
    """Run one step of `plan`; `on_done` receives each outcome, in this thread.

    With a `cluster` its workers measure, or predict.

    Raises CandidateFailed (unavailable) if something is missing, and InvalidInput if the kernels of `plan.arch` are to
    run on a GPU of another architecture.
    """
    if cluster is not None:
        with crew(suite_lanes(cluster, step)) as lanes:
            run_on(lanes, step, plan, on_done)
        return
    if step in ("measure", "predict"):
        target = open_target("gpu", "auto", store) if step == "measure" else open_target("emulator", plan.arch, store)
        with target.executor:
            (measure_all if step == "measure" else predict_all)(plan, target, store, on_done)
            if step == "measure":
                measure_products(plan, target, store, on_done)
        return
    check_all(
        emulator_check(store, plan.processes) if step == "emulate" else sanitizer_check(store, _card_for(plan, store)),
        plan,
        on_done,
    )


def _card_for(plan: SuitePlan, store: Store) -> str:
    """The name of the card at hand, which must run kernels for `plan.arch`."""
    target = open_target("gpu", plan.arch, store)
    with target.executor:
        return gpu_of(target).properties.name
