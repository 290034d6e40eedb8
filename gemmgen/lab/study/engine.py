"""One engine for every study: compile, verify, time all points in turns, and explain each.

Without a GPU the emulator verifies and times come from the model: every figure then says "predicted".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gemmgen.exports.kernelfile import KernelFile
from gemmgen.families import FAMILIES
from gemmgen.families.base import first_rejection
from gemmgen.judge.explain import Explanation, cuda_cores, explain, roofline
from gemmgen.kernel.model import predict, representative
from gemmgen.lab.study.points import Study, StudyPoint, config_for
from gemmgen.lab.study.reasons import against, spill_accesses, why, why_rejected
from gemmgen.problem.device import WARP, DeviceSpec
from gemmgen.problem.gemm import Case, Problem
from gemmgen.render.kernel_text import render_plan
from gemmgen.run.compile import Compilation, compile_many
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.run.gpu.timing import CAREFUL, FULL, InterleavedTimings, Timing
from gemmgen.run.target import Target
from gemmgen.search.candidate_verdicts import Verifications
from gemmgen.search.trial import Progress, Trial
from gemmgen.search.tuner import tune
from gemmgen.support.errors import CandidateFailed, Failure, require
from gemmgen.support.files import Store
from gemmgen.support.html import shown_as
from gemmgen.support.short_repr import brief
from gemmgen.support.threads import thread_pool

Kind = Literal["measured", "predicted"]


@brief
@dataclass(frozen=True)
class StudyRow:
    """A point and its results.

    trial        None if nothing could be rendered, and for cuBLASLt
    explanation  None if nothing compiled
    time_us      microseconds per launch; infinite if `failure` says why there is none
    reason       one sentence: the reason for its speed, or why it does not run
    """

    point: StudyPoint
    trial: Trial | None = None
    explanation: Explanation | None = None
    timing: Timing | None = None
    failure: Failure | None = None
    time_us: float = math.inf
    reason: str = ""

    @property
    def runs(self) -> bool:
        return self.failure is None and math.isfinite(self.time_us)

    def tflops(self, case: Case) -> float:
        return case.flops / self.time_us * 1e-6 if self.runs else 0.0


@dataclass(frozen=True)
class Limit:
    """The highest rate of the card for the problem, in TFLOPS: that of its multiplying units, or of its memory if
    lower."""

    tflops: float
    source: Literal["measured", "data sheet"]


@shown_as("study.html")
@brief
@dataclass(frozen=True)
class StudyResult:
    """A study on one card.

    kind    the kind of all its times
    runner  what measured or verified: card and driver, or the emulator's compiler
    """

    study: Study
    problem: Problem
    device: DeviceSpec
    arch: str
    executor: str
    runner: str
    kind: Kind
    limit: Limit
    rows: tuple[StudyRow, ...]

    @property
    def case(self) -> Case:
        return representative(self.problem)

    @property
    def best(self) -> StudyRow | None:
        """The fastest of our kernels, or None if none runs."""
        ours = [row for row in self.rows if row.runs and row.trial is not None]
        return min(ours, key=lambda row: row.time_us, default=None)


def run_study(
    study: Study,
    problem: Problem,
    target: Target,
    store: Store,
    *,
    budget: int | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Run every point of `study`. A point that cannot be rendered, compiled, launched or verified is a row with its
    reason.

    `budget` bounds the search for a tuned winner. Raises InvalidInput for K = 0, GemmgenError if that search finds
    nothing, and CandidateFailed (unavailable) if this machine lacks a compiler.
    """
    require(representative(problem).k > 0, f"{problem}: with K = 0 there is no rate to study")
    return _Run(study, problem, target, store, progress or Progress()).result(budget)


