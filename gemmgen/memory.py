"""Does a problem fit the host? Asked before operands and their float64 reference are made."""

from __future__ import annotations

import os

from gemmgen.errors import GemmgenError
from gemmgen.model import representative
from gemmgen.problem import Problem

INPUT_BYTES = 16  # per element of A and B: the float64 draw, storage, a guarded copy
OUTPUT_BYTES = 32  # per element of C: the same, result and reference
GB = 1e9


def host_bytes(problem: Problem) -> int:
    """Bytes of host memory that verifying `problem` takes at least; 0 with run-time sizes, which are drawn small."""
    if None in (problem.m, problem.n, problem.k):
        return 0
    a, b, c = (matrix.elements for matrix in representative(problem).matrices)
    return INPUT_BYTES * (a + b) + OUTPUT_BYTES * c


def require_memory(problem: Problem) -> None:
    """Raise GemmgenError where verifying `problem` would not fit into this machine's memory."""
    needed, present = host_bytes(problem), _installed_bytes()
    if present is not None and needed > present:
        raise GemmgenError(
            f"{problem} is too large to verify here: operands and reference need at least "
            f"{needed / GB:.0f} GB, and this machine has {present / GB:.0f} GB"
        )


def _installed_bytes() -> int | None:
    """This machine's memory; None where it does not say."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
