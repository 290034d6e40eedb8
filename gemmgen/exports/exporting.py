"""Export: kernels are verified and certified, and then written as files that stand alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gemmgen.exports.certificate import (
    NO_EXECUTOR,
    Shown,
    certified_record,
    examples_to_certify,
    executor_document,
    known_record,
)
from gemmgen.exports.folder import export_all, files_of, require_together
from gemmgen.exports.json_records import Document
from gemmgen.exports.kernelfile import KernelFile
from gemmgen.exports.other_compilers import require_exported_alike
from gemmgen.exports.writing import require_writable
from gemmgen.kernel.source import KernelSource
from gemmgen.problem.device import DeviceSpec
from gemmgen.run.card import compile_target
from gemmgen.run.compile import CompiledKernel, compile_apart
from gemmgen.run.target import DeviceChoice, open_target
from gemmgen.search.trial import Progress
from gemmgen.support.errors import CandidateFailed
from gemmgen.support.files import Store
from gemmgen.support.short_repr import brief
from gemmgen.verification.host_memory import require_memory
from gemmgen.verification.verifier import Verdict, verify

UNVERIFIED = "--examples 0 exports the kernel unverified, and its certificate says so"


@brief
@dataclass(frozen=True)
class Exported:
    """The result of an export of one kernel.

    verdict     the kernel's verdict; None if it was not to be verified
    files       the files written; none if this kernel, or another of the same export, is wrong
    unconfined  missing guards between the kernel's text and this machine: see `Executor.unconfined`
    """

    kernel: KernelFile
    verdict: Verdict | None
    files: tuple[Path, ...]
    unconfined: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wish:
    """How kernels are verified, and what is written: as `gemmgen.export` has it."""

    device: DeviceChoice
    arch: str
    examples: int | None
    seed: int
    command: str
    progress: Progress
    torch: bool = False


def export_verified(kernels: Sequence[KernelFile], to: Path, wish: Wish) -> tuple[Exported, ...]:
    """Verify `kernels` in turn, and write all to the folder `to`. The first wrong kernel ends it, and nothing is
    written.

    Raises as gemmgen.export does.
    """
    require_writable(to)
    require_together([kernel.source for kernel in kernels], torch=wish.torch)
    for kernel in kernels:
        require_exported_alike(kernel)
    certified: list[tuple[KernelSource, Document]] = []
    done: list[Exported] = []
    for kernel in kernels:
        arch, spec, examples = _asked(kernel, wish)
        shown = _show(kernel.source, arch, wish, examples) if examples else Shown()
        done.append(Exported(kernel, shown.verdict, (), tuple((shown.executor or NO_EXECUTOR)["unconfined"])))
        if shown.verdict is not None and not shown.verdict.passed:
            return tuple(done)
        record = certified_record(kernel, arch, spec, shown, command=wish.command, examples=examples, seed=wish.seed)
        certified.append((kernel.source, record))
    written = export_all(certified, to, torch=wish.torch)
    return tuple(replace(one, files=tuple(files_of(one.kernel.source, written))) for one in done)


def _asked(kernel: KernelFile, wish: Wish) -> tuple[str, DeviceSpec, int]:
    """Return the architecture to compile for, the card that stands for it, and the number of situations.

    With arch "auto" it is the one that an unedited kernel's JSON names; with examples None the number depends on the
    size.
    """
    known = known_record(kernel)
    arch, spec = compile_target(known["arch"] if known is not None and wish.arch == "auto" else wish.arch)
    return arch, spec, examples_to_certify(kernel.source.problem) if wish.examples is None else wish.examples


def _show(source: KernelSource, arch: str, wish: Wish, examples: int) -> Shown:
    """Compile and verify one kernel."""
    store = Store()
    require_memory(source.problem)
    compiled = compiled_where_possible(source, arch, store)
    try:
        target = open_target(wish.device, arch, store)
    except CandidateFailed as error:
        reason = f"{error.failure.reason}. {UNVERIFIED}"
        raise CandidateFailed(replace(error.failure, reason=reason)) from error
    with target.executor:
        wish.progress.stage("verify", examples)
        advance = partial(wish.progress.step, "verify", None)
        verdict = verify(target.executor, source, examples=examples, seed=wish.seed, on_example=advance)
        return Shown(compiled, verdict, executor_document(target.executor))


def compiled_where_possible(source: KernelSource, arch: str, store: Store) -> CompiledKernel | None:
    """Compile the kernel; None without NVRTC. Raises CandidateFailed if NVRTC refuses the kernel."""
    try:
        return compile_apart(source, arch, store)
    except CandidateFailed as error:
        if error.failure.kind != "unavailable":
            raise
        return None
