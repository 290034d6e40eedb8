"""Our kernel against cuBLASLt's best, interleaved in one run, and both against the card's own measured limits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from gemmgen.exports.cards import GALLERY, card_folder, card_folders, is_of_another
from gemmgen.exports.json_records import (
    Document,
    Origin,
    observed_document,
    provenance,
    timing_document,
    verdict_document,
)
from gemmgen.exports.kernelfile import KernelFile, kernels_in, read_kernel, update_record
from gemmgen.exports.writing import write_kernel
from gemmgen.families import Config, Family, config_of
from gemmgen.families.base import check
from gemmgen.judge.accuracy import Accuracy, measured
from gemmgen.kernel.model import representative
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DeviceSpec, Limits, short_name
from gemmgen.problem.gemm import Case, Problem
from gemmgen.run.compile import compile_kernel
from gemmgen.run.gpu import why_no_gpu
from gemmgen.run.gpu.executor import GpuExecutor, GpuKernel
from gemmgen.run.gpu.limits import MeasuredLimits, Roof
from gemmgen.run.gpu.lt_epilogue import baseline_epilogue
from gemmgen.run.gpu.power import ENERGY_SECONDS, Observed
from gemmgen.run.gpu.timing import CAREFUL, FULL, NORMAL, Baseline, InterleavedTimings, Timing, speedup
from gemmgen.run.target import Target
from gemmgen.search.candidate_verdicts import examples_for
from gemmgen.search.trial import Progress
from gemmgen.search.tuner import tune
from gemmgen.support.errors import CandidateFailed, Failure, GemmgenError, InvalidInput
from gemmgen.support.files import Store
from gemmgen.support.short_repr import brief
from gemmgen.support.stamp import now
from gemmgen.verification.verifier import Verdict, verify


@brief
@dataclass(frozen=True)
class BenchRow:
    """One kernel compared with cuBLASLt on one card.

    baseline  cuBLASLt's best heuristic, timed round by round with ours; None if it has no kernel for the problem
    limits    FMA rates and bandwidths that this card reaches when it does nothing else
    moving    time to move the operands' bytes alone, timed after both: that of a kernel that computes nothing
    accuracy  the accuracy of both, if ours multiplies pieces of its operands; else None
    normal    times of both on normally distributed operands, as a product's power depends on its data
    energy    readings of the card while each runs alone; None if not asked for
    """

    kernel: KernelFile
    case: Case
    card: str
    timing: Timing
    baseline: Baseline | None
    limits: MeasuredLimits
    moving: Timing | None = None
    accuracy: Accuracy | None = None
    normal: tuple[Timing, Timing] | None = None
    energy: tuple[Observed, Observed | None] | None = None

    @property
    def speedup(self) -> float | None:
        """The median over the rounds of cuBLASLt's time over ours: above 1 ours is faster."""
        return None if self.baseline is None else speedup(self.timing, self.baseline.timing)

    @property
    def normal_speedup(self) -> float | None:
        """The speedup on normally distributed data."""
        return None if self.normal is None else speedup(*self.normal)

    @property
    def roof(self) -> Roof:
        """The highest rate that the card's measured limits allow, and the limit that sets it."""
        return self.limits.roof(self.case)

    def document(self) -> Document:
        """The row as JSON-ready data; it is also the entry "bench" of NAME.json."""
        return {
            "name": self.kernel.source.name,
            "card": self.card,
            "date": now(),
            "ours": timing_document(self.timing, self.case),
            "cublaslt": self._baseline_document(),
            "speedup": self.speedup,
            "normal": self._normal_document(),
            "limits": asdict(self.limits),
            "moving_us": self.moving.median_us if self.moving else None,
            "roof_tflops": self.roof.tflops,
            "limited_by": self.roof.limit,
            **({"error": asdict(self.accuracy)} if self.accuracy is not None else {}),
            **({"energy": self._energy_document()} if self.energy is not None else {}),
        }

    def _energy_document(self) -> Document:
        pairs = zip(("ours", "cublaslt"), self.energy or (), strict=False)
        return {name: one and observed_document(one, self.case) for name, one in pairs}

    def _normal_document(self) -> Document | None:
        if self.normal is None:
            return None
        ours, theirs = self.normal
        return {"ours_us": ours.median_us, "cublaslt_us": theirs.median_us, "speedup": self.normal_speedup}

    def _baseline_document(self) -> Document | None:
        best = self.baseline
        if best is None:
            return None
        return {
            **timing_document(best.timing, self.case),
            "version": best.version,
            "epilogue": baseline_epilogue(self.case.problem),
            "algorithm": best.algorithm,
            "offered": best.offered,
            "first_us": best.first.median_us,
        }


def require_gpu() -> None:
    """Raise GemmgenError if nothing can be measured."""
    missing = why_no_gpu()
    if missing is not None:
        raise GemmgenError(f"bench measures, and needs a GPU: {missing}")


