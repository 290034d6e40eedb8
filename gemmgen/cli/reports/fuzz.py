"""A fuzzing run for people: what was tried, or the smallest case that fails; and as a document."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rich.console import Console

from gemmgen.cli.reports.words import bad, bold, facts, fault, good
from gemmgen.render.naming import full_name_of
from gemmgen.support.words import figure, plural
from gemmgen.verification.corpus import situation_document
from gemmgen.verification.fuzz import FuzzTally, Replay, Report
from gemmgen.verification.fuzz_jobs import Found


def show_report(console: Console, report: Report, again: str | None) -> None:
    """PASS or FAIL and what is behind it; `again` is the command that shows the failure."""
    failing = [replay for replay in report.replays if replay.found is not None]
    passed = good("PASS") if report.passed else bad("FAIL")
    console.print(passed, _tried(report), sep="  ")
    if report.replays:
        console.print(f"      corpus: {plural(len(report.replays), 'case')} replayed, {len(failing)} still fail")
    for replay in report.replays if failing else ():
        show_replay(console, replay)
    if report.found is not None:
        console.print()
        _show_found(console, report.found)
        console.print(bold("\nsaved"), str(report.path), sep="\n  ", soft_wrap=True)
    if again is not None:
        console.print(bold("\nreproduce"), again, sep="\n  ", soft_wrap=True)
    if report.tally.situations:
        _show_data(console, report.tally)


def show_replay(console: Console, replay: Replay) -> None:
    """One entry of a corpus: does it still fail?"""
    since = ", its text changed since" if replay.changed else ", its text as it was"
    if replay.refused is not None:
        console.print(f"PASS  {replay.path}: no kernel any more: {replay.refused}", soft_wrap=True)
    elif replay.found is None:
        console.print(f"PASS  {replay.path}: the kernel is right by now{since}", soft_wrap=True)
    else:
        kind = replay.found.failure.kind
        console.print(f"FAIL  {replay.path}: the kernel {fault(kind)}{since}\n", soft_wrap=True)
        _show_found(console, replay.found)


def report_document(report: Report, again: str | None) -> dict[str, Any]:
    """As JSON-ready data."""
    tally = report.tally
    return {
        "passed": report.passed,
        "executor": report.executor,
        "seed": report.seed,
        "situations": tally.situations,
        "kernels": tally.kernels,
        "seconds": report.seconds,
        "situations_per_second": tally.situations / report.seconds if report.seconds > 0 else None,
        "worst_error_over_bound": tally.worst if math.isfinite(tally.worst) else None,
        "worst_in": tally.worst_in,
        "data": dict(tally.data),
        "replays": [replay_document(replay) for replay in report.replays],
        "found": _found_document(report.found),
        "saved": None if report.path is None else str(report.path),
        "reproduce": again,
    }


def replay_document(replay: Replay) -> dict[str, Any]:
    """One entry of a corpus as JSON-ready data."""
    return {
        "file": str(replay.path),
        "kernel": replay.entry.kernel,
        "passed": replay.found is None,
        "refused": replay.refused,
        "text_changed": replay.changed,
        "found": _found_document(replay.found),
    }


def _found_document(found: Found | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "kernel": full_name_of(found.source),
        "sha256": found.source.digest,
        "failure": asdict(found.failure),
        "situation": situation_document(found.situation),
    }


def _show_found(console: Console, found: Found) -> None:
    made = facts()
    made.add_row("kernel", full_name_of(found.source))
    if found.situation is not None:
        made.add_row("smallest case", str(found.situation))
    made.add_row(found.failure.kind, found.failure.reason)
    console.print(made)


def _tried(report: Report) -> str:
    tally = report.tally
    rate = figure(tally.situations / report.seconds) if report.seconds > 0 else "0"
    tried = f"{plural(tally.situations, 'situation')} of {plural(tally.kernels, 'kernel')}"
    return f"{tried} in {report.seconds:.1f} s ({rate} a second) on the {report.executor}, seed {report.seed}"


def _show_data(console: Console, tally: FuzzTally) -> None:
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in tally.data.items())
    console.print(f"      data: {kinds}; off by at most {figure(tally.worst)} of the error bound", soft_wrap=True)
    if tally.worst_in:
        console.print(f"      that much in {tally.worst_in}", soft_wrap=True, markup=False)
