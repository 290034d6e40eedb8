"""Results of tensor cores compared with the model, for people and as data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from gemmgen.cli.reports.words import bad, good, show_table, table
from gemmgen.support.words import plural
from gemmgen.verification.tensor_core_recordings import Agreement, Recording


def show_arithmetic(
    console: Console, recording: Recording, agreements: Sequence[Agreement], out: Path | None = None
) -> None:
    """Print a line per instruction, and the first element that differs."""
    made = table("<instruction", "steps", "elements", "<beside the model", title=f"Bits of {recording.source}")
    for one in agreements:
        made.add_row(one.instruction, str(one.steps), f"{one.elements:,}", _verdict(one))
    show_table(console, made)
    for one in agreements:
        if one.first:
            console.print(f"{one.instruction} x {one.steps}: {one.first}", soft_wrap=True)
    for name, reason in recording.failures.items():
        console.print(bad(f"{name}: {reason}"), soft_wrap=True)
    for reason in recording.left_out.values():
        console.print(f"left out: {reason}", soft_wrap=True)
    differing = sum(one.differing for one in agreements)
    elements = plural(sum(one.elements for one in agreements), "element")
    console.print(f"{differing:,} of {elements} differ from the model of {recording.arch}", soft_wrap=True)
    if out is not None:
        console.print(f"recorded in {out}", soft_wrap=True)


def _verdict(one: Agreement) -> Any:
    if not one.differing:
        return good("the same bits")
    return bad(f"{one.differing:,} differ: " + ", ".join(f"{count:,} {kind}" for kind, count in one.kinds.items()))


def arithmetic_document(
    recording: Recording, agreements: Sequence[Agreement], out: Path | None = None
) -> dict[str, Any]:
    """The comparison as JSON-ready data."""
    rows = [
        {
            "instruction": one.instruction,
            "steps": one.steps,
            "elements": one.elements,
            "differing": one.differing,
            "kinds": dict(one.kinds),
            "first": one.first,
        }
        for one in agreements
    ]
    origin = {"arch": recording.arch, **recording.provenance}
    reasons = {"failures": dict(recording.failures), "left_out": dict(recording.left_out)}
    return {**origin, "rows": rows, **reasons, "file": None if out is None else str(out)}
