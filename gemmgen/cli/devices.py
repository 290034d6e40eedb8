"""`gemmgen devices`: what is here and what is known."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from gemmgen.cli.options import json_option
from gemmgen.cli.output import emit
from gemmgen.cli.reports.words import bold, facts, show_table, table
from gemmgen.problem.device import DEVICES
from gemmgen.problem.dtype import DType
from gemmgen.run.here import Here, here, known_document
from gemmgen.support.words import figure


@click.command()
@click.option("--measure", is_flag=True, help="Measure the GPU's own limits: FMA rates, read and copy bandwidth.")
@json_option
def command(measure: bool, as_json: bool) -> None:
    """Show what this machine has, and the architectures and cards that gemmgen knows.

    Any card's name or architecture goes with --arch; cards that are not at hand are predicted by data-sheet rates.
    """
    found = here(measure=measure)
    emit(
        as_json,
        lambda: {"here": found.document(), "known": known_document()},
        lambda console: show_devices(console, found),
    )


KB = 1024


def show_devices(console: Console, found: Here) -> None:
    """Print the devices of this machine, then the cards that gemmgen knows."""
    console.print(bold("here"))
    made = facts()
    for part in found.parts:
        made.add_row(f"  {part.name}", part.purpose, part.found or f"none: {part.missing}")
    console.print(made)
    if found.limits is not None:
        limits = found.limits
        rates = f"{figure(limits.ffma_tflops)} TFLOPS FFMA, {figure(limits.dfma_tflops)} DFMA"
        speeds = f"{figure(limits.read_gbs)} GB/s read, {figure(limits.copy_gbs)} GB/s copy"
        console.print(f"  measured {limits.date}: {rates}, {speeds}")
    console.print()
    show_table(console, _known())
    console.print("An architecture alone (--arch sm_89) stands for the first card that has it.")


def _known() -> Table:
    made = table(
        "<card", "<arch", "SMs", "threads/SM", "blocks/SM", "shared KB/SM", "shared KB/block",
        "GHz", "f32 TFLOPS", "f64 TFLOPS", "GB/s", "L2 MB", "memory GB", title="known (data sheets)",
    )  # fmt: skip
    for spec in DEVICES.values():
        arch = spec.arch
        counts = (spec.sms, arch.sm_threads, arch.sm_blocks, arch.sm_shared // KB, arch.block_shared // KB)
        rates = (
            f"{spec.clock_ghz:.2f}",
            figure(spec.tflops(DType.F32)),
            figure(spec.tflops(DType.F64)),
            f"{spec.bandwidth:g}",
        )
        made.add_row(spec.name, arch.name, *map(str, counts), *rates, f"{spec.l2_mb:g}", f"{spec.memory_gb:g}")
    return made
