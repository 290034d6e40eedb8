"""Measured times of many configs on one card, and the files that hold them.

A file has all that a prediction needs (problem, config, registers as compiled), so it can be compared with today's
model without a GPU or a compiler.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgen.exports.kernelfile import read_text
from gemmgen.families import FAMILIES, Family
from gemmgen.kernel.config import axes_of_record
from gemmgen.problem.device import DeviceSpec, device_named
from gemmgen.problem.gemm import Problem
from gemmgen.problem.matrix import Layout
from gemmgen.problem.sizes import parse_shape
from gemmgen.problem.types import Types
from gemmgen.support.errors import InvalidInput, require
from gemmgen.support.files import write_atomic
from gemmgen.support.jsontext import json_value
from gemmgen.support.short_repr import brief

DATA = Path(__file__).parent / "data"
TIMES = {path.stem.split("_")[1]: path for path in sorted(DATA.glob("h200_*_times.json"))}  # by family
DISTANCES = ("lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c", "ld_residual", "stride_residual")
OTHERS = ("batch", "pointers", "epilogue", "inputs", *DISTANCES)  # of a problem, where they are not the usual ones


@dataclass(frozen=True)
class CheckRow:
    """A config's axes as they were, the registers of its kernel, and its median time in microseconds."""

    values: dict[str, int]
    registers: int
    us: float


@dataclass(frozen=True)
class Measured:
    """The configs of one family that were timed for a problem."""

    problem: Problem
    family: Family
    rows: tuple[CheckRow, ...] = ()


@brief
@dataclass(frozen=True)
class Times:
    """Measured times on one card; a problem's may be of several families.

    provenance  when, by what and how they were measured, as strings
    """

    device: DeviceSpec
    provenance: dict[str, str]
    measured: tuple[Measured, ...]

    @property
    def families(self) -> tuple[Family, ...]:
        return tuple(dict.fromkeys(one.family for one in self.measured))

    @property
    def problems(self) -> dict[Problem, list[Measured]]:
        """The measured configs of each problem."""
        found: dict[Problem, list[Measured]] = {}
        for one in self.measured:
            found.setdefault(one.problem, []).append(one)
        return found


def load_times(path: Path) -> Times:
    """Read what `save_times` wrote. Raises InvalidInput if `path` is not such a file."""
    text = read_text(path)
    try:
        document = json_value(text)
        columns = document["columns"]
        measured = tuple(
            Measured(_problem(part), FAMILIES[part["family"]], tuple(_rows(columns[part["family"]], part["rows"])))
            for part in document["measured"]
        )
        return Times(device_named(document["device"]), dict(document["provenance"]), measured)
    except InvalidInput as error:
        raise InvalidInput(f"{path} holds no measured times: {error}") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InvalidInput(f"{path} holds no measured times: {type(error).__name__} {error}") from error


def _problem(part: dict[str, Any]) -> Problem:
    others = {name: part[name] for name in OTHERS if name in part}
    types, layout = Types.from_token(part["dtype"]), Layout.parse(part["layout"])
    return Problem(*parse_shape(part["shape"]), types=types, layout=layout, **others)


def _rows(columns: Sequence[str], lines: Sequence[Sequence[float]]) -> Iterator[CheckRow]:
    require(columns[-2:] == ["registers", "us"], f"the last columns are {columns[-2:]}, not registers, us")
    for *axes, registers, us in lines:
        require(math.isfinite(us) and us > 0, f"a time of {us} us")
        require(registers >= 1, f"a kernel of {registers} registers")
        config = axes_of_record({name: int(value) for name, value in zip(columns[:-2], axes, strict=True)})
        yield CheckRow(config, int(registers), float(us))


def save_times(times: Times, path: Path) -> None:
    """Write `times`, one line per row. Raises GemmgenError."""
    columns: dict[str, list[str]] = {}
    for part in times.measured:
        known = columns.setdefault(part.family.name, [])
        known += dict.fromkeys(name for row in part.rows for name in row.values if name not in known)
    head = {"device": times.device.name, "provenance": times.provenance}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    table = ",\n".join(f'"{name}": {json.dumps([*axes, "registers", "us"])}' for name, axes in columns.items())
    parts = ",\n".join(_part(part, columns[part.family.name]) for part in times.measured)
    write_atomic(path, "\n".join(["{", *lines, f'"columns": {{\n{table}\n}},', f'"measured": [\n{parts}\n]', "}\n"]))


def _part(part: Measured, axes: Sequence[str]) -> str:
    problem, usual = part.problem, Problem(1, 1, 1)
    others = {name: getattr(problem, name) for name in OTHERS if getattr(problem, name) != getattr(usual, name)}
    named = {"shape": problem.shape, "dtype": problem.types.token, "layout": str(problem.layout), **others}
    rows = (json.dumps([*(row.values[name] for name in axes), row.registers, round(row.us, 3)]) for row in part.rows)
    return (
        json.dumps({**named, "family": part.family.name}, default=str)[:-1]
        + ', "rows": [\n'
        + ",\n".join(rows)
        + "\n]}"
    )
