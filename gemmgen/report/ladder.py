"""The ladder as a table: a row a rung."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from gemmgen.model import representative
from gemmgen.report.words import NONE, figure, occupancy, show_table, table, verified
from gemmgen.study import Step


def show_ladder(console: Console, steps: Sequence[Step]) -> None:
    """Each rung's time and rate, against the first, and what it adds."""
    first = steps[0].trial
    times = (f"{first.time_kind}\nus", "TFLOPS", "against\nthe first")
    title = f"{first.source.problem}, one idea at a time"
    made = table("#", "<rung", *times, "regs", "spills", "<occupancy", "verified", "<adds", title=title)
    for step in steps:
        trial = step.trial
        case = representative(trial.source.problem)
        resources = (str(trial.compiled.registers), str(trial.compiled.spill_bytes)) if trial.compiled else (NONE, NONE)
        made.add_row(
            str(step.number),
            step.title,
            figure(trial.time_us),
            figure(case.flops / trial.time_us * 1e-6),
            f"{first.time_us / trial.time_us:.1f}x",
            *resources,
            occupancy(trial.prediction.occupancy),
            verified(trial.verdict),
            escape(step.lesson if trial.failure is None else f"{trial.failure.kind}: {trial.failure.reason}"),
        )
    show_table(console, made)
