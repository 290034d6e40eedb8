"""`gemmgen explain`: why this kernel."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from gemmgen.api.kernels import explain
from gemmgen.cli.options import json_option, out_option, recorded_arch_option
from gemmgen.cli.output import emit
from gemmgen.cli.reports.words import bold, facts, show_table, table
from gemmgen.exports.json_records import compiled_document, failure_document, kernel_document, prediction_document
from gemmgen.exports.kernelfile import find_kernel
from gemmgen.judge.explain import Explanation, LoopUse
from gemmgen.judge.explanation_text import (
    LOOP_COLUMNS,
    Facts,
    facts_of,
    instruction_columns,
    instruction_rows,
    loop_rows,
    tile_rows,
)
from gemmgen.run.card import compile_target
from gemmgen.run.sass import BANKS_KNOWN


@click.command()
@click.argument("kernel", metavar="NAME|FILE")
@recorded_arch_option
@out_option("Folder in which a NAME is looked up first.")
@json_option
def command(kernel: str, arch: str, out: Path, as_json: bool) -> None:
    """Say why a kernel is as it is, and what to expect of it.

    Tile levels; bytes read per FMA; intensity and roofline; registers, occupancy and what limits it; waves; the
    expected bottleneck; the instruction mix of the compiled main loop, how busy it can keep the FMA pipe and shared
    memory, and what the model says of both.

    The kernel is a .cu file, or the name (or its beginning) of one in --out, in this folder or in generated/. --arch
    auto is the architecture that its JSON names.
    """
    _, spec = compile_target(arch)
    it = explain(find_kernel(kernel, out, spec), arch=arch)
    emit(as_json, lambda: _document(it), lambda console: show_explanation(console, it))


def _document(it: Explanation) -> dict[str, Any]:
    return {
        **kernel_document(it.kernel.source),
        "edited": it.kernel.edited,
        "edited_time": asdict(it.edited) if it.edited else None,
        "edited_axes": dict(it.axes),
        "device": it.device.name,
        "arch": it.arch,
        "case": dict(it.case.values),
        "tiles": [asdict(tile) for tile in it.tiles],
        "parts": it.parts,
        "steps": it.steps,
        "used": it.used,
        "traffic": asdict(it.traffic),
        "roofline": {**asdict(it.roofline), "bound": it.roofline.bound},
        "prediction": prediction_document(it.prediction),
        "last_wave": it.last_wave,
        "resources": compiled_document(it.compiled),
        "compile_failure": failure_document(it.compile_failure),
        "main_loop": it.main_loop.counts if it.main_loop else None,
        "loop_use": _loop_use(it.loop_use),
        "sass_failure": failure_document(it.sass_failure),
    }


def _loop_use(use: LoopUse | None) -> dict[str, Any] | None:
    if use is None:
        return None
    return {**asdict(use), "fma_share": use.fma.share, "fma_use_allowed": use.fma.allowed}


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
