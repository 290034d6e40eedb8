"""The measured times of one problem's configs, read from gemmgen's own files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmgen.exports.kernelfile import read_record, reading
from gemmgen.exports.record_form import completed
from gemmgen.exports.record_reading import problem_from
from gemmgen.families import family_named
from gemmgen.families.base import Family
from gemmgen.kernel.config import axes_of_record
from gemmgen.lab.study.times import load_times
from gemmgen.problem.device import DEVICES
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import InvalidInput, require

UNKNOWN = "unknown"

Meant = tuple[Problem, Family]  # what a file is of that does not say so


@dataclass(frozen=True)
class Result:
    """One config: its median time in microseconds, or the kind of its failure.

    samples_us  the samples of the median, if they were kept
    registers   registers per thread, as compiled; None if not kept
    date        date of the measurement, in ISO 8601; empty if not kept
    """

    config: Mapping[str, int]
    us: float | None
    samples_us: tuple[float, ...] = ()
    registers: int | None = None
    failure: str | None = None
    date: str = ""

    def __post_init__(self) -> None:
        require((self.us is None) == (self.failure is not None), f"{self.us} us, and the failure {self.failure}")
        require(self.us is None or 0 < self.us < float("inf"), f"a time of {self.us} us")


@dataclass(frozen=True)
class Results:
    """Configs of one family for one problem on one card, the fastest first."""

    problem: Problem
    family: Family
    device: str
    rows: tuple[Result, ...]


def results_of(*rows: Result, problem: Problem, family: Family, device: str) -> Results:
    """Results of `rows` in their order. Raises InvalidInput if one has another family's axes."""
    known = {axis.name for axis in family.config_type.axes()}
    for row in rows:
        strange = sorted(row.config.keys() - known)
        require(not strange, f"{', '.join(strange)} is no axis of {family.name}: {', '.join(sorted(known))}")
    whole = (
        replace(row, config=family.config_type(**row.config).values) for row in rows
    )  # of old: axes that came since
    ordered = sorted(whole, key=lambda row: (row.us is None, row.us or 0.0))
    card = next((spec.name for spec in DEVICES.values() if spec.is_card(device)), device)  # a driver's word, or ours
    return Results(problem, family, card, tuple(ordered))


def read_results(path: Path) -> list[Results]:
    """Read a kernel's JSON, a folder of these, the output of `tune --json` or a file of measured times.

    Predicted times do not count. Raises InvalidInput if `path` is none of these.
    """
    if path.is_dir():
        return _joined(one for record in sorted(path.glob("*.json")) for one in _read_if_any(record))
    return _joined(_read(path))


def _read_if_any(path: Path) -> list[Results]:
    try:
        return list(_read(path))
    except InvalidInput:
        return []


def _read(path: Path) -> Iterator[Results]:
    path = path.with_suffix(".json") if path.suffix == ".cu" else path
    record = read_record(path)
    if "columns" in record:
        yield from _of_times(path)
        return
    with reading(path, "a file of measured times"):
        if "config" in record:
            yield _of_kernel(completed(record))
        else:
            tuned = record.get("results", [record])
            yield from (found for one in tuned for found in _of_search(one))


def _of_times(path: Path) -> Iterator[Results]:
    times = load_times(path)
    date = times.provenance.get("date", "")
    for part in times.measured:
        found = (Result(row.values, row.us, registers=row.registers, date=date) for row in part.rows)
        yield results_of(*found, problem=part.problem, family=part.family, device=times.device.name)


def _of_kernel(record: Mapping[str, Any]) -> Results:
    time = record.get("time") or {}
    require(time.get("kind") == "measured", "its time was not measured")
    row = _row(record, str(record.get("date", "")))
    device = str(record.get("device", UNKNOWN))
    return results_of(
        row, problem=problem_from(record["problem"]), family=family_named(record["family"]), device=device
    )


def _of_search(document: Mapping[str, Any]) -> Iterator[Results]:
    """Yield results for each family: the candidates that were timed, or failed."""
    problem, device = problem_from(document["problem"]), str(document["device"])
    timed = [one for one in document["candidates"] if one["failure"] or one["time"]["kind"] == "measured"]
    for family in dict.fromkeys(one["family"] for one in timed):
        rows = [_row(one, "") for one in timed if one["family"] == family]
        yield results_of(*rows, problem=problem, family=family_named(family), device=device)


def _row(record: Mapping[str, Any], date: str) -> Result:
    """The row for the record of a kernel, or of a candidate."""
    time, resources = record.get("time") or {}, record.get("resources") or {}
    failure = record.get("failure")
    return Result(
        config=axes_of_record({name: int(value) for name, value in record["config"].items()}),
        us=None if failure else float(time["us"]),
        samples_us=() if failure else tuple(time.get("samples_us", ())),
        registers=resources.get("registers"),
        failure=failure["kind"] if failure else None,
        date=date,
    )


def _joined(found: Iterable[Results]) -> list[Results]:
    """Join the results for the same problem, family and card."""
    groups: dict[tuple[Problem, str, str], list[Results]] = {}
    for one in found:
        groups.setdefault((one.problem, one.family.name, one.device), []).append(one)
    joined = []
    for (problem, _, device), parts in groups.items():
        rows = [row for part in parts for row in part.rows]
        joined.append(results_of(*rows, problem=problem, family=parts[0].family, device=device))
    return joined
