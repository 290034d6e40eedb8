"""`gemmgen export`: a kernel as something that another project vendors, with a certificate of what was shown of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from gemmgen.api.products import export_all
from gemmgen.cli.options import (
    Sectioned,
    as_option,
    device_option,
    json_option,
    out_option,
    recorded_arch_option,
    seed_option,
)
from gemmgen.cli.output import IN_PART, emit, judging
from gemmgen.cli.progress import watch
from gemmgen.cli.reports.verify import show_pass, show_unconfined, show_verdict
from gemmgen.cli.reports.words import bold
from gemmgen.cli.verify import exit_code, passed_in_part, reproduction
from gemmgen.exports.certificate import examples_to_certify
from gemmgen.exports.exporting import Exported
from gemmgen.exports.json_records import Document, kernel_document, verdict_document
from gemmgen.exports.kernelfile import KernelFile, find_kernel
from gemmgen.run.card import compile_target
from gemmgen.run.target import DeviceChoice


@click.command(cls=Sectioned)
@click.argument("kernels", metavar="NAME|FILE...", nargs=-1, required=True)
@click.option("--to", type=click.Path(path_type=Path), required=True, help="Folder for the exported files.")
@device_option
@click.option(
    "--examples",
    type=click.IntRange(0),
    default=None,
    help="Situations to verify, 0 for none.  [default: 100; 20 for large problems]",
)
@seed_option
@recorded_arch_option
@as_option
@click.option("--torch", is_flag=True, help="Write NAME_torch.cpp, too: operators of torch.")
@out_option("Folder in which a NAME is looked up first.")
@json_option
@click.pass_context
@judging()
def command(
    ctx: click.Context,
    kernels: tuple[str, ...],
    to: Path,
    device: DeviceChoice,
    examples: int | None,
    seed: int,
    arch: str,
    own_name: str | None,
    torch: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Verify kernels and export them as a folder that stands alone: no gemmgen, no Python.

    NAME.cu (the kernel and its host launcher NAME_launch), NAME.h (extern "C"), a self-test with a main of its own,
    CMakeLists.txt, and a certificate: what was tested, what was not, and on exactly which files. `gemmgen verify
    --certificate FILE` checks it again. Where a kernel is wrong none is exported. Kernels that DIR holds of earlier
    exports stay, and the same kernel is replaced; nothing else is. --arch auto is the architecture that
    the kernel's JSON names, unless the kernel was edited.

    Exit codes: 0 exported, 1 a kernel is wrong or the files cannot be written, 2 wrong usage, 3 not judged here,
    4 exported and passed in part: see `gemmgen verify --help`.
    """
    several = len(kernels) > 1
    if several and own_name is not None:
        raise click.UsageError(
            f"--as {own_name} names one kernel, not {len(kernels)}: export each with a --as of its own"
        )
    _, spec = compile_target(arch)
    found = [find_kernel(kernel, out, spec).alone for kernel in kernels]
    with watch() as progress:
        exported = export_all(
            *(one if own_name is None else one.renamed(own_name) for one in found),
            to=to,
            device=device,
            arch=arch,
            examples=examples,
            seed=seed,
            torch=torch,
            command=shlex.join(["gemmgen", *ctx.obj]),
            progress=progress,
        )
    last = exported[-1]
    documents = [_document(one) for one in exported]
    if last.verdict is not None and not last.verdict.passed:
        wrong, verdict = found[len(exported) - 1], last.verdict
        again = reproduction(wrong, verdict, examples or examples_to_certify(wrong.source.problem), out)
        emit(
            as_json,
            lambda: {**documents[-1], "reproduce": again},
            lambda console: _show_wrong(console, wrong, last, again),
        )
        ctx.exit(exit_code(verdict))
    emit(
        as_json,
        lambda: {"kernels": documents} if several else documents[0],
        lambda console: _show(console, exported),
    )
    if any(map(_in_part, exported)):
        ctx.exit(IN_PART)


def _in_part(exported: Exported) -> bool:
    return exported.verdict is not None and passed_in_part(exported.kernel.source, exported.verdict)


def _document(exported: Exported) -> Document:
    return {
        **kernel_document(exported.kernel.source),
        "verification": verdict_document(exported.verdict),
        "files": [str(path) for path in exported.files],
    }


def _show_wrong(console: Console, found: KernelFile, exported: Exported, again: str) -> None:
    assert exported.verdict is not None
    show_verdict(console, found, exported.verdict, again)
    show_unconfined(console, exported.unconfined)


def _show(console: Console, exported: Sequence[Exported]) -> None:
    for one in exported:
        if one.verdict is None:
            console.print(bold("not verified"), ": the certificate says so", sep="")
        else:
            show_pass(console, one.verdict, _in_part(one))
        show_unconfined(console, one.unconfined)
    console.print(*dict.fromkeys(path for one in exported for path in one.files), sep="\n", soft_wrap=True)