def measure(kernel: KernelFile, target: Target, store: Store, *, energy: bool = False) -> BenchRow:
    """Verify `kernel` unless its record says that it was, then time it beside cuBLASLt, and update NAME.json.

    With `energy` both also run alone for ENERGY_SECONDS, while the card reports their energy. A record of another card
    stays as it is and is not used. Raises CandidateFailed if the kernel is wrong or does not run, or if there is no
    cuBLASLt.
    """
    gpu = target.gpu
    assert gpu is not None
    foreign = of_another_card(kernel, target.spec)
    verdict = _verified(kernel, gpu) if foreign or not verified_on_gpu(kernel) else None
    (row,) = compare([kernel], gpu, store)
    if isinstance(row, Failure):
        raise CandidateFailed(row)
    if energy:
        row = observed(row, gpu, store)
    if not foreign and not (kernel.path and is_of_another(kernel.path.parent, target.spec)):
        _keep(row, verdict)
    return row


def observed(row: BenchRow, gpu: GpuExecutor, store: Store) -> BenchRow:
    """Add readings of the card to `row` while its kernel, and cuBLASLt's best, run alone for ENERGY_SECONDS.

    Raises CandidateFailed: unavailable, without NVML.
    """
    loaded = _loaded(row.kernel, gpu, store)
    if isinstance(loaded, Failure):
        raise CandidateFailed(loaded)
    try:
        return replace(row, energy=gpu.observe(loaded, row.case, ENERGY_SECONDS))
    finally:
        loaded.close()


def measure_all(
    wanted: Sequence[Problem | KernelFile],
    target: Target,
    store: Store,
    out: Path,
    command: str,
    progress: Progress,
    *,
    energy: bool = False,
) -> tuple[BenchRow, ...]:
    """`measure` each kernel and, for each problem, the kernel that is `tuned`."""
    kernels = [
        one if isinstance(one, KernelFile) else tuned(one, target, store, out, command, progress) for one in wanted
    ]
    progress.stage("bench", len(kernels))
    rows = []
    for kernel in kernels:
        rows.append(measure(kernel, target, store, energy=energy))
        progress.step("bench", None)
    return tuple(rows)


def compare(kernels: Sequence[KernelFile], gpu: GpuExecutor, store: Store) -> list[BenchRow | Failure]:
    """Time `kernels`, of one problem, and cuBLASLt's best in one run, round by round; writes nothing.

    The fastest is also compared with it on normally distributed operands. A kernel that does not compile or run is a
    Failure. Raises CandidateFailed without cuBLASLt; if cuBLASLt has no kernel for the problem, rows have no baseline.
    """
    case = representative(kernels[0].source.problem)
    loaded = [_loaded(kernel, gpu, store) for kernel in kernels]
    alive = [kernel for kernel in loaded if isinstance(kernel, GpuKernel)]
    if not alive:
        return [outcome for outcome in loaded if isinstance(outcome, Failure)]
    try:
        comparison = gpu.measure_many(alive, case, CAREFUL, beside=FULL)
        normal = _on_normal_data(gpu, alive, comparison, case)
        errors = _errors(gpu, alive, comparison, case)
    finally:
        for kernel in alive:
            kernel.close()
    baseline, timings, limits = comparison.baseline, iter(comparison.timings), gpu.limits()

    def row(kernel: KernelFile, outcome: GpuKernel | Failure) -> BenchRow | Failure:
        if isinstance(outcome, Failure):
            return outcome
        timing, name = next(timings), kernel.source.name
        if isinstance(timing, Failure):
            return timing
        both = errors.get(name), normal.get(name)
        return BenchRow(kernel, case, gpu.description, timing, baseline, limits, comparison.moving, *both)

    return [row(kernel, outcome) for kernel, outcome in zip(kernels, loaded, strict=True)]


def _on_normal_data(
    gpu: GpuExecutor, kernels: Sequence[GpuKernel], comparison: InterleavedTimings, case: Case
) -> dict[str, tuple[Timing, Timing]]:
    """The times of the fastest kernel and of the baseline on normally distributed operands, by the kernel's name."""
    pairs = zip(kernels, comparison.timings, strict=True)
    ran = [(outcome.median_us, kernel) for kernel, outcome in pairs if isinstance(outcome, Timing)]
    if not ran or comparison.baseline is None:
        return {}
    _, fastest = min(ran, key=itemgetter(0))
    again = gpu.measure_many([fastest], case, NORMAL, beside=FULL)
    (ours,) = again.timings
    if isinstance(ours, Failure) or again.baseline is None:
        return {}
    return {fastest.source.name: (ours, again.baseline.timing)}


