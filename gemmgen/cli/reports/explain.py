"""Why this kernel: `Explanation` for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from gemmgen.cli.reports.words import bold, facts, show_table, table
from gemmgen.judge.explain import Explanation
from gemmgen.judge.explanation_text import (
    LOOP_COLUMNS,
    Facts,
    facts_of,
    instruction_columns,
    instruction_rows,
    loop_rows,
    tile_rows,
)
from gemmgen.run.sass import BANKS_KNOWN


def show_explanation(console: Console, it: Explanation) -> None:
    """Print the whole explanation, a section a question."""
    source = it.kernel.source
    console.print(bold(source.name), soft_wrap=True)
    if it.kernel.edited:
        axes = ", ".join(f"{name} = {value}" for name, value in it.axes.items())
        of = f"the text's constants, {axes}" if axes else "the original"
        console.print(f"edited by hand since its JSON was written: tiles and predictions are those of {of}")
    console.print(f"\n{it.case}\non {it.device.name} ({it.arch}); rates are those of its data sheet\n")
    show_table(console, _tiles(it))
    for title, known in facts_of(it).items():
        console.print(bold(title))
        console.print(_facts(known))
        console.print()
    _show_main_loop(console, it)


def _tiles(it: Explanation) -> Table:
    made = table("<level", "rows of C", "columns of C", "<how many", title="tiles")
    for row in tile_rows(it):
        made.add_row(*row)
    return made


def _facts(known: Facts) -> Table:
    made = facts()
    for name, text in known:
        made.add_row(f"  {name}", text)
    return made


def _show_main_loop(console: Console, it: Explanation) -> None:
    if it.main_loop is None:
        reason = it.sass_failure.reason if it.sass_failure else "unknown"
        console.print(bold("main loop"), f"not disassembled: {reason}", sep="  ")
        return
    made = table(*instruction_columns(it.main_loop), title="main loop, as compiled: each instruction once")
    for row in instruction_rows(it.main_loop):
        made.add_row(*row)
    show_table(console, made)
    if it.loop_use is not None:
        use = table(*LOOP_COLUMNS, title="what an iteration of the main loop takes, on average")
        for row in loop_rows(it.loop_use, it.main_loop.fma, it.plan.units):
            use.add_row(*row)
        show_table(console, use)
        if it.loop_use.fma.operand_cycles is None:
            why = f"they were held against measurements for f32 on {BANKS_KNOWN} only"
            console.print(f"cycles that operands take are not counted: {why}", soft_wrap=True)
