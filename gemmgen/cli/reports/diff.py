"""What sets two kernels apart: `Difference` for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from gemmgen.cli.reports.words import bold, show_table, table
from gemmgen.judge.difference import Difference
from gemmgen.judge.explanation_text import PURPOSES

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
