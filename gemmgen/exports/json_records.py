"""The program's records as JSON-ready dictionaries, for `--json` and NAME.json.

Every time is marked as "measured" (and how) or "predicted" (and for which card of the model). Figures that are not
finite become null, so that every document is plain JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from gemmgen.kernel.model import Prediction, representative
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DeviceSpec
from gemmgen.problem.gemm import Case, Problem
from gemmgen.problem.sizes import RUNTIME
from gemmgen.support.errors import Failure
from gemmgen.support.stamp import gemmgen_version, now

if TYPE_CHECKING:  # whose records are read here, and not made: `gemmgen generate` has none of them
    from gemmgen.run.compile import CompiledKernel
    from gemmgen.run.gpu.power import Observed
    from gemmgen.run.gpu.timing import Timing
    from gemmgen.run.target import Target
    from gemmgen.search.result import TuneResult
    from gemmgen.search.space import Space
    from gemmgen.search.trial import Trial
    from gemmgen.verification.sanitizers.tool import SanitizerResult
    from gemmgen.verification.situation import Situation
    from gemmgen.verification.verifier import Verdict
    from gemmgen.verification.with_nvrtc import CudaCheck

Document = dict[str, Any]

VERDICTS = ("verification", "emulator")  # entries of a record that say what ran of its text


@dataclass(frozen=True)
class Origin:
    """The origin of a result: the card (or its data sheet), the executor and the command.

    device    the card whose figures the model uses, or that measured
    executor  "gpu" or "emulator", with its description; "none" if nothing ran
    """

    arch: str
    device: str
    executor: str
    executor_description: str
    command: str

    @classmethod
    def of(cls, target: Target, command: str) -> Origin:
        executor = target.executor
        return cls(target.arch, target.spec.name, executor.name, executor.description, command)

    @classmethod
    def unrun(cls, arch: str, spec: DeviceSpec, command: str) -> Origin:
        """The origin of a kernel that was rendered, but neither compiled nor run."""
        return cls(arch, spec.name, "none", "nothing ran", command)


def provenance(trial: Trial, origin: Origin) -> Document:
    """The contents of NAME.json: all that is known about a kernel, beside its `.cu`."""
    return {
        **kernel_document(trial.source),
        "arch": origin.arch,
        "resources": compiled_document(trial.compiled),
        "verification": verdict_document(trial.verdict),
        "time": time_document(trial),
        "device": origin.device,
        "executor": {"name": origin.executor, "description": origin.executor_description},
        "compiler": trial.compiled.compiler if trial.compiled else None,
        "gemmgen": gemmgen_version(),
        "command": origin.command,
        "date": now(),
    }


def kernel_document(source: KernelSource) -> Document:
    """A kernel and how to launch it."""
    return {
        "name": source.name,
        "problem": problem_document(source.problem),
        "family": source.family,
        "config": source.config,
        **source.contract.interface,
        "sha256": source.digest,
    }


def problem_document(problem: Problem) -> Document:
    """The problem: sizes as numbers, or "?" for parameters of the kernel."""
    return {
        **{name: _size(getattr(problem, name)) for name in ("m", "n", "k")},
        "types": {name: dtype.label for name, dtype in zip("abc", problem.types.operands, strict=True)},
        "compute": problem.types.compute.label,
        "layout": str(problem.layout),
        **{name: _size(getattr(problem, name)) for name in ("lda", "ldb", "ldc")},
        "pointer_align": problem.pointer_align,
        "ld_align": problem.ld_align,
        "batch": _size(problem.batch),
        **{name: _size(getattr(problem, name)) for name in problem.stride_sizes},
        "pointers": problem.pointers,
        "epilogue": str(problem.epilogue),
        "ld_residual": _size(problem.ld_residual),
        "stride_residual": _size(problem.stride_residual),
        **({"typical": dict(problem.typical)} if problem.typical else {}),
        **({} if problem.inputs.is_plain else {"inputs": str(problem.inputs)}),
    }


def compiled_document(compiled: CompiledKernel | None) -> Document | None:
    """The assembler's report; without advisories if there are none."""
    if compiled is None:
        return None
    names = ("arch", "registers", "spill_bytes", "stack_bytes", "shared_bytes", "compiler", "flags", "advisories")
    return {name: value for name in names if (value := getattr(compiled, name)) != ()}


def prediction_document(prediction: Prediction) -> Document:
    """The model's view: resources, occupancy, waves."""
    return {**asdict(prediction), "time_us": _finite(prediction.time_us), "waves": _finite(prediction.waves)}


def time_document(trial: Trial) -> Document:
    """The kernel's time for the case that stands for its problem, marked as measured or predicted."""
    case = representative(trial.source.problem)
    if trial.timing is not None:
        return timing_document(trial.timing, case)
    prediction = trial.prediction
    return {
        "kind": "predicted",
        "device": prediction.device,
        "us": _finite(prediction.time_us),
        "tflops": prediction.tflops(case),
        "bound": prediction.bound,
        "case": case_document(case),
    }


