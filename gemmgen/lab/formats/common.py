"""The common part of the JSON formats: the key for entries that a format lacks, and milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmgen.exports.json_records import problem_document
from gemmgen.exports.record_reading import problem_from
from gemmgen.families import family_named
from gemmgen.families.base import Family
from gemmgen.lab.formats.results import Result, Results, results_of
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import InvalidInput

OWN = "gemmgen"  # other programs pass over it
MS = 1000.0  # microseconds: the formats' times are in milliseconds

Meant = tuple[Problem, Family]  # what a file is of that does not say so


def own_document(results: Results) -> dict[str, Any]:
    """Problem, family and card, as `restored` reads them."""
    return {"problem": problem_document(results.problem), "family": results.family.name, "device": results.device}


def restored(rows: list[Result], document: Mapping[str, Any], device: str, meant: Meant | None) -> Results:
    """`rows` with the problem and family that the file names, or else with those that are `meant`."""
    own = document.get(OWN)
    if own is not None:
        problem, family = problem_from(own["problem"]), family_named(own["family"])
        return results_of(*rows, problem=problem, family=family, device=own["device"])
    if meant is None:
        raise InvalidInput("it does not say of which problem and family its configs are: name SHAPE and --family")
    return results_of(*rows, problem=meant[0], family=meant[1], device=device)
