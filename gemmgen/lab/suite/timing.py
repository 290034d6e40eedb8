"""The step "measure": each problem is tuned, and its winner timed against cuBLASLt's best."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gemmgen.exports.json_records import Document, Origin, provenance
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.families import config_of, plan_of
from gemmgen.judge.bench import BenchRow, benched, compare, config_today, observed, verified_on_gpu
from gemmgen.kernel.model import predict
from gemmgen.lab.scores import Score
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
from gemmgen.render.rerender import is_rendered, rendered_again
from gemmgen.run.compile import compile_kernel
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.run.target import Target
from gemmgen.search.candidate_verdicts import examples_for
from gemmgen.search.trial import Trial
from gemmgen.search.tuner import tune
from gemmgen.support.errors import CandidateFailed, Failure, GemmgenError
from gemmgen.support.files import Store
from gemmgen.verification.host_memory import require_memory
from gemmgen.verification.verifier import verify


def measure_all(plan: SuitePlan, target: Target, store: Store, on_done: Callable[[ShapeOutcome], None]) -> None:
    """Tune and bench each problem that has no result on file; `on_done` receives each outcome."""
    for problem in plan.problems:
        if plan.late:
            return
        on_done(_measured(problem, plan, target, store))


def _measured(problem: Problem, plan: SuitePlan, target: Target, store: Store) -> ShapeOutcome:
    started = time.monotonic()
    on_file = [kernel for kernel in plan.winners() if kernel.source.problem == problem]
    known = None if plan.again else _stands(on_file, plan, target)
    if known is not None:
        return outcome_of("measure", known, "on file", started)
    try:
        require_memory(problem)
        kernel = _winner(problem, on_file, plan, target, store)
    except ROW_FAILS as error:
        return failed("measure", problem, error, plan, target.executor.description, started)
    return found("measure", kernel, plan, started)


def _stands(on_file: Sequence[KernelFile], plan: SuitePlan, target: Target) -> KernelFile | None:
    """The winner that this card and this code found with a budget that is not smaller. If nothing is to be searched, a
    kernel with today's text and all times of a row."""
    for kernel in on_file:
        bench = (kernel.record or {}).get("bench") or {}
        here = bench.get("limits", {}).get("card") == gpu_of(target).properties.name
        if here and (searched_with(kernel) >= plan.budget if plan.budget else _is_timed(kernel)):
            return kernel
    return None


def _is_timed(kernel: KernelFile) -> bool:
    return Score(kernel.source.problem, kernel).complete and is_rendered(kernel.source)


def _winner(
    problem: Problem, on_file: Sequence[KernelFile], plan: SuitePlan, target: Target, store: Store
) -> KernelFile:
    """Search from the kernels on file, compare the finalists with them in one run, and keep the fastest correct
    kernel.

    Kernels on file are this card's winners and those of other cards of its architecture, which have to pass here.
    """
    rivals = [rival for kernel in on_file if (rival := _rival(kernel, target)) is not None]
    borrowed = [rival for kernel in plan.borrowed(problem) if (rival := _rival(kernel, target)) is not None]
    known = {rival.source.name for rival in rivals}
    rivals += [KernelFile(rival.source) for rival in borrowed if rival.source.name not in known]
    new, close = _searched(problem, rivals, plan, target, store) if plan.budget else ([], [])
    contenders = list({kernel.source.name: kernel for kernel in (*close, *rivals, *new)}.values())
    if not contenders:
        raise GemmgenError(f"no winner for {problem} is on file, and a budget of 0 searches for none")
    try:
        rows = compare(contenders, gpu_of(target), store)
    except CandidateFailed:
        for kernel in new:
            keep(kernel, kernel.record or {}, plan)  # tuned and verified, if not compared
        raise
    fastest = sorted((row for row in rows if isinstance(row, BenchRow)), key=lambda row: row.timing.median_us)
    for row in fastest:
        record = row.kernel.record or _record(row, plan, target, store)
        if record is not None:
            seen = observed(row, gpu_of(target), store) if plan.energy else row
            searched = {"code": search_digest(), "budget": max([plan.budget, *map(searched_with, on_file)])}
            kernel = keep(row.kernel, {**benched(record, seen), "suite": searched}, plan)
            for loser in on_file:
                if loser.source.name != kernel.source.name:
                    retire(loser)
            return kernel
    failure = next((row for row in rows if isinstance(row, Failure)), None)
    raise CandidateFailed(failure) if failure else GemmgenError("every kernel on file is wrong")


def _searched(
    problem: Problem, known: Sequence[KernelFile], plan: SuitePlan, target: Target, store: Store
) -> tuple[list[KernelFile], list[KernelFile]]:
    """Return the verified winner of a search, and the finalists among which it was chosen, which are not verified.

    The search starts with the configs of `known`.
    """
    start = [config_of(kernel.source) for kernel in known]
    result = tune(problem, target, store, budget=plan.budget, start=start)
    found = KernelFile(result.winner.source, provenance(result.winner, Origin.of(target, plan.command)))
    return [found], [KernelFile(trial.source) for trial in result.finalists if trial.failure is None]


def _rival(kernel: KernelFile, target: Target) -> KernelFile | None:
    """The kernel on file as rendered today. Its record counts only if exactly this text passed."""
    if config_today(kernel.source, target.spec.arch.limits) is None:
        return None
    source = rendered_again(kernel.source, kernel.arch)
    stands = source.text == kernel.source.text and verified_on_gpu(kernel)
    return KernelFile(source, kernel.record if stands else None)


def _record(row: BenchRow, plan: SuitePlan, target: Target, store: Store) -> Document | None:
    """A new record for a kernel whose old one does not hold; None if the kernel is wrong."""
    source = row.kernel.source
    verdict = verify(gpu_of(target), source, examples=examples_for(source.problem))
    if not verdict.passed:
        return None
    lowered = plan_of(source)
    compiled = compile_kernel(source, target.arch, store)
    prediction = predict(lowered, target.spec, compiled.registers)
    trial = Trial(source, lowered, prediction, compiled, verdict, row.timing)
    return provenance(trial, Origin.of(target, plan.command))


def gpu_of(target: Target) -> GpuExecutor:
    assert target.gpu is not None
    return target.gpu
