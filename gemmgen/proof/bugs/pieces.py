"""Bugs of kernels that multiply pieces of f32: the split of operands, and the order in which pairs are summed."""

from __future__ import annotations

from gemmgen.proof.bugs.base import DEADLOCK, PLANNED, VALUE, Bug, Diagnosis
from gemmgen.proof.bugs.subjects import WGMMA_PIECES

NOT_INF = Diagnosis("wrong", "not -?inf")
NOT_NAN = Diagnosis("wrong", "not nan")
PAIRS = "{{1, 1}, {0, 2}, {2, 0}, {0, 1}, {1, 0}, {0, 0}}"

PIECES_BUGS = (
    # Pairs
    Bug("large products first", "order", WGMMA_PIECES, PAIRS, "{{0, 0}, {1, 0}, {0, 1}, {2, 0}, {0, 2}, {1, 1}}",
        (PLANNED,)),
    Bug("the second pieces' products are left out", "missing product", WGMMA_PIECES, "{{1, 1}, {0, 2}",
        "{{2, 2}, {0, 2}", (VALUE,)),
    Bug("a piece of A in the place of another", "swapped index", WGMMA_PIECES, "{2, 0}, {0, 1}, {1, 0}",
        "{2, 0}, {0, 1}, {2, 0}", (VALUE,)),
    Bug("A's piece where B's is", "swapped index", WGMMA_PIECES, "map_b, full, k, tile.n, pair.b",
        "map_b, full, k, tile.n, pair.a", (VALUE, NOT_INF, NOT_NAN)),
    Bug("a pair too few", "missing product", WGMMA_PIECES, "constexpr int PAIRS = 6;", "constexpr int PAIRS = 5;",
        (VALUE, NOT_INF, NOT_NAN), also=(", {0, 0}};", "};")),
    Bug("the producer brings a pair too few", "missing product", WGMMA_PIECES, "for (int i = 0; i < PAIRS; ++i) {",
        "for (int i = 1; i < PAIRS; ++i) {", (DEADLOCK,)),
    # Sums
    Bug("sums are added up at the end alone", "promotion", WGMMA_PIECES, "promote(acc, totals);",
        "if (first + INTERVAL >= s.K) promote(acc, totals);", (PLANNED,),
        also=("64, i > 0, acc", "64, first + i > 0, acc")),
    Bug("sums of an interval are lost", "missing product", WGMMA_PIECES, "promote(acc, totals);",
        "if (first + INTERVAL >= s.K) promote(acc, totals);", (VALUE, NOT_INF, NOT_NAN)),
    Bug("an interval adds to the sums of the one before", "duplicated product", WGMMA_PIECES, "64, i > 0, acc",
        "64, first + i > 0, acc", (VALUE, NOT_INF, NOT_NAN)),
    Bug("intervals as long as two", "promotion", WGMMA_PIECES, "constexpr int INTERVAL = 128;",
        "constexpr int INTERVAL = 256;", (PLANNED,)),
    # Pieces
    Bug("the second piece is cut", "precision", WGMMA_PIECES, "const BF16 second(rest);",
        "const BF16 second(__uint_as_float(__float_as_uint(rest) & 0xffff0000u));", (PLANNED,)),
    Bug("the third piece leaves what the second one has", "duplicated product", WGMMA_PIECES, "BF16(rest - second)",
        "BF16(rest)", (VALUE,)),
    Bug("lower pieces of Inf are not cleared", "special", WGMMA_PIECES,
        "if (!isfinite(x)) return {BF16(smallest), BF16(0.0f), BF16(x)};",
        "if (!isfinite(x)) return {BF16(x), BF16(x), BF16(x)};", (NOT_INF,)),
    Bug("Inf in the first piece", "special", WGMMA_PIECES, "return {BF16(smallest), BF16(0.0f), BF16(x)};",
        "return {BF16(x), BF16(0.0f), BF16(0.0f)};", (NOT_INF,)),
    Bug("Inf is the largest number", "special", WGMMA_PIECES, "if (!isfinite(x)) return {BF16(smallest)",
        "if (isnan(x)) return {BF16(smallest)", (NOT_INF, NOT_NAN, VALUE)),
    Bug("a tiny number's first piece is 0", "denormal", WGMMA_PIECES,
        "if (first == 0.0f && x != 0.0f) first = BF16(smallest);", "", (PLANNED, VALUE, NOT_INF)),
    Bug("pieces as far apart as the operand's lines", "stride", WGMMA_PIECES,
        "const long long apart = static_cast<long long>(lines) * pitch;", "const long long apart = lines;",
        (VALUE, NOT_INF, NOT_NAN, Diagnosis("race", "data race on prepared_")), count=2),
)  # fmt: skip
