"""Comparison of a study with the source document's results on its card.

Rates of different cards do not compare, so each is taken relative to the document's best point.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.lab.study.engine import StudyResult, StudyRow
from gemmgen.lab.study.points import REPORTED_DTYPE


@dataclass(frozen=True)
class Beside:
    """One point here and in the document.

    reported, tflops      TFLOPS there and here; 0 if it does not run
    reported_share, share the same, relative to the study's reference point
    """

    label: str
    reported: float
    reported_share: float
    tflops: float
    share: float


def reference(result: StudyResult) -> StudyRow | None:
    """The point that is the document's best; None if it reports nothing comparable, or if that point does not run."""
    comparable = result.problem.types.accumulator == REPORTED_DTYPE
    reported = [row for row in result.rows if row.point.reported and comparable]
    best = max(reported, key=lambda row: row.point.reported or 0, default=None)
    return best if best is not None and best.runs else None


def beside(result: StudyResult) -> list[Beside]:
    """A comparison for every point that the document reports, in the study's order; empty without a reference."""
    base = reference(result)
    if base is None or not base.point.reported:
        return []
    there, here = base.point.reported, base.tflops(result.case)
    both = ((row, row.point.reported, row.tflops(result.case)) for row in result.rows)
    return [
        Beside(row.point.label, reported, reported / there, tflops, tflops / here)
        for row, reported, tflops in both
        if reported is not None
    ]
