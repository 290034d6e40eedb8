"""Converts measured times of other programs, or of another machine, to a file for `gemmgen study model --data`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gemmgen.exports.kernelfile import read_text, reading
from gemmgen.families.base import Family, first_rejection
from gemmgen.kernel.source import KernelSource
from gemmgen.lab.formats.cache import read_cache
from gemmgen.lab.formats.results import UNKNOWN, Meant, Result, Results
from gemmgen.lab.formats.sheet import read_csv
from gemmgen.lab.study.times import OTHERS, CheckRow, Measured, Times
from gemmgen.problem.device import DEVICES, DeviceSpec
from gemmgen.problem.gemm import Problem
from gemmgen.render.kernel_text import render
from gemmgen.run.compile import CompiledKernel, compile_many
from gemmgen.support.errors import GemmgenError, require
from gemmgen.support.files import Store
from gemmgen.support.jsontext import json_value
from gemmgen.support.stamp import gemmgen_version, today


def read_foreign(path: Path, meant: Meant | None = None) -> list[Results]:
    """Read the times in a CSV or a Kernel Tuner cache file; `meant` gives what the file does not say.

    Raises InvalidInput for any other file, and for configs that the family does not have.
    """
    text = read_text(path)
    with reading(path, "a file of measured times"):
        if path.suffix.lower() == ".csv":
            return read_csv(text, meant)
        document = json_value(text)
        require("cache" in document, "it is not Kernel Tuner's, which has a cache")
        return [read_cache(document, meant)]


def times_of(found: Sequence[Results], device: DeviceSpec | None, source: str, store: Store) -> Times:
    """The times in `found` as the study of the model reads them.

    device  the card that measured, if the files do not name a known one
    source  their origin, as the file will name it

    Configs that this version does not accept, and those that failed, are left out. Unknown register counts come from
    compiling. Raises InvalidInput for an unknown card, and GemmgenError if nothing is left.
    """
    names = {one.device for one in found}
    card = device or _card(names)
    measured = []
    for one in found:
        require_plain(one.problem)
        if rows := tuple(_rows(one, card, store)):
            measured.append(Measured(one.problem, one.family, rows))
    if not measured:
        raise GemmgenError("none of the configs has a time, and is one that this version accepts")
    known = "; ".join(sorted(names - {UNKNOWN})) or card.name
    provenance = {"date": today(), "gemmgen": gemmgen_version(), "card": known, "protocol": "not known: imported"}
    return Times(card, {**provenance, "command": source}, tuple(measured))


def require_plain(problem: Problem) -> None:
    """Raise InvalidInput for a problem that files of measured times cannot express."""
    others = {name: getattr(problem, name) for name in OTHERS}
    plain = Problem(problem.m, problem.n, problem.k, types=problem.types, layout=problem.layout, **others)
    held = ", ".join(OTHERS)
    require(problem == plain, f"{problem}: files of measured times hold shape, types, layout, {held}, and nothing else")


def _card(names: set[str]) -> DeviceSpec:
    cards = {spec.name: spec for spec in DEVICES.values() for name in names if spec.is_card(name)}
    require(len(cards) == 1, f"measured on {', '.join(sorted(names))}: name one of the known cards with --device")
    return next(iter(cards.values()))


def _rows(results: Results, card: DeviceSpec, store: Store) -> Iterator[CheckRow]:
    timed = [row for row in results.rows if row.us is not None and _accepted(row, results, card)]
    unknown = [row for row in timed if row.registers is None]
    registers = dict(zip(map(id, unknown), _registers(unknown, results, card, store), strict=True))
    for row in timed:
        count = row.registers if row.registers is not None else registers[id(row)]
        if count and row.us is not None:
            yield CheckRow(dict(row.config), count, row.us)


def _accepted(row: Result, results: Results, card: DeviceSpec) -> bool:
    config = results.family.config_type(**row.config)
    return first_rejection(results.family, results.problem, config, card.arch.limits) is None


def _registers(rows: Sequence[Result], results: Results, card: DeviceSpec, store: Store) -> list[int | None]:
    """The compiled register counts; None if compiling fails."""
    sources = [_source(row, results.family, results.problem, card) for row in rows]
    compiled = compile_many(sources, card.arch.name, store) if sources else []
    return [one.registers if isinstance(one, CompiledKernel) else None for one in compiled]


def _source(row: Result, family: Family, problem: Problem, card: DeviceSpec) -> KernelSource:
    return render(problem, family, family.config_type(**row.config), card.arch.name)
