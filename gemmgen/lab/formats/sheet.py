"""Measured times as CSV: one line per config, with its full name and its axes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from gemmgen.families.base import Family
from gemmgen.lab.formats.results import UNKNOWN, Meant, Result, Results, results_of
from gemmgen.problem.gemm import Problem
from gemmgen.render.naming import full_name, parse_name
from gemmgen.support.errors import InvalidInput, require

COLUMNS = ("kernel", "device", "us", "registers", "failure", "date")


def csv_text(found: Sequence[Results]) -> str:
    """Every config of `found` as CSV; axes of other families are left blank."""
    axes = list(dict.fromkeys(axis.name for one in found for axis in one.family.config_type.axes()))
    text = io.StringIO()
    writer = csv.DictWriter(text, [*COLUMNS, *axes], restval="", lineterminator="\n")
    writer.writeheader()
    for one in found:
        writer.writerows({**_cells(one, row), **row.config} for row in one.rows)
    return text.getvalue()


def read_csv(text: str, meant: Meant | None) -> list[Results]:
    """Read what `csv_text` wrote, or any CSV with a column `us` and one column per axis, for what is `meant`.

    Raises InvalidInput for a line of neither form.
    """
    groups: dict[tuple[Problem, str, str], tuple[Family, list[Result]]] = {}
    for line in csv.DictReader(io.StringIO(text)):
        problem, family, config = _what(line, meant)
        key = problem, family.name, line.get("device") or UNKNOWN
        groups.setdefault(key, (family, []))[1].append(_read(line, config))
    return [
        results_of(*rows, problem=problem, family=family, device=device)
        for (problem, _, device), (family, rows) in groups.items()
    ]


def _cells(results: Results, row: Result) -> dict[str, object]:
    config = results.family.config_type(**row.config)
    return {
        "kernel": full_name(results.problem, results.family, config),
        "device": results.device,
        "us": "" if row.us is None else row.us,
        "registers": "" if row.registers is None else row.registers,
        "failure": row.failure or "",
        "date": row.date,
    }


def _what(line: Mapping[str, str], meant: Meant | None) -> tuple[Problem, Family, Mapping[str, int]]:
    if line.get("kernel"):
        problem, family, config = parse_name(line["kernel"])
        return problem, family, config.values
    if meant is None:
        raise InvalidInput("a line names no kernel: name SHAPE and --family")
    return *meant, _config(line, (axis.name for axis in meant[1].config_type.axes()))


def _config(line: Mapping[str, str], axes: Iterable[str]) -> dict[str, int]:
    """The config of a line; axes without a column keep their defaults."""
    return {name: int(line[name]) for name in axes if line.get(name)}


def _read(line: Mapping[str, str], config: Mapping[str, int]) -> Result:
    require("us" in line, f"no column us: there are {', '.join(line)}")
    us, registers = line["us"], line.get("registers")
    failure = line.get("failure") or (None if us else UNKNOWN)
    return Result(
        config=dict(config),
        us=float(us) if us and failure is None else None,
        registers=int(registers) if registers else None,
        failure=failure,
        date=line.get("date") or "",
    )
