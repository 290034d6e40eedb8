"""The output of the suite: rows as they end, and the results of groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from gemmgen.cli.reports.words import bold, show_table, table
from gemmgen.lab.report.measured_on import MeasuringCard, measuring_cards
from gemmgen.lab.scores import Summary
from gemmgen.lab.suite.plan import ShapeOutcome, SuitePlan
from gemmgen.support.words import NONE, figure, percent, plural


def row_line(outcome: ShapeOutcome) -> str:
    """ "measure   512x512x512 f32 rr        41.3 s  1.130x  gemm_..."."""
    ratio = _ratio(outcome.ratio) if outcome.step == "measure" else ""
    said = {"done": outcome.kernel, "on file": f"on file: {outcome.kernel}", "failed": f"fails: {outcome.reason}"}
    text = f"{outcome.step:<8}  {outcome.problem!s:<32} {outcome.seconds:>7.1f} s {ratio:>8}  {said[outcome.state]}"
    return " ".join(text.splitlines())


def show_suite(
    console: Console, plan: SuitePlan, outcomes: Sequence[ShapeOutcome], groups: Sequence[Summary], readme: Path | None
) -> None:
    """Print the groups' results from all files, the failures of this run, and the path of the table."""
    columns = ("<group", "measured", "geometric mean", "normal data", "minimum", "<at", "below 1", "miss their goal")
    made = table(*columns, "out of reach", "failed", "unmeasured", title="cuBLASLt's time over ours, of all on file")
    for one in groups:
        counts = one.below, one.missed, one.out_of_reach, one.failed, len(one.missing)
        ratios = _ratio(one.geomean), one.on_normal_data, _ratio(one.minimum)
        made.add_row(one.group, str(one.rows), *ratios, one.lowest, *(f"{n:,}" for n in counts))
    if groups:
        show_table(console, made)
    cards = measuring_cards(plan.winners())
    if len(cards) > 1:
        _show_cards(console, cards)
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    if failed:
        console.print(bold(f"{plural(len(failed), 'row')} failed"))
    for outcome in failed:
        console.print(f"  {outcome.step} {outcome.problem}: {outcome.reason or NONE}", soft_wrap=True)
    if not outcomes and not plan.winners():
        console.print(f"nothing is on file for these shapes in {plan.folder}, and nothing was measured", soft_wrap=True)
    if readme is not None:
        console.print(str(readme), soft_wrap=True)


def _show_cards(console: Console, cards: Sequence[MeasuringCard]) -> None:
    """Print a row per card: its kernels, their ratio to cuBLASLt, and the rates of the reference kernels."""
    columns = ("<card", "kernels", "ratio", "FFMA TFLOPS", "read GB/s", "SM MHz", "highest C", "drift", "repeated")
    made = table(*columns, title="cards that measured")
    for one in cards:
        clocks = NONE if one.sm_mhz is None else "{:.0f} to {:.0f}".format(*one.sm_mhz)
        heat = NONE if one.temperature_c is None else f"{one.temperature_c:.0f}"
        rates = _ratio(one.ratio), figure(one.ffma_tflops), figure(one.read_gbs)
        made.add_row(one.uuid, str(one.kernels), *rates, clocks, heat, percent(one.drift), str(one.repeated))
    show_table(console, made)


def _ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}x"
