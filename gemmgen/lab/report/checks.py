"""The verification of a kernel, from its JSON and its certificate, as facts for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgen.exports.certificate import certificate_name
from gemmgen.exports.json_records import verdicts_of
from gemmgen.exports.kernelfile import KernelFile, read_record
from gemmgen.judge.explanation_text import Facts
from gemmgen.support.errors import InvalidInput
from gemmgen.support.words import figure, plural


@dataclass(frozen=True)
class Certified:
    """A certificate beside the kernel: its file, what it says was shown, and what was not shown."""

    path: Path
    shown: Facts
    not_shown: tuple[str, ...]


def checks_of(kernel: KernelFile) -> Facts:
    """The facts in NAME.json: each verification, the sanitizers, and how it was made; empty without a record."""
    if kernel.path is None or kernel.record is None or not kernel.path.with_suffix(".json").is_file():
        return ()
    return tuple(_checks(kernel.record, kernel.edited))


def certified(kernel: KernelFile) -> Certified | None:
    """The certificate in the kernel's folder; None if there is no readable one."""
    path = None if kernel.path is None else kernel.path.with_name(certificate_name(kernel.source.name))
    if path is None or not path.is_file():
        return None
    try:
        record = read_record(path)
        asked, claims = record["certified"], {**record, "emulator": None}  # what NAME.json said of it is no claim
        when = f"{str(asked['date'])[:10]}, {record['executor']['description']}: {asked['command']}"
        return Certified(path, (("certified", when), *_checks(claims, False)), tuple(map(str, record["not_shown"])))
    except (InvalidInput, KeyError, TypeError):
        return None


def _checks(record: Mapping[str, Any], edited: bool) -> Iterator[tuple[str, str]]:
    if edited:
        yield "edited", "by hand since its JSON was written: what follows is of the text before"
    verdicts = verdicts_of(record)
    for verdict in verdicts:
        yield f"verified, {verdict['executor']}", "; ".join(_verdict(verdict))
    if not verdicts:
        yield "verified", "not: its JSON says nothing of it"
    for tool in record.get("sanitizers") or ():
        yield tool["tool"], _sanitizer(tool, record.get("device"))
    yield "made", _made(record)
    if record.get("command"):
        yield "by", str(record["command"])


def _verdict(verdict: Mapping[str, Any]) -> Iterator[str]:
    if not verdict["passed"]:
        yield f"fails: {verdict['failure']['reason']}"
        return
    part = f", {verdict['sampled']} of them on some tiles of the grid" if verdict.get("sampled") else ""
    yield f"passes in {plural(verdict['examples'], 'situation')}{part}"
    worst = verdict.get("worst_error_over_bound")
    if worst is not None:
        yield f"random data off by at most {figure(worst)} of the error bound of its element"
    replayed = verdict.get("replayed")
    if replayed:
        yield f"as planned, to the bit: {replayed['equal']:,} of {replayed['elements']:,} elements"
    same = verdict.get("determinism")
    if same:
        yield "the same bits in every run of a launch" if same["same_bits"] else "other bits in another run"


def _sanitizer(tool: Mapping[str, Any], card: str | None) -> str:
    on = f"; on {tool['card']}" if tool.get("card") not in (None, card) else ""
    if not tool["passed"]:
        return f"fails: {tool['failure']['reason']}{on}"
    part = ", of each launch its first blocks" if tool["sampled"] else ""
    return f"passes in {plural(tool['situations'], 'situation')}{part}{on}"


def _made(record: Mapping[str, Any]) -> str:
    parts = (str(record.get("date", ""))[:10], record.get("device"), record.get("compiler"))
    return ", ".join(str(part) for part in parts if part)
