"""The defaults of a verdict in a record's file: see `record_form`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gemmgen.exports.json_records import Document, sanitizer_document, verdict_document
from gemmgen.exports.record_reading import field_defaults, without
from gemmgen.problem.gemm import Case
from gemmgen.verification.bit_replay import Replayed
from gemmgen.verification.determinism import Determinism
from gemmgen.verification.domain import Domain, ranges
from gemmgen.verification.sanitizers.tool import TOOLS, SanitizerResult
from gemmgen.verification.verifier import Verdict

# What was found of a kernel is always said: no record passes by default.
FOUND = ("passed", "executor", "examples", "seed", "worst_error_over_bound")
VERDICT = without(verdict_document(Verdict("", 0, 0, 0.0)) or {}, *FOUND)
SANITIZER = without(
    sanitizer_document(SanitizerResult(TOOLS[0], "", 0, (), 0.0)), "passed", "tool", "version", "situations"
)
UNCOUNTED = dict.fromkeys(("whole", "sampled", "watched", "watched_part"), 0)
DOMAIN = field_defaults(Domain) | UNCOUNTED | dict.fromkeys(("largest_whole", "largest_watched"), None)
DETERMINISM, REPLAYED = field_defaults(Determinism), field_defaults(Replayed)
COVERAGE: Document = {"untaken": [], "lines": [], "unreachable": []}


def parts(verdict: Document, only: Case | None) -> Iterator[tuple[Document, Document]]:
    """The parts of a verdict that have defaults, with these. `only`: the case of every situation, if there is one."""
    yield verdict, VERDICT
    yield from ((one, SANITIZER) for one in verdict["sanitizers"])
    if errors := verdict["errors"]:
        yield errors, {"largest_bound_in": errors["worst_in"]}
    if determinism := verdict["determinism"]:
        yield determinism, DETERMINISM
    if domain := verdict["domain"]:
        yield domain, DOMAIN | json.loads(json.dumps({} if only is None else ranges([only])))
    if coverage := verdict["coverage"]:
        yield coverage, COVERAGE
    if replayed := verdict["replayed"]:
        yield replayed, REPLAYED
