"""`gemmgen diff`: what sets two kernels apart."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from gemmgen.api.kernels import diff
from gemmgen.cli.options import json_option, out_option, recorded_arch_option
from gemmgen.cli.output import emit
from gemmgen.cli.reports.diff import show_difference
from gemmgen.judge.difference import CONTEXT, Difference


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--context", type=click.IntRange(0), default=CONTEXT, show_default=True, help="Lines about a change of the text."
)
@recorded_arch_option
@out_option("Folder in which a name is looked up first.")
@json_option
def command(a: str, b: str, context: int, arch: str, out: Path, as_json: bool) -> None:
    """Show what sets kernel B apart from kernel A.

    What was chosen differently; registers, shared memory, occupancy and times of both; the instructions of their main
    loops; and a unified diff of their texts, without header and names.

    A kernel is what explain takes, or a rung of a ladder on file by its title: gemmgen diff 'double buffer' 'warp
    tiles'.
    """
    found = diff(a, b, out=out, arch=arch, context=context)
    emit(as_json, lambda: _document(found), lambda console: show_difference(console, found))


def _document(it: Difference) -> dict[str, Any]:
    return {
        "a": it.a.kernel.source.name,
        "b": it.b.kernel.source.name,
        "chosen": [asdict(change) for change in it.chosen],
        "figures": [asdict(change) for change in it.figures],
        "main_loop": [{"opcode": opcode, "a": a, "b": b} for opcode, a, b in it.opcodes],
        "same_machine_code": it.same_code,
        "text": list(it.text),
    }