def _errors(
    gpu: GpuExecutor, kernels: Sequence[GpuKernel], comparison: InterleavedTimings, case: Case
) -> dict[str, Accuracy]:
    """The accuracy of each kernel that multiplies pieces of its operands and ran, by name."""
    problem = case.problem
    if problem.types.compute.pieces is None or not problem.epilogue.is_linear or comparison.baseline is None:
        return {}
    pairs = zip(kernels, comparison.timings, strict=True)
    return {kernel.source.name: measured(gpu, kernel, case) for kernel, outcome in pairs if isinstance(outcome, Timing)}


def tuned(problem: Problem, target: Target, store: Store, out: Path, command: str, progress: Progress) -> KernelFile:
    """The winner for `problem` that is on file, or else one that is tuned now and written to `out`.

    The search starts with what other cards of the architecture have on file.
    """
    known = winner_on_file(problem, target.arch, target.spec, out)
    if known is not None:
        return known
    best = tune(problem, target, store, start=_start(problem, target), progress=progress).winner
    path, _ = write_kernel(best.source, provenance(best, Origin.of(target, command)), out)
    return read_kernel(path)


def winner_on_file(problem: Problem, arch: str, card: DeviceSpec, out: Path) -> KernelFile | None:
    """The fastest kernel for `problem` in `out` or in the card's folder of generated/, measured on `card`, for
    `arch`.

    Kernels that were edited since do not count.
    """
    timed = [
        (float(time["us"]), kernel)
        for folder in (out, GALLERY / card_folder(arch, card))
        for kernel in kernels_in(folder)
        if kernel.source.problem == problem and (time := _time_on(kernel, arch, card)) is not None
    ]
    return min(timed, key=lambda pair: pair[0])[1] if timed else None


def _time_on(kernel: KernelFile, arch: str, card: DeviceSpec) -> Mapping[str, Any] | None:
    """The time in its record, if that was measured on `card` for `arch`, and the kernel was not edited since."""
    here = kernel.arch == arch and not kernel.edited and not of_another_card(kernel, card)
    return kernel.measured_time if here else None


def _start(problem: Problem, target: Target) -> list[tuple[Family, Config]]:
    """The configs for `problem` that cards of the architecture have on file."""
    kernels = (kernel for folder in card_folders(GALLERY, target.arch) for kernel in kernels_in(folder))
    found = (it.source for it in kernels if it.source.problem == problem and is_winner(it) and not it.edited)
    configs = (config_today(source, target.spec.arch.limits) for source in found)
    return list(dict.fromkeys(config for config in configs if config is not None))


def config_today(source: KernelSource, limits: Limits) -> tuple[Family, Config] | None:
    """The family and config of a kernel; None if this version does not know them, or refuses them within `limits`."""
    try:
        family, config = config_of(source)
        check(family, source.problem, config, limits)
    except (InvalidInput, ZeroDivisionError):  # a divisor that a constraint would have refused
        return None
    return family, config


def of_another_card(kernel: KernelFile, card: DeviceSpec) -> bool:
    """Whether verdict and time in the record come from a card with a name other than that of `card`."""
    ran = kernel.measured_time is not None or verified_on_gpu(kernel)
    return ran and short_name(str((kernel.record or {}).get("device"))) != card.name


def benched(record: Mapping[str, Any], row: BenchRow) -> Document:
    """`record`, the contents of NAME.json, with the results of `row`."""
    document = row.document()
    entries = {**record, "time": document["ours"], "bench": document, "device": row.limits.card}
    return cast(Document, json.loads(json.dumps(entries)))


def verified_on_gpu(kernel: KernelFile) -> bool:
    """Whether the record says that exactly this text passed on a GPU."""
    verification = kernel.record.get("verification") if kernel.record else None
    return bool(verification and verification["passed"] and verification["executor"] == "gpu" and not kernel.edited)


def _loaded(kernel: KernelFile, gpu: GpuExecutor, store: Store) -> GpuKernel | Failure:
    try:
        return gpu.load_compiled(kernel.source, compile_kernel(kernel.source, gpu.arch, store))
    except CandidateFailed as error:
        return error.failure


def _verified(kernel: KernelFile, gpu: GpuExecutor) -> Verdict:
    verdict = verify(gpu, kernel.source, examples=examples_for(kernel.source.problem))
    if verdict.failure is not None:
        raise CandidateFailed(verdict.failure)
    return verdict


def _keep(row: BenchRow, verdict: Verdict | None) -> None:
    """Write the result to NAME.json, if the kernel has one that belongs to this text."""
    kernel = row.kernel
    if kernel.path is None or kernel.record is None or kernel.edited:
        return
    verification = {} if verdict is None else {"verification": verdict_document(verdict)}
    update_record(kernel, lambda record: benched({**record, **verification}, row))


def is_winner(kernel: KernelFile) -> bool:
    """Whether the kernel stands for its problem, and not only for a rung of a ladder."""
    record = kernel.record or {}
    return "rung" not in record or "bench" in record
