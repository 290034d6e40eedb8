"""The corpus of failures that fuzzing found: a folder with one JSON file per failure, replayed before new cases are
tried."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from gemmgen.problem.gemm import Case, Problem
from gemmgen.render.naming import parse_name
from gemmgen.support.errors import Failure, FailureKind, InvalidInput, require, whole
from gemmgen.support.files import content_key, write_atomic
from gemmgen.support.jsontext import json_value
from gemmgen.verification.situation import ALL_DATA_KINDS, NAN, Situation

FILE_KEY = 12  # hexadecimal digits in an entry's file name


@dataclass(frozen=True)
class Entry:
    """A failure: the kernel's name, its situation, and what happened.

    situation  None if the kernel did not load
    digest     SHA-256 of the kernel's text when it failed
    executor   "gpu" or "emulator"
    """

    kernel: str
    digest: str
    executor: str
    failure: Failure
    situation: Situation | None

    @property
    def file(self) -> str:
        """The file name; the same failure of the same kernel has the same name."""
        return f"{self.failure.kind}_{content_key(self.kernel, str(self.situation))[:FILE_KEY]}.json"


def save(entry: Entry, folder: Path) -> Path:
    """Write `entry`, whole or not at all, and return its path. Raises GemmgenError if that fails."""
    path = folder / entry.file
    document = {
        "kernel": entry.kernel,
        "sha256": entry.digest,
        "executor": entry.executor,
        "failure": asdict(entry.failure),
        "situation": situation_document(entry.situation),
    }
    write_atomic(path, json.dumps(document, indent=2, allow_nan=False) + "\n")
    return path


def entries(folder: Path) -> list[tuple[Path, Entry]]:
    """Return every entry of `folder`, by file name; none if there is no folder. Raises InvalidInput for a corrupt
    one."""
    return [(path, read(path)) for path in sorted(folder.glob("*.json"))]


def read(path: Path) -> Entry:
    """The entry at `path`. Raises InvalidInput, with what is wrong with it."""
    try:
        document = json_value(path.read_text())
        problem, _, _ = parse_name(document["kernel"])
        failure = Failure(**document["failure"])
        require(failure.kind in get_args(FailureKind), f"unknown kind of failure {failure.kind!r}")
        situation = None if document["situation"] is None else situation_from(document["situation"], problem)
        return Entry(document["kernel"], document["sha256"], document["executor"], failure, situation)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, AttributeError, InvalidInput) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidInput(f"{path} is no entry of a fuzzing corpus ({what}): restore it or delete it") from error


def situation_document(situation: Situation | None) -> dict[str, Any] | None:
    """The situation as JSON-ready data; a scalar that is not finite is written as text."""
    if situation is None:
        return None
    values = {name: value if math.isfinite(value) else str(value) for name, value in situation.case.values.items()}
    return {"case": values, "data": situation.data, "seed": situation.seed}


def situation_from(document: Mapping[str, Any], problem: Problem) -> Situation:
    """Read a Situation of `problem` from its `situation_document`. Raises as `read` does, and KeyError."""
    data, seed = document["data"], document["seed"]
    require(data in ALL_DATA_KINDS, f"unknown data {data!r}: known are {', '.join(ALL_DATA_KINDS)}")
    require(type(seed) is int and seed >= 0, f"seed = {seed}: a seed is a number from 0")
    return Situation(_case(document["case"], problem), data, seed)


def _case(values: Mapping[str, Any], problem: Problem) -> Case:
    names = ("M", "N", "K", *problem.line_sizes, *problem.batch_sizes)
    sizes = {name: whole(name, values[name]) for name in names}
    alpha, beta = (NAN if math.isnan(number := float(values[name])) else number for name in ("alpha", "beta"))
    return problem.case(**{name.lower(): size for name, size in sizes.items()}, alpha=alpha, beta=beta)
