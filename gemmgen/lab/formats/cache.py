"""Kernel Tuner's cache file, version 1.1.0, from which it simulates its strategies: times in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmgen.exports.json_records import problem_document
from gemmgen.exports.record_reading import problem_from
from gemmgen.families import family_named
from gemmgen.kernel.model import representative
from gemmgen.lab.formats.results import Meant, Result, Results, results_of
from gemmgen.render.naming import problem_name
from gemmgen.support.errors import InvalidInput, require

OWN = "gemmgen"  # other programs pass over it
MS = 1000.0  # microseconds: the formats' times are in milliseconds
VERSION = "1.1.0"
SPENT = [f"{stage}_time" for stage in ("compile", "verification", "benchmark", "strategy", "framework")]  # not kept
NEVER = "1970-01-01T00:00:00+00:00"  # a date that was not kept
# Failures by their kind here; else the last one. Back, a word means the first kind that has it.
ERRORS = {"rejected": "InvalidConfig", "compile": "CompilationFailedConfig", "launch": "RuntimeFailedConfig"}


def cache_document(results: Results) -> dict[str, Any]:
    """`results` as a cache file; problem, family and card are under our own key."""
    keys = [axis.name for axis in results.family.config_type.axes()]
    case = representative(results.problem)
    return {
        "schema_version": VERSION,
        OWN: {
            "problem": problem_document(results.problem),
            "family": results.family.name,
            "device": results.device,
        },
        "device_name": results.device,
        "kernel_name": f"gemm_{problem_name(results.problem)}_{results.family.name}",
        "problem_size": [case.m, case.n, case.k],
        "tune_params_keys": keys,
        "tune_params": {key: sorted({row.config[key] for row in results.rows}) for key in keys},
        "objective": "time",
        "cache": {",".join(str(row.config[key]) for key in keys): _written(row) for row in results.rows},
    }


def read_cache(document: Mapping[str, Any], meant: Meant | None) -> Results:
    """Read what `cache_document`, or Kernel Tuner, wrote. Raises InvalidInput, KeyError or TypeError for other
    files."""
    keys = document["tune_params_keys"]
    rows = [_read(one, keys) for one in document["cache"].values()]
    own, device = document.get(OWN), str(document["device_name"])
    if own is not None:
        meant, device = (problem_from(own["problem"]), family_named(own["family"])), own["device"]
    if meant is None:
        raise InvalidInput("it does not say of which problem and family its configs are: name SHAPE and --family")
    problem, family = meant
    return results_of(*rows, problem=problem, family=family, device=device)


def _written(row: Result) -> dict[str, Any]:
    failed = None if row.failure is None else ERRORS.get(row.failure, "RuntimeFailedConfig")
    return {
        **row.config,
        "time": failed if row.us is None else row.us / MS,
        "times": [sample / MS for sample in row.samples_us],
        **({} if row.registers is None else {"registers": row.registers}),
        **dict.fromkeys(SPENT, 0),
        "timestamp": row.date or NEVER,
    }


def _read(one: Mapping[str, Any], keys: list[str]) -> Result:
    time, kinds = one["time"], {word: kind for kind, word in ERRORS.items()}
    failed = isinstance(time, str)
    require(not failed or time in kinds, f"time = {time!r}: neither a number nor one of {', '.join(kinds)}")
    date = str(one.get("timestamp", ""))
    return Result(
        config={key: int(one[key]) for key in keys},
        us=None if failed else float(time) * MS,
        samples_us=() if failed else tuple(float(sample) * MS for sample in one.get("times", ())),
        registers=one.get("registers"),
        failure=kinds[time] if failed else None,
        date="" if date == NEVER else date,
    )
