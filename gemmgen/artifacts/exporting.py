"""A kernel that is verified, certified and then written as files that stand alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gemmgen.artifacts.claims import certified_record, examples_to_certify, known_record
from gemmgen.artifacts.folder import export
from gemmgen.artifacts.kernelfile import KernelFile, require_writable
from gemmgen.artifacts.records import Document
from gemmgen.kernel.source import KernelSource
from gemmgen.run.compile import CompiledKernel, compile_kernel
from gemmgen.run.target import DeviceChoice, compile_target, open_target
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

    verdict  of the kernel; None where it was not to be verified
    files    what was written: none where the kernel is wrong
    """

    kernel: KernelFile
    verdict: Verdict | None
    files: tuple[Path, ...]


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
    known = known_record(kernel)
    name, spec = compile_target(known["arch"] if known is not None and arch == "auto" else arch)
    examples = examples_to_certify(kernel.source.problem) if examples is None else examples
    verdict, record = None, None
    if examples == 0:
        record = certified_record(kernel, name, spec, command, examples=0, seed=seed)
    else:
        verdict, record = _certified(kernel, name, device, examples, seed, command, progress)
    files = () if record is None else tuple(export(kernel.source, record, to))
    return Exported(kernel, verdict, files)


def _certified(
    kernel: KernelFile,
    arch: str,
    device: DeviceChoice,
    examples: int,
    seed: int,
    command: str,
    progress: Progress,
) -> tuple[Verdict, Document | None]:
    """Compile and verify; returns the verdict and, of a kernel that passes, the certificate's record."""
    store, source = Store(), kernel.source
    require_memory(source.problem)
    compiled = _compiled(source, arch, store)
    try:
        target = open_target(device, arch, store)
    except CandidateFailed as error:
        raise GemmgenError(f"{error}. {UNVERIFIED}") from error
    progress.stage("verify", examples)
    with target.executor as executor:
        verdict = verify(
            executor, source, examples=examples, seed=seed, on_example=lambda: progress.step("verify", None)
        )
        if not verdict.passed:
            return verdict, None
        record = certified_record(
            kernel,
            target.arch,
            target.spec,
            command,
            examples=examples,
            seed=seed,
            executor=executor,
            compiled=compiled,
            verdict=verdict,
        )
    return verdict, record


def _compiled(source: KernelSource, arch: str, store: Store) -> CompiledKernel | None:
    """None where there is no NVRTC. Raises CandidateFailed where it refuses the kernel."""
    try:
        return compile_kernel(source, arch, store)
    except CandidateFailed as error:
        if error.failure.kind != "unavailable":
            raise
        return None