def spill_us(it: Explanation) -> float:
    """Microseconds that spilled registers add to a prediction, which does not know of spills.

    Each access of a warp to local memory takes one cycle of the L1 cache, like a read of shared memory. It is assumed
    that all accesses hit, and that none overlaps the FMAs.
    """
    per_fma = spill_accesses(it)
    if it.compiled is None or not it.compiled.spill_bytes or per_fma is None:
        return 0.0
    warps = -(-it.kernel.source.launch.threads // WARP) * -(-it.kernel.source.launch.blocks(it.case) // it.device.sms)
    thread = it.tiles[-1]
    fmas = warps * thread.rows * thread.cols * it.case.k
    return fmas * per_fma / it.device.clock_ghz / 1000


@dataclass
class _Run:
    """The stages of one study, and what they share."""

    study: Study
    problem: Problem
    target: Target
    store: Store
    progress: Progress
    rows: list[StudyRow] = field(default_factory=list)

    def result(self, budget: int | None) -> StudyResult:
        rows = self._verify(self._compile([self._render(point, budget) for point in self.study.points]))
        rows = self._time(self._explain(rows))
        by_label, target = {row.point.label: row for row in rows}, self.target
        return StudyResult(
            study=self.study,
            problem=self.problem,
            device=target.spec,
            arch=target.arch,
            executor=target.executor.name,
            runner=target.executor.description,
            kind="predicted" if target.gpu is None else "measured",
            limit=self._limit(rows),
            rows=tuple(replace(row, reason=_reason(row, by_label.get(row.point.against))) for row in rows),
        )

    def _render(self, point: StudyPoint, budget: int | None) -> StudyRow:
        if point.maker == "search":
            winner = tune(self.problem, self.target, self.store, budget=budget, progress=self.progress).winner
            return StudyRow(point, Trial(winner.source, winner.plan, winner.prediction))
        if point.maker == "cuBLASLt":
            return StudyRow(point)
        spec, family, config = self.target.spec, FAMILIES[point.family], config_for(self.problem, point)
        rejection = first_rejection(family, self.problem, config, spec.arch.limits)
        if rejection is not None:
            reason = why_rejected(self.problem, family, config, rejection, spec.arch.limits)
            return StudyRow(point, failure=Failure("rejected", reason, rejection.constraint.expression))
        plan = family.plan(self.problem, config)
        return StudyRow(point, Trial(render_plan(plan, self.target.arch), plan, predict(plan, spec)))

    def _compile(self, rows: Sequence[StudyRow]) -> list[StudyRow]:
        """Compile what was rendered. Kernels that spill stay, as a study is to show them."""
        sources = [row.trial.source for row in rows if row.trial is not None]
        self.progress.stage("compile", len(sources))
        results = iter(
            compile_many(sources, self.target.arch, self.store, lambda *_: self.progress.step("compile", None))
        )
        return [row if row.trial is None else self._compiled(row, row.trial, next(results)) for row in rows]

    def _compiled(self, row: StudyRow, trial: Trial, result: Compilation) -> StudyRow:
        if isinstance(result, Failure):
            return _with_trial(row, replace(trial, failure=result))
        prediction = predict(trial.plan, self.target.spec, result.registers)
        return _with_trial(row, replace(trial, compiled=result, prediction=prediction))

    def _verify(self, rows: Sequence[StudyRow]) -> list[StudyRow]:
        verifications = Verifications(self.problem, self.target, self.store, 0, self.progress)
        alive = [row.trial for row in rows if row.trial is not None]
        verified = iter(verifications.all(alive))
        return [row if row.trial is None else _with_trial(row, next(verified)) for row in rows]

    def _explain(self, rows: Sequence[StudyRow]) -> list[StudyRow]:
        self.progress.stage("explain", len(rows))
        with thread_pool() as pool:  # each waits for a disassembler
            return list(pool.map(self._explained, rows))

    def _explained(self, row: StudyRow) -> StudyRow:
        if row.trial is None or row.trial.compiled is None:
            return row
        it = explain(KernelFile(row.trial.source), self.target.arch, self.target.spec, self.store)
        self.progress.step("explain", None)
        return replace(row, explanation=it)

    def _time(self, rows: list[StudyRow]) -> list[StudyRow]:
        gpu = self.target.gpu
        if gpu is None:
            return [_predicted(row) for row in rows]
        self.progress.stage("measure", 1)
        rows = _measured(rows, gpu, self.problem)
        self.progress.step("measure", None)
        return rows

    def _limit(self, rows: Sequence[StudyRow]) -> Limit:
        case, gpu = representative(self.problem), self.target.gpu
        tensor = [it.roofline.tflops for row in rows if (it := row.explanation) and row.trial and row.trial.plan.mma]
        if tensor:
            return Limit(max(tensor), "data sheet")
        if gpu is None:
            return Limit(roofline(case, self.target.spec, cuda_cores(case, self.target.spec)).tflops, "data sheet")
        return Limit(gpu.limits().roof(case).tflops, "measured")


def _with_trial(row: StudyRow, trial: Trial) -> StudyRow:
    """`row` with its trial. A missing compiler is not a property of the row: it ends the study."""
    if trial.failure is not None and trial.failure.kind == "unavailable":
        raise CandidateFailed(trial.failure)
    return replace(row, trial=trial, failure=trial.failure)


def _predicted(row: StudyRow) -> StudyRow:
    if row.point.maker == "cuBLASLt":
        reason = "cuBLASLt's time is measured, never predicted: it needs a GPU"
        return replace(row, failure=Failure("unavailable", reason, "gpu"))
    if row.failure is not None or row.trial is None or row.explanation is None:
        return row
    return replace(row, time_us=row.trial.prediction.time_us + spill_us(row.explanation))


def _measured(rows: Sequence[StudyRow], gpu: GpuExecutor, problem: Problem) -> list[StudyRow]:
    """Time all that runs in turns, A B C A B C, including cuBLASLt, so that ratios are paired."""
    loaded = [_load(row, gpu) for row in rows]
    kernels = [kernel for kernel in loaded if isinstance(kernel, GpuKernel)]
    wants_baseline = any(row.point.maker == "cuBLASLt" for row in rows)
    try:
        comparison, missing = _compare(kernels, gpu, representative(problem), wants_baseline)
    finally:
        for kernel in kernels:
            kernel.close()
    timings = iter(comparison.timings)
    found = [next(timings) if isinstance(kernel, GpuKernel) else kernel for kernel in loaded]
    baseline = missing if comparison.baseline is None else comparison.baseline.timing
    return [
        _timed(row, baseline if row.point.maker == "cuBLASLt" else timing)
        for row, timing in zip(rows, found, strict=True)
    ]


def _load(row: StudyRow, gpu: GpuExecutor) -> GpuKernel | Failure | None:
    """The row's kernel, loaded; its failure; or None for a row without a kernel."""
    if row.failure is not None or row.trial is None or row.trial.compiled is None:
        return row.failure
    try:
        return gpu.load_compiled(row.trial.source, row.trial.compiled)
    except CandidateFailed as error:
        return error.failure


def _compare(
    kernels: Sequence[GpuKernel], gpu: GpuExecutor, case: Case, baseline: bool
) -> tuple[InterleavedTimings, Failure | None]:
    """Return the timings, and the reason if a requested baseline is not available."""
    try:
        comparison = gpu.measure_many(kernels, case, CAREFUL, beside=FULL if baseline else None)
        return comparison, comparison.lacking
    except CandidateFailed as error:
        if not baseline:
            raise
        return gpu.measure_many(kernels, case, CAREFUL), error.failure


def _timed(row: StudyRow, timing: Timing | Failure | None) -> StudyRow:
    if isinstance(timing, Timing):
        trial = None if row.trial is None else replace(row.trial, timing=timing)
        return replace(row, trial=trial, timing=timing, time_us=timing.median_us)
    return replace(row, failure=timing)


def _reason(row: StudyRow, other: StudyRow | None) -> str:
    """The reason why it does not run; or what it gains over `other`, and what the compiled kernel explains."""
    parts = [row.failure.reason] if row.failure is not None else []
    if other is not None and row.runs and other.runs:
        parts.append(_gain(row, other))
    if row.explanation is not None:
        parts.append(why(row.explanation))
    return "; ".join(parts)


def _gain(row: StudyRow, other: StudyRow) -> str:
    gain = f"{other.time_us / row.time_us:.2f}x as fast as {other.point.label}"
    if row.explanation is None or other.explanation is None:
        return gain
    return f"{gain}, with {against(row.explanation, other.explanation)}"
