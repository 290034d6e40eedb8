"""Mutants that are no mistakes and have other machine code: why, as a person found out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmgen.verification.mutation import Mutant


@dataclass(frozen=True)
class Equivalent:
    """Mutants in whose `str` the regular expression `words` is found, and the reason why they compute the same.

    A mutant that situations kill is none, whatever its words: this is asked of those that survive.
    """

    words: str
    reason: str


NARROWER = r"(?:short|signed char|unsigned|float)"

EQUIVALENTS = (
    Equivalent(
        r"-> const int i = j % 2 \? step : TM - 1 - step;", "a thread's sums in another order, each of them once"
    ),
    Equivalent(r"load_edge\(const float\* from, float valid\)", "a float holds what counts the elements of a vector"),
    Equivalent(r"-> chunk\[depth\]\[line\] = exists \? A\[at\] : ", "what does not exist meets weights that are zero"),
    Equivalent(
        r"if \(s\.K == 0\) alpha = 0\.0f?; -> if \(s\.K == 0\) alpha = -?\d\.\df?;",
        "where K = 0 the sum is zero, and any finite alpha gives zero",
    ),
    Equivalent(
        r"if \(.+ && (\w+ >= [\w* ]+)\) break; -> if \(.+ && \1\) break;",
        "constants say whether the check is needed: one more is never met, and one less is of what never is",
    ),
    Equivalent(r"if \(A_STRIDED % A_PASS != 1 &&", "where passes divide the tile, the check that is left is never met"),
    Equivalent(
        r"const bool inside = (.*)depth >= BK; -> const bool inside = \1depth >= \(BK \+ 1\);",
        "one k tile more takes the path with checks, which none of its elements fails",
    ),
    Equivalent(
        rf"for \(int (\w+) = 0; (\1 < [A-Z_]+;.*) -> for \({NARROWER} \1 = 0; \2",
        "the loop counts to a small constant, which any type holds",
    ),
    Equivalent(rf"int read = 0, write = STAGES - 1; -> {NARROWER} read", "the number of a stage, which any type holds"),
    Equivalent(r"const int (m|n) = (.*) -> const unsigned \1 = \2", "a row or column, which is never negative"),
)


def why_equivalent(mutant: Mutant) -> str | None:
    """None where nobody has said so."""
    return next((known.reason for known in EQUIVALENTS if re.search(known.words, str(mutant))), None)
