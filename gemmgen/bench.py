"""Ours against cuBLASLt's best, interleaved in one run, and both against the card's own measured limits."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from gemmgen.compile import compile_kernel
from gemmgen.errors import CandidateFailed, GemmgenError
from gemmgen.files import Store
from gemmgen.gpu import why_no_gpu
from gemmgen.gpu.executor import GpuExecutor
from gemmgen.gpu.limits import MeasuredLimits
from gemmgen.gpu.timing import CAREFUL, Baseline, Timing, speedup
from gemmgen.kernelfile import GALLERY, KernelFile, kernels_in, read_kernel, write_kernel, write_record
from gemmgen.model import representative
from gemmgen.problem import Case, Problem
from gemmgen.records import Document, Origin, provenance, timing_document, verdict_document
from gemmgen.target import Target
from gemmgen.tuner import Progress, examples_for, tune
from gemmgen.verifier import Verdict, verify


@dataclass(frozen=True)
class Row:
    """One kernel beside cuBLASLt on one card.

    baseline  cuBLASLt's best heuristic, timed round by round with ours
    limits    FMA rates and bandwidths that this card reaches when it does nothing else
    """

    kernel: KernelFile
    case: Case
    card: str
    timing: Timing
    baseline: Baseline
    limits: MeasuredLimits

    @property
    def speedup(self) -> float:
        """Median over the rounds of cuBLASLt's time over ours: above 1 ours is faster."""
        return speedup(self.timing, self.baseline.timing)

    @property
    def roof_tflops(self) -> float:
        """The most that the card's measured FMA rate, or its read bandwidth, allows."""
        return self.limits.roof_tflops(self.case)

    def document(self) -> Document:
        """As JSON-ready data; also the entry "bench" of NAME.json."""
        best = self.baseline
        return {
            "name": self.kernel.source.name,
            "card": self.card,
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "ours": timing_document(self.timing, self.case),
            "cublaslt": {
                **timing_document(best.timing, self.case),
                "version": best.version,
                "algorithm": best.algorithm,
                "offered": best.offered,
                "first_us": best.first.median_us,
            },
            "speedup": self.speedup,
            "limits": asdict(self.limits),
            "roof_tflops": self.roof_tflops,
        }


def require_gpu() -> None:
    """Raise GemmgenError where nothing can be measured."""
    missing = why_no_gpu()
    if missing is not None:
        raise GemmgenError(f"bench measures, and needs a GPU: {missing}")


def measure(kernel: KernelFile, gpu: GpuExecutor, store: Store) -> Row:
    """Verify `kernel` if its record does not say that it was, then time it beside cuBLASLt; updates NAME.json.

    Raises CandidateFailed where it is wrong, does not run, or there is no cuBLASLt.
    """
    source = kernel.source
    case = representative(source.problem)
    verdict = None if _verified_on_gpu(kernel) else _verified(kernel, gpu)
    loaded = gpu.load_compiled(source, compile_kernel(source, gpu.arch, store))
    comparison = gpu.measure_many([loaded], case, CAREFUL, baseline=True)
    loaded.close()
    (timing,) = comparison.timings
    if not isinstance(timing, Timing):
        raise CandidateFailed(timing)
    assert comparison.baseline is not None
    row = Row(kernel, case, gpu.description, timing, comparison.baseline, gpu.limits())
    _keep(row, verdict)
    return row


def tuned(problem: Problem, target: Target, store: Store, out: Path, command: str, progress: Progress) -> KernelFile:
    """The winner for `problem` that is on file, else one that is tuned now and written to `out`."""
    known = winner_on_file(problem, target.arch, out)
    if known is not None:
        return known
    best = tune(problem, target, store, progress=progress).winner
    path, _ = write_kernel(best.source, provenance(best, Origin.of(target, command)), out)
    return read_kernel(path)


def winner_on_file(problem: Problem, arch: str, out: Path) -> KernelFile | None:
    """The fastest kernel for `problem` in `out` or generated/ARCH, measured on `arch` and not edited since."""
    timed = [
        (us, kernel)
        for folder in (out, GALLERY / arch)
        for kernel in kernels_in(folder)
        if kernel.source.problem == problem and not kernel.edited and (us := _measured_us(kernel, arch)) is not None
    ]
    return min(timed, key=lambda pair: pair[0])[1] if timed else None


def _measured_us(kernel: KernelFile, arch: str) -> float | None:
    """The time in its record, if that was measured on `arch`."""
    time = kernel.measured_time
    return float(time["us"]) if time and kernel.record and kernel.record.get("arch") == arch else None


def _verified_on_gpu(kernel: KernelFile) -> bool:
    verification = kernel.record.get("verification") if kernel.record else None
    return bool(verification and verification["passed"] and verification["executor"] == "gpu" and not kernel.edited)


def _verified(kernel: KernelFile, gpu: GpuExecutor) -> Verdict:
    verdict = verify(gpu, kernel.source, examples=examples_for(kernel.source.problem))
    if verdict.failure is not None:
        raise CandidateFailed(verdict.failure)
    return verdict


def _keep(row: Row, verdict: Verdict | None) -> None:
    """Put the result into NAME.json, if the kernel has one and it is of this text."""
    kernel = row.kernel
    if kernel.path is None or kernel.record is None or kernel.edited:
        return
    document = row.document()
    record = {**kernel.record, "time": document["ours"], "bench": document, "device": row.limits.card}
    if verdict is not None:
        record["verification"] = verdict_document(verdict)
    write_record(kernel.path.with_suffix(".json"), json.loads(json.dumps(record)))
