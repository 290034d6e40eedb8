"""`gemmgen diff`: what sets two kernels apart."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from gemmgen.api.kernels import diff
from gemmgen.cli.options import json_option, out_option, recorded_arch_option
from gemmgen.cli.output import emit
from gemmgen.cli.reports.words import bold, show_table, table
from gemmgen.judge.difference import CONTEXT, Difference
from gemmgen.judge.explanation_text import PURPOSES


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


STYLES = {"+": "green", "-": "red", "@": "cyan"}
OPCODES_SHOWN = 16


def show_difference(console: Console, it: Difference) -> None:
    """Names, what was chosen, what came of it, the main loops, and the texts."""
    for label, kernel in (("A", it.a.kernel), ("B", it.b.kernel)):
        console.print(bold(label), kernel.source.name, soft_wrap=True)
    console.print()
    _show_chosen(console, it)
    figures = table("<of each", "<A", "<B", title="what came of it")
    for change in it.figures:
        figures.add_row(change.name, change.a, change.b)
    show_table(console, figures)
    _show_opcodes(console, it)
    console.print(bold("text, behind the header"))
    for line in it.text:
        console.print(Text(line, STYLES.get(line[:1], "")), soft_wrap=True)
    if not it.text:
        console.print("the same")


def _show_chosen(console: Console, it: Difference) -> None:
    if not it.chosen:
        console.print("the same problem, family and config\n")
        return
    made = table("<name", "<A", "<B", title="choices")
    for change in it.chosen:
        made.add_row(change.name, change.a, change.b)
    show_table(console, made)


def _show_opcodes(console: Console, it: Difference) -> None:
    if it.same_code:
        console.print("the machine code is the same\n")
        return
    made = table("<instruction", "A", "B", "B - A", "<<what for", title="main loop, as compiled: each instruction once")
    for opcode, a, b in it.opcodes[:OPCODES_SHOWN]:
        made.add_row(opcode, str(a), str(b), f"{b - a:+d}" if a != b else "", PURPOSES.get(opcode, ""))
    if it.opcodes:
        show_table(console, made)
