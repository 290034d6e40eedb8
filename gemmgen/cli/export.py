"""`gemmgen export`: a kernel as something that another project vendors, with a certificate of what was shown of it."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
from rich.console import Console

from gemmgen.artifacts.claims import certified_record, examples_to_certify, known_record
from gemmgen.artifacts.folder import export as export_kernel
from gemmgen.artifacts.kernelfile import KernelFile, find_kernel, require_writable
from gemmgen.artifacts.records import Document, kernel_document, verdict_document
from gemmgen.cli.options import Whole, arch_option, device_option, json_option, out_option, seed_option
from gemmgen.cli.output import FAILED, emit
from gemmgen.cli.progress import counter
from gemmgen.cli.reports.verify import show_pass, show_verdict
from gemmgen.cli.reports.words import bold
from gemmgen.cli.verify import reproduction
from gemmgen.kernel.source import KernelSource
from gemmgen.run.compile import CompiledKernel, compile_kernel
from gemmgen.run.target import DeviceChoice, compile_target, open_target
from gemmgen.support.errors import CandidateFailed, GemmgenError
from gemmgen.support.files import Store
from gemmgen.verification.host_memory import require_memory
from gemmgen.verification.verifier import Verdict
from gemmgen.verification.verifier import verify as property_test

UNVERIFIED = "--examples 0 exports the kernel unverified, and its certificate says so"


@click.command()
@click.argument("kernel", metavar="NAME|FILE")
@click.option("--to", type=click.Path(path_type=Path), required=True, help="Folder for the exported files.")
@device_option
@click.option(
    "--examples",
    type=Whole(0),
    default=None,
    help="Situations to verify, 0 for none.  [default: 100; 20 for large problems]",
)
@seed_option
@arch_option
@out_option("Folder in which a NAME is looked up first.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    kernel: str,
    to: Path,
    device: DeviceChoice,
    examples: int | None,
    seed: int,
    arch: str,
    out: Path,
    as_json: bool,
) -> None:
    """Verify a kernel and export it as a folder that stands alone: no gemmgen, no Python.

    NAME.cu (the kernel and its host launcher NAME_launch), NAME.h (extern "C"), a self-test with a main of its own,
    CMakeLists.txt, and a certificate: what was shown of the kernel, what was not, and of exactly which bytes.
    `gemmgen verify --certificate FILE` checks it again. A kernel that is wrong is not exported. Where the kernel has
    a JSON and was not edited since, that names the architecture for --arch auto.
    """
    name, spec = compile_target(arch)
    found = find_kernel(kernel, out, spec.arch.limits)
    require_writable(to)
    known = known_record(found)
    if known is not None and arch == "auto":
        name, spec = compile_target(known["arch"])
    examples = examples_to_certify(found.source.problem) if examples is None else examples
    words = shlex.join(["gemmgen", *ctx.obj])
    verdict, record = None, None
    if examples == 0:
        record = certified_record(found, name, spec, words, examples=0, seed=seed)
    else:
        verdict, record = _certify(found, name, device, examples, seed, words)
    if verdict is not None and record is None:
        again = reproduction(found, verdict, examples, out)
        emit(
            as_json,
            lambda: {**_document(found.source, verdict), "reproduce": again, "files": []},
            lambda console: show_verdict(console, found, verdict, again),
        )
        ctx.exit(FAILED)
    assert record is not None
    files = export_kernel(found.source, record, to)
    emit(
        as_json,
        lambda: {**_document(found.source, verdict), "files": [str(path) for path in files]},
        lambda console: _show(console, verdict, files),
    )


def _certify(
    kernel: KernelFile, arch: str, device: DeviceChoice, examples: int, seed: int, command: str
) -> tuple[Verdict, Document | None]:
    """Compile and verify; returns the verdict and, of a kernel that passes, the certificate's record."""
    store, source = Store(), kernel.source
    require_memory(source.problem)
    compiled = _compiled(source, arch, store)
    try:
        target = open_target(device, arch, store)
    except CandidateFailed as error:
        raise GemmgenError(f"{error}. {UNVERIFIED}") from error
    with target.executor as executor:
        with counter("verify", examples) as on_example:
            verdict = property_test(executor, source, examples=examples, seed=seed, on_example=on_example)
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


def _document(source: KernelSource, verdict: Verdict | None) -> Document:
    return {**kernel_document(source), "verification": verdict_document(verdict)}


def _show(console: Console, verdict: Verdict | None, files: list[Path]) -> None:
    if verdict is None:
        console.print(bold("not verified"), ": the certificate says so", sep="")
    else:
        show_pass(console, verdict)
    console.print(*files, sep="\n", soft_wrap=True)
