"""The steps "sanitize" and "emulate": several kernels on file at a time, each judged in its own process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgen.exports.json_records import Document, sanitizer_document, verdict_document
from gemmgen.exports.kernelfile import KernelFile, update_record
from gemmgen.kernel.source import KernelSource
from gemmgen.lab.suite.plan import ROW_FAILS, ShapeOutcome, Step, SuitePlan, outcome_of
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.search.candidate_verdicts import examples_for
from gemmgen.support.child import Child, crew, spread
from gemmgen.support.errors import Failure
from gemmgen.support.files import Store
from gemmgen.support.stamp import now
from gemmgen.verification.parallel import VerifyJob, emulator_lanes
from gemmgen.verification.sanitizers.tool import TIMEOUT, TOOLS, SanitizerResult
from gemmgen.verification.verifier import Verdict
from gemmgen.verification.with_sanitizers import sanitize

WATCHED_AT_ONCE = 4  # kernels under compute-sanitizer, which share one card: eight took as long (H100, 2026-11-27)


@dataclass(frozen=True)
class Check:
    """A step that judges winners on file.

    lanes    starts the processes for so many kernels
    message  the request for a kernel
    done     whether a record says that the kernel passed
    failure  the failure in an answer
    entries  the record with an answer added
    theirs   entries of another card's record of the same text that hold here, too
    """

    step: Step
    lanes: Callable[[Sequence[KernelFile]], list[Child]]
    message: Callable[[KernelSource], object]
    done: Callable[[Document], bool]
    failure: Callable[[Any], Failure | None]
    entries: Callable[[Document, Any], Document]
    theirs: Callable[[Document], Document]


class Watcher:
    """The child's side of "sanitize": a kernel under every tool of compute-sanitizer."""

    def __init__(self, store: str) -> None:
        self._gpu = GpuExecutor(Store(Path(store)))

    def __call__(self, source: KernelSource) -> tuple[SanitizerResult, ...]:
        unjudged = Verdict(self._gpu.name, examples=0, seed=0, worst=0.0)
        return sanitize(self._gpu, source, unjudged, TOOLS, timeout=WATCHED_AT_ONCE * TIMEOUT).sanitizers


def sanitizer_check(store: Store, card: str) -> Check:
    """The check under compute-sanitizer, on the GPU: `card`, which need not be that of the records."""

    def lanes(kernels: Sequence[KernelFile]) -> list[Child]:
        return [Child(f"{__name__}:Watcher", str(store.root)) for _ in range(min(WATCHED_AT_ONCE, len(kernels)))]

    def entries(record: Document, results: Sequence[SanitizerResult]) -> Document:
        return {**record, "sanitizers": [{**sanitizer_document(result), "card": card} for result in results]}

    return Check(
        "sanitize",
        lanes,
        lambda source: source,
        lambda record: "sanitizers" in record and all(tool["passed"] for tool in record["sanitizers"]),
        lambda results: next((result.failure for result in results if result.failure is not None), None),
        entries,
        lambda twin: {"sanitizers": [{"card": twin["device"], **tool} for tool in twin["sanitizers"]]},
    )


def emulator_check(store: Store, processes: int | None = None) -> Check:
    """The check in the emulator, on any machine; a record must have the coverage of the text.

    Raises CandidateFailed (unavailable).
    """
    emulator = EmulatorExecutor(store)

    def entries(record: Document, verdict: Verdict) -> Document:
        document = verdict_document(verdict) or {}
        return {**record, "emulator": {**document, "description": emulator.description, "date": now()}}

    return Check(
        "emulate",
        lambda kernels: emulator_lanes(emulator, [kernel.source.problem for kernel in kernels], processes),
        lambda source: VerifyJob(source, examples_for(source.problem)),
        lambda record: (
            (verdict := record.get("emulator") or {}).get("passed") is True and bool(verdict.get("coverage"))
        ),
        lambda verdict: verdict.failure,
        entries,
        lambda twin: {"emulator": twin["emulator"]},
    )


def check_all(check: Check, plan: SuitePlan, on_done: Callable[[ShapeOutcome], None]) -> None:
    """Judge each kernel on file that is not judged yet; write each answer to the kernel's record at once."""
    kernels = plan.judged_by(check.step)
    judged = [] if plan.again else [kernel for kernel in kernels if check.done(dict(kernel.record or {}))]
    judged += [] if plan.again else [one for one in kernels if one not in judged and _taken(check, plan, one)]
    for kernel in judged:
        on_done(outcome_of(check.step, kernel, "on file", time.monotonic()))
    left = [kernel for kernel in kernels if kernel not in judged]
    if not left or plan.late:
        return

    def ask(lane: Child, kernel: KernelFile) -> ShapeOutcome | None:
        if plan.late:
            return None
        started = time.monotonic()
        try:
            answer = lane.request(check.message(kernel.source))
            update_record(kernel, lambda record: check.entries(record, answer))
        except ROW_FAILS as error:
            return outcome_of(check.step, kernel, "failed", started, str(error) or type(error).__name__)
        failure = check.failure(answer)
        if failure is None:
            return outcome_of(check.step, kernel, "done", started)
        return outcome_of(check.step, kernel, "failed", started, f"{failure.kind} ({failure.source}): {failure.reason}")

    with crew(check.lanes(left)) as lanes:
        spread(lanes, left, ask, lambda kernel, outcome: None if outcome is None else on_done(outcome))


def _taken(check: Check, plan: SuitePlan, kernel: KernelFile) -> bool:
    """Whether another card's record of the text has the answer; it is then copied into this one."""
    twin = next((one for one in plan.twins(kernel) if check.done(one)), None)
    if twin is None:
        return False
    update_record(kernel, lambda record: {**record, **check.theirs(twin)})
    return True
