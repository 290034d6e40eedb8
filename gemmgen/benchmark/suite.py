"""The performance suite: every shape tuned, benched beside cuBLASLt, verified on GPU and emulator, and sanitized.

Each result is a file of its own as soon as it is there: an interrupted run goes on where it was, and parts that ran on
several cards merge by copying. What fails is a row with its reason and ends nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import gemmgen.kernel
from gemmgen.artifacts.kernelfile import KernelFile, kernels_in, read_kernel, write_kernel, write_record
from gemmgen.artifacts.records import (
    Document,
    Origin,
    problem_document,
    provenance,
    sanitizer_document,
    verdict_document,
)
from gemmgen.benchmark.bench import BenchRow, benched, compare, verified_on_gpu
from gemmgen.benchmark.scores import failure_path, is_winner, write_failure
from gemmgen.kernel.again import rendered_again
from gemmgen.kernel.families import config_of, plan_of
from gemmgen.kernel.families.base import check
from gemmgen.kernel.model import predict
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.gemm import Problem
from gemmgen.run.compile import compile_kernel
from gemmgen.run.emulator import EmulatorExecutor
from gemmgen.run.emulator.compiler import HostCompiler
from gemmgen.run.gpu import why_no_gpu
from gemmgen.run.gpu.executor import GpuExecutor
from gemmgen.run.target import Target, open_target
from gemmgen.search.trial import Trial
from gemmgen.search.tuner import tune
from gemmgen.search.verifying import examples_for
from gemmgen.support.child import Child, crew, spread
from gemmgen.support.clock import now
from gemmgen.support.errors import CandidateFailed, Failure, GemmgenError, InvalidInput
from gemmgen.support.files import Store, code_digest, content_key
from gemmgen.support.paths import TEMPLATES
from gemmgen.verification.host_memory import require_memory
from gemmgen.verification.journal import VerifyJob
from gemmgen.verification.lanes import emulator_lanes
from gemmgen.verification.sanitizers.tool import TIMEOUT, TOOLS, SanitizerResult, why_no_sanitizer
from gemmgen.verification.verifier import Verdict, verify
from gemmgen.verification.with_sanitizers import sanitize

Step = Literal["measure", "sanitize", "emulate"]
State = Literal["done", "on file", "failed"]
STEPS: tuple[Step, ...] = ("measure", "sanitize", "emulate")
BUDGET = 192  # candidates of a search: what goes on file is worth more of them than `tune` tries
WATCHED_AT_ONCE = 4  # kernels under compute-sanitizer, which share one card
ROW_FAILS = (GemmgenError, OSError, MemoryError)  # what costs one row and not the run
VERDICTS = ("emulator", "sanitizers")  # entries of a record beside "verification", which is the GPU's
NOT_KERNELS = ("host", "plain", "export")  # folders of templates that no rendered kernel includes


@dataclass(frozen=True)
class ShapeOutcome:
    """What became of one problem in one step.

    state    "done", "on file" (it was already), or "failed" for `reason`
    ratio    cuBLASLt's time over the winner's, where both are measured
    """

    step: Step
    problem: Problem
    state: State
    seconds: float
    kernel: str | None = None
    ratio: float | None = None
    reason: str | None = None

    def document(self) -> Document:
        """As JSON-ready data."""
        return {**asdict(self), "problem": problem_document(self.problem)}


@dataclass(frozen=True)
class SuitePlan:
    """What to run, and where the results lie.

    folder    of kernels and records
    budget    candidates of each search; 0 searches none, and benches what is on file
    again     redo what is on file
    deadline  of time.monotonic(): nothing starts later; None: no limit
    processes kernels in the emulator at a time, at most; None: one a core
    command   what the records say that they were made by
    """

    problems: tuple[Problem, ...]
    folder: Path
    command: str
    budget: int = BUDGET
    again: bool = False
    deadline: float | None = None
    processes: int | None = None

    @property
    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def winners(self) -> list[KernelFile]:
        """Those of `on_file` that stand for their problems."""
        return [kernel for kernel in self.on_file() if is_winner(kernel)]

    def on_file(self) -> list[KernelFile]:
        """The kernels for its problems, in their order, which nobody edited; rungs of ladders among them."""
        place = {problem: index for index, problem in enumerate(self.problems)}
        found = [kernel for kernel in kernels_in(self.folder) if not kernel.edited]
        known = [kernel for kernel in found if kernel.source.problem in place]
        return sorted(known, key=lambda kernel: place[kernel.source.problem])

    def judged_by(self, step: Step) -> list[KernelFile]:
        """What `step`, which is no measurement, has to judge: the emulator counts coverage of rungs, too."""
        return self.on_file() if step == "emulate" else self.winners()


def missing_for(step: Step) -> str | None:
    """What this machine lacks for `step`, and how to get it; None where nothing is."""
    if step != "emulate":
        return why_no_gpu() if step == "measure" else why_no_sanitizer()
    try:
        HostCompiler.find()
    except CandidateFailed as error:
        return error.failure.reason
    return None


def run_step(step: Step, plan: SuitePlan, store: Store, on_done: Callable[[ShapeOutcome], None]) -> None:
    """One step of `plan`; `on_done` hears what became of each problem as it ends, in this thread.

    Raises CandidateFailed (unavailable) where something is missing.
    """
    if step == "measure":
        target = open_target("gpu", "auto", store)
        with target.executor:
            measure_all(plan, target, store, on_done)
        return
    check_all(sanitizer_check(store) if step == "sanitize" else emulator_check(store, plan.processes), plan, on_done)


@cache
def search_digest() -> str:
    """One key for what decides which kernels a search tries: templates, what makes kernels, and search."""
    modules = sorted(Path(str(gemmgen.kernel.__file__)).parent.rglob("*.py"))
    templates = (path.relative_to(TEMPLATES) for path in sorted(TEMPLATES.rglob("*.cu")))
    rendered = [TEMPLATES / path for path in templates if not {*path.parts} & {*NOT_KERNELS}]
    texts = [path.read_text() for path in (*modules, *rendered)]
    return content_key(*texts, code_digest(*(f"search/{module}.py" for module in ("order", "pick", "space", "tuner"))))


# Tune and bench


def measure_all(plan: SuitePlan, target: Target, store: Store, on_done: Callable[[ShapeOutcome], None]) -> None:
    """Tune and bench each problem, unless that is on file; `on_done` hears what became of each."""
    for problem in plan.problems:
        if plan.late:
            return
        on_done(_measured(problem, plan, target, store))


def _measured(problem: Problem, plan: SuitePlan, target: Target, store: Store) -> ShapeOutcome:
    started = time.monotonic()
    known = None if plan.again else _on_file(problem, plan, target)
    if known is not None:
        return _outcome("measure", known, "on file", started)
    try:
        require_memory(problem)
        kernel = _winner(problem, plan, target, store)
    except ROW_FAILS as error:
        reason = str(error) or type(error).__name__
        _keep_failure(problem, reason, plan, target)
        return ShapeOutcome("measure", problem, "failed", time.monotonic() - started, reason=reason)
    failure_path(problem, plan.folder).unlink(missing_ok=True)
    return _outcome("measure", kernel, "done", started)


def _on_file(problem: Problem, plan: SuitePlan, target: Target) -> KernelFile | None:
    """The winner that this card and this code found with a budget that is no smaller."""
    for kernel in plan.winners():
        bench = (kernel.record or {}).get("bench") or {}
        if (
            kernel.source.problem == problem
            and _budget(kernel) >= plan.budget
            and bench.get("limits", {}).get("card") == _gpu(target).properties.name
        ):
            return kernel
    return None


def _budget(kernel: KernelFile) -> int:
    """The largest budget of the searches by this code that led to the kernel; -1 where none did."""
    found = (kernel.record or {}).get("suite") or {}
    return int(found["budget"]) if found.get("code") == search_digest() else -1


def _winner(problem: Problem, plan: SuitePlan, target: Target, store: Store) -> KernelFile:
    """Search from those on file, hold the winner against them in one run, and keep the fastest that is right."""
    on_file = [kernel for kernel in plan.winners() if kernel.source.problem == problem]
    rivals = [rival for kernel in on_file if (rival := _rival(kernel, target)) is not None]
    found = _searched(problem, rivals, plan, target, store) if plan.budget else []
    contenders = list({kernel.source.name: kernel for kernel in (*rivals, *found)}.values())
    if not contenders:
        raise GemmgenError(f"no winner for {problem} is on file, and a budget of 0 searches for none")
    try:
        rows = compare(contenders, _gpu(target), store)
    except CandidateFailed:
        for kernel in found:
            _write(kernel, kernel.record or {}, plan)  # tuned and verified, if not compared
        raise
    fastest = sorted((row for row in rows if isinstance(row, BenchRow)), key=lambda row: row.timing.median_us)
    for row in fastest:
        record = row.kernel.record or _record(row, plan, target, store)
        if record is not None:
            searched = {"code": search_digest(), "budget": max([plan.budget, *map(_budget, on_file)])}
            kernel = _write(row.kernel, {**benched(record, row), **({"suite": searched} if found else {})}, plan)
            for loser in on_file:
                if loser.source.name != kernel.source.name:
                    _retire(loser)
            return kernel
    failure = next((row for row in rows if isinstance(row, Failure)), None)
    raise CandidateFailed(failure) if failure else GemmgenError("every kernel on file is wrong")


def _searched(
    problem: Problem, known: Sequence[KernelFile], plan: SuitePlan, target: Target, store: Store
) -> list[KernelFile]:
    """The one kernel that a search finds, verified; it starts with what is known."""
    start = [config_of(kernel.source) for kernel in known]
    best = tune(problem, target, store, budget=plan.budget, start=start).winner
    return [KernelFile(best.source, provenance(best, Origin.of(target, plan.command)))]


def _rival(kernel: KernelFile, target: Target) -> KernelFile | None:
    """What the kernel on file is today. Its record stands only if that is the text which passed."""
    try:
        family, config = config_of(kernel.source)
        check(family, kernel.source.problem, config, target.spec.arch.limits)
        source = rendered_again(kernel.source, kernel.arch)
    except (InvalidInput, ZeroDivisionError):  # a config that this version refuses
        return None
    stands = source.text == kernel.source.text and verified_on_gpu(kernel)
    return KernelFile(source, kernel.record if stands else None)


def _record(row: BenchRow, plan: SuitePlan, target: Target, store: Store) -> Document | None:
    """A new record of a kernel whose old one does not hold; None where it is wrong."""
    source = row.kernel.source
    verdict = verify(_gpu(target), source, examples=examples_for(source.problem))
    if not verdict.passed:
        return None
    lowered = plan_of(source)
    compiled = compile_kernel(source, target.arch, store)
    prediction = predict(lowered, target.spec, compiled.registers)
    trial = Trial(source, lowered, prediction, compiled, verdict, row.timing)
    return provenance(trial, Origin.of(target, plan.command))


def _write(kernel: KernelFile, record: Mapping[str, Any], plan: SuitePlan) -> KernelFile:
    """Write kernel and record. A rung of a ladder stays one, and verdicts on the same text stand."""
    path = plan.folder / f"{kernel.source.name}.cu"
    before = dict(read_kernel(path).record or {}) if path.exists() else {}
    kept = ["rung", *(VERDICTS if before.get("sha256") == kernel.source.digest else ())]
    write_kernel(kernel.source, {**record, **{name: before[name] for name in kept if name in before}}, plan.folder)
    return read_kernel(path)


def _retire(kernel: KernelFile) -> None:
    """Delete a kernel that is no winner any more; a rung of a ladder stays, as that alone."""
    assert kernel.path is not None
    record = kernel.record or {}
    if "rung" in record:
        kept = {name: value for name, value in record.items() if name not in ("bench", "suite")}
        write_record(kernel.path.with_suffix(".json"), kept)
        return
    for path in (kernel.path, kernel.path.with_suffix(".json")):
        path.unlink(missing_ok=True)


def _keep_failure(problem: Problem, reason: str, plan: SuitePlan, target: Target) -> None:
    document = {"problem": problem_document(problem), "reason": reason, "card": target.executor.description}
    write_failure(problem, {**document, "command": plan.command, "date": now()}, plan.folder)


# compute-sanitizer and the emulator: several kernels at a time, each in a process of its own


@dataclass(frozen=True)
class Check:
    """A step that judges winners on file.

    lanes    as many processes as serve so many kernels
    message  what one of them is asked
    done     whether a record says that the kernel passed
    failure  of an answer
    entries  of the record, with an answer
    """

    step: Step
    lanes: Callable[[Sequence[KernelFile]], list[Child]]
    message: Callable[[KernelSource], object]
    done: Callable[[Document], bool]
    failure: Callable[[Any], Failure | None]
    entries: Callable[[Document, Any], Document]


class Watcher:
    """The child's side of "sanitize": a kernel under every tool of compute-sanitizer."""

    def __init__(self, store: str) -> None:
        self._gpu = GpuExecutor(Store(Path(store)))

    def __call__(self, source: KernelSource) -> tuple[SanitizerResult, ...]:
        unjudged = Verdict(self._gpu.name, examples=0, seed=0, worst=0.0)
        return sanitize(self._gpu, source, unjudged, TOOLS, timeout=WATCHED_AT_ONCE * TIMEOUT).sanitizers


