"""Why this kernel: `Explanation` for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from gemmgen.benchmark.explain import Explanation, LoopUse
from gemmgen.benchmark.explained import OPCODES_SHOWN, PURPOSES, Facts, facts_of, tile_rows
from gemmgen.cli.reports.words import NONE, bold, facts, figure, percent, short, show_table, table
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
    mix = it.main_loop
    made = table(
        "<instruction",
        "count",
        "share",
        f"per {mix.fma}",
        "<<what for",
        title="main loop, as compiled: each instruction once",
    )
    for opcode, count in list(mix.counts.items())[:OPCODES_SHOWN]:
        made.add_row(
            opcode, str(count), percent(mix.share(opcode)), figure(mix.per_fma(opcode)), PURPOSES.get(opcode, "")
        )
    rest = mix.total - sum(list(mix.counts.values())[:OPCODES_SHOWN])
    if rest:
        made.add_row("others", str(rest), percent(rest / mix.total), "", "")
    show_table(console, made)
    if it.loop_use is not None:
        show_table(console, _loop_use(it.loop_use, mix.fma))
        if it.loop_use.fma.operand_cycles is None:
            why = f"they were held against measurements for f32 on {BANKS_KNOWN} only"
            console.print(f"cycles that operands take are not counted: {why}", soft_wrap=True)


def _reads_counted(use: LoopUse) -> str:
    return "the same" if use.wavefronts.reads else "those of the tensor cores, which are no instructions"


def _loop_use(use: LoopUse, fma: str) -> Table:
    """The average iteration of the loop: the copies of a k tile are in some of them only."""
    made = table(
        "<of an iteration",
        "machine code",
        "model",
        "<<what the model counts",
        title="what an iteration of the main loop takes, on average",
    )
    share = percent(use.model_fma_share)
    made.add_row(f"{fma} among instructions", percent(use.fma.share), share, f"{fma}, reads and copies only")
    for name, ours, theirs, note in (
        ("reads", use.wavefronts.reads, use.model_wavefronts.reads, _reads_counted(use)),
        ("writes", use.wavefronts.writes, use.model_wavefronts.writes, "bank conflicts too"),
    ):
        made.add_row(f"shared wavefronts per {fma}, {name}", short(ours), short(theirs), note)
    if use.fma.operand_cycles is not None:
        waits = short(use.fma.operand_cycles / use.fma.fmas)
        made.add_row(f"cycles per {fma} that operands add", waits, NONE, "nothing on its own: a part of issue")
    made.add_row("FMA pipe busy at most", percent(use.fma.allowed), percent(use.model_fma_use), "the whole launch")
    return made
