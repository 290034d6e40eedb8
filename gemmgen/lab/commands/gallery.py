"""`gemmgen gallery`: maintains the kernels that a repository keeps."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from gemmgen.cli.options import json_option
from gemmgen.cli.output import DONE, FAILED, emit, stderr
from gemmgen.exports.cards import GALLERY
from gemmgen.lab.gallery import Disagreement, check, rerender, unreadable, write_readmes
from gemmgen.support.files import Store


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=GALLERY)
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 where templates and gallery disagree.")
@click.option("--render", is_flag=True, help="Render the kernels anew first.")
@json_option
@click.pass_context
def command(ctx: click.Context, folder: Path, only_check: bool, render: bool, as_json: bool) -> None:
    """Make the README.md of each FOLDER/<arch> from the JSON files of its kernels. [FOLDER: generated]

    With --render, kernels that the templates now render differently are written again. Measurements stay if the machine
    code is the same, and are dropped otherwise. Exits with 1 if a JSON file cannot be read.
    """
    if only_check:
        found = check(folder)
        emit(as_json, lambda: {"disagreements": _document(found)}, lambda console: _show(console, found))
        ctx.exit(FAILED if found else DONE)
    changed = rerender(folder, Store()) if render else []
    files = [str(path) for path in (*changed, *write_readmes(folder))]
    left_out = unreadable(folder)
    emit(
        as_json,
        lambda: {"files": files, "unreadable": _document(left_out)},
        lambda console: console.print(*files, sep="\n", soft_wrap=True),
    )
    if left_out:
        _show_each(stderr(), left_out)
        ctx.exit(FAILED)


def _document(found: list[Disagreement]) -> list[dict[str, str]]:
    return [{"file": str(one.path), "reason": one.reason} for one in found]


def _show(console: Console, found: list[Disagreement]) -> None:
    _show_each(console, found)
    if not found:
        console.print("templates and gallery agree")


def _show_each(console: Console, found: list[Disagreement]) -> None:
    for one in found:
        console.print(f"{one.path} {one.reason}", soft_wrap=True)