def sanitizer_check(store: Store) -> Check:
    """Under compute-sanitizer, on the GPU."""
    return Check(
        "sanitize",
        lambda kernels: [
            Child(f"{__name__}:Watcher", str(store.root)) for _ in range(min(WATCHED_AT_ONCE, len(kernels)))
        ],
        lambda source: source,
        lambda record: "sanitizers" in record and all(tool["passed"] for tool in record["sanitizers"]),
        lambda results: next((result.failure for result in results if result.failure is not None), None),
        lambda record, results: {**record, "sanitizers": [sanitizer_document(result) for result in results]},
    )


def emulator_check(store: Store, processes: int | None = None) -> Check:
    """In the emulator, on any machine; a record has to say what ran of the text.

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
        lambda record: (verdict := record.get("emulator") or {}).get("passed") is True and "coverage" in verdict,
        lambda verdict: verdict.failure,
        entries,
    )


def check_all(check: Check, plan: SuitePlan, on_done: Callable[[ShapeOutcome], None]) -> None:
    """Judge each kernel on file that is not judged yet; an answer goes into the kernel's record as it comes."""
    kernels = plan.judged_by(check.step)
    judged = [] if plan.again else [kernel for kernel in kernels if check.done(dict(kernel.record or {}))]
    for kernel in judged:
        on_done(_outcome(check.step, kernel, "on file", time.monotonic()))
    left = [kernel for kernel in kernels if kernel not in judged]
    if not left or plan.late:
        return

    def ask(lane: Child, kernel: KernelFile) -> ShapeOutcome | None:
        if plan.late:
            return None
        started = time.monotonic()
        try:
            answer = lane.request(check.message(kernel.source))
            _update(kernel, lambda record: check.entries(record, answer))
        except ROW_FAILS as error:
            return _outcome(check.step, kernel, "failed", started, str(error) or type(error).__name__)
        failure = check.failure(answer)
        if failure is None:
            return _outcome(check.step, kernel, "done", started)
        return _outcome(check.step, kernel, "failed", started, f"{failure.kind} ({failure.source}): {failure.reason}")

    with crew(check.lanes(left)) as lanes:
        spread(lanes, left, ask, lambda kernel, outcome: None if outcome is None else on_done(outcome))


def _update(kernel: KernelFile, change: Callable[[Document], Document]) -> None:
    """Change the record on file, unless it is one of another text by now."""
    assert kernel.path is not None
    on_file = read_kernel(kernel.path)
    if on_file.record is not None and on_file.source.text == kernel.source.text:
        write_record(kernel.path.with_suffix(".json"), json.loads(json.dumps(change(dict(on_file.record)))))


def _outcome(step: Step, kernel: KernelFile, state: State, started: float, reason: str | None = None) -> ShapeOutcome:
    ratio = ((kernel.record or {}).get("bench") or {}).get("speedup")
    name, seconds = kernel.source.name, time.monotonic() - started
    return ShapeOutcome(step, kernel.source.problem, state, seconds, name, ratio, reason)


def _gpu(target: Target) -> GpuExecutor:
    assert target.gpu is not None
    return target.gpu
