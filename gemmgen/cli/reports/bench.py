"""Ours beside cuBLASLt's best, a row a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gemmgen.cli.reports.words import bold, show_table, table
from gemmgen.judge.bench import BenchRow
from gemmgen.run.gpu.lt_epilogue import baseline_words
from gemmgen.run.gpu.power import Observed
from gemmgen.support.words import NONE, figure, percent


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
    """What the card said while each ran alone: a line each."""
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
