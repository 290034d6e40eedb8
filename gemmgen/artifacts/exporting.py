"""A kernel that is verified, certified and then written as files that stand alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gemmgen.artifacts.certificate import (
    NO_EXECUTOR,
    Shown,
    certified_record,
    examples_to_certify,
    executor_document,
    known_record,
)
from gemmgen.artifacts.folder import export, require_exportable
from gemmgen.artifacts.kernelfile import KernelFile, require_writable
from gemmgen.kernel.source import KernelSource
from gemmgen.run.compile import CompiledKernel, compile_kernel
from gemmgen.run.target import DeviceChoice, Target, compile_target, open_target
from gemmgen.search.tuner import Progress
from gemmgen.support.brief import brief
from gemmgen.support.errors import CandidateFailed, GemmgenError
from gemmgen.support.files import Store
from gemmgen.verification.host_memory import require_memory
from gemmgen.verification.verifier import Verdict, verify

UNVERIFIED = "--examples 0 exports the kernel unverified, and its certificate says so"


@brief
@dataclass(frozen=True)
class Exported:
    """What became of an export.

    verdict     of the kernel; None where it was not to be verified
    files       what was written: none where the kernel is wrong
    unconfined  what did not keep the kernel's text from this machine: see `Executor.unconfined`
    """

    kernel: KernelFile
    verdict: Verdict | None
    files: tuple[Path, ...]
    unconfined: tuple[str, ...] = ()


def export_verified(
    kernel: KernelFile,
    to: Path,
    *,
    device: DeviceChoice,
    arch: str,
    examples: int | None,
    seed: int,
    command: str,
    progress: Progress,
) -> Exported:
    """Verify `kernel` in `examples` situations (None: as many as its size allows, 0: not at all), and write it to `to`.

    `arch` "auto" is the one that an unedited kernel's JSON names. Raises as gemmgen.api.export does.
    """
    require_writable(to)
    require_exportable(kernel.source)
    known = known_record(kernel)
    arch, spec = compile_target(known["arch"] if known is not None and arch == "auto" else arch)
    examples = examples_to_certify(kernel.source.problem) if examples is None else examples
    shown = _show(kernel.source, arch, device, examples, seed, progress) if examples else Shown()
    unconfined = tuple((shown.executor or NO_EXECUTOR)["unconfined"])
    if shown.verdict is not None and not shown.verdict.passed:
        return Exported(kernel, shown.verdict, (), unconfined)
    record = certified_record(kernel, arch, spec, shown, command=command, examples=examples, seed=seed)
    return Exported(kernel, shown.verdict, tuple(export(kernel.source, record, to)), unconfined)


def _show(source: KernelSource, arch: str, device: DeviceChoice, examples: int, seed: int, progress: Progress) -> Shown:
    """Compile and verify."""
    store = Store()
    require_memory(source.problem)
    compiled = compiled_where_possible(source, arch, store)
    try:
        target = open_target(device, arch, store)
    except CandidateFailed as error:
        raise GemmgenError(f"{error}. {UNVERIFIED}") from error
    with target.executor:
        return show_on(target, source, compiled, examples, seed, progress)


def show_on(
    target: Target,
    source: KernelSource,
    compiled: CompiledKernel | None,
    examples: int,
    seed: int,
    progress: Progress,
) -> Shown:
    """Verify `source`, which was `compiled`, in `examples` situations on `target`."""
    progress.stage("verify", examples)
    verdict = verify(
        target.executor, source, examples=examples, seed=seed, on_example=lambda: progress.step("verify", None)
    )
    return Shown(compiled, verdict, executor_document(target.executor))


def compiled_where_possible(source: KernelSource, arch: str, store: Store) -> CompiledKernel | None:
    """None where there is no NVRTC. Raises CandidateFailed where it refuses the kernel."""
    try:
        return compile_kernel(source, arch, store)
    except CandidateFailed as error:
        if error.failure.kind != "unavailable":
            raise
        return None
