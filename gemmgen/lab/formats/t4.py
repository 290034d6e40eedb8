"""T4, the open format of auto-tuning results: https://github.com/odgaard/TuningSchema, version 1.0.0.

Its schema leaves the unit of `runtimes` open; Kernel Tuner writes milliseconds, as this does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmgen.lab.formats.common import MS, OWN, Meant, own_document, restored
from gemmgen.lab.formats.results import UNKNOWN, Result, Results
from gemmgen.support.errors import InvalidInput, require

VERSION = "1.0.0"
# Failures by their kind here; where T4 has no word, "runtime". Back, a word means the first kind that has it.
INVALIDITY = {
    "rejected": "constraints",
    "compile": "compile",
    "launch": "runtime",
    "timeout": "timeout",
    "wrong": "correctness",
    "race": "correctness",
    "nondeterministic": "correctness",
}
CORRECT = "correct"
UNITS = {"ns": 1e-3, "us": 1.0, "ms": MS, "s": 1e6}  # in microseconds
UNITS |= {"nanoseconds": 1e-3, "microseconds": 1.0, "milliseconds": MS, "seconds": 1e6}

JOULES = {"J": 1.0, "mJ": 1e-3}


def t4_document(results: Results) -> dict[str, Any]:
    """`results` as T4; problem, family and card are under our own key."""
    return {"schema_version": VERSION, OWN: own_document(results), "results": [_written(row) for row in results.rows]}


def read_t4(document: Mapping[str, Any], meant: Meant | None) -> Results:
    """Read what `t4_document`, or another program, wrote. Raises InvalidInput, KeyError or TypeError if it is not
    T4."""
    return restored([_read(one) for one in document["results"]], document, UNKNOWN, meant)


def _written(row: Result) -> dict[str, Any]:
    measurements = [] if row.us is None else [{"name": "time", "value": row.us / MS, "unit": "ms"}]
    if row.registers is not None:
        measurements.append({"name": "registers", "value": row.registers, "unit": ""})
    if row.energy_j is not None:
        measurements.append({"name": "energy", "value": row.energy_j, "unit": "J"})
    return {
        **({"timestamp": row.date} if row.date else {}),
        "configuration": dict(row.config),
        "objectives": ["time", *(["energy"] if row.energy_j is not None else [])],
        "times": {"runtimes": [sample / MS for sample in row.samples_us]},
        "invalidity": CORRECT if row.failure is None else INVALIDITY.get(row.failure, "runtime"),
        "correctness": 1 if row.failure is None else 0,
        "measurements": measurements,
    }


def _read(one: Mapping[str, Any]) -> Result:
    values = {entry["name"]: entry for entry in one.get("measurements", ())}
    failed = one["invalidity"] != CORRECT
    kinds = {word: kind for kind, word in reversed(INVALIDITY.items())}
    known = f"known are {CORRECT}, {', '.join(kinds)}"
    require(not failed or one["invalidity"] in kinds, f"invalidity = {one['invalidity']!r}: {known}")
    registers, energy = values.get("registers"), values.get("energy")
    return Result(
        config={name: int(value) for name, value in one["configuration"].items()},
        us=None if failed else _us(values.get("time")),
        samples_us=() if failed else tuple(float(sample) * MS for sample in one["times"].get("runtimes", ())),
        registers=None if registers is None else int(registers["value"]),
        energy_j=None if failed or energy is None else float(energy["value"]) * JOULES[energy["unit"]],
        failure=kinds[one["invalidity"]] if failed else None,
        date=one.get("timestamp", ""),
    )


def _us(time: Mapping[str, Any] | None) -> float:
    if time is None:
        raise InvalidInput("a config that is correct has no measurement called time")
    unit = str(time.get("unit", "ms")).lower()
    require(unit in UNITS, f"a time in {unit!r}: known are {', '.join(UNITS)}")
    return float(time["value"]) * UNITS[unit]
