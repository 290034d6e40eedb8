"""`gemmgen bench`: ours against cuBLASLt's best."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from gemmgen.api.kernels import bench
from gemmgen.cli.options import (
    ProblemOptions,
    Sectioned,
    Shape,
    json_option,
    out_option,
    problem_options,
    words_argument,
)
from gemmgen.cli.output import emit
from gemmgen.cli.progress import watch
from gemmgen.cli.reports.words import bold, show_table, table
from gemmgen.judge.bench import BenchRow
from gemmgen.problem.sizes import parse_shape
from gemmgen.run.gpu.lt_epilogue import baseline_words
from gemmgen.run.gpu.power import Observed
from gemmgen.support.errors import InvalidInput
from gemmgen.support.words import NONE, figure, percent


@click.command(cls=Sectioned)
@words_argument("what", "SHAPE|NAME|FILE...", lambda text: parse_shape(text) if is_shape(text) else text)
@problem_options
@out_option("Folder in which winners are looked up, and written if tuned now.")
@click.option(
    "--energy", is_flag=True, help="Let each run alone for 2 s, too, and ask the card for energy, power and clocks."
)
@json_option
@click.pass_obj
def command(
    words: list[str], what: Sequence[Shape | str], options: ProblemOptions, out: Path, energy: bool, as_json: bool
) -> None:
    """Time kernels against cuBLASLt, interleaved in one run. Needs a GPU.

    For a SHAPE, the card's winner on file (--out, then generated/) or, where there is none, one that is tuned first.
    cuBLASLt is asked for all its heuristics and each is timed; its best is the baseline. That of batches of pointers is
    cuBLAS's gemmBatched. Both stand beside the card's own measured limits. The result is added to the kernel's JSON,
    unless that is of another card.

    --energy needs nvidia-ml-py. What the driver does not tell, or not to everybody, is left out.
    """
    wanted = [one if isinstance(one, str) else options.problem(one) for one in what]
    with watch() as progress:
        rows = bench(*wanted, out=out, energy=energy, command=shlex.join(["gemmgen", *words]), progress=progress)
    emit(as_json, lambda: {"results": [row.document() for row in rows]}, lambda console: show_bench(console, rows))


def is_shape(text: str) -> bool:
    """Whether `text` means a shape rather than a kernel: a wrong shape such as 0x5x5 does too."""
    try:
        parse_shape(text)
    except InvalidInput:
        return False
    return True


def show_bench(console: Console, rows: Sequence[BenchRow]) -> None:
    """The table, then what it was measured on and against."""
    columns = ("<problem", "ours, us", "TFLOPS", "GB/s", "spread", "cuBLASLt, us", "TFLOPS", "<algorithm")
    errors = ("error", "cuBLASLt's error") if any(row.accuracy for row in rows) else ()
    last = "ratio", "normal", "of the limit", "<limit", "bytes alone, us", *errors
    made = table(*columns, *last, title="measured, medians of interleaved rounds")
    for row in rows:
        made.add_row(
            str(row.kernel.source.problem),
            figure(row.timing.median_us),
            figure(row.timing.tflops(row.case)),
            figure(row.timing.gbs(row.case)),
            percent(row.timing.spread),
            *_baseline(row),
            NONE if row.normal_speedup is None else f"{row.normal_speedup:.3f}x",
            percent(row.timing.tflops(row.case) / row.roof.tflops),
            row.roof.limit,
            figure(row.moving.median_us) if row.moving and row.roof.memory_bound else NONE,
            *(_errors(row) if errors else ()),
        )
    show_table(console, made)
    limits = rows[0].limits
    versions = dict.fromkeys(row.baseline.version for row in rows if row.baseline is not None)
    known = (
        f"{', '.join(versions)}, every algorithm that it offers timed, the best shown" if versions else "no baseline"
    )
    console.print(f"{rows[0].card}; {known}")
    console.print(
        f"the card's own limits, measured {limits.date}: {figure(limits.ffma_tflops)} TFLOPS FFMA, "
        f"{figure(limits.dfma_tflops)} DFMA, {figure(limits.read_gbs)} GB/s read, {figure(limits.copy_gbs)} GB/s copy"
    )
    console.print(
        "the limit is the FMA rate of CUDA cores, or of tensor cores the data sheet's, or the bandwidth where that "
        "allows less"
    )
    console.print("bytes alone: a kernel that reads A and B, writes C and computes nothing, in the same run")
    console.print("operands are uniform in [-1, 1]; normal: the ratio with normally distributed ones")
    if errors:
        console.print("error: the largest over the sum of an element's products' magnitudes, in units of 2^-24")
    for row in rows:
        if row.energy is not None:
            _show_energy(console, row, *row.energy)
    console.print(bold("\nkernels"), *(row.kernel.reference for row in rows), sep="\n  ", soft_wrap=True)


def _show_energy(console: Console, row: BenchRow, ours: Observed, theirs: Observed | None) -> None:
    """Print a line for each contestant: the card's readings while it ran alone."""
    console.print(bold(f"\nenergy of {row.kernel.source.problem}"), "each alone, for two seconds")
    for name, one in (("ours", ours), ("cuBLASLt", theirs)):
        if one is None:
            continue
        rate, energy = one.tflops_per_w(row.case.flops), one.energy_j
        said = [
            None if energy is None else f"{figure(1e3 * energy)} mJ a launch",
            None if rate is None else f"{figure(rate)} TFLOPS/W",
            None if one.power_w is None else f"{one.power_w:.0f} W",
            None if one.sm_mhz is None else f"SM {one.sm_mhz:.0f} MHz",
            None if one.memory_mhz is None else f"memory {one.memory_mhz:.0f} MHz",
            None if one.temperature_c is None else f"{one.temperature_c:.0f} C",
            f"clock limited by {', '.join(one.limited_by)}" if one.limited_by else None,
        ]
        console.print(f"  {name:9} {', '.join(filter(None, said)) or 'the card says nothing'}")


def _errors(row: BenchRow) -> tuple[str, str]:
    if row.accuracy is None:
        return NONE, NONE
    return figure(row.accuracy.ours), figure(row.accuracy.baseline)


def _baseline(row: BenchRow) -> tuple[str, str, str, str]:
    """Time, TFLOPS, algorithm and ratio of what the row is held against."""
    best, ratio = row.baseline, row.speedup
    if best is None or ratio is None:
        return NONE, NONE, "no baseline", NONE
    choice = best.choice + baseline_words(row.case.problem)
    return figure(best.timing.median_us), figure(best.timing.tflops(row.case)), choice, f"{ratio:.3f}x"
