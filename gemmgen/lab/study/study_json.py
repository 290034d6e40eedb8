"""A study as JSON-ready data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from gemmgen.exports.json_records import (
    Document,
    Origin,
    compiled_document,
    failure_document,
    prediction_document,
    problem_document,
    provenance,
    time_document,
    timing_document,
    verdict_document,
)
from gemmgen.kernel.source import KernelSource
from gemmgen.lab.study.beside import beside
from gemmgen.lab.study.engine import StudyResult, StudyRow
from gemmgen.lab.study.points import REPORTED_CARD
from gemmgen.lab.study.reasons import shared_reads
from gemmgen.support.stamp import gemmgen_version, now


def study_document(result: StudyResult, command: str) -> Document:
    """The whole study: where it ran, the limit, each row, and the comparison with the source document."""
    return {
        "study": result.study.name,
        "question": result.study.question,
        "problem": problem_document(result.problem),
        "device": result.device.name,
        "arch": result.arch,
        "executor": {"name": result.executor, "description": result.runner},
        "kind": result.kind,
        "limit": asdict(result.limit),
        "rows": [_row(row, result) for row in result.rows],
        "reported": {"device": REPORTED_CARD, "rows": [asdict(one) for one in beside(result)]},
        "gemmgen": gemmgen_version(),
        "command": command,
        "date": now(),
    }


def kernels(result: StudyResult, command: str) -> Iterator[tuple[KernelSource, Document]]:
    """Each kernel that runs, with its NAME.json: its place in the study, and its time."""
    origin = Origin(result.arch, result.device.name, result.executor, result.runner, command)
    for place, row in enumerate(result.rows, start=1):
        if row.runs and row.trial is not None:
            time = time_document(row.trial)
            rung = {"number": place, "title": row.point.label, "lesson": row.point.lesson, "time": time}
            yield row.trial.source, {**provenance(row.trial, origin), "rung": rung}


def _row(row: StudyRow, result: StudyResult) -> Document:
    trial, it = row.trial, row.explanation
    loop = it.main_loop if it is not None else None
    return {
        "label": row.point.label,
        "lesson": row.point.lesson,
        "family": row.point.family if trial is None else trial.source.family,
        "config": dict(row.point.settings) if trial is None else trial.source.config,
        "name": None if trial is None else trial.source.name,
        "runs": row.runs,
        "failure": failure_document(row.failure),
        "time": _time(row, result),
        "share_of_limit": row.tflops(result.case) / result.limit.tflops if row.runs else None,
        "resources": compiled_document(trial.compiled) if trial is not None else None,
        "model": prediction_document(it.prediction) if it is not None else None,
        "verification": verdict_document(trial.verdict) if trial is not None else None,
        "main_loop": loop.counts if loop is not None else None,
        "shared_loads_per_fma": shared_reads(it) if it is not None and loop is not None and loop.fmas else None,
        "fma_share": loop.share(loop.fma) if loop is not None else None,
        "reason": row.reason,
    }


def _time(row: StudyRow, result: StudyResult) -> Document | None:
    if not row.runs:
        return None
    if row.timing is not None:
        return timing_document(row.timing, result.case)
    return {"kind": result.kind, "device": result.device.name, "us": row.time_us, "tflops": row.tflops(result.case)}
