"""`gemmgen report`: shows all kernels on file as one page."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click

from gemmgen.cli.options import json_option
from gemmgen.cli.output import FAILED, emit, stderr
from gemmgen.cli.progress import watch
from gemmgen.exports.cards import GALLERY
from gemmgen.exports.writing import DEFAULT_OUT
from gemmgen.lab.api import report
from gemmgen.lab.report.page import Page
from gemmgen.support.errors import require
from gemmgen.support.words import plural


@click.command()
@click.argument("folders", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    default=DEFAULT_OUT / "report.html",
    show_default=True,
    help="The file to write.",
)
@click.option("--compile", "compiled", is_flag=True, help="Compile and disassemble each kernel, for its main loop.")
@json_option
@click.pass_context
def command(ctx: click.Context, folders: tuple[Path, ...], to: Path, compiled: bool, as_json: bool) -> None:
    """Write one HTML page of the kernels in each DIR and in the folders directly in it. [gemmgen-out and generated]

    The page has ratios to cuBLASLt by shape and type, the roofline with every kernel, and for each kernel the output of
    explain and what was verified. It needs no network and no other file; links lead to the kernels' files. Exits with 1
    if a kernel is left out because its JSON cannot be read or shown.
    """
    roots = folders or tuple(folder for folder in (DEFAULT_OUT, GALLERY) if folder.is_dir())
    require(bool(roots), f"there is neither {DEFAULT_OUT} nor {GALLERY} here: name a folder that has kernels")
    with watch() if compiled else nullcontext() as progress:
        page = report(*roots, to=to, compiled=compiled, progress=progress)
    emit(
        as_json,
        lambda: _document(page, to),
        lambda console: console.print(f"{to}: {plural(len(page.kernels), 'kernel')}", soft_wrap=True),
    )
    if page.left_out:
        stderr().print(*page.left_out, sep="\n", soft_wrap=True)
        ctx.exit(FAILED)


def _document(page: Page, to: Path) -> dict[str, object]:
    return {
        "file": str(to),
        "kernels": [card.name for card in page.kernels],
        "left_out": list(page.left_out),
    }
