"""`gemmgen export`: a kernel as something that another project vendors, with a certificate of what was shown of it."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
from rich.console import Console

from gemmgen.api import export as run
from gemmgen.artifacts.certificate import examples_to_certify
from gemmgen.artifacts.exporting import Exported
from gemmgen.artifacts.kernelfile import KernelFile, find_kernel
from gemmgen.artifacts.records import Document, kernel_document, verdict_document
from gemmgen.cli.options import Whole, arch_option, as_option, device_option, json_option, out_option, seed_option
from gemmgen.cli.output import emit
from gemmgen.cli.progress import watch
from gemmgen.cli.reports.verify import show_pass, show_unconfined, show_verdict
from gemmgen.cli.reports.words import bold
from gemmgen.cli.verify import exit_code, reproduction
from gemmgen.kernel.source import KernelSource
from gemmgen.run.target import DeviceChoice, compile_target
from gemmgen.verification.verifier import Verdict


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
@as_option
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
    own_name: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Verify a kernel and export it as a folder that stands alone: no gemmgen, no Python.

    NAME.cu (the kernel and its host launcher NAME_launch), NAME.h (extern "C"), a self-test with a main of its own,
    CMakeLists.txt, and a certificate: what was tested, what was not, and on exactly which files. `gemmgen verify
    --certificate FILE` checks it again. A kernel that is wrong is not exported. --arch auto is the architecture that
    the kernel's JSON names, unless the kernel was edited.
    """
    _, spec = compile_target(arch)
    found = find_kernel(kernel, out, spec.arch)
    with watch() as progress:
        exported = run(
            found,
            to=to,
            device=device,
            arch=arch,
            examples=examples,
            seed=seed,
            name=own_name,
            command=shlex.join(["gemmgen", *ctx.obj]),
            progress=progress,
        )
    verdict, files = exported.verdict, exported.files
    document = {**_document(exported.kernel.source, verdict), "files": [str(path) for path in files]}
    if verdict is not None and not verdict.passed:
        again = reproduction(found, verdict, examples or examples_to_certify(found.source.problem), out)
        emit(
            as_json,
            lambda: {**document, "reproduce": again},
            lambda console: _show_wrong(console, found, exported, again),
        )
        ctx.exit(exit_code(verdict))
    emit(as_json, lambda: document, lambda console: _show(console, exported))


def _document(source: KernelSource, verdict: Verdict | None) -> Document:
    return {**kernel_document(source), "verification": verdict_document(verdict)}


def _show_wrong(console: Console, found: KernelFile, exported: Exported, again: str) -> None:
    assert exported.verdict is not None
    show_verdict(console, found, exported.verdict, again)
    show_unconfined(console, exported.unconfined)


def _show(console: Console, exported: Exported) -> None:
    if exported.verdict is None:
        console.print(bold("not verified"), ": the certificate says so", sep="")
    else:
        show_pass(console, exported.verdict)
    show_unconfined(console, exported.unconfined)
    console.print(*exported.files, sep="\n", soft_wrap=True)
