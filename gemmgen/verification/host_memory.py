"""Checks that a problem fits the host's memory, before operands and their reference are made."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gemmgen.kernel.model import representative
from gemmgen.problem.gemm import Problem
from gemmgen.support.errors import MEMORY, CandidateFailed, Failure

INPUT_COPIES = 4  # of A and B: the draw, storage, a guarded copy, the reference's own
OUTPUT_COPIES = 8  # of C: the same, result and reference
GB = 1e9


def host_bytes(problem: Problem) -> int:
    """The least host memory in bytes that verifying `problem` takes; 0 for run-time sizes, which are drawn small."""
    if None in (problem.m, problem.n, problem.k, problem.batch):
        return 0
    a, b, c = (matrix.bytes for matrix in representative(problem).matrices)
    return INPUT_COPIES * (a + b) + OUTPUT_COPIES * c


def at_a_time(problems: Iterable[Problem]) -> int:
    """The number of problems that fit into memory at a time, with as much again for what host_bytes leaves out."""
    largest = max(map(host_bytes, problems), default=0)
    return max(1, installed_bytes() // max(1, 2 * largest))


def require_memory(problem: Problem) -> None:
    """Raise CandidateFailed (unavailable) if verifying `problem` would not fit into this machine's memory."""
    needed, present = host_bytes(problem), installed_bytes()
    if needed > present:
        reason = (
            f"{problem} is too large to verify here: operands and reference need at least "
            f"{needed / GB:.0f} GB, and this machine has {present / GB:.0f} GB"
        )
        raise CandidateFailed(Failure("unavailable", reason, MEMORY))


def installed_bytes() -> int:
    """This machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
