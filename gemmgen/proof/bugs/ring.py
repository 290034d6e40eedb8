"""Bugs in one product of a very long sum, which a narrow C hides and ring mode shows."""

from __future__ import annotations

from gemmgen.proof.bugs.base import Bug, Diagnosis
from gemmgen.proof.bugs.subjects import NAIVE_BF16, NAIVE_E4M3

ALONE = (Diagnosis("wrong", r"A's column \d+ and B's row \d+ alone are not zero"),)
LAST, PAST_16_BITS = "k < s.K", "k < s.K - (s.K >> 16) * (m == 2 && n == 3)"

RING_BUGS = (
    Bug("an element lacks its last product, beyond 16 bits", "a long K", NAIVE_BF16, LAST, PAST_16_BITS, ALONE),
    Bug("an element lacks its last product, beyond 16 bits", "a long K", NAIVE_E4M3, LAST, PAST_16_BITS, ALONE),
)
