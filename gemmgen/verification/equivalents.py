"""Mutants that are no mistakes and have other machine code: why, as a person found out."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.verification.mutation import Mutant


@dataclass(frozen=True)
class Equivalent:
    """Any mutant whose `str` has `words`, and the reason why it computes the same."""

    words: str
    reason: str


EQUIVALENTS = (
    Equivalent("-> const int i = j % 2 ? step : TM - 1 - step;", "a thread's sums in another order, each of them once"),
    Equivalent("load_edge(const float* from, float valid)", "a float holds what counts the elements of a vector"),
    Equivalent("-> chunk[depth][line] = exists ? A[at] : ", "what does not exist meets weights that are zero"),
    Equivalent("if (A_STRIDED % A_PASS != 1 &&", "where passes divide the tile, the check that is left is never met"),
)


def why_equivalent(mutant: Mutant) -> str | None:
    """None where nobody has said so."""
    return next((known.reason for known in EQUIVALENTS if known.words in str(mutant)), None)