def timing_document(timing: Timing, case: Case) -> Document:
    """A measurement: median, spread, every sample and the protocol."""
    return {
        "kind": "measured",
        "us": timing.median_us,
        "tflops": timing.tflops(case),
        "gbs": timing.gbs(case),
        "spread": timing.spread,
        "samples_us": timing.samples_us,
        "protocol": timing.protocol,
        **({} if timing.conditions is None else {"conditions": {**asdict(timing.conditions), "place": timing.place}}),
        "case": case_document(case),
    }


def observed_document(seen: Observed, case: Case) -> Document:
    """Energy, power and clocks of one kernel, with its TFLOPS per watt."""
    return {**asdict(seen), "tflops_per_w": seen.tflops_per_w(case.flops), "date": now()}


def case_document(case: Case) -> Document:
    """The numbers of one launch."""
    return _all_finite(case.values)


def verdicts_of(record: Mapping[str, Any]) -> list[Document]:
    """The verdicts in a record, of either executor."""
    return [verdict for name in VERDICTS if (verdict := record.get(name))]


def verdict_document(verdict: Verdict | None) -> Document | None:
    """The result of verification; null if there was none."""
    if verdict is None:
        return None
    errors, bits, coverage = verdict.errors, verdict.determinism, verdict.coverage
    return {
        "passed": verdict.passed,
        "executor": verdict.executor,
        "examples": verdict.examples,
        "seed": verdict.seed,
        "sampled": verdict.sampled,
        "worst_error_over_bound": _finite(verdict.worst),
        "errors": None
        if errors is None
        else {**asdict(errors), "quantiles": {str(share): ratio for share, ratio in errors.quantiles}},
        "determinism": None if bits is None else {"same_bits": bits.difference is None, **asdict(bits)},
        "domain": None if verdict.domain is None else asdict(verdict.domain),
        "coverage": None if coverage is None else {**asdict(coverage), "taken": coverage.taken},
        "assumes": list(verdict.assumes),
        "replayed": None if verdict.replayed is None else asdict(verdict.replayed),
        "failure": failure_document(verdict.failure),
        "depends": verdict.depends,
        "situation": _situation(verdict.situation),
        "mismatch": None if verdict.mismatch is None else _all_finite(asdict(verdict.mismatch)),
        "sanitizers": [sanitizer_document(result) for result in verdict.sanitizers],
    }


def cuda_document(check: CudaCheck | None) -> Document | None:
    """The CUDA compiler's result for the text; null if the executor is a GPU, which runs exactly that."""
    return None if check is None else {**asdict(check), "failure": failure_document(check.failure)}


def sanitizer_document(result: SanitizerResult) -> Document:
    """The result of one tool of compute-sanitizer."""
    findings = [{**asdict(finding), "situation": _situation(finding.situation)} for finding in result.findings]
    return {
        "tool": result.tool,
        "version": result.version,
        "situations": result.situations,
        "sampled": result.sampled,
        "stopped": result.stopped,
        "passed": result.failure is None,
        "failure": failure_document(result.failure),
        "findings": findings,
    }


def failure_document(failure: Failure | None) -> Document | None:
    """The reason of a failure; null if there is none."""
    return None if failure is None else asdict(failure)


def trial_document(trial: Trial) -> Document:
    """One candidate of a search with all its results."""
    return {
        "name": trial.source.name,
        "family": trial.source.family,
        "config": trial.source.config,
        "state": "accepted" if trial.failure is None else "rejected",
        "failure": failure_document(trial.failure),
        "resources": compiled_document(trial.compiled),
        "prediction": prediction_document(trial.prediction),
        "verification": verdict_document(trial.verdict),
        "time": time_document(trial),
    }


def space_document(space: Space) -> Document:
    """The axes, and how many configs the rules leave."""
    return {
        "problem": problem_document(space.problem),
        "family": space.family.name,
        "axes": [asdict(axis) for axis in space.family.config_type.axes()],
        "configs": space.total,
        "accepted": len(space.accepted),
        "rejected": [
            {"expression": rule.expression, "because": rule.because, "configs": count} for rule, count in space.rejected
        ],
    }


def tune_document(result: TuneResult, files: Sequence[str]) -> Document:
    """A search: its space, every candidate, the winner and its ties, and the files written."""
    return {
        "problem": problem_document(result.problem),
        "device": result.target,
        "arch": result.arch,
        "executor": result.executor,
        "spaces": [space_document(space) for space in result.spaces],
        "candidates": [trial_document(trial) for trial in result.trials],
        "winner": trial_document(result.winner),
        "ties": [trial.source.name for trial in result.ties],
        "experience": [str(config) for config in result.experience],
        "seconds": dict(result.seconds),
        "files": list(files),
    }


def _situation(situation: Situation | None) -> Document | None:
    if situation is None:
        return None
    return {"case": case_document(situation.case), "data": situation.data, "seed": situation.seed}


def _size(size: int | Literal["dense"] | None) -> int | str:
    return RUNTIME if size is None else size


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _all_finite(fields: Mapping[str, float | str | None]) -> Document:
    """`fields`, with NaN and infinities as text."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }
