"""`gemmgen gallery`: the kernels that a repository keeps."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from gemmgen.cli.options import json_option
from gemmgen.cli.output import DONE, FAILED, emit
from gemmgen.files import Store
from gemmgen.gallery import Disagreement, check, rerender, write_readmes
from gemmgen.kernelfile import GALLERY


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=GALLERY)
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 where templates and gallery disagree.")
@click.option("--render", is_flag=True, help="Render the kernels anew first.")
@json_option
@click.pass_context
def command(ctx: click.Context, folder: Path, only_check: bool, render: bool, as_json: bool) -> None:
    """Make the README.md of each FOLDER/<arch> from the JSON files of its kernels. [FOLDER: generated]

    With --render, kernels that the templates would write differently are written anew. What was measured stands
    where the machine code is the same, and is dropped where it is not.
    """
    if only_check:
        found = check(folder)
        emit(as_json, lambda: {"disagreements": _document(found)}, lambda console: _show(console, found))
        ctx.exit(FAILED if found else DONE)
    changed = rerender(folder, Store()) if render else []
    files = [str(path) for path in (*changed, *write_readmes(folder))]
    emit(as_json, lambda: {"files": files}, lambda console: _show_files(console, files, folder))


def _document(found: list[Disagreement]) -> list[dict[str, str]]:
    return [{"file": str(one.path), "reason": one.reason} for one in found]


def _show(console: Console, found: list[Disagreement]) -> None:
    for one in found:
        console.print(f"{one.path} {one.reason}", soft_wrap=True)
    if not found:
        console.print("templates and gallery agree")


def _show_files(console: Console, files: list[str], folder: Path) -> None:
    console.print(*(files or [f"{folder} holds no folder of an architecture, such as sm_90"]), sep="\n", soft_wrap=True)
