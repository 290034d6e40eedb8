"""Studies on file, as `gemmgen study --out` wrote them: a bar per row, and a link to its kernel on the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgen.exports.kernelfile import KernelFile, read_record, reading
from gemmgen.exports.record_reading import problem_from
from gemmgen.lab.report.anchor import anchor
from gemmgen.lab.report.scale import Frame
from gemmgen.lab.study import STUDIES
from gemmgen.problem.device import short_name
from gemmgen.support.errors import InvalidInput
from gemmgen.support.words import figure, percent

FRAME = Frame(width=1000.0, left=190.0, right=780.0, top=24.0, row=26.0, bottom=8.0)


@dataclass(frozen=True)
class Rung:
    """A row: its bar, the text at the bar's end, its kernel on the page, and the reason for its speed."""

    label: str
    y: float
    length: float
    text: str
    kernel: str | None
    library: bool
    why: str


@dataclass(frozen=True)
class Ladder:
    """A study of one problem on one card; a bar that reaches the limit ends at the frame's right."""

    title: str
    question: str
    limit: str
    measured: bool
    rungs: tuple[Rung, ...]
    frame: Frame = FRAME

    @property
    def height(self) -> float:
        return self.frame.height(len(self.rungs))


def ladders_in(folders: Sequence[Path], kernels: Sequence[KernelFile]) -> Iterator[Ladder]:
    """The studies of `folders` by file name; unreadable files are skipped."""
    for folder in folders:
        for path in sorted(folder.glob("study_*.json")):
            with suppress(InvalidInput), reading(path, "the record of a study"):
                yield _ladder(read_record(path), kernels)


def _ladder(record: Mapping[str, Any], kernels: Sequence[KernelFile]) -> Ladder:
    problem, limit = problem_from(record["problem"]), float(record["limit"]["tflops"])
    known = STUDIES.get(record["study"])
    what = known.title if known else record["study"]
    kernels = sorted(kernels, key=lambda kernel: kernel.device == short_name(record["device"]))  # of its card: the last
    beside = {_title(kernel): anchor(kernel) for kernel in kernels if kernel.source.problem == problem}
    named = {kernel.source.name: anchor(kernel) for kernel in kernels}
    rungs = tuple(
        _rung(row, FRAME.y(i), limit, named.get(row["name"]) or beside.get(row["label"]))
        for i, row in enumerate(record["rows"])
    )
    return Ladder(
        title=f"{problem} on {record['device']}, {what} ({record['kind']})",
        question=str(record["question"]),
        limit=f"{figure(limit)} TFLOPS ({record['limit']['source']})",
        measured=record["kind"] == "measured",
        rungs=rungs,
    )


def _title(kernel: KernelFile) -> str | None:
    """The title of the rung that the kernel is; None if it is not one."""
    rung = (kernel.record or {}).get("rung")
    return rung["title"] if rung else None


def _rung(row: Mapping[str, Any], y: float, limit: float, kernel: str | None) -> Rung:
    runs, why = bool(row["runs"]), "; ".join(part for part in (row.get("lesson"), row.get("reason")) if part)
    rate = float(row["time"]["tflops"]) if runs else 0.0
    text = f"{figure(rate)} TFLOPS, {percent(rate / limit)}" if runs else str(row["failure"]["reason"])
    return Rung(row["label"], y, (FRAME.right - FRAME.left) * rate / limit, text, kernel, row["name"] is None, why)
